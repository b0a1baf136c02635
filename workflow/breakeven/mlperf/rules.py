"""The rules of MLPerf Training's rounds, as data: ``rules/rounds/<round>.yaml``, ``rules/benchmarks/<name>.yaml``.

A folder of one's own with the same two subfolders adds to these: a round or benchmark that MLCommons has yet to hold
is two files. A file there wins over ours of the same name; ``like: v5.1`` takes from another what a file leaves out.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from breakeven.mlperf.requirements import (
    Condition,
    Requirements,
    RuleProblem,
    Selects,
    as_count,
    as_mapping,
    as_number,
    as_text,
    as_texts,
    found,
    only,
    parse_parts,
    parse_requirements,
)
from breakeven.mlperf.rulefiles import merged, read_in, read_rules, refuse, rule_files
from breakeven.schema.errors import UserError

Reading = Literal["last_evaluation", "first_passing_checkpoint"]
Evaluation = Literal["stops_training", "overlapped", "untimed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """How a log says after how many samples its run reached the target."""

    key: str
    """Entry of an ``eval_accuracy`` line's metadata that says how much has been trained on."""
    samples_per_unit: float | None
    """Samples in one unit of it; None: a unit is an optimiser step, so the run's global batch."""
    reading: Reading
    """The last evaluation before run_stop; or, of checkpoints evaluated in any order, the first that passed."""
    target: Mapping[str, tuple[Condition, ...]]
    """For first_passing_checkpoint: metric → what must hold of it. All metrics are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputSource:
    """What in a log says how fast the run trained: a number in ``tracked_stats`` lines, or blocks and their times."""

    stat: str
    """Its key in the line's value; "" where blocks are meant."""
    blocks: str
    """Value of the ``block_start`` and ``block_stop`` of training; their metadata count as evaluations' do."""
    is_seconds_per_step: bool
    """Else units per second."""
    samples_per_unit: float
    per_accelerator: bool
    """Logged for one accelerator, not for the system."""
    after_run: bool
    """Stands after run_stop, once: a mean of the whole run."""
    includes_evaluation: bool
    """Its seconds are those of the whole timed run, evaluation too."""
    whole_batches_of: int | None
    """Samples of an epoch, where it is counted as whole batches, so as more than it has."""
    weight: str
    """Entry of the line's metadata that says of how much work it is the mean; "" where all are of equally much."""
    without: str
    """Lines whose value has this key too are of another kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark in one round."""

    folder: str
    """Its name in the round's repository and logs."""
    workload: str
    """What is trained, whatever a round calls it: ssd and retinanet are one workload."""
    title: str
    unit: str
    """What one sample is."""
    aliases: tuple[str, ...]
    """Other names of the folder, those in other rounds among them."""
    runs_required: int
    runs_dropped: int
    """So many of the fastest and as many of the slowest do not count."""
    runs_may_fail: int
    """So many may fail, as the slowest; with more there is no score."""
    convergence: Convergence
    throughput: tuple[ThroughputSource, ...]
    """The first that a log has is taken."""
    evaluation: Evaluation
    """stops_training: inside the clock; overlapped: soon beside further training; untimed: after the clock stopped."""
    comparable_rounds: tuple[str, ...]
    """Rounds whose results of this workload measure the same work: equal model, data and target."""
    log: Mapping[str, Requirements]
    """Division → what is asked of its logs."""
    log_variants: Mapping[str, Requirements]
    """Value of the key that selects one → what is asked besides, in the closed division."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of MLPerf Training."""

    name: str
    title: str
    ruleset: str
    """Version of MLCommons' rules and checkers."""
    repository: str
    """Where its results are published; "" unknown."""
    commit: str
    """The state of the repository that is meant, 40 hex digits; "" unknown."""
    logs_since: str
    """YYYY-MM: runs logged before were already there when the round before closed; "" unknown."""
    benchmarks: Mapping[str, Benchmark]
    """By folder."""
    log_common: Requirements
    """Asked of every log."""
    log: Mapping[str, Requirements]
    """Division → what is asked of its logs."""
    log_keys: frozenset[str]
    """Every key that anything is asked of, in any division and benchmark."""

    def benchmark(self, folder: str) -> Benchmark | None:
        """The benchmark a results folder holds, also where it is called by another name. None if the round has none."""
        named = self.benchmarks.get(folder)
        others = (one for one in self.benchmarks.values() if folder == one.workload or folder in one.aliases)
        return named or next(others, None)

    def scored_as(self, name: str) -> str:
        """A name that tables of runs and scores know a benchmark of the round by: they have its folder and workload."""
        benchmark = self.benchmark(name)
        return name if benchmark is None or name == benchmark.folder else benchmark.workload


