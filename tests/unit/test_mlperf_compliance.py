"""Our verdict on a log is MLCommons' own, whatever the log."""

import dataclasses
import json
import random
import re
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from breakeven.mlperf import compliance
from breakeven.mlperf.compliance import MAX_HELD_CHARACTERS, Checker
from breakeven.mlperf.logs import run_facts
from breakeven.mlperf.requirements import Requirement
from breakeven.mlperf.rules import Round, load_round
from tests.mlperf_checker import MARK, accepted_log, as_log, damaged, entry, facts_of, official_accepts

ROUNDS = ("v3.0", "v3.1", "v4.0", "v4.1", "v5.0", "v5.1")
SUBSET = Path(__file__).resolve().parents[3] / "shared" / "data" / "mlperf" / "v4.1_test_subset.tar.xz"


@pytest.fixture(scope="module")
def v4_1() -> Round:
    return load_round("v4.1")


def verdict(log: bytes, round: Round) -> str:
    return facts_of(log, round).compliance


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_accepts_and_refuses_what_the_official_checker_does(name: str, tmp_path: Path) -> None:
    # 150 damages each of every benchmark and division were compared once, 13,800 logs; these are a sample.
    round, dice = load_round(name), random.Random(name)
    accepted = compared = 0
    for folder, benchmark in round.benchmarks.items():
        for division in benchmark.log:
            log = accepted_log(round, folder, division)
            for entries in (log, *(damaged(log, dice) for _ in range(12))):
                content = as_log(entries)
                official = official_accepts(content, round, tmp_path)
                assert official == (not verdict(content, round)), content.decode("latin-1")
                accepted, compared = accepted + official, compared + 1
    assert 0.2 < accepted / compared < 0.8


@pytest.mark.parametrize("name", ROUNDS)
def test_every_benchmark_has_a_log_that_passes(name: str, tmp_path: Path) -> None:
    round = load_round(name)
    for folder in round.benchmarks:
        content = as_log(accepted_log(round, folder, "closed"))
        assert verdict(content, round) == ""
        assert official_accepts(content, round, tmp_path)


def published() -> dict[str, bytes]:
    """system/benchmark/file → log, of the published subset."""
    logs = {}
    with tarfile.open(SUBSET) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is not None and "/result_" in member.name and member.name.endswith(".txt"):
                logs["/".join(member.name.split("/")[-3:])] = stream.read()
    return logs


@pytest.mark.skipif(not SUBSET.exists(), reason="the published subset is not in the repository")
def test_published_logs_have_the_official_verdict(v4_1: Round, tmp_path: Path) -> None:
    refused = {}
    for name, content in published().items():
        ours = verdict(content, v4_1)
        assert official_accepts(content, v4_1, tmp_path) == (not ours), name
        if ours:
            refused[name] = ours
    assert refused == {
        "eos_n64_ngc24.09_nemo/stable_diffusion/result_6.txt": (
            "aggregated_eval_accuracy never FID at least 0.0 and at most 90.0, CLIP at least 0.15 and at most 1.0"
        ),
        "tinybox_green/bert/result_2.txt": (
            "no run_stop; neither block_stop nor epoch_stop; eval_accuracy never at least 0.72 and below 1.0"
        ),
    }


@pytest.mark.skipif(not SUBSET.exists(), reason="the published subset is not in the repository")
def test_damaged_published_logs_have_the_official_verdict(v4_1: Round, tmp_path: Path) -> None:
    compared = 0
    one_each = {name.split("/")[1]: content for name, content in published().items()}
    for name, content in one_each.items():
        for label, changed in changes(content, v4_1):
            ours = verdict(changed, v4_1)
            assert official_accepts(changed, v4_1, tmp_path) == (not ours), f"{name}: {label}: {ours}"
            compared += 1
    assert compared > 300


