"""Every quirk of the logs of v3.0 to v5.1, in logs small enough to read."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakeven.mlperf.loglines import MAX_LINE_BYTES
from breakeven.mlperf.logs import MARK, RunFacts, read_lines, read_log, run_facts
from breakeven.mlperf.rules import Round, load_round
from breakeven.schema.errors import UserError
from breakeven.schema.status import Status

T0 = 1_727_459_930_638

V4_1 = load_round("v4.1")
ROUNDS = {name: load_round(name) for name in ("v3.0", "v3.1", "v4.0", "v5.0", "v5.1")} | {"v4.1": V4_1}

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def line(key: str, time_ms: int, value: Any = None, **metadata: Any) -> str:
    entry = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return f"{MARK} {json.dumps({**entry, 'metadata': {'file': 'train.py', 'lineno': 1, **metadata}})}\n"


def evaluation(time_ms: int, value: Any, **metadata: Any) -> str:
    return line("eval_accuracy", time_ms, value, **metadata)


def facts(lines: list[str], benchmark: str, round: Round = V4_1, devices: int | None = None) -> RunFacts:
    return run_facts(lines, round.benchmarks[benchmark], round, devices=devices)


def from_bytes(content: bytes, benchmark: str) -> RunFacts:
    return run_facts(read_lines(io.BytesIO(content)), V4_1.benchmarks[benchmark], V4_1)


LLAMA = [
    line("cache_clear", T0 - 90_000, True),
    line("global_batch_size", T0 - 60_000, 8),
    line("run_start", T0),
    line("block_start", T0 + 500, samples_count=0),
    line("tracked_stats", T0 + 90_000, {"throughput": 30.0}, step=2688),
    line("eval_start", T0 + 90_000, samples_count=2688),
    evaluation(T0 + 100_000, 0.95, samples_count=2688),
    line("eval_stop", T0 + 100_000, samples_count=2688),
    line("tracked_stats", T0 + 110_000, {"throughput": 30.0}, step=3072),
    line("eval_start", T0 + 110_000, samples_count=3072),
    evaluation(T0 + 120_000, 0.92, samples_count=3072),
    line("eval_stop", T0 + 120_000, samples_count=3072),
    line("run_stop", T0 + 120_500, status="success", samples_count=3072),
]


def test_a_plain_run() -> None:
    found = facts(LLAMA, "llama2_70b_lora")
    assert found == RunFacts(
        benchmark="llama2_70b_lora",
        status=Status.OK,
        compliance=found.compliance,
        run_start_ms=T0,
        run_stop_ms=T0 + 120_500,
        first_ms=T0 - 90_000,
        global_batch=8,
        samples_to_converge=3072,
        evaluation_every_samples=384,
        step_throughput=30.0,
        step_throughput_note="",
        evaluation_s=20.0,
        startup_s=0.5,
        mllog_lines=13,
        corrupted_lines=0,
        prefixed_lines=0,
        ranks=1,
        overlong_lines=0,
        non_utf8=False,
    )
    assert found.run_time_ms == 120_500


def test_a_run_that_reached_the_target_may_still_fail_the_official_checks() -> None:
    why = facts(LLAMA, "llama2_70b_lora").compliance
    assert why == "run_start before init_stop; no submission_org; no submission_platform; and 6 more"


@pytest.mark.parametrize("prefix", ["0: ", " 0: ", "[1,0]<stdout>:", "épaté ", "\x1b[32m"])
def test_the_mark_is_found_anywhere_in_a_line(prefix: str) -> None:
    plain, prefixed = facts(LLAMA, "llama2_70b_lora"), facts([prefix + text for text in LLAMA], "llama2_70b_lora")
    assert (prefixed.prefixed_lines, prefixed.ranks, prefixed.mllog_lines) == (13, 1, 13)
    assert (prefixed.status, prefixed.run_time_ms, prefixed.samples_to_converge) == (
        plain.status,
        plain.run_time_ms,
        plain.samples_to_converge,
    )


def test_ranks_are_counted_by_what_stands_before_the_mark() -> None:
    log = [text for rank in range(64) for text in (f" {rank}: {LLAMA[0]}", f"{rank}: {LLAMA[1]}")]
    assert facts(log, "llama2_70b_lora").ranks == 64


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    log = tmp_path / "result_0.txt"
    log.write_bytes(b"progress \xe2\x96 \xff\x85\r\n".join(text.encode() for text in LLAMA) + b"\x96\n")
    found = read_log(log, V4_1.benchmarks["llama2_70b_lora"], V4_1)
    assert (found.non_utf8, found.status, found.samples_to_converge) == (True, Status.OK, 3072)
    log.write_text("épaté\n" + "".join(LLAMA), encoding="utf-8")
    assert not read_log(log, V4_1.benchmarks["llama2_70b_lora"], V4_1).non_utf8


def test_a_log_that_is_not_there_is_the_users_to_mend(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"result_0\.txt: cannot be read"):
        read_log(tmp_path / "result_0.txt", V4_1.benchmarks["bert"], V4_1)


def test_a_corrupted_line_is_counted_and_the_run_still_stands() -> None:
    # As in three of Lambda's logs, where an edit by offset hit the wrong bytes.
    broken = (
        MARK + ' {"time_ms": 1727545378246, "key": "init_start", "value": nullLambdaorkspace/ft.py", "lineno": 7}}\n'
    )
    found = facts([broken, *LLAMA], "llama2_70b_lora")
    assert (found.status, found.run_time_ms, found.corrupted_lines) == (Status.OK, 120_500, 1)
    assert found.compliance.startswith("unreadable lines: 1; ")


def test_a_carriage_return_ends_a_line_as_it_does_for_the_official_tool() -> None:
    found = from_bytes(b"  3%|#   |\r".join(text.rstrip("\n").encode() + b"\r" for text in LLAMA), "llama2_70b_lora")
    assert (found.mllog_lines, found.corrupted_lines, found.samples_to_converge) == (13, 0, 3072)


class Endless:
    """A stream that gives ``size`` bytes without a line's end, and then what follows."""

    def __init__(self, size: int, then: bytes) -> None:
        self.left, self.then, self.largest = size, io.BytesIO(then), 0

    def read(self, size: int) -> bytes:
        given = min(size, self.left)
        self.left -= given
        return b"x" * given if given else self.then.read(size)


