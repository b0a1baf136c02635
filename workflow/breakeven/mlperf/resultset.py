"""One result set, all runs of a submission, a system and a benchmark: to its rows, and to what is odd about it."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from breakeven.mlperf.logs import RunFacts
from breakeven.mlperf.power import NodePower, SwitchPower
from breakeven.mlperf.reading import Unread
from breakeven.mlperf.rules import Benchmark, Round
from breakeven.mlperf.systems import System
from breakeven.mlperf.table import RunRow, printable, shown
from breakeven.schema.status import Status

#: Factors are 1.0 to 1.06 in every round so far.
_MOST_SCALING = 10


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A JSON file as it was read; ``problem`` says why there is no content."""

    content: bytes | None
    problem: str


@dataclass(slots=True)
class ResultSet:
    """What was found of it. None stands for what nobody asked to read: the round has no rules for the benchmark."""

    submitter: str
    system: str
    benchmark: str
    """Its folder's name."""
    scaling: SmallFile | None = None
    logs: dict[str, RunFacts | Unread | None] = field(default_factory=dict)
    """By the log's name."""
    power: dict[str, dict[str, NodePower | SwitchPower | Unread | None]] = field(default_factory=dict)
    """By result ("result_0") and the power log's name."""

    @property
    def folder(self) -> str:
        return f"{self.submitter}/results/{self.system}/{self.benchmark}"

    def facts(self) -> list[tuple[str, RunFacts | Unread]]:
        """Logs in their natural order, result_2 before result_10."""
        names = sorted(self.logs, key=_natural)
        return [(name, it) for name in names if (it := self.logs[name]) is not None]

    def run_times(self) -> tuple[tuple[float, float], ...]:
        """Start and stop in ms of the runs that have both, sorted."""
        runs = [it for it in self.logs.values() if isinstance(it, RunFacts)]
        times = ((it.run_start_ms, it.run_stop_ms) for it in runs)
        return tuple(sorted((start, stop) for start, stop in times if start is not None and stop is not None))


def set_rows(
    one: ResultSet, benchmark: Benchmark, rules: Round, system: System, duplicate_of: str, repository: str, commit: str
) -> list[RunRow]:
    """One row per log, and one per log that the rules require and that is not there."""
    factor, _ = _scaling(one)
    absent = RunRow(
        round=rules.name,
        benchmark=benchmark.folder,
        workload=benchmark.workload,
        submitter=printable(one.submitter),
        system=printable(one.system),
        system_name=system.name,
        accelerator=system.accelerator,
        accelerator_family=system.family,
        nodes=system.nodes,
        accelerators_per_node=system.accelerators_per_node,
        devices=system.devices,
        division=system.division,
        system_status=system.status,
        run=0,
        status=Status.NOT_MEASURED,
        scaling_factor=factor,
        duplicate_of=printable(duplicate_of),
        result_id=printable(f"{rules.name}/{one.submitter}/{one.system}/{one.benchmark}"),
        repository=repository,
        commit=commit,
        source=printable(one.folder),
    )
    rows = []
    for run, (name, facts) in enumerate(one.facts()):
        row = replace(absent, run=run, source=printable(f"{one.folder}/{name}"))
        rows.append(row if isinstance(facts, Unread) else _measured(row, facts, _energy_kj(one, name, facts)[0]))
    return rows + [replace(absent, run=run) for run in range(len(rows), benchmark.runs_required)]


def _measured(row: RunRow, facts: RunFacts, energy_kj: float | None) -> RunRow:
    return replace(
        row,
        global_batch=facts.global_batch,
        status=facts.status,
        compliance=printable(facts.compliance),
        run_time_min=_minutes(facts.run_time_ms, 1000),
        samples_to_converge=facts.samples_to_converge,
        evaluation_every_samples=facts.evaluation_every_samples,
        step_throughput=facts.step_throughput,
        step_throughput_note=printable(facts.step_throughput_note),
        evaluation_min=_minutes(facts.evaluation_s, 1),
        startup_min=_minutes(facts.startup_s, 1),
        energy_kj=energy_kj,
        corrupted_lines=facts.corrupted_lines,
        log_month=_month(facts),
    )


def _minutes(time: float | None, units_per_second: int) -> float | None:
    # By 60 first, as the official tool divides: its scores are to be met to the last digit.
    return None if time is None else time / 60 / units_per_second


def _month(facts: RunFacts) -> str:
    time_ms = facts.run_start_ms if facts.run_start_ms is not None else facts.first_ms
    try:
        return "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m")
    except (ValueError, OverflowError, OSError):
        return ""  # a year that no calendar has


