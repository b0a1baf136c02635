"""MLCommons' own log checker to compare with, and logs made from a round's rules that it accepts."""

import copy
import io
import json
import logging
import random
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from mlperf_logging.compliance_checker import mlp_compliance

from breakeven.mlperf.logs import RunFacts, read_lines, run_facts
from breakeven.mlperf.requirements import Condition, Requirement, Requirements
from breakeven.mlperf.rules import Round

MARK = ":::MLLOG"
Entry = dict[str, Any]

_yaml_files: dict[str, Any] = {}


def _load_once(file: Any, Loader: Any) -> Any:
    """The checker reads its rules anew for every log, most of its time."""
    if file.name not in _yaml_files:
        _yaml_files[file.name] = yaml.load(file, Loader=Loader)
    return _yaml_files[file.name]


def official_accepts(log: bytes, round: Round, folder: Path) -> bool:
    """Whether mlperf-logging accepts a log. Where it breaks off with a traceback, the log has no accepted result."""
    path = folder / "result_0.txt"
    path.write_bytes(log)
    mlp_compliance.yaml = SimpleNamespace(load=_load_once, BaseLoader=yaml.BaseLoader)
    mlp_compliance.enqueued_configs.clear()
    logging.disable(logging.CRITICAL)
    checker = mlp_compliance.make_checker("training", round.ruleset, quiet=True, werror=False)
    try:
        return bool(mlp_compliance.main(str(path), f"training_{round.ruleset}/common.yaml", checker)[0])
    except Exception:
        return False
    finally:
        logging.disable(logging.NOTSET)
        mlp_compliance.yaml = yaml


def facts_of(log: bytes, round: Round, folder: str | None = None) -> RunFacts:
    benchmark = round.benchmarks[folder] if folder else next(iter(round.benchmarks.values()))
    return run_facts(read_lines(io.BytesIO(log)), benchmark, round)


def entry(key: str, value: Any = None, time_ms: Any = 1000, **metadata: Any) -> Entry:
    kind = "POINT_IN_TIME"
    return {"namespace": "", "time_ms": time_ms, "event_type": kind, "key": key, "value": value, "metadata": metadata}


def as_log(entries: list[Entry | str]) -> bytes:
    lines = (one if isinstance(one, str) else f"{MARK} {json.dumps(one)}" for one in entries)
    return ("\n".join(lines) + "\n").encode("latin-1")


#: The order of a run is fixed; everything else is logged before it.
_RUN_KEYS = [
    "init_start",
    "init_stop",
    "run_start",
    "run_stop",
    "block_start",
    "block_stop",
    "epoch_start",
    "epoch_stop",
    "eval_start",
    "eval_stop",
    "eval_accuracy",
    "aggregated_eval_accuracy",
]


def accepted_log(round: Round, folder: str, division: str) -> list[Entry]:
    """The entries of a log that a round's rules accept, for one of its benchmarks in one division."""
    benchmark = round.benchmarks[folder]
    variant = next(iter(benchmark.log_variants), "") if division == "closed" else ""
    rules: dict[str, Requirement] = {}
    for layer in (round.log_common, round.log[division], benchmark.log[division]):
        rules |= layer
    rules |= benchmark.log_variants.get(variant, {})
    stated = {"submission_division": division, "submission_benchmark": folder} | (
        {"opt_name": variant} if variant else {}
    )
    place = {"epoch_num": 1, "samples_count": 512, "step_num": 512, "first_epoch_num": 1, "epoch_count": 1}
    before = [
        entry(key, stated.get(key, _value(key, rule)), **place) for key, rule in rules.items() if key not in _RUN_KEYS
    ]
    run = [
        entry("init_start", None, 1000),
        entry("init_stop", None, 2000),
        entry("run_start", None, 3000),
        entry("block_start", None, 3000, **place),
        entry("epoch_start", None, 3000, **place),
        entry("eval_start", None, 4000, **place),
        *_evaluations(rules, place),
        entry("eval_stop", None, 5000, **place),
        entry("block_stop", None, 5000, **place),
        entry("epoch_stop", None, 5000, **place),
        entry("run_stop", None, 5000, status="success"),
    ]
    return before + run