def known_rounds(extra: Path | None = None) -> list[str]:
    """Names of the rounds there are rules for, oldest first."""
    return sorted(rule_files("rounds", extra), key=_natural)


def load_round(name: str, extra: Path | None = None) -> Round:
    """The rules of a round. Raises UserError if there are none, or naming file, key and what would be right."""
    if extra is not None and not os.path.isdir(extra):  # of a path too long to be, pathlib's raises
        raise UserError(
            f"{extra}: no such folder.\nExpected a folder of rules, with .yaml files in rounds/ and benchmarks/."
        )
    files = rule_files("rounds", extra)
    if name not in files:
        raise UserError(
            f"MLPerf Training round {name!r} is not known.\nKnown: {', '.join(known_rounds(extra))}; "
            "another is added by rounds/<round>.yaml in a folder of rules (--rules)."
        )
    path, raw = files[name], read_rules("rounds", files[name], extra)
    folders = read_in(path, lambda: _folders(raw))
    available = rule_files("benchmarks", extra)
    benchmarks = {}
    for folder, workload in folders.items():
        if workload not in available:
            known = ", ".join(sorted(available))
            refuse(path, RuleProblem(f"is {workload!r}, which has no rules; known: {known}.", "benchmarks", folder))
        benchmarks[folder] = _benchmark(available[workload], folder, name, extra)
    return read_in(path, lambda: _round(raw, name, benchmarks))


def _folders(raw: dict[str, Any]) -> dict[str, str]:
    """Folder → workload."""
    only(as_mapping(raw), _ROUND_KEYS)
    listed = as_mapping(raw.get("benchmarks"), "benchmarks")
    if not listed:
        raise RuleProblem("is empty; expected 'folder: workload' of each benchmark.", "benchmarks")
    return {folder: as_text(workload, "benchmarks", folder) for folder, workload in listed.items()}


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]


_ROUND_KEYS = ("title", "ruleset", "repository", "commit", "logs_since", "benchmarks", "log")


def _round(raw: dict[str, Any], name: str, benchmarks: dict[str, Benchmark]) -> Round:
    log = as_mapping(raw.get("log", {}), "log")
    common = parse_requirements(log.get("common", {}), "log", "common", selects="division")
    divisions = _sections({key: part for key, part in log.items() if key != "common"}, "log", selects="benchmark")
    of_benchmarks = [rules for one in benchmarks.values() for rules in (*one.log.values(), *one.log_variants.values())]
    every = [part for rules in (common, *divisions.values(), *of_benchmarks) for part in rules.items()]
    return Round(
        name=name,
        title=as_text(raw.get("title", f"MLPerf Training {name}"), "title"),
        ruleset=_matching(raw.get("ruleset"), r"\d+\.\d+\.\d+", "a version such as 4.1.0", "ruleset"),
        repository=_matching(raw.get("repository", ""), r"(https?://\S+)?", "an address, https://…", "repository"),
        commit=_matching(raw.get("commit", ""), r"([0-9a-f]{40})?", "40 hex digits", "commit"),
        logs_since=_matching(raw.get("logs_since", ""), r"(\d{4}-\d{2})?", 'a month, "2024-06"', "logs_since"),
        benchmarks=benchmarks,
        log_common=common,
        log=divisions,
        log_keys=frozenset(key for key, _ in every) | {rule.gathers.key for _, rule in every if rule.gathers},
    )


_BENCHMARK_KEYS = (
    "title",
    "unit",
    "aliases",
    "runs",
    "convergence",
    "throughput",
    "evaluation",
    "comparable_rounds",
    "log",
    "log_variants",
    "rounds",
)


def _benchmark(path: Path, folder: str, round_name: str, extra: Path | None) -> Benchmark:
    raw = read_rules("benchmarks", path, extra)

    def read() -> Benchmark:
        only(as_mapping(raw), _BENCHMARK_KEYS)
        rounds = as_mapping(raw.pop("rounds", {}), "rounds")
        rules = merged(raw, as_mapping(rounds.get(round_name, {}), "rounds", round_name))
        runs = as_mapping(rules.get("runs"), "runs")
        only(runs, ("required", "dropped", "may_fail"), "runs")
        evaluation = rules.get("evaluation")
        if evaluation not in ("stops_training", "overlapped", "untimed"):
            raise RuleProblem(f"{found(evaluation)}; expected stops_training, overlapped or untimed.", "evaluation")
        required = as_count(runs.get("required"), "runs", "required")
        dropped = as_count(runs.get("dropped", 1), "runs", "dropped")
        if required <= 2 * dropped:
            raise RuleProblem(f"is {required}; {2 * dropped} are dropped, so more are needed.", "runs", "required")
        return Benchmark(
            folder=folder,
            workload=path.stem,
            title=as_text(rules.get("title"), "title"),
            unit=as_text(rules.get("unit"), "unit"),
            aliases=as_texts(rules.get("aliases", []), "aliases"),
            runs_required=required,
            runs_dropped=dropped,
            runs_may_fail=as_count(runs.get("may_fail", dropped), "runs", "may_fail"),
            convergence=_convergence(rules.get("convergence")),
            throughput=_throughput(rules.get("throughput", [])),
            evaluation=evaluation,
            comparable_rounds=as_texts(rules.get("comparable_rounds", []), "comparable_rounds"),
            log=_sections(rules.get("log", {}), "log", selects="variant"),
            log_variants=_sections(rules.get("log_variants", {}), "log_variants"),
        )

    return read_in(path, read)


