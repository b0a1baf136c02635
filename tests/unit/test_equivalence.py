"""Which runs hold every strategy to one device, and what is said of their records."""

import dataclasses
import functools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from breakeven.head.equivalence import planned
from breakeven.metrics.equivalence import COLUMNS, judge, summary, table, violations
from breakeven.records.load import Run
from breakeven.schema.checks import CONTROLS, LEARNING_RATES, WORKLOADS, Row, reference_of, rows
from breakeven.schema.record import IdleCheck, Record, RunError, StateBytes
from breakeven.schema.spec import Spec, run_id
from breakeven.schema.status import Status
from breakeven.schema.strategies import known_strategies, strategy_meta

LOSSES = [6.23, 6.16, 6.17, 6.15, 6.07, 6.01]
HELD = StateBytes(parameters=[400, 400], gradients=[400, 400], optimizer=[400, 400])


@functools.cache
def on_two_cores() -> list[Row]:
    return rows("cpu", "a CPU", 2)


def row(strategy: str = "ddp", **settings: object) -> Row:
    """The strategy's plain check on two devices, or that with these settings."""
    return next(
        row
        for row in on_two_cores()
        if row.spec.strategy == strategy
        and row.spec.devices == 2
        and row.check.settings == settings
        and not row.check.options
    )


def run(spec: Spec, **changes: object) -> Run:
    """A run with the losses of one device, and the bytes that its strategy must hold."""
    losses = changes.pop("loss", LOSSES)
    steps = {"loss": np.array(losses), "samples": np.full(len(losses), 16.0), "tokens": np.full(len(losses), 300.0)}
    usual = {
        "run_id": run_id(spec),
        "repeat": 1,
        "status": Status.OK,
        "spec": spec,
        "started_at": "2026-01-01T00:00:00Z",
        "elapsed_s": 5.0,
        "rank_start_s": 4.0,
        "epoch_samples": 1500,
        "epoch_tokens": None,
        "peak_rss_gib": [],
        "peak_allocated_gib": [],
        "peak_reserved_gib": [],
        "parameters": 100,
        "trainable_parameters": 100,
        "state_bytes": HELD,
        "expected_state_bytes": HELD,
        "environment": None,
        "idle_check": IdleCheck(busy_cores=0.0, load_average_1min=0.0, device_processes=None, idle=True),
        "lock_wait_s": 0.0,
        "attempts": 1,
    }
    return Run(Record(**{**usual, **changes}), steps, Path("record.json"))


def judged(one: Row, **changes: object):
    runs = [run(one.reference), run(one.spec, **changes)]
    if one.band:
        runs.append(run(one.band, loss=[loss + 1e-4 for loss in LOSSES]))
    return judge(planned(one), {found.record.run_id: found for found in runs})


def lines(*judgements: tuple[Row, Run], tmp_path: Path) -> list[str]:
    """What the target says of rows with these runs."""
    runs = {found.record.run_id: found for one, mine in judgements for found in (run(one.reference), mine)}
    path = tmp_path / "table.csv"
    table([planned(one) for one, _ in judgements], runs).to_csv(path, index=False)
    answer = subprocess.run(
        [sys.executable, "-m", "breakeven.metrics.equivalence", "judge", str(path)], capture_output=True, text=True
    )
    assert answer.returncode == (1 if "violate" in answer.stderr else 0)
    return answer.stderr.splitlines()


class TestPlanned:
    def test_every_check_of_every_strategy_is_a_row_on_each_of_its_workloads(self) -> None:
        found = {(one.spec.strategy, one.check, one.workload) for one in map(_frozen, on_two_cores())}
        asked = {
            (name, workload)
            for name in known_strategies()
            for check in strategy_meta(name).checks
            if not check.product
            for workload in check.workloads
        }
        assert asked <= {(strategy, workload) for strategy, _, workload in found}
        assert {one.spec.control for one in on_two_cores()} == {"", "no_sync", "no_update"}
        assert set(LEARNING_RATES) == set(WORKLOADS)

    def test_no_two_rows_are_the_same_run(self) -> None:
        runs = [run_id(one.spec) for one in on_two_cores()]
        assert len(set(runs)) == len(runs)

    def test_a_reference_is_one_device_with_the_same_samples_and_nothing_else_of_the_run(self) -> None:
        for one in on_two_cores():
            single = one.reference
            assert (single.strategy, single.devices, single.gradient_accumulation) == ("single", 1, 1)
            for name in ("workload", "updates", "seed", "optimizer", "learning_rate"):
                assert getattr(single, name) == getattr(one.spec, name)
            assert not single.control
            assert reference_of(single) == dataclasses.replace(single, precision="fp32")

    def test_rows_of_the_same_work_share_one_reference(self) -> None:
        plain = [one for one in on_two_cores() if not one.check.settings and one.workload == "llama"]
        assert len({run_id(one.reference) for one in plain}) == 1

    def test_where_all_ranks_read_the_same_one_device_reads_one_ranks_samples(self) -> None:
        spec = dataclasses.replace(row().spec, sampling="replicated")
        assert reference_of(spec).global_batch == spec.global_batch // 2
        assert reference_of(spec).sampling == "distributed"

    def test_cores_may_be_fewer_than_ranks_but_then_nothing_is_timed(self) -> None:
        found = rows("cpu", "a CPU", 1)
        assert not any(one.not_run for one in found)
        assert {one.spec.timed for one in found if one.spec.devices > 1} == {False}
        assert all(one.spec.nodes == 1 for one in found)

    def test_what_needs_more_gpus_than_there_are_is_a_row_that_was_not_run(self) -> None:
        found = rows("cuda", "a GPU", 1)
        assert len(found) == len(on_two_cores())
        many = [one for one in found if one.spec.devices > 1]
        assert {one.not_run for one in many if one.spec.devices == 2} == {"needs 2 devices, here is 1"}
        assert not any(one.specs for one in many)
        assert judge(planned(many[0]), {}).verdict == "not_run"
        assert all(one.specs for one in found if one.spec.devices == 1)


