"""Every quirk of the v4.1 logs, in logs small enough to read."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakeven.mlperf.logs import MARK, RunFacts, read_log, run_facts
from breakeven.schema.errors import UserError
from breakeven.schema.status import Status

T0 = 1_727_459_930_638

#: No deadline: on a busy machine it is the machine that is slow.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def line(key: str, time_ms: int, value: Any = None, **metadata: Any) -> str:
    entry = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return f"{MARK} {json.dumps({**entry, 'metadata': {'file': 'train.py', 'lineno': 1, **metadata}})}\n"


def evaluation(time_ms: int, value: float, **metadata: Any) -> str:
    return line("eval_accuracy", time_ms, value, **metadata)


LLAMA = [
    line("cache_clear", T0 - 90_000, True),
    line("global_batch_size", T0 - 60_000, 8),
    line("run_start", T0),
    evaluation(T0 + 100_000, 0.95, samples_count=2688),
    evaluation(T0 + 120_000, 0.92, samples_count=3072),
    line("run_stop", T0 + 120_500, status="success", samples_count=3072),
]


def test_a_plain_run() -> None:
    assert run_facts(LLAMA, "llama2_70b_lora") == RunFacts(
        benchmark="llama2_70b_lora",
        status=Status.OK,
        run_start_ms=T0,
        run_stop_ms=T0 + 120_500,
        first_ms=T0 - 90_000,
        global_batch=8,
        samples_to_converge=3072,
        mllog_lines=6,
        corrupted_lines=0,
    )
    assert run_facts(LLAMA, "llama2_70b_lora").run_time_ms == 120_500


@pytest.mark.parametrize("prefix", ["0: ", " 0: ", "[1,0]<stdout>:", "épaté ", "\x1b[32m"])
def test_the_mark_is_found_anywhere_in_a_line(prefix: str) -> None:
    assert run_facts([prefix + text for text in LLAMA], "llama2_70b_lora") == run_facts(LLAMA, "llama2_70b_lora")


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_bytes(b"progress \xe2\x96 \xff\x85\r\n".join(text.encode() for text in LLAMA) + b"\x96\n")
    assert read_log(log, "llama2_70b_lora") == run_facts(LLAMA, "llama2_70b_lora")


def test_a_log_that_is_not_there_is_the_users_to_mend(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"result_0\.txt: cannot be read"):
        read_log(tmp_path / "result_0.txt", "bert")


def test_a_corrupted_line_is_counted_and_the_run_still_stands() -> None:
    # As in three of Lambda's logs, where an edit by offset hit the wrong bytes.
    damaged = (
        MARK + ' {"time_ms": 1727545378246, "key": "init_start", "value": nullLambdaorkspace/ft.py", "lineno": 207}}\n'
    )
    facts = run_facts([damaged, *LLAMA], "llama2_70b_lora")
    assert (facts.status, facts.run_time_ms, facts.corrupted_lines) == (Status.OK, 120_500, 1)


def test_bert_calls_its_count_of_samples_epoch_num() -> None:
    log = [
        line("run_start", T0),  # tinycorp starts its clock before it states the batch
        line("global_batch_size", T0 + 9, 66),
        line("train_samples", T0 + 10, 9_999_999),
        evaluation(T0 + 50, 0.70, epoch_num=2_400_000),
        evaluation(T0 + 60, 0.72, epoch_num=2_548_000, masked_lm_accuracy=0.72),
        line("run_stop", T0 + 61, status="success"),
    ]
    facts = run_facts(log, "bert")
    assert (facts.samples_to_converge, facts.global_batch) == (2_548_000, 66)


def test_ssd_counts_completed_epochs_not_the_one_that_was_cut() -> None:
    log = [line("run_start", T0)]
    for epoch in range(5):  # evaluation is asynchronous: a fifth epoch starts before the fourth's evaluation ends
        log.append(line("epoch_start", T0 + 500 * epoch, epoch, epoch_num=epoch))
        if epoch:
            log.append(evaluation(T0 + 500 * epoch + 5, 0.30 + 0.01 * epoch, epoch_num=epoch))
    log.append(line("run_stop", T0 + 2006, status="success"))
    log.append(line("epoch_stop", T0 + 2006, 4, epoch_num=4))
    log.append(line("status", T0 + 2006, "success"))
    facts = run_facts(log, "ssd")
    assert (facts.samples_to_converge, facts.run_time_ms) == (4 * 1_170_301, 2006)


def diffusion(stop_ms: int, status: str, metrics: dict[int, tuple[float, float]]) -> list[str]:
    """Training ends, then checkpoints are evaluated, then run_stop is written with an earlier date."""
    log = [line("global_batch_size", T0 - 1, 2048), line("run_start", T0)]
    for i, (samples, (fid, clip)) in enumerate(metrics.items()):
        log.append(evaluation(T0 + 900_000 + i, fid, samples_count=samples, metric="FID"))
        log.append(evaluation(T0 + 900_001 + i, clip, samples_count=samples, metric="CLIP"))
    return [*log, line("run_stop", stop_ms, status=status, step_num=2000)]


CHECKPOINTS = {4_608_000: (76.0, 0.18), 3_584_000: (96.4, 0.167), 4_096_000: (79.4, 0.178), 512_000: (60.0, 0.149)}


def test_stable_diffusion_stops_when_dated_not_where_written() -> None:
    facts = run_facts(diffusion(T0 + 104_539, "success", CHECKPOINTS), "stable_diffusion")
    assert (facts.status, facts.run_time_ms) == (Status.OK, 104_539)


def test_stable_diffusion_converges_at_the_first_checkpoint_that_passes_both_metrics() -> None:
    # Evaluated in any order, and one twice; 512,000 passes FID alone.
    log = diffusion(T0 + 104_539, "success", CHECKPOINTS)
    log.insert(5, log[4])
    assert run_facts(log, "stable_diffusion").samples_to_converge == 4_096_000


def test_an_aborted_run_failed_and_keeps_its_time() -> None:
    facts = run_facts(diffusion(T0 + 64_525, "aborted", {512_000: (403.2, 0.05)}), "stable_diffusion")
    assert (facts.status, facts.run_time_ms, facts.samples_to_converge) == (Status.FAILED, 64_525, None)


def test_a_run_without_run_stop_failed() -> None:
    facts = run_facts(LLAMA[:-1], "llama2_70b_lora")
    assert (facts.status, facts.run_time_ms, facts.samples_to_converge) == (Status.FAILED, None, None)


def test_a_run_without_run_start_failed() -> None:
    log = [text for text in LLAMA if '"run_start"' not in text]
    assert (run_facts(log, "llama2_70b_lora").status, run_facts(log, "llama2_70b_lora").run_time_ms) == ("failed", None)


def test_an_empty_log_is_a_failed_run() -> None:
    facts = run_facts([], "bert")
    assert (facts.status, facts.first_ms, facts.mllog_lines) == (Status.FAILED, None, 0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
#: What logs hold besides MLLOG lines, and MLLOG lines damaged in any way that leaves no time or no known key.
junk = st.one_of(
    st.text(),
    st.text().map(lambda text: f"{MARK} {text}"),
    json_values.map(lambda value: f"{MARK} {json.dumps(value)}"),
    st.dictionaries(st.sampled_from(["key", "value", "metadata"]), json_values).map(
        lambda d: f"{MARK} {json.dumps(d)}"
    ),
    st.integers(0, len(LLAMA[2]) - 3).map(lambda cut: LLAMA[2][:cut]),
    json_values.map(lambda value: line("eval_error", T0, value)),
    st.just(MARK + "[" * 100_000),
)


@patient
@given(st.lists(st.tuples(st.integers(0, len(LLAMA)), junk), max_size=20))
def test_junk_lines_never_crash_the_parser_and_never_change_the_times(insertions: list[tuple[int, str]]) -> None:
    log = list(LLAMA)
    for place, text in insertions:
        log.insert(place, text + "\n")
    facts, clean = run_facts(log, "llama2_70b_lora"), run_facts(LLAMA, "llama2_70b_lora")
    assert (facts.status, facts.run_start_ms, facts.run_stop_ms) == (Status.OK, clean.run_start_ms, clean.run_stop_ms)
    assert (facts.samples_to_converge, facts.global_batch) == (clean.samples_to_converge, clean.global_batch)


@patient
@given(
    st.sampled_from(["bert", "llama2_70b_lora", "ssd", "stable_diffusion"]),
    st.lists(
        st.builds(
            lambda key, time, value, metadata: (
                f"{MARK} {json.dumps({'key': key, 'time_ms': time, 'value': value, 'metadata': metadata})}"
            ),
            st.sampled_from(["run_start", "run_stop", "eval_accuracy", "global_batch_size", "other"]),
            st.integers(0, 10**13) | json_values,
            json_values,
            st.dictionaries(st.sampled_from(["samples_count", "epoch_num", "metric", "status"]), json_values)
            | json_values,
        )
    ),
)
def test_no_sequence_of_entries_crashes_the_parser(benchmark: str, log: list[str]) -> None:
    facts = run_facts(log, benchmark)
    assert facts.mllog_lines + facts.corrupted_lines == len(log)
    if facts.status == Status.OK:
        assert facts.run_time_ms is not None
        assert facts.run_time_ms >= 0


@patient
@given(st.permutations(diffusion(T0 + 104_539, "success", CHECKPOINTS)))
def test_the_order_of_lines_says_nothing_of_a_stable_diffusion_run(log: list[str]) -> None:
    facts = run_facts(log, "stable_diffusion")
    assert (facts.run_time_ms, facts.samples_to_converge) == (104_539, 4_096_000)