def _sections(raw: Any, place: str, selects: Selects = "") -> dict[str, Requirements]:
    return {key: parse_requirements(part, place, key, selects=selects) for key, part in as_mapping(raw, place).items()}


def _convergence(raw: Any) -> Convergence:
    raw = as_mapping(raw, "convergence")
    only(raw, ("key", "samples_per_unit", "reading", "target"), "convergence")
    reading = raw.get("reading", "last_evaluation")
    if reading not in ("last_evaluation", "first_passing_checkpoint"):
        right = "expected last_evaluation or first_passing_checkpoint"
        raise RuleProblem(f"is {reading!r}; {right}.", "convergence", "reading")
    target = as_mapping(raw.get("target", {}), "convergence", "target")
    if (reading == "first_passing_checkpoint") != bool(target):
        raise RuleProblem("belongs with reading: first_passing_checkpoint, which needs it.", "convergence", "target")
    per_unit = raw.get("samples_per_unit", 1)
    return Convergence(
        key=as_text(raw.get("key"), "convergence", "key"),
        samples_per_unit=None if per_unit == "global_batch" else _factor(per_unit, "convergence", "samples_per_unit"),
        reading=reading,
        target=parse_parts(target, "convergence", "target"),
    )


_SOURCE_KEYS = (
    "stat",
    "blocks",
    "is",
    "samples_per_unit",
    "per_accelerator",
    "after_run",
    "includes_evaluation",
    "whole_batches_of",
    "weight",
    "without",
)


def _throughput(raw: Any) -> tuple[ThroughputSource, ...]:
    if not isinstance(raw, list):
        raise RuleProblem("is no list; expected '- stat: …' lines, or [].", "throughput")
    return tuple(_source(as_mapping(one, "throughput")) for one in raw)


def _source(raw: dict[str, Any]) -> ThroughputSource:
    only(raw, _SOURCE_KEYS, "throughput")
    kind = raw.get("is", "units_per_second")
    if kind not in ("units_per_second", "seconds_per_step"):
        raise RuleProblem(f"is {kind!r}; expected units_per_second or seconds_per_step.", "throughput", "is")
    if ("stat" in raw) == ("blocks" in raw) or ("blocks" in raw and len(raw) > 1):
        raise RuleProblem(f"is {raw!r:.80}; expected a stat with what is known of it, or blocks alone.", "throughput")
    return ThroughputSource(
        stat=as_text(raw["stat"], "throughput", "stat") if "stat" in raw else "",
        blocks=as_text(raw["blocks"], "throughput", "blocks") if "blocks" in raw else "",
        is_seconds_per_step=kind == "seconds_per_step",
        samples_per_unit=_factor(raw.get("samples_per_unit", 1), "throughput", "samples_per_unit"),
        per_accelerator=_flag(raw.get("per_accelerator", False), "throughput", "per_accelerator"),
        after_run=_flag(raw.get("after_run", False), "throughput", "after_run"),
        includes_evaluation=_flag(raw.get("includes_evaluation", False), "throughput", "includes_evaluation"),
        whole_batches_of=as_count(raw["whole_batches_of"], "throughput", "whole_batches_of", least=1)
        if "whole_batches_of" in raw
        else None,
        weight=as_text(raw["weight"], "throughput", "weight") if "weight" in raw else "",
        without=as_text(raw["without"], "throughput", "without") if "without" in raw else "",
    )


def _factor(raw: Any, *place: str) -> float:
    number = as_number(raw, *place)
    if not 0 < number < float("inf"):
        raise RuleProblem(f"is {number}; expected a number above 0.", *place)
    return number


def _flag(raw: Any, *place: str) -> bool:
    if not isinstance(raw, bool):
        raise RuleProblem(f"is {raw!r:.60}; expected true or false.", *place)
    return raw


def _matching(raw: Any, pattern: str, right: str, *place: str) -> str:
    if not isinstance(raw, str) or not re.fullmatch(pattern, raw):
        raise RuleProblem(f"{found(raw)}; expected {right} (in quotes).", *place)
    return raw