def _evaluations(rules: Requirements, place: Mapping[str, int]) -> list[Entry]:
    if "aggregated_eval_accuracy" in rules:
        metrics = {"FID": 50.0, "CLIP": 0.2}
        at = [{**place, "samples_count": samples, "step_num": samples} for samples in (512, 1024)]
        return [
            entry("eval_accuracy", value, 5000, **{**where, "metric": metric})
            for where in at
            for metric, value in metrics.items()
        ]
    target = rules["eval_accuracy"].target
    if "" in target or not target:
        return [
            entry("eval_accuracy", 0.1, 4500, **place),
            entry("eval_accuracy", _within(target.get("", ())), 5000, **place),
        ]
    reached = {part: _within(conditions) for part, conditions in target.items()}
    return [entry("eval_accuracy", reached, 5000, **place)]


def _within(conditions: tuple[Condition, ...]) -> float:
    bounds = {condition.word: condition.argument for condition in conditions}
    value = float(bounds.get("at_least", bounds.get("at_most", 0.5)))
    return value if value > bounds.get("above", -1) else bounds["above"] + 0.01


def _value(key: str, rule: Requirement) -> Any:
    words = {condition.word: condition.argument for condition in rule.conditions}
    if key == "global_batch_size":
        return 1152
    if key == "opt_learning_rate_warmup_steps":
        return words.get("equals", 8000)
    for word, from_argument in {
        "equals": lambda right: right,
        "one_of": lambda right: right[0],
        "length": lambda right: [1] * right,
        "multiple_of": lambda right: 3 * right,
        "power_of_two_times": lambda right: right / 2,
        "multiple_or_fraction_of": lambda right: 2 * right["unit"],
        "proportional_to_batch": lambda right: right["value"],
        "remaining_steps": lambda right: right["of"] - 8000,
        "at_least": lambda right: right,
    }.items():
        if word in words:
            return from_argument(words[word])
    return 0.5 if rule.target else 1


#: Values that logs may hold where they should not.
ODD_VALUES = [
    None,
    True,
    0,
    -1,
    0.5,
    1e9,
    "",
    "x",
    "adam",
    "open",
    [],
    [1, 2],
    {},
    {"FID": 1, "CLIP": 0.2},
    8192,
    "sgd",
]
ODD_LINES = [
    f"{MARK} {{broken",
    MARK,
    f"{MARK} []",
    f'{MARK} {{"key": "a"}}',
    f'{MARK} {{"key": [1], "time_ms": 1, "value": 1, "metadata": {{}}}}',
    f'{MARK} {{"key": "a", "time_ms": 1, "value": 1, "metadata": {{}}}} x',
    f'0: {MARK} {{x {MARK} {{"key": "a", "time_ms": 1, "value": 1, "metadata": {{}}}}\x85',
    f'{MARK}  {{"key": "a", "time_ms": "1", "value": 1, "metadata": {{}}}}\r99%',
    f'{MARK} {{"key": "a", "time_ms": "soon", "value": 1, "metadata": {{}}}}',
]


def damaged(entries: list[Entry], dice: random.Random) -> list[Entry | str]:
    """A copy with one to three things changed as no careful hand would."""
    log: list[Any] = copy.deepcopy(entries)
    for _ in range(dice.choice([1, 1, 2, 3])):
        at = dice.randrange(len(log))
        one = log[at]
        if isinstance(one, str):
            continue
        change = dice.randrange(10)
        if change == 0:
            log = [other for other in log if isinstance(other, str) or other["key"] != one["key"]] or log
        elif change == 1:
            one["value"] = dice.choice(ODD_VALUES)
        elif change == 2:
            log.insert(dice.randrange(len(log)), copy.deepcopy(one))
        elif change == 3:
            log.insert(dice.randrange(len(log)), {**one, "value": dice.choice(ODD_VALUES)})
        elif change == 4 and isinstance(one["metadata"], dict) and one["metadata"]:
            one["metadata"].pop(dice.choice(list(one["metadata"])))
        elif change == 5:
            one["metadata"] = dice.choice([None, [], "epoch_num", {}, {"epoch_num": "x", "epoch_count": 0}])
        elif change == 6:
            other = dice.randrange(len(log))
            log[at], log[other] = log[other], log[at]
        elif change == 7:
            one["time_ms"] = dice.choice([0, 1_800_999, 1_801_000, 14_401_000, "7", "x", None])
        elif change == 8:
            log.insert(at, dice.choice(ODD_LINES))
        elif change == 9:
            del log[at:]
            log.append(one)
    return log