def test_a_line_of_a_gigabyte_is_counted_and_not_held() -> None:
    import tracemalloc

    stream = Endless(1 << 30, b"\n" + "".join(LLAMA).encode())
    tracemalloc.start()
    found = run_facts(read_lines(stream), V4_1.benchmarks["llama2_70b_lora"], V4_1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.overlong_lines, found.status, found.mllog_lines) == (1, Status.OK, 13)
    assert peak < 8 * MAX_LINE_BYTES


@pytest.mark.parametrize("length", [MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 3 * MAX_LINE_BYTES])
def test_a_line_too_long_is_skipped_to_its_end(length: int) -> None:
    found = from_bytes(b"x" * (length - 1) + b"\n" + "".join(LLAMA).encode(), "llama2_70b_lora")
    assert (found.overlong_lines, found.mllog_lines) == (int(length > MAX_LINE_BYTES), 13)


def test_blocks_may_end_anywhere() -> None:
    whole = "".join(LLAMA).encode()

    class Drip(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(7)

    dripped = run_facts(read_lines(Drip(whole)), V4_1.benchmarks["llama2_70b_lora"], V4_1)
    assert dripped == from_bytes(whole, "llama2_70b_lora")


def test_the_latest_start_before_both_are_known_is_the_start() -> None:
    # The official pairing: later lines change nothing once a start and a stop have been seen.
    log = [line("run_start", T0 - 5), *LLAMA, line("run_start", T0 + 9), line("run_stop", T0 + 10, status="aborted")]
    found = facts(log, "llama2_70b_lora")
    assert (found.run_start_ms, found.run_stop_ms, found.status) == (T0, T0 + 120_500, Status.OK)


def test_bert_calls_its_count_of_samples_epoch_num() -> None:
    log = [
        line("run_start", T0),  # tinycorp starts its clock before it states the batch
        line("global_batch_size", T0 + 9, 66),
        line("train_samples", T0 + 10, 9_999_999),
        evaluation(T0 + 50, 0.70, epoch_num=2_400_000),
        evaluation(T0 + 60, 0.72, epoch_num=2_548_000, masked_lm_accuracy=0.72),
        line("run_stop", T0 + 61, status="success"),
    ]
    found = facts(log, "bert")
    assert (found.samples_to_converge, found.global_batch) == (2_548_000, 66)
    assert (found.evaluation_s, found.step_throughput_note) == (None, "the log tracks no throughput")


def test_berts_throughput_includes_its_evaluations() -> None:
    log = [line("run_start", T0), line("epoch_start", T0, epoch_num=0)]
    for done in (1, 2):  # 9 s of training and 1 s of evaluation for each 1,000 samples
        log += [
            line("tracked_stats", T0 + 10_000 * done, {"throughput": 100.0}, epoch_num=1000 * done),
            line("eval_start", T0 + 10_000 * done - 1000, epoch_num=1000 * done),
            line("eval_stop", T0 + 10_000 * done, epoch_num=1000 * done),
            evaluation(T0 + 10_000 * done, 0.72, epoch_num=1000 * done),
        ]
    log += [
        line("run_stop", T0 + 20_000, status="success"),
        line("tracked_stats", T0 + 20_000, {"throughput": 5.0, "epoch_num": 2000}, step=[2, 9]),
    ]
    assert facts(log, "bert").step_throughput == pytest.approx(1000 / 9)


def ssd_log(stalls_ms: list[int], last_ms: int) -> list[str]:
    """Epochs of 10 s at 100 images a second on each of 4 accelerators. Training stalls a while for an evaluation, then
    goes on beside it; after the last there is nothing left to train."""
    log = [line("local_batch_size", T0 - 1, 8), line("global_batch_size", T0 - 1, 32), line("run_start", T0)]
    now = T0
    for epoch, stall in enumerate([*stalls_ms, 50], start=1):
        log.append(line("epoch_start", now, epoch - 1, epoch_num=epoch - 1))
        now += 10_000
        log.append(line("tracked_stats", now, {"throughput": 100.0}, step=epoch))
        log.append(line("eval_start", now, epoch, epoch_num=epoch))
        now += stall
    log.append(line("epoch_start", now, len(stalls_ms) + 1, epoch_num=len(stalls_ms) + 1))
    now += last_ms - 50
    log.append(evaluation(now, 0.34, epoch_num=len(stalls_ms) + 1))
    return [*log, line("run_stop", now, status="success"), line("epoch_stop", now, 4, epoch_num=4)]


def test_ssd_counts_completed_epochs_not_the_one_that_was_cut() -> None:
    assert facts(ssd_log([100, 100, 100], 2000), "ssd").samples_to_converge == 4 * 1_170_301


def test_ssd_logs_throughput_of_one_accelerator() -> None:
    log = ssd_log([100], 2000)
    assert facts(log, "ssd").step_throughput == pytest.approx(400)
    silent = [text for text in log if "local_batch_size" not in text]
    assert facts(silent, "ssd", devices=8).step_throughput == pytest.approx(800)
    assert facts(silent, "ssd").step_throughput_note == (
        "the log tracks throughput per accelerator but not how many there are"
    )


def test_retinanet_of_v5_1_logs_the_systems_throughput_where_it_logs_memory_too() -> None:
    log = [
        text.replace('"throughput": 100.0', '"throughput": 400.0, "max_memory_usage": 20.0')
        for text in ssd_log([100], 9)
    ]
    assert facts(log, "retinanet", ROUNDS["v5.1"]).step_throughput == pytest.approx(400)


def test_an_overlapped_evaluation_costs_its_stalls_and_the_wait_for_the_last() -> None:
    assert facts(ssd_log([100, 300], 2000), "ssd").evaluation_s == pytest.approx(0.1 + 0.3 + 2.0)


def diffusion(stop_ms: int, status: str, metrics: dict[int, tuple[float, float]]) -> list[str]:
    """Training ends, then checkpoints are evaluated, then run_stop is written with an earlier date."""
    log = [line("global_batch_size", T0 - 1, 2048), line("run_start", T0)]
    for i, (samples, (fid, clip)) in enumerate(metrics.items()):
        log.append(line("eval_start", T0 + 900_000 + i, samples_count=samples))
        log.append(evaluation(T0 + 900_000 + i, fid, samples_count=samples, metric="FID"))
        log.append(evaluation(T0 + 900_001 + i, clip, samples_count=samples, metric="CLIP"))
        log.append(line("eval_stop", T0 + 900_002 + i, samples_count=samples))
    return [*log, line("run_stop", stop_ms, status=status, step_num=2000)]


CHECKPOINTS = {4_608_000: (76.0, 0.18), 3_584_000: (96.4, 0.167), 4_096_000: (79.4, 0.178), 512_000: (60.0, 0.149)}


def test_stable_diffusion_stops_when_dated_not_where_written() -> None:
    found = facts(diffusion(T0 + 104_539, "success", CHECKPOINTS), "stable_diffusion")
    assert (found.status, found.run_time_ms, found.evaluation_s) == (Status.OK, 104_539, 0.0)


def test_stable_diffusion_converges_at_the_first_checkpoint_that_passes_both_metrics() -> None:
    # Evaluated in any order, and one twice; 512,000 passes FID alone.
    log = diffusion(T0 + 104_539, "success", CHECKPOINTS)
    log.insert(5, log[4])
    found = facts(log, "stable_diffusion")
    assert (found.samples_to_converge, found.evaluation_every_samples) == (4_096_000, 512_000)


def test_blocks_of_training_tell_the_throughput_where_nothing_else_does() -> None:
    # As Google's: the first 512,000 samples in 108.419 s; a block of validation says nothing.
    log = [
        line("run_start", T0),
        line("block_start", T0, "training_step", samples_count=0),
        line("block_stop", T0 + 108_419, "training_step", samples_count=512_000),
        line("block_start", T0 + 108_419, "validation_step", samples_count=0),
        line("block_stop", T0 + 108_420, "validation_step", samples_count=512_000),
        line("run_stop", T0 + 200_000, status="success"),
    ]
    assert facts(log, "stable_diffusion").step_throughput == pytest.approx(512_000 / 108.419)
    tracked = [*log[:-1], line("tracked_stats", T0 + 9, {"throughput": 7.0}, step_num=1), log[-1]]
    assert facts(tracked, "stable_diffusion").step_throughput == pytest.approx(7)


def test_stable_diffusion_of_v3_1_counts_steps() -> None:
    log = [
        line("global_batch_size", T0 - 1, 512),
        line("run_start", T0),
        *(
            evaluation(T0 + 9 + step, value, epoch_num=step // 1000, step_num=step, metric=metric)
            for step, fid, clip in ((4000, 90.87, 0.152), (5000, 78.6, 0.169))
            for metric, value in (("FID", fid), ("CLIP", clip))
        ),
        line("run_stop", T0 + 10_000, status="success"),
    ]
    assert facts(log, "stable_diffusion", ROUNDS["v3.1"]).samples_to_converge == 5000 * 512


@pytest.mark.parametrize(
    ("round", "benchmark", "reached", "units", "samples"),
    [
        ("v3.0", "resnet", 0.76, 35, 35 * 1_281_167),
        ("v3.0", "unet3d", 0.91, 1360, 1360 * 168),
        ("v3.1", "unet3d", 0.91, 420_000, 420_000),
        ("v3.0", "maskrcnn", {"BBOX": 0.38, "SEGM": 0.34}, 15, 15 * 117_266),
        ("v3.0", "gpt3", 2.68, 1_207_959_552, 589_824),
        ("v4.1", "dlrm_dcnv2", 0.803, 0.75, 0.75 * 4_195_197_692),
        ("v4.0", "gnn", 0.72, 0.85, 0.85 * 94_605_581),
        ("v5.1", "rgat", 0.72, 0.85, 0.85 * 94_605_581),
    ],
)
def test_a_benchmark_counts_in_its_own_unit(
    round: str, benchmark: str, reached: object, units: float, samples: float
) -> None:
    run_stop = line("run_stop", T0 + 6, status="success")
    log = [line("run_start", T0), evaluation(T0 + 5, reached, epoch_num=units), run_stop]
    assert facts(log, benchmark, ROUNDS[round]).samples_to_converge == pytest.approx(samples, rel=1e-12)


def test_unet3d_counts_an_epoch_as_whole_batches() -> None:
    # As ASUSTeK's of v3.0: 20 epochs of 168 in 27.875 s at a batch of 32, logged as 137.76 and not 120.54 a second.
    log = [
        line("global_batch_size", T0 - 1, 32),
        line("run_start", T0),
        line("tracked_stats", T0 + 5, {"throughput": 137.76, "loss_scale": 32768.0}, step=1340),
        line("run_stop", T0 + 6, status="success"),
    ]
    assert facts(log, "unet3d", ROUNDS["v3.0"]).step_throughput == pytest.approx(20 * 168 / 27.875, rel=1e-4)


def test_a_step_time_is_weighed_by_the_work_it_is_the_mean_of() -> None:
    # Llama 2 of v5.1: a first block of 1,536 samples at 1 s a step, one of 384 at 2 s.
    log = [
        line("global_batch_size", T0 - 1, 8),
        line("run_start", T0),
        line("tracked_stats", T0 + 1, {"train_step_time": 1.0}, samples_count=1536),
        line("tracked_stats", T0 + 2, {"train_step_time": 2.0}, samples_count=384),
        line("run_stop", T0 + 3, status="success"),
    ]
    seconds = (1536 * 1.0 + 384 * 2.0) / 8
    assert facts(log, "llama2_70b_lora", ROUNDS["v5.1"]).step_throughput == pytest.approx(1920 / seconds)


def test_rates_are_averaged_over_equal_work_not_over_readings() -> None:
    log = [
        text.replace(
            '"throughput": 30.0}, "metadata": {"file": "train.py", "lineno": 1, "step": 3072',
            '"throughput": 10.0}, "metadata": {"file": "train.py", "lineno": 1, "step": 3072',
        )
        for text in LLAMA
    ]
    assert facts(log, "llama2_70b_lora").step_throughput == pytest.approx(15)


def test_an_aborted_run_failed_and_keeps_its_time() -> None:
    found = facts(diffusion(T0 + 64_525, "aborted", {512_000: (403.2, 0.05)}), "stable_diffusion")
    assert (found.status, found.run_time_ms, found.samples_to_converge) == (Status.FAILED, 64_525, None)


def test_a_run_without_run_stop_failed() -> None:
    found = facts(LLAMA[:-1], "llama2_70b_lora")
    assert (found.status, found.run_time_ms, found.samples_to_converge) == (Status.FAILED, None, None)


def test_a_run_without_run_start_failed() -> None:
    found = facts([text for text in LLAMA if '"run_start"' not in text], "llama2_70b_lora")
    assert (found.status, found.run_time_ms, found.startup_s) == (Status.FAILED, None, None)


def run(*evaluations: Any, before: str = "", minutes: float = 2, **place: Any) -> list[str]:
    """A log of Llama 2 that ends in success after these evaluations."""
    place = place or {"samples_count": 3072}
    told = [evaluation(T0 + 5, value, **place) for value in evaluations]
    return [before, line("run_start", T0), *told, line("run_stop", T0 + int(minutes * 60_000), status="success")]


@pytest.mark.parametrize("value", [0.95, 0.0, "0.92", None, True, [0.92], {"loss": 0.92}, float("nan")])
def test_success_without_an_evaluation_that_meets_the_target_is_none(value: object) -> None:
    found = facts(run(value), "llama2_70b_lora")
    assert (found.status, found.samples_to_converge) == (Status.FAILED, None)
    assert facts(run(value, 0.92), "llama2_70b_lora").status == Status.OK
    assert facts(run(), "llama2_70b_lora").status == Status.FAILED


def test_a_log_of_another_benchmark_does_not_reach_this_ones_target() -> None:
    assert facts(LLAMA, "gpt3").status == Status.FAILED


def test_the_target_is_that_of_the_division_the_log_names_and_else_the_closed_one() -> None:
    def status(division: object, benchmark: str = "bert") -> Status:
        return facts(run(0.7, before=line("submission_division", T0, division)), benchmark).status

    assert status("open") == Status.OK  # bert's open division: below 1.0
    assert {status("closed"), status("ajar"), status(None)} == {Status.FAILED}
    assert facts(run(0.7), "bert").status == Status.FAILED
    late = [*run(0.7), line("submission_division", T0, "open"), line("submission_division", T0, "closed")]
    assert facts(late, "bert").status == Status.OK


@pytest.mark.parametrize("damage", [f"{MARK} {{cut\n", "x" * MAX_LINE_BYTES + "x\n"])
def test_the_evaluation_that_met_the_target_may_be_in_a_line_that_cannot_be_read(damage: str) -> None:
    def status(benchmark: str) -> Status:
        return from_bytes("".join([damage, *run(0.95)]).encode(), benchmark).status

    assert status("llama2_70b_lora") == Status.OK
    assert from_bytes("".join(["x\n", *run(0.95)]).encode(), "llama2_70b_lora").status == Status.FAILED


def test_stable_diffusion_reaches_its_target_with_both_metrics_of_one_checkpoint() -> None:
    def status(checkpoints: dict[int, tuple[float, float]]) -> Status:
        return facts(diffusion(T0 + 64_525, "success", checkpoints), "stable_diffusion").status

    assert status({512_000: (89.0, 0.1), 1_024_000: (91.0, 0.2)}) == Status.FAILED
    assert status({512_000: (89.0, 0.1), 1_024_000: (90.0, 0.15)}) == Status.OK


@pytest.mark.parametrize("minutes", [0, -1])
def test_a_run_that_took_no_time_failed(minutes: float) -> None:
    found = facts(run(0.92, minutes=minutes), "llama2_70b_lora")
    assert (found.status, found.run_time_ms, found.samples_to_converge) == (Status.FAILED, minutes * 60_000, None)


@pytest.mark.parametrize("samples", [0, -3072, None, "3072", float("nan")])
def test_no_samples_are_unknown_samples(samples: object) -> None:
    found = facts(run(0.92, samples_count=samples), "llama2_70b_lora")
    assert (found.status, found.samples_to_converge) == (Status.OK, None)


ODD_TIMES = ["NaN", "Infinity", "-Infinity", "1e30", "1e400", '"nan"', '"-inf"', str(2**63), "9" * 60]


@pytest.mark.parametrize("time", ODD_TIMES)
def test_a_time_that_is_no_time_of_day_is_a_readable_line_that_times_nothing(time: str) -> None:
    def odd(key: str) -> RunFacts:
        changed = [
            text.replace('"time_ms": ', f'"time_ms": {time}, "was": ') if key in text else text for text in LLAMA
        ]
        return facts(changed, "llama2_70b_lora")

    plain = facts(LLAMA, "llama2_70b_lora")
    for key in {json.loads(text.removeprefix(MARK))["key"] for text in LLAMA}:
        found = odd(f'"{key}"')
        assert (found.corrupted_lines, found.mllog_lines) == (0, 13), key
        if key in ("run_start", "run_stop"):
            assert (found.status, found.run_time_ms) == (Status.FAILED, None)
        else:
            same = (plain.status, plain.run_time_ms, plain.samples_to_converge)
            assert (found.status, found.run_time_ms, found.samples_to_converge) == same
        numbers = (found.first_ms, found.evaluation_s, found.startup_s, found.step_throughput)
        assert all(number is None or abs(number) < 2**63 for number in numbers), key


def test_of_what_stands_before_the_mark_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[set[str]] = []
    monkeypatch.setattr("breakeven.mlperf.logs._ranks", lambda prefixes: kept.append(prefixes) or 1)
    long = [f"{at}{'x' * 50_000}: {LLAMA[0]}" for at in range(50)]
    assert facts([*long, *(f"{rank}: {LLAMA[0]}" for rank in range(100_010))], "bert").prefixed_lines == 100_060
    assert len(kept[0]) == 100_000
    assert max(map(len, kept[0])) < 100


def test_an_empty_log_is_a_failed_run() -> None:
    found = from_bytes(b"", "bert")
    assert (found.status, found.first_ms, found.mllog_lines) == (Status.FAILED, None, 0)
    assert found.compliance.startswith("no lines; ")


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
    found, clean = facts(log, "llama2_70b_lora"), facts(LLAMA, "llama2_70b_lora")
    assert (found.status, found.run_start_ms, found.run_stop_ms) == (Status.OK, clean.run_start_ms, clean.run_stop_ms)
    assert (found.samples_to_converge, found.global_batch) == (clean.samples_to_converge, clean.global_batch)


KNOWN_KEYS = sorted(
    {"tracked_stats", "local_batch_size", *(key for round in ROUNDS.values() for key in round.log_keys)}
)
STATED = st.sampled_from([(round, folder) for round in ROUNDS.values() for folder in round.benchmarks])


@patient
@given(
    STATED,
    st.lists(
        st.builds(
            lambda key, time, value, metadata: (
                f"{MARK} {json.dumps({'key': key, 'time_ms': time, 'value': value, 'metadata': metadata})}"
            ),
            st.sampled_from(KNOWN_KEYS),
            st.integers(0, 10**13) | json_values,
            json_values | st.sampled_from(["closed", "open", "resnet", "sgd", "stable_diffusion", {"throughput": 1}]),
            st.dictionaries(
                st.sampled_from(["samples_count", "epoch_num", "step_num", "metric", "status", "epoch_count"]),
                json_values,
            )
            | json_values,
        )
    ),
)
def test_no_sequence_of_entries_crashes_the_parser(stated: tuple[Round, str], log: list[str]) -> None:
    round, folder = stated
    found = facts(log, folder, round)
    assert found.mllog_lines + found.corrupted_lines == len(log)
    if found.status == Status.OK:
        assert found.run_time_ms is not None
        assert found.run_time_ms > 0


@patient
@given(st.binary(max_size=2000), st.integers(0, 2000), st.integers(0, 2000))
def test_no_bytes_crash_the_parser(noise: bytes, cut: int, place: int) -> None:
    whole = "".join(LLAMA).encode()
    from_bytes(noise, "llama2_70b_lora")
    from_bytes(whole[:cut], "llama2_70b_lora")
    from_bytes(whole[:place] + noise + whole[place:], "llama2_70b_lora")


@patient
@given(st.permutations(diffusion(T0 + 104_539, "success", CHECKPOINTS)))
def test_the_order_of_lines_says_nothing_of_a_stable_diffusion_run(log: list[str]) -> None:
    found = facts(log, "stable_diffusion")
    assert (found.run_time_ms, found.samples_to_converge) == (104_539, 4_096_000)
