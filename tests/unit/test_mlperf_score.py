"""Official scores of MLPerf Training v4.1 from the committed run facts, and the rules where a set has none."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from breakeven.mlperf.benchmarks import BENCHMARKS, SSD_EPOCH_SAMPLES
from breakeven.mlperf.score import submissions
from breakeven.mlperf.table import read_facts
from breakeven.points.mlperf import main, mlperf_points
from breakeven.points.table import read_points
from breakeven.schema.errors import UserError
from breakeven.schema.point import POINT_COLUMNS

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "workflow" / "breakeven" / "mlperf" / "facts" / "v4.1_runs.csv"
REFERENCE = ROOT.parent / "shared" / "data" / "mlperf" / "v4.1_reference.csv"


@pytest.fixture(scope="module")
def facts() -> pd.DataFrame:
    return read_facts(FACTS)


@pytest.fixture(scope="module")
def scores(facts: pd.DataFrame) -> pd.DataFrame:
    return submissions(facts)


def one(scores: pd.DataFrame, submitter: str, system: str, benchmark: str) -> pd.Series:
    found = scores[
        (scores["submitter"] == submitter) & (scores["system"] == system) & (scores["benchmark"] == benchmark)
    ]
    assert len(found) == 1
    return found.iloc[0]


def runs_of(facts: pd.DataFrame, system: str, benchmark: str) -> pd.DataFrame:
    return facts[(facts["system"] == system) & (facts["benchmark"] == benchmark)].copy()


def test_nvidia_llama2_lora_on_64_h100_scores_4_573_minutes(scores: pd.DataFrame) -> None:
    row = one(scores, "NVIDIA", "eos_n8_ngc24.09_nemo", "llama2_70b_lora")
    assert row["time_to_train_min"] == pytest.approx(4.573, abs=5e-4)
    assert (row["devices"], row["global_batch"], row["samples_to_converge"]) == (64, 8, 3216)


@pytest.mark.parametrize(
    ("submitter", "system", "benchmark", "minutes"),
    [
        # quoted by the press from mlcommons.org
        ("NVIDIA", "b200_preview_nemo", "llama2_70b_lora", 12.958),
        # the official tool, mlperf-logging 4.1.68
        ("tinycorp", "tinybox_green", "bert", 360.516498),
        ("GigaComputing", "G593-ZD1_pytorch", "llama2_70b_lora", 24.194392),
        ("NVIDIA", "eos_ngc24.09_pytorch", "ssd", 35.700022),
        ("Google", "cloud-tpu-v5p-128-maxdiffusion", "stable_diffusion", 9.641992),
        ("NVIDIA", "eos_n64_ngc24.09_nemo", "stable_diffusion", 1.705703),
        # logs with a corrupted line, counted as runs; the official tool gives 23.3334, 14.2819 and 8.2230
        ("Lambda", "lambda_1cc_n2_H100-SXM-80GB_ngc24.04_nemo", "stable_diffusion", 22.8022),
        ("Lambda", "lambda_1cc_n4_H100-SXM-80GB_ngc24.04_nemo", "stable_diffusion", 14.2217),
        ("Lambda", "lambda_1cc_n4_H100-SXM-80GB_ngc24.04_nemo", "llama2_70b_lora", 8.2171),
    ],
)
def test_scores_published_or_by_the_official_tool(
    scores: pd.DataFrame, submitter: str, system: str, benchmark: str, minutes: float
) -> None:
    digits = len(str(minutes).split(".")[1])
    assert round(one(scores, submitter, system, benchmark)["time_to_train_min"], digits) == minutes


def test_the_scaling_factor_lengthens_a_score(scores: pd.DataFrame) -> None:
    row = one(scores, "Google", "cloud-tpu-v5p-128-maxdiffusion", "stable_diffusion")
    assert row["time_to_train_min"] / row["time_raw_min"] == pytest.approx(1.0562770562770563, rel=1e-12)


def test_one_failed_run_counts_as_the_slowest(facts: pd.DataFrame, scores: pd.DataFrame) -> None:
    row = one(scores, "NVIDIA", "eos_n8_ngc23.04_pytorch", "bert")
    assert (row["runs"], row["runs_converged"], row["note"]) == (10, 9, "")
    times = runs_of(facts, "eos_n8_ngc23.04_pytorch", "bert").query("status == 'ok'")["run_time_min"].sort_values()
    assert row["time_raw_min"] == pytest.approx(times.iloc[1:].mean(), rel=1e-12)


def test_absent_logs_are_kept_without_a_score(scores: pd.DataFrame) -> None:
    row = one(scores, "Clemson", "7x8xH100-SXM5-80GB", "llama2_70b_lora")
    assert row["note"] == "no logs in the archive (10 runs required)"
    assert (row["runs"], row["devices"]) == (0, 56)
    assert row[["time_to_train_min", "time_raw_min", "samples_to_converge"]].isna().all()


def test_every_other_set_has_a_score(scores: pd.DataFrame) -> None:
    assert len(scores) == 110
    assert scores["time_to_train_min"].notna().sum() == 109
    assert ((scores["note"] == "") == scores["time_to_train_min"].notna()).all()


def test_two_failed_runs_leave_no_score(facts: pd.DataFrame) -> None:
    runs = runs_of(facts, "eos_n8_ngc24.09_nemo", "llama2_70b_lora")
    runs.iloc[[2, 5], runs.columns.get_loc("status")] = "failed"
    (row,) = submissions(runs).to_dict("records")
    assert row["note"] == "2 of 10 runs did not reach the target; at most one may fail"
    assert np.isnan(row["time_to_train_min"])


@pytest.mark.parametrize(("benchmark", "required"), [("bert", 10), ("llama2_70b_lora", 10), ("ssd", 5)])
def test_a_run_too_few_leaves_no_score(facts: pd.DataFrame, benchmark: str, required: int) -> None:
    assert BENCHMARKS[benchmark].required_runs == required
    first = facts[facts["benchmark"] == benchmark]["system"].iloc[0]
    (row,) = submissions(runs_of(facts, first, benchmark).iloc[1:]).to_dict("records")
    assert row["note"] == f"{required - 1} of {required} required runs"
    assert np.isnan(row["time_to_train_min"])


def test_an_unknown_benchmark_is_named(facts: pd.DataFrame) -> None:
    with pytest.raises(UserError, match="'minigo' in the run facts has no rules"):
        submissions(facts.head(10).assign(benchmark="minigo"))


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference values are kept outside the repository")
def test_all_four_workloads_agree_with_the_reference(scores: pd.DataFrame) -> None:
    reference = pd.read_csv(REFERENCE).rename(columns={"system_id": "system"}).query("of_interest == 1")
    both = scores.merge(
        reference, on=["submitter", "system", "benchmark"], how="outer", suffixes=("", "_reference"), validate="1:1"
    )
    assert len(both) == len(scores) == 110
    unit = np.where(both["conv_unit"] == "epochs", SSD_EPOCH_SAMPLES, 1)
    pairs = {
        "time_to_train_min": both["time_to_train_min_reference"],
        "time_raw_min": both["time_raw_olympic_min"],
        "samples_to_converge": both["conv_mean_kept"] * unit,
        "scaling_factor": both["rcp_scaling_factor"],
        "devices": both["accelerators_total"],
        "global_batch": both["global_batch_size"],
        "runs": both["runs_reference"],
        "runs_converged": both["runs_converged_reference"],
    }
    for column, expected in pairs.items():
        np.testing.assert_allclose(both[column], expected, rtol=1e-9, err_msg=column)
    assert (both["accelerator_family"] == both["accelerator_family_reference"]).all()


def test_points_are_one_row_per_run_of_the_best_submissions(facts: pd.DataFrame) -> None:
    points = mlperf_points(facts, "s", {"ssd": "RetinaNet", "bert": "BERT"})
    assert list(points.columns) == POINT_COLUMNS
    best = points[points["series"] == "RetinaNet, best H100-SXM submission per size"]
    assert best["devices"].value_counts().to_dict() == {4: 5, 8: 5, 32: 5, 64: 5, 2528: 5}
    assert set(best["label"]) >= {"NVIDIA: eos_n316_ngc24.04_pytorch", "Dell: 4xXE9680x8H100-SXM-80GB"}
    assert (best[["scaling", "aggregate", "unit", "device"]] == ["free", "olympic", "samples", "H100-SXM"]).all(
        axis=None
    )
    assert best["target_work"].isna().all()
    failed = points[points["status"] == "failed"]
    assert set(failed["source"]) == {"NVIDIA/results/eos_n8_ngc23.04_pytorch/bert/result_4.txt"}
    assert failed[["time_s", "samples"]].isna().all(axis=None)


def test_the_command_writes_points_that_are_read_back(
    facts: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "tables" / "points.csv"
    plan = tmp_path / "plan.json"
    settings = {"workloads": {"ssd": "RetinaNet"}, "family": "H100-SXM"}
    plan.write_text(json.dumps({"study": "s", "settings": settings}))
    monkeypatch.setattr("sys.argv", ["points", "--plan", str(plan), "--facts", str(FACTS), "--output", str(out)])
    main()
    again = read_points(out)[POINT_COLUMNS]
    pd.testing.assert_frame_equal(again, mlperf_points(facts, "s", {"ssd": "RetinaNet"}), check_dtype=False)


def test_a_duplicated_submission_is_in_no_series(facts: pd.DataFrame) -> None:
    points = mlperf_points(facts, "s", {"llama2_70b_lora": "Llama 2 70B LoRA"})
    assert not points["label"].str.contains("POWER").any()


def test_a_workload_or_family_that_is_not_there_is_named(facts: pd.DataFrame) -> None:
    with pytest.raises(UserError, match=r"'gpt3' is not among .* Benchmarks there: bert"):
        mlperf_points(facts, "s", {"gpt3": "GPT-3"})
    with pytest.raises(UserError, match=r"No scored submission of bert on 'TPU-v5p'.*A100-PCIe"):
        mlperf_points(facts, "s", {"bert": "BERT"}, family="TPU-v5p")