def _frozen(one: Row) -> Row:
    """With a check that can be in a set."""
    return dataclasses.replace(one, check=repr(one.check))  # type: ignore[arg-type]


class TestJudged:
    def test_equal_losses_and_the_formulas_bytes_pass(self) -> None:
        found = judged(row())
        assert (found.verdict, found.difference, found.bytes, found.updates) == ("pass", 0.0, "ok", 6)

    def test_a_loss_off_by_2e_5_fails_and_says_by_how_much(self, tmp_path: Path) -> None:
        one = row()
        off = run(one.spec, loss=[*LOSSES[:-1], LOSSES[-1] + 2e-5])
        first, second, last = lines((one, off), tmp_path=tmp_path)
        assert first.startswith("0 of 1 checks pass: ")
        assert second.endswith("table.csv: 1 of 1 rows violate.")
        assert last == (
            f"  ddp ({one.workload}, 2 devices): losses differ by 2.0e-05, more than 1.0e-05 [{run_id(one.spec)}]"
        )

    def test_a_shard_that_is_whole_fails_though_its_losses_are_right(self, tmp_path: Path) -> None:
        one = row("fsdp")
        whole = run(one.spec, state_bytes=dataclasses.replace(HELD, optimizer=[400, 800]))
        assert judged(one, state_bytes=whole.record.state_bytes).bytes == "mismatch"
        assert lines((one, whole), tmp_path=tmp_path)[-1] == (
            f"  fsdp ({one.workload}, 2 devices): optimizer: rank 1 holds 800 bytes, its formula says 400 "
            f"[{run_id(one.spec)}]"
        )

    def test_bytes_of_fewer_ranks_than_there_are_fail(self) -> None:
        assert judged(row(), expected_state_bytes=StateBytes()).bytes == "mismatch"

    @pytest.mark.parametrize(("difference", "verdict"), [(9e-4, "fail"), (2e-3, "pass")])
    def test_a_run_that_is_wrong_on_purpose_must_differ(self, difference: float, verdict: str, tmp_path: Path) -> None:
        one = row(control="no_sync")
        found = judged(one, loss=[loss + difference for loss in LOSSES])
        assert (found.verdict, found.bytes) == (verdict, "")
        if verdict == "fail":
            mine = run(one.spec, loss=[loss + difference for loss in LOSSES])
            assert lines((one, mine), tmp_path=tmp_path)[-1] == (
                f"  ddp ({one.workload}, 2 devices, control=no_sync): wrong on purpose, yet losses differ by 9.0e-04 "
                f"alone, not 1e-03 [{run_id(one.spec)}]"
            )

    def test_adamw_may_differ_four_times_as_far_as_summing_in_parts_does(self) -> None:
        plain = row()
        one = dataclasses.replace(
            plain,
            spec=dataclasses.replace(plain.spec, optimizer="adamw"),
            reference=dataclasses.replace(plain.reference, optimizer="adamw"),
            band=dataclasses.replace(plain.reference, optimizer="adamw", gradient_accumulation=4),
        )
        for difference, verdict in ((3.9e-4, "pass"), (4.1e-4, "fail")):
            found = judged(one, loss=[loss + difference for loss in LOSSES])
            assert (found.verdict, found.tolerance) == (verdict, pytest.approx(4e-4))

    def test_other_samples_than_one_device_reads_fail_whatever_the_losses(self) -> None:
        one = row()
        mine = run(one.spec)
        mine.steps["samples"][3] = 8
        found = judge(planned(one), {run_id(one.spec): mine, run_id(one.reference): run(one.reference)})
        assert found.verdict == "fail"
        assert found.note.startswith("other samples than one device's")

    @pytest.mark.parametrize(
        ("changes", "note"),
        [
            ({"status": Status.OOM, "error": RunError(rank=1, message="MemoryError", log="")}, "oom: MemoryError"),
            ({"faults": {"no_sync": True}}, "a fault was injected (BREAKEVEN_FAULT)"),
            ({"loss": []}, "0 losses against 6"),
        ],
    )
    def test_a_run_that_did_not_end_well_fails_with_the_reason(self, changes: dict[str, object], note: str) -> None:
        found = judged(row(), **changes)
        assert (found.verdict, found.note) == ("fail", note)

    def test_a_loss_that_is_no_number_fails(self) -> None:
        assert judged(row(), loss=[*LOSSES[:-1], math.nan]).verdict == "fail"

    def test_what_a_device_cannot_do_is_no_failure(self) -> None:
        error = RunError(rank=None, message="dp runs on cuda alone, not on cpu", log="")
        found = judged(row(), status=Status.UNSUPPORTED, error=error, loss=[])
        assert (found.verdict, found.note) == ("unsupported", error.message)

    def test_the_summary_counts_every_verdict(self) -> None:
        found = table([planned(one) for one in rows("cuda", "a GPU", 0)], {})
        assert list(found.columns) == COLUMNS
        assert summary(found) == f"0 of 0 checks pass ({len(found)} not run)"
        assert violations(found) == []


def test_wrong_runs_are_shown_on_an_image_and_on_a_language_model() -> None:
    text = {control: {WORKLOADS[name].sequence_length is not None for one, name in CONTROLS if one == control}
            for control, _ in CONTROLS}  # fmt: skip
    assert text == {"no_sync": {True, False}, "no_update": {True, False}}
