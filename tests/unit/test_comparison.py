"""Runs that differ in one setting alone: which they are, what they are held against, and by how much they differ."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from breakeven.config.comparison import Comparison, comparisons
from breakeven.config.machine import Machine
from breakeven.config.models import MeasuredStudy
from breakeven.config.sweep import Cell, cells
from breakeven.metrics.table import RUN_COLUMNS
from breakeven.scaling.comparison import comparison_table
from breakeven.schema.errors import UserError
from breakeven.schema.spec import DataSource, Spec, Workload, run_id

DIGITS = Workload(model="mobilenet_v2", data=DataSource(name="digits"), image_size=32)
CPU = Machine("cpu", "a CPU", 2, 1)


def spec(devices: int = 2, strategy: str = "ddp", **changes: object) -> Spec:
    settings: dict[str, object] = {"workload": DIGITS, "global_batch": 32} | changes
    return Spec(
        strategy=strategy, device_kind="cpu", device_model="a CPU", devices=devices, devices_per_node=2, **settings
    )  # type: ignore[arg-type]


def study(**defaults: object) -> MeasuredStudy:
    workload = {"model": "mobilenet_v2", "image_size": 32}
    return MeasuredStudy.model_validate(
        {"source": "measured", "title": "t", "workload": workload, "defaults": defaults, "sweeps": {"s": {"cases": []}}}
    )


def cell(one: Spec, sweep: str = "s") -> Cell:
    return Cell(run_id=run_id(one), spec=one, series=f"series of {run_id(one)}", scaling="strong", sweep=sweep)


def compared(specs: Sequence[Spec], **defaults: object) -> list[Comparison]:
    return comparisons(study(**defaults), CPU, [cell(one) for one in specs])


def values(comparison: Comparison) -> list[str]:
    return [one.value for one in comparison.cells]


def runs(*sides: tuple[Spec, Sequence[float]], **changes: object) -> pd.DataFrame:
    """Ten steps in each window; ``sides``: seconds of the window of each repeat."""
    rows = [
        {
            "study": "s", "run_id": run_id(one), "repeat": repeat, "status": "ok", "window_s": seconds,
            "window_s_se": 0.01 * seconds, "window_work": 10 * one.global_batch, "window_steps": 10,
            "unit": "samples/s", "peak_rss_gib": 0.5, "error": "", "faults": "",
        }
        | changes
        for one, times in sides
        for repeat, seconds in enumerate(times, 1)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


def table(specs: Sequence[Spec], of_runs: pd.DataFrame, **defaults: object) -> pd.DataFrame:
    plan = {
        "study": "s", "workloads": ["M"], "cells": [dataclasses.asdict(cell(one)) for one in specs],
        "comparisons": [one.to_dict() for one in compared(specs, **defaults)],
    }  # fmt: skip
    return comparison_table(plan, of_runs).set_index("value")


def test_half_the_time_for_the_same_work_is_a_speed_up_of_two() -> None:
    fp32, bf16 = spec(), spec(precision="bf16")
    found = table([fp32, bf16], runs((fp32, [2.0, 2.0, 2.0]), (bf16, [1.0, 1.0, 1.0])))
    assert found["speedup"].tolist() == [1.0, 2.0]
    assert found["step_time_ms"].tolist() == pytest.approx([200.0, 100.0])
    assert found["throughput"].tolist() == pytest.approx([160.0, 320.0])
    assert found["baseline"].tolist() == ["fp32", "fp32"]
    assert found["setting"].tolist() == ["precision", "precision"]


def test_both_sides_of_a_speed_up_are_resampled_and_the_baseline_is_one_against_itself() -> None:
    fp32, bf16 = spec(), spec(precision="bf16")
    found = table([fp32, bf16], runs((fp32, [1.9, 2.0, 2.1]), (bf16, [1.0, 1.0, 1.0])))
    assert found.loc["fp32", ["speedup_low", "speedup", "speedup_high"]].tolist() == [1.0, 1.0, 1.0]
    low, high = found.loc["bf16", ["speedup_low", "speedup_high"]]
    # the spread of the baseline alone is 5 %: of the mean of three drawn ones 2.4 %, twice that to either side
    assert 1.87 < low < 1.93
    assert 2.07 < high < 2.13


def test_different_work_per_step_is_compared_by_work_per_second() -> None:
    small, large = spec(), spec(global_batch=64)
    found = table([small, large], runs((small, [1.0]), (large, [1.6])))
    assert found["speedup"].tolist() == pytest.approx([1.0, 1.25])
    assert found["step_time_ms"].tolist() == pytest.approx([100.0, 160.0])


def test_a_run_that_cannot_be_keeps_its_row_with_the_reason() -> None:
    fp32, tf32 = spec(), spec(precision="tf32")
    both = pd.concat([runs((fp32, [1.0])), runs((tf32, [np.nan]), status="unsupported", error="a CPU has none")])
    found = table([fp32, tf32], both).loc["tf32"]
    assert (found["status"], found["note"], found["baseline"]) == ("unsupported", "a CPU has none", "fp32")
    assert pd.isna(found["speedup"])


def test_out_of_memory_is_told_with_the_last_memory_known() -> None:
    small, large = spec(), spec(global_batch=64)
    both = pd.concat([runs((small, [1.0])), runs((large, [np.nan]), status="oom", error="no memory", peak_rss_gib=9.5)])
    found = table([small, large], both).loc["64"]
    assert (found["status"], found["peak_memory_gib"], found["memory_of"]) == ("oom", 9.5, "host")


def test_a_repeat_that_failed_leaves_the_number_to_the_others_and_is_counted() -> None:
    fp32, bf16 = spec(), spec(precision="bf16")
    mixed = runs((fp32, [2.0, 2.0]), (bf16, [1.0, 1.0]))
    mixed.loc[3, ["status", "error", "window_s"]] = ["timeout", "too long", np.nan]
    found = table([fp32, bf16], mixed).loc["bf16"]
    assert (found["speedup"], found["status"], found["repeats"], found["runs_not_ok"]) == (2.0, "ok", 1, 1)
    assert found["note"] == "1 of 2 runs: timeout (too long)"


def test_without_a_time_of_the_baseline_there_is_a_time_and_no_speed_up() -> None:
    fp32, bf16 = spec(), spec(precision="bf16")
    found = table([fp32, bf16], runs((bf16, [1.0])))
    assert found["status"].tolist() == ["not_measured", "ok"]
    assert found.loc["bf16", "step_time_ms"] == pytest.approx(100.0)
    assert pd.isna(found.loc["bf16", "speedup"])
    assert found.loc["bf16", "note"] == "fp32, to compare with, has no time"


def test_the_synthetic_twin_tells_the_share_of_the_time_that_is_due_to_data() -> None:
    real, twin = spec(), spec(synthetic=True)
    found = table([real, twin], runs((real, [1.0, 1.0]), (twin, [0.75, 0.75])))
    assert found.loc["true", "data_bound_share"] == pytest.approx(0.25)
    low, high = found.loc["true", ["data_bound_share_low", "data_bound_share_high"]]
    assert 0.22 < low < 0.25 < high < 0.28
    assert pd.isna(found.loc["false", "data_bound_share"])


def test_the_baseline_is_the_studys_default_else_the_programs_else_the_first_listed() -> None:
    three = [spec(precision=p) for p in ("bf16", "fp16", "fp32")]
    assert [one.baseline for one in compared(three)] == ["fp32"]
    assert [one.baseline for one in compared(three, precision="fp16")] == ["fp16"]
    assert [one.baseline for one in compared(three[:2])] == ["bf16"]
    (found,) = compared(three)
    assert values(found) == ["fp32", "bf16", "fp16"]


def test_runs_that_differ_in_two_settings_are_no_comparison() -> None:
    assert compared([spec(), spec(precision="bf16", compile=True)]) == []
    assert compared([spec(), spec(1)]) == []


def test_what_else_is_held_equal_is_named_where_there_are_several() -> None:
    large = dataclasses.replace(DIGITS, image_size=64)
    found = compared(
        [spec(n, precision=p, workload=w) for w in (DIGITS, large) for n in (1, 2) for p in ("fp32", "bf16")]
    )
    precision = [(one.devices, one.held, one.headline) for one in found if one.setting == "precision"]
    assert precision == [
        (1, "", True), (2, "", True), (1, "image_size 64", False), (2, "image_size 64", False),
    ]  # fmt: skip
    assert {one.setting for one in found} == {"precision", "image_size"}


def test_strategies_are_compared_with_their_own_defaults_and_options_within_a_strategy() -> None:
    found = compared([
        spec(strategy="fsdp"), spec(strategy="ddp"), spec(strategy="ddp", strategy_options={"hook": "fp16"}),
    ])  # fmt: skip
    strategy, options = sorted(found, key=lambda one: one.setting)
    assert (values(strategy), strategy.baseline) == (["ddp", "fsdp"], "ddp")
    assert (values(options), options.baseline) == (["default", "hook fp16"], "default")


def test_a_synthetic_run_is_the_twin_of_every_way_to_load_real_batches() -> None:
    found = compared([spec(), spec(workers=2, pin_memory=True), spec(synthetic=True)])
    twins = [(one.held, one.headline, values(one)) for one in found if one.setting == "synthetic"]
    assert twins == [("", True, ["false", "true"]), ("workers 2, pin_memory on", False, ["false", "true"])]


def test_a_run_of_two_series_is_compared_once() -> None:
    fp32, bf16 = spec(), spec(precision="bf16")
    twice = [cell(fp32), cell(bf16), dataclasses.replace(cell(fp32), series="weak", scaling="weak")]
    (found,) = comparisons(study(), CPU, twice)
    assert values(found) == ["fp32", "bf16"]


def test_runs_without_times_are_not_compared() -> None:
    assert compared([spec(), spec(precision="bf16", timed=False)]) == []


def swept(row: dict[str, object]) -> list[Spec]:
    row = {"strategy": "single", "devices": 1, "global_batch": 32, "epochs": 2} | row
    workload = {"model": "mobilenet_v2", "image_size": 32}
    raw = {"source": "measured", "title": "t", "workload": workload, "sweeps": {"s": {"cases": [row]}}}
    return [cell.spec for cell in cells(MeasuredStudy.model_validate(raw), CPU, "mine.yaml")]


def test_a_row_may_name_another_data_set_whose_epochs_are_its_own() -> None:
    (digits,), (large,) = swept({}), swept({"data": "digits-large"})
    assert (digits.workload.data.name, digits.updates) == ("digits", 2 * 47)  # 1500 samples
    assert (large.workload.data.name, large.updates) == ("digits-large", 2 * 20)  # 640 samples
    with pytest.raises(UserError, match=r"sweep 's', case 1: data 'digit' is unknown. Did you mean 'digits'"):
        swept({"data": "digit"})
    with pytest.raises(UserError, match="data 'chat-en' is for causal-lm, the workload for image-classification"):
        swept({"data": "chat-en"})