def _scaling(one: ResultSet) -> tuple[float, str]:
    """The factor, and why it is 1 although there is a file."""
    if one.scaling is None:
        return 1.0, ""
    if one.scaling.content is None:
        return 1.0, one.scaling.problem
    try:
        raw = json.loads(one.scaling.content)
    except (ValueError, RecursionError) as error:
        return 1.0, f"not valid JSON: {error}"
    factor = raw.get("scaling_factor") if isinstance(raw, dict) else None
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= _MOST_SCALING:
        return 1.0, f"scaling_factor is {shown(factor)}; expected a number above 0, {_MOST_SCALING} at the most"
    return float(factor), ""


def _energy_kj(one: ResultSet, name: str, facts: RunFacts) -> tuple[float | None, str]:
    """Energy of the whole system over the run's time, in kJ; and why it is unknown where there are power logs."""
    if not one.power:
        return None, ""
    measured = sorted(one.power.get(name.removesuffix(".txt"), {}).items())
    if not any(isinstance(power, NodePower) for _, power in measured):
        return None, "no readable power log of a node"
    time_ms = facts.run_time_ms
    if time_ms is None or any(isinstance(power, Unread) for _, power in measured):
        return None, ""  # said of the run's log, or of the power log
    energy_kj = sum(it.energy_j(time_ms) for _, it in measured if isinstance(it, NodePower | SwitchPower)) / 1000
    return (energy_kj, "") if math.isfinite(energy_kj) else (None, "no finite energy over the run's time")


def _natural(name: str) -> tuple[list[tuple[bool, int, str]], str]:
    parts = re.split(r"([0-9]{1,18})", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts], name


# What is odd


def set_anomalies(one: ResultSet, benchmark: Benchmark, rules: Round, repeated: str) -> Iterator[dict[str, Any]]:
    """Fields of anomalies; what they leave out is the set's. ``repeated``: whose runs they are, where another's."""
    _, problem = _scaling(one)
    if problem:
        yield {"kind": "bad_scaling", "file": f"{one.folder}/scaling.json", "detail": problem}
    if repeated:
        yield {"kind": "duplicate_submission", "count": len(one.logs), "detail": f"the runs of {repeated}"}
    missing = benchmark.runs_required - len(one.logs)
    if missing > 0:
        yield {"kind": "absent_file", "count": missing, "detail": f"{benchmark.runs_required} logs are required"}
    if missing < 0:
        yield {"kind": "extra_runs", "count": -missing, "detail": f"{benchmark.runs_required} logs are required"}
    facts = one.facts()
    logs = [(name, it) for name, it in facts if isinstance(it, RunFacts)]
    batches = Counter(it.global_batch for _, it in logs if it.global_batch is not None)
    if len(batches) > 1:
        shown = ", ".join(f"{batch} in {runs} runs" for batch, runs in sorted(batches.items()))
        yield {"kind": "batch_differs", "count": len(batches), "detail": shown}
    old = sorted(month for _, it in logs if (month := _month(it)) and month < rules.logs_since)
    if old:
        months = " to ".join(dict.fromkeys([old[0], old[-1]]))
        yield {
            "kind": "old_logs",
            "count": len(old),
            "detail": f"logged in {months}; the round's own begin in {rules.logs_since}",
        }
    for name, it in facts:
        file = f"{one.folder}/{name}"
        if isinstance(it, Unread):
            yield {"kind": it.kind, "file": file, "detail": it.detail}
            continue
        for fields in _log_anomalies(it):
            yield {"file": file, **fields}
        _, why = _energy_kj(one, name, it)
        if why:
            yield {"kind": "bad_power", "file": f"{one.folder}/power/{name.removesuffix('.txt')}", "detail": why}
    for result, files in one.power.items():
        for name, power in files.items():
            if isinstance(power, Unread):
                detail = "cannot be read: " + power.detail if power.kind != "bad_power" else power.detail
                yield {"kind": "bad_power", "file": f"{one.folder}/power/{result}/{name}", "detail": detail}


def _log_anomalies(facts: RunFacts) -> Iterator[dict[str, Any]]:
    counts = {
        "prefixed_lines": facts.prefixed_lines,
        "corrupted_lines": facts.corrupted_lines,
        "several_ranks": facts.ranks if facts.ranks > 1 else 0,
        "overlong_line": facts.overlong_lines,
        "non_utf8": int(facts.non_utf8),
    }
    for kind, count in counts.items():
        if count:
            yield {"kind": kind, "count": count}
    if facts.mllog_lines == 0:
        yield {"kind": "empty_file"}
        return
    if facts.run_start_ms is None:
        yield {"kind": "no_run_start"}
    if facts.run_stop_ms is None:
        yield {"kind": "no_run_stop"}
    if facts.status is not Status.OK and facts.run_start_ms is not None and facts.run_stop_ms is not None:
        yield {"kind": "not_converged"}
    if facts.compliance:
        yield {"kind": "fails_official_check", "detail": facts.compliance}
