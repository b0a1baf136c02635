"""Run facts to points: what each run tells of its time, steps, evaluations, energy; which sets are left out."""

import dataclasses
import json
import math
from pathlib import Path

import pandas as pd
import pytest

from breakeven.mlperf.table import RunRow, facts_csv, read_facts
from breakeven.points.mlperf import main, mlperf_points, nothing_of
from breakeven.points.table import read_points
from breakeven.scaling.efficiency import efficiency_table
from breakeven.schema.errors import UserError
from breakeven.schema.point import POINT_COLUMNS
from breakeven.schema.status import Status

LLAMA = {"llama2_70b_lora": "Llama 2"}


def result_set(submitter: str = "A", devices: int = 8, **fields: object) -> list[RunRow]:
    """Ten runs of 28 minutes and 3072 samples, one result set of v4.1; ``fields`` replace columns in every run."""
    common: dict = {
        "round": "v4.1", "benchmark": "llama2_70b_lora", "workload": "llama2_70b_lora", "submitter": submitter,
        "system": f"{submitter}_{devices}", "system_name": "", "accelerator": "H100", "accelerator_family": "H100-SXM",
        "nodes": -(-devices // 8), "accelerators_per_node": 8, "devices": devices, "division": "closed",
        "system_status": "Available on-premise", "global_batch": 8, "status": Status.OK, "run_time_min": 28.0,
        "samples_to_converge": 3072.0, "scaling_factor": 1.0, "duplicate_of": "", "log_month": "2024-09",
        "result_id": "", "repository": "", "commit": "",
    } | fields  # fmt: skip
    runs = common.pop("runs", 10)
    return [RunRow(**common, run=run, source=f"{submitter}/{devices}/result_{run}.txt") for run in range(runs)]


def facts(tmp_path: Path, *sets: list[RunRow]) -> pd.DataFrame:
    path = tmp_path / "runs.csv"
    path.write_text(facts_csv(row for rows in sets for row in rows))
    return read_facts(path)


def test_a_run_tells_its_steps_its_evaluations_its_energy_and_the_reference(tmp_path: Path) -> None:
    told = result_set(
        step_throughput=2.0, evaluation_min=2.5, startup_min=0.3, evaluation_every_samples=384.0, energy_kj=7000.0
    )
    points = mlperf_points(facts(tmp_path, told), "s", LLAMA, price_per_device_hour=2.5)
    assert list(points.columns) == POINT_COLUMNS
    row = points.iloc[0]
    assert (row["time_s"], row["samples"], row["step_rate"], row["step_rate_note"]) == (1680.0, 3072.0, 2.0, "")
    assert row["training_share"] == pytest.approx(0.9)
    assert row["time_quantum_s"] == pytest.approx(210.0)  # an eighth of the run
    # the mean of the reference's runs at this batch, of MLCommons' table
    assert row["reference_samples"] == pytest.approx(3178.667, abs=1e-3)
    assert (row["energy_kj"], row["price_per_device_hour"], row["runs_dropped"]) == (7000.0, 2.5, 1)
    size = efficiency_table(points).iloc[0]
    assert size["cost"] == pytest.approx(8 * 28 / 60 * 2.5)
    assert size["time_reference_s"] == pytest.approx(1680.0 * 3178.667 / 3072, rel=1e-6)


def test_what_a_log_does_not_tell_is_unknown_never_zero(tmp_path: Path) -> None:
    silent = facts(tmp_path, result_set(step_throughput_note="no throughput in the log"), result_set(devices=64))
    points = mlperf_points(silent, "s", LLAMA)
    unknown = ["step_rate", "training_share", "time_quantum_s", "energy_kj", "price_per_device_hour"]
    assert points[unknown].isna().all(axis=None)
    row = efficiency_table(points).iloc[1]
    assert row["decomposition_note"] == (
        "A: A_64, 64 x H100-SXM: no step rate in the logs and evaluation and start-up not in the logs; "
        "A: A_8, 8 x H100-SXM: no step rate (no throughput in the log) and evaluation and start-up not in the logs"
    )


def test_untimed_evaluation_leaves_the_clock_to_training_and_one_longer_than_the_run_leaves_no_share(
    tmp_path: Path,
) -> None:
    untimed = facts(tmp_path, result_set(evaluation_min=0.0, startup_min=0.0))
    assert set(mlperf_points(untimed, "s", LLAMA)["training_share"]) == {1.0}
    longer = facts(tmp_path, result_set(evaluation_min=30.0, startup_min=0.0, step_throughput=2.0))
    row = efficiency_table(mlperf_points(longer, "s", LLAMA)).iloc[0]
    assert math.isnan(row["efficiency_overhead"])
    assert row["efficiency_step"] == 1.0
    assert row["decomposition_note"] == "A: A_8, 8 x H100-SXM: evaluation and start-up longer than the run"


def test_the_time_to_an_abort_is_no_time_to_the_target(tmp_path: Path) -> None:
    rows = result_set(step_throughput=2.0, evaluation_min=1.0, startup_min=0.0, evaluation_every_samples=384.0)
    rows[3] = dataclasses.replace(rows[3], status=Status.FAILED, samples_to_converge=None)
    failed = mlperf_points(facts(tmp_path, rows), "s", LLAMA).iloc[3]
    assert failed["status"] == "failed"
    assert failed[["time_s", "samples", "step_rate", "training_share", "time_quantum_s"]].isna().all()


def test_a_benchmark_goes_by_the_name_of_any_round(tmp_path: Path) -> None:
    ssd = facts(tmp_path, result_set(benchmark="ssd", workload="retinanet", global_batch=256, runs=5))
    for name in ("ssd", "retinanet"):
        assert set(mlperf_points(ssd, "s", {name: "RetinaNet"})["workload"]) == {"RetinaNet"}


def test_four_runs_at_either_end_do_not_count_in_3d_unet(tmp_path: Path) -> None:
    rows = result_set(round="v3.1", benchmark="unet3d", workload="unet3d", global_batch=32, runs=40)
    minutes = [1.0] * 4 + [30.0] * 32 + [900.0] * 4
    rows = [dataclasses.replace(row, run_time_min=t) for row, t in zip(rows, minutes, strict=True)]
    row = efficiency_table(mlperf_points(facts(tmp_path, rows), "s", {"unet3d": "3D U-Net"})).iloc[0]
    assert row["time_s"] == pytest.approx(1800.0)
    assert (row["time_s_low"], row["repeats"]) == (pytest.approx(1800.0, rel=0.2), 40)


def test_left_out_are_repeated_sets_short_sets_and_the_open_division(tmp_path: Path) -> None:
    table = facts(
        tmp_path,
        result_set("A", 8),
        result_set("A", 64, run_time_min=5.0),
        result_set("B", 8, duplicate_of="A/A_8", run_time_min=1.0),
        result_set("C", 8, runs=9, run_time_min=1.0),
        result_set("D", 8, division="open", run_time_min=1.0),
        result_set("F", 8, division="", run_time_min=1.0),
        result_set("E", 8, accelerator_family="H200-SXM", run_time_min=1.0),
    )
    points = mlperf_points(table, "s", LLAMA)
    assert set(points["label"]) == {"A: A_8", "A: A_64"}
    assert set(points["series"]) == {"Llama 2, A H100-SXM"}


def test_a_workload_that_is_not_there_has_no_points_and_a_reason(tmp_path: Path) -> None:
    table = facts(tmp_path, result_set("A"), result_set("B"))
    assert list(mlperf_points(table, "s", {"minigo": "Go"} | LLAMA)["workload"].unique()) == ["Llama 2"]
    assert nothing_of("minigo", "H100-SXM", table) == (
        "Workload 'minigo' is not among the MLPerf results. Benchmarks there: llama2_70b_lora."
    )
    assert mlperf_points(table, "s", LLAMA, family="TPU-v5p").empty
    assert nothing_of("llama2_70b_lora", "TPU-v5p", table) == (
        "No scored submission of llama2_70b_lora on 'TPU-v5p'. Accelerator families with llama2_70b_lora: H100-SXM."
    )


def test_a_submitter_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    table = facts(tmp_path, result_set("A"), result_set("B"))
    with pytest.raises(UserError, match=r"No scored submission of Llama 2 on H100-SXM by 'C'.*: A, B"):
        mlperf_points(table, "s", LLAMA, submitter="C")


@pytest.mark.parametrize(
    ("settings", "headline"),
    [
        ({}, "A"),  # a plan of an earlier version
        ({"submitter": "auto", "price_per_device_hour": None}, "A"),
        ({"submitter": "B", "price_per_device_hour": 3.0}, "B"),
    ],
)
def test_the_command_writes_points_that_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict, headline: str
) -> None:
    table = facts(tmp_path, *(result_set(who, n) for who, n in (("A", 8), ("A", 64), ("B", 8), ("B", 16))))
    plan, out = tmp_path / "plan.json", tmp_path / "tables" / "points.csv"
    settings = {"round": "v4.1", "family": "H100-SXM", "workloads": LLAMA} | settings
    plan.write_text(json.dumps({"study": "s", "settings": settings}))
    arguments = ["points", "--plan", str(plan), "--facts", str(tmp_path / "runs.csv"), "--output", str(out)]
    monkeypatch.setattr("sys.argv", arguments)
    main()
    again = read_points(out)
    assert set(again.loc[again["headline"], "series"]) == {f"Llama 2, {headline} H100-SXM"}
    price = settings.get("price_per_device_hour")
    expected = mlperf_points(
        table, "s", LLAMA, submitter=settings.get("submitter", "auto"), price_per_device_hour=price
    )
    pd.testing.assert_frame_equal(again[POINT_COLUMNS], expected, check_dtype=False)