def changes(content: bytes, round: Round) -> list[tuple[str, bytes]]:
    """A log without each key in turn, with each value wrong, with each line twice; and cut off."""
    lines = [line for line in content.decode("latin-1").splitlines() if MARK in line]
    entries = [json.loads(line.rpartition(MARK)[2]) for line in lines]
    keys = sorted({one["key"] for one in entries if one["key"] in round.log_keys})
    made = [("cut in the middle of a line", as_log(lines)[:-40]), ("cut in half", as_log(lines[: len(lines) // 2]))]
    for key in keys:
        first = next(at for at, one in enumerate(entries) if one["key"] == key)
        made.append(
            (f"no {key}", as_log([line for line, one in zip(lines, entries, strict=True) if one["key"] != key]))
        )
        made.append((f"{key} twice", as_log([*lines[: first + 1], *lines[first:]])))
        for wrong in (None, -1):
            changed = {**entries[first], "value": wrong}
            made.append((f"{key} {wrong!r}", as_log([*lines[:first], changed, *lines[first + 1 :]])))
    return made


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"opt_name": "sgd"}, "opt_name 'sgd': not equals adam"),
        ({"opt_base_learning_rate": -1}, "opt_base_learning_rate -1: not at least 0.0"),
        ({"opt_base_learning_rate": "fast"}, "opt_base_learning_rate 'fast': not at least 0.0"),
        ({"submission_benchmark": "minigo"}, "no rules for the benchmark 'minigo'"),
        ({"submission_division": "ajar"}, "no rules for the division 'ajar'"),
        ({"eval_accuracy": 0.33}, "eval_accuracy never at least 0.34 and below 1.0"),
    ],
)
def test_a_verdict_says_why(change: dict[str, object], why: str, v4_1: Round) -> None:
    log = [{**one, "value": change.get(one["key"], one["value"])} for one in accepted_log(v4_1, "ssd", "closed")]
    assert why in verdict(as_log(log), v4_1)


def test_initialization_may_take_30_minutes_in_the_closed_division_and_240_in_the_open(v4_1: Round) -> None:
    def taking(minutes: float, division: str) -> str:
        log = accepted_log(v4_1, "ssd", division)
        stop = next(one for one in log if one["key"] == "init_stop")
        stop["time_ms"] = 1000 + minutes * 60_000
        return verdict(as_log(log), v4_1)

    assert taking(29.9, "closed") == ""
    assert taking(30, "closed") == "init_stop 30 min after init_start, limit 30 min"
    assert taking(239, "open") == ""
    assert taking(240, "open") == "init_stop 240 min after init_start, limit 240 min"


def test_ranks_may_repeat_a_value_but_not_differ(v4_1: Round) -> None:
    log = accepted_log(v4_1, "bert", "closed")
    assert verdict(as_log([entry("train_samples", 1), *log]), v4_1) == ""
    assert verdict(as_log([entry("train_samples", 2), *log]), v4_1) == "2 train_samples lines that differ"


def test_what_a_benchmark_says_of_a_key_is_the_last_word(v4_1: Round) -> None:
    # Common rules take any evaluation with epoch_num or samples_count, llama2's only samples_count.
    log = accepted_log(v4_1, "llama2_70b_lora", "closed")
    for one in log:
        if one["key"] == "eval_accuracy":
            del one["metadata"]["samples_count"]
    assert verdict(as_log(log), v4_1) == "eval_accuracy without samples_count in metadata"


def test_rules_of_a_benchmark_named_late_apply_to_lines_before(v4_1: Round, tmp_path: Path) -> None:
    log = accepted_log(v4_1, "ssd", "closed")
    late = [one for one in log if "submission_" not in one["key"]] + [one for one in log if "submission_" in one["key"]]
    content = as_log([entry("opt_name", "sgd"), *late])
    assert "opt_name" in verdict(content, v4_1)
    assert not official_accepts(content, v4_1, tmp_path)


def test_an_unreadable_line_refuses_the_whole_log(v4_1: Round) -> None:
    assert verdict(as_log([*accepted_log(v4_1, "ssd", "closed"), f"{MARK} {{cut"]), v4_1) == "unreadable lines: 1"


@pytest.mark.parametrize("key", ["run_start", "run_stop", "init_start", "init_stop", "cache_clear", "eval_accuracy"])
def test_a_time_that_no_clock_shows_has_the_official_verdict(key: str, v4_1: Round, tmp_path: Path) -> None:
    for time in [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e30",
        "1e400",
        '"nan"',
        '"inf"',
        str(2**63),
        "1" + "0" * 400,
        "true",
    ]:
        log = as_log(accepted_log(v4_1, "ssd", "closed")).decode().splitlines()
        at = next(at for at, one in enumerate(log) if f'"{key}"' in one)
        log[at] = re.sub(r'"time_ms": \d+', f'"time_ms": {time}', log[at])
        content = as_log([*log])
        assert official_accepts(content, v4_1, tmp_path) == (not verdict(content, v4_1)), f"{key} at {time}"


@pytest.mark.parametrize("depth", [100, 480, 940, 965, 990, 100_000])
def test_values_nested_deeply_never_crash_the_check(depth: int, v4_1: Round) -> None:
    deep = "[" * depth + "]" * depth
    places = ['"value": %s, "metadata": {}', '"value": 1, "metadata": %s', '"value": %s, "metadata": {"metric": %s}']
    for key in ("submission_benchmark", "submission_division", "cache_clear", "global_batch_size", "eval_accuracy"):
        for place in places:
            one = f'{MARK} {{"time_ms": 1, "key": "{key}", {place.replace("%s", deep)}}}'
            for benchmark in ("ssd", "stable_diffusion"):
                log = accepted_log(v4_1, benchmark, "closed")
                assert len(verdict(as_log([one, one, *log]), v4_1)) < 1000
                assert len(verdict(as_log([*log, one, one]), v4_1)) < 1000


def test_values_that_are_too_nested_to_be_compared_differ() -> None:
    first: list[object] = []
    other: list[object] = []
    for _ in range(100_000):
        first, other = [first], [other]
    reported = compliance._Reported()
    reported.add(first)
    reported.add(other)
    assert reported.differ
    assert compliance._shown(first) == "nested too deeply to be shown"


@pytest.mark.parametrize("key", ["cache_clear", "eval_accuracy"])
@pytest.mark.parametrize("named", [False, True])
def test_a_check_holds_no_more_of_a_log_than_its_limit(
    key: str, named: bool, v4_1: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = MAX_HELD_CHARACTERS // 40  # which is soon reached
    monkeypatch.setattr(compliance, "MAX_HELD_CHARACTERS", limit)
    value = "[" + "[]," * (limit // 30) + "[]]"  # a tenth of it; parsed, an empty list takes 19 times its text
    line = f'{MARK} {{"time_ms": 1, "key": "{key}", "value": %s, "metadata": {{"metric": "FID", "samples_count": %d}}}}'
    before = accepted_log(v4_1, "stable_diffusion", "closed") if named else []
    tracemalloc.start()
    found = run_facts(
        _lines([*before, *[None] * 60], line, value),
        v4_1.benchmarks["stable_diffusion"],
        v4_1,
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.mllog_lines == len(before) + 60
    assert ("characters of lines to be checked together" in found.compliance) == (key == "eval_accuracy" or not named)
    assert peak < 30 * limit


def _lines(entries: list[Any], line: str, value: str) -> Iterator[str]:
    for at, one in enumerate(entries):
        yield line % (value, at) if one is None else as_log([one]).decode()


def test_a_verdict_of_many_reasons_is_short(v4_1: Round) -> None:
    why = verdict(b"", v4_1)
    assert why.startswith("no lines; no submission_org; no submission_platform; and ")
    assert len(why) < 200


@pytest.mark.parametrize(
    ("name", "folder"), [("v3.0", "gpt3"), ("v3.1", "gpt3"), ("v4.0", "llama2_70b_lora"), ("v4.1", "llama2_70b_lora")]
)
def test_a_benchmark_without_rules_for_a_division_is_refused_there(name: str, folder: str, tmp_path: Path) -> None:
    round = load_round(name)
    log = [
        {**one, "value": folder} if one["key"] == "submission_benchmark" else one
        for one in accepted_log(round, "bert", "open")
    ]
    assert verdict(as_log(log), round) == f"no rules for the benchmark '{folder}' in the open division"
    assert not official_accepts(as_log(log), round, tmp_path)


def test_rules_that_select_themselves_end(v4_1: Round) -> None:
    # No file can say so; see the messages of load_round.
    bert = v4_1.benchmarks["bert"]
    again = {"submission_benchmark": Requirement(selects="benchmark")}
    log = {division: {**rules, **again} for division, rules in bert.log.items()}
    endless = dataclasses.replace(v4_1, benchmarks={"bert": dataclasses.replace(bert, log=log)})
    assert verdict(as_log(accepted_log(v4_1, "bert", "closed")), endless) == ""


def test_of_millions_of_lines_that_have_no_order_one_reason_is_kept(v4_1: Round) -> None:
    checker = Checker(v4_1)
    checker.see("submission_division", "closed", {}, 0)
    checker.see("submission_benchmark", "bert", {}, 0)
    for number in range(1000):
        checker.see("eval_accuracy", f"bad {number}", {"epoch_num": 1}, 0)
    kept = [why for layer in checker._layers for why in layer.failed_for_good.values()]
    assert kept == ["eval_accuracy 'bad 0' cannot be compared with its target"]
