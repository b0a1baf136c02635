"""Scores of MLPerf Training: v4.1 from the committed runs, and the rules on runs that are made up."""

import dataclasses
import functools
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.mlperf.critical_batch import critical_batches
from breakeven.mlperf.rulebook import Rulebook, rulebook_of
from breakeven.mlperf.score import SCORE_COLUMNS, main, scores, submissions
from breakeven.mlperf.table import RunRow, facts_csv, read_facts
from breakeven.schema.errors import UserError
from breakeven.schema.status import Status

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "workflow" / "breakeven" / "mlperf" / "facts" / "v4.1_runs.csv"
REFERENCE = ROOT.parent / "shared" / "data" / "mlperf" / "v4.1_reference.csv"


@pytest.fixture(scope="module")
def facts() -> pd.DataFrame:
    return read_facts(FACTS)


@pytest.fixture(scope="module")
def scored(facts: pd.DataFrame) -> pd.DataFrame:
    return submissions(facts)


def one(scored: pd.DataFrame, submitter: str, system: str, benchmark: str) -> pd.Series:
    found = scored[
        (scored["submitter"] == submitter) & (scored["system"] == system) & (scored["benchmark"] == benchmark)
    ]
    assert len(found) == 1
    return found.iloc[0]


def runs_of(facts: pd.DataFrame, system: str, benchmark: str) -> pd.DataFrame:
    return facts[(facts["system"] == system) & (facts["benchmark"] == benchmark)].copy()


BLANK = RunRow(
    round="v4.1",
    benchmark="bert",
    workload="bert",
    submitter="Maker",
    system="one_node",
    system_name="One node",
    accelerator="NVIDIA H100-SXM5-80GB",
    accelerator_family="H100-SXM",
    nodes=1,
    accelerators_per_node=8,
    devices=8,
    division="closed",
    system_status="Available on-premise",
    global_batch=448,
    run=0,
    status=Status.OK,
    samples_to_converge=2.4e6,
    scaling_factor=1.0,
    duplicate_of="",
    log_month="2024-09",
    result_id="v4.1/Maker/one_node/bert",
    repository="",
    commit="",
    source="Maker/results/one_node/bert/result_0.txt",
)


def made_up(times: Sequence[float | None], **common: object) -> pd.DataFrame:
    """Runs of one set that took ``times`` minutes; None for one that failed, by status and by the official checks."""
    rows = [
        dataclasses.replace(
            BLANK,
            run=i,
            source=BLANK.source.replace("_0", f"_{i}"),
            run_time_min=time,
            status=Status.FAILED if time is None else Status.OK,
            compliance="run_stop: 0, exactly one" if time is None else "",
            samples_to_converge=None if time is None else 2.4e6,
        )
        for i, time in enumerate(times)
    ]
    return frame([dataclasses.replace(row, **common) for row in rows])  # type: ignore[arg-type]


def frame(rows: Sequence[RunRow]) -> pd.DataFrame:
    """As a table written and read again has it."""
    table = pd.DataFrame([dataclasses.asdict(row) for row in rows])
    numbers = [f.name for f in dataclasses.fields(RunRow) if f.type not in (str, "str", Status, "Status")]
    table[numbers] = table[numbers].astype(float)
    return table


def score_of(times: Sequence[float | None], **common: object) -> pd.Series:
    runs = made_up(times, **common)
    (row,) = (row for _, row in scores(runs, rules_for(*runs.loc[0, ["round", "benchmark"]])).iterrows())
    return row


@functools.cache
def rules_for(round_name: str, benchmark: str) -> Rulebook:
    return rulebook_of(pd.DataFrame({"round": [round_name], "benchmark": [benchmark]}))


def test_nvidia_llama2_lora_on_64_h100_scores_4_573_minutes(scored: pd.DataFrame) -> None:
    row = one(scored, "NVIDIA", "eos_n8_ngc24.09_nemo", "llama2_70b_lora")
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
    ],
)
def test_scores_published_or_by_the_official_tool(
    scored: pd.DataFrame, submitter: str, system: str, benchmark: str, minutes: float
) -> None:
    row = one(scored, submitter, system, benchmark)
    digits = len(str(minutes).split(".")[1])
    assert round(row["time_to_train_min"], digits) == minutes
    assert row["time_to_train_strict_min"] == row["time_to_train_min"]


# The only sets of v4.1 whose strict score is another: one corrupted line each, by which the official tool rejects a log
# whole and with it drops the fastest run.
LAMBDA = {
    ("lambda_1cc_n2_H100-SXM-80GB_ngc24.04_nemo", "stable_diffusion"): (22.8022, 23.3334),
    ("lambda_1cc_n4_H100-SXM-80GB_ngc24.04_nemo", "stable_diffusion"): (14.2217, 14.2819),
    ("lambda_1cc_n4_H100-SXM-80GB_ngc24.04_nemo", "llama2_70b_lora"): (8.2171, 8.2230),
}


def test_a_corrupted_line_costs_the_strict_score_a_run_and_the_tolerant_one_nothing(scored: pd.DataFrame) -> None:
    both = scored.dropna(subset=["time_to_train_min"])
    differ = both[(both["time_to_train_min"] / both["time_to_train_strict_min"] - 1).abs() > 1e-12]
    found = {
        (row["system"], row["benchmark"]): (row["time_to_train_min"], row["time_to_train_strict_min"])
        for _, row in differ.iterrows()
    }
    assert found == {key: pytest.approx(minutes, abs=6e-5) for key, minutes in LAMBDA.items()}
    assert (differ["runs_compliant"] == 9).all()
    assert differ["strict_note"].str.fullmatch(r"result_\w+\.txt: .*line.*").all()


def test_the_scaling_factor_lengthens_a_score(scored: pd.DataFrame) -> None:
    row = one(scored, "Google", "cloud-tpu-v5p-128-maxdiffusion", "stable_diffusion")
    assert row["time_to_train_min"] / row["time_raw_min"] == pytest.approx(1.0562770562770563, rel=1e-12)


def test_one_failed_run_counts_as_the_slowest(facts: pd.DataFrame, scored: pd.DataFrame) -> None:
    row = one(scored, "NVIDIA", "eos_n8_ngc23.04_pytorch", "bert")
    assert (row["runs"], row["runs_converged"], row["runs_compliant"], row["note"]) == (10, 9, 9, "")
    assert row["strict_note"].startswith("result_4.txt: ")
    times = runs_of(facts, "eos_n8_ngc23.04_pytorch", "bert").query("status == 'ok'")["run_time_min"].sort_values()
    assert row["time_raw_min"] == pytest.approx(times.iloc[1:].mean(), rel=1e-12)


def test_absent_logs_are_kept_without_a_score(scored: pd.DataFrame) -> None:
    row = one(scored, "Clemson", "7x8xH100-SXM5-80GB", "llama2_70b_lora")
    assert row["note"] == "no logs in the archive (10 runs required)"
    assert (row["runs"], row["devices"]) == (0, 56)
    empty = ["time_to_train_min", "time_to_train_strict_min", "time_raw_min", "samples_to_converge", "throughput"]
    assert row[empty].isna().all()


def test_every_other_set_has_a_score(scored: pd.DataFrame) -> None:
    assert len(scored) == 154
    assert scored["time_to_train_min"].notna().sum() == scored["time_to_train_strict_min"].notna().sum() == 153
    assert ((scored["note"] == "") == scored["time_to_train_min"].notna()).all()
    assert list(scored.columns) == SCORE_COLUMNS


def test_two_failed_runs_leave_no_score() -> None:
    row = score_of([None, None, *range(1, 9)])
    assert row["note"] == "2 of 10 runs did not reach the target; at most one may fail"
    assert row["strict_note"].startswith("no strict score: 2 of 10 logs fail the official checks; at most one may; ")
    assert np.isnan(row["time_to_train_min"])
    assert np.isnan(row["time_to_train_strict_min"])


@pytest.mark.parametrize(("benchmark", "required"), [("bert", 10), ("ssd", 5), ("gpt3", 3)])
def test_a_run_too_few_is_scored_by_those_there_are(benchmark: str, required: int) -> None:
    row = score_of([float(minutes) for minutes in range(1, required)], benchmark=benchmark)
    assert row["runs_required"] == required
    if required > 3:
        assert row["note"] == f"{required - 1} of {required} required runs"
        assert row["time_to_train_min"] == row["time_to_train_strict_min"] == required / 2
    else:
        assert row["note"] == "2 of 3 required runs; a score needs at least 3"
        assert np.isnan(row["time_to_train_min"])


def test_absent_runs_do_not_fail() -> None:
    runs = made_up([*range(1, 9), None, None])
    runs.loc[8:, "status"] = "not_measured"
    (row,) = submissions(runs).to_dict("records")
    assert (row["runs"], row["note"], row["time_to_train_min"]) == (8, "8 of 10 required runs", 4.5)


def test_a_run_beyond_those_required_counts_too() -> None:
    assert score_of([1.0, *[2.0] * 9, 9.0])["time_to_train_min"] == 2
    assert score_of([1.0, *[2.0] * 8, 3.0, 9.0])["time_to_train_min"] == pytest.approx(19 / 9)


def test_unet3d_drops_four_at_either_end_and_may_lose_four() -> None:
    times: list[float | None] = [float(minutes) for minutes in range(1, 41)]
    row = score_of(times, round="v4.0", benchmark="unet3d")
    assert row["time_to_train_min"] == np.mean(range(5, 37))
    lost = score_of([*times[:36], None, None, None, None], round="v4.0", benchmark="unet3d")
    assert lost["time_to_train_min"] == lost["time_to_train_strict_min"] == np.mean(range(5, 37))
    one_more = score_of([*times[:35], *[None] * 5], round="v4.0", benchmark="unet3d")
    assert one_more["note"] == "5 of 40 runs did not reach the target; at most 4 may fail"


def test_a_run_may_pass_the_checks_without_reaching_its_target() -> None:
    runs = made_up([float(minutes) for minutes in range(1, 11)])
    runs.loc[3, "status"] = "failed"
    (row,) = submissions(runs).to_dict("records")
    assert row["strict_note"] == "result_3.txt: passes the official checks, though the run did not reach its target"
    assert row["time_to_train_strict_min"] == 5.5
    assert row["time_to_train_min"] == np.mean([2, 3, 5, 6, 7, 8, 9, 10])


@pytest.mark.filterwarnings("error")
def test_runs_of_no_time_failed_though_the_official_tool_scores_them() -> None:
    row = score_of([0.0] * 10)
    assert row["note"] == "10 of 10 runs did not reach the target; at most one may fail"
    assert (row["runs_converged"], row["time_to_train_strict_min"]) == (0, 0.0)
    assert np.isnan(row["time_to_train_min"])
    assert score_of([-1.0, *[2.0] * 9])["time_to_train_min"] == 2
    assert score_of([0.0, *[2.0] * 9])["runs_converged"] == 9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("changed", [{"samples_to_converge": 0.0}, {"devices": 0}, {"scaling_factor": 1e308},
                                     {"run_time_min": 1e308}, {"samples_to_converge": 1e308}])  # fmt: skip
def test_what_cannot_be_divided_is_blank(changed: dict[str, float]) -> None:
    runs = made_up([1e9] * 10)
    for column, value in changed.items():
        runs[column] = value
    written = submissions(runs).to_csv(index=False)
    assert not {"inf", "-inf", "nan"} & set(written.splitlines()[1].split(","))


def test_a_note_on_thousands_of_logs_names_a_few_and_counts_the_rest() -> None:
    runs = made_up([None] * 4995)
    runs.loc[4000:, "compliance"] = [f"reason {at}" for at in range(995)]
    runs["global_batch"] = range(1, len(runs) + 1)
    (row,) = submissions(runs).to_dict("records")
    first = ", ".join(f"result_{at}.txt" for at in range(5))
    assert f"; {first} and 3,995 more: run_stop: 0, exactly one; result_4000.txt: reason 0; " in row["strict_note"]
    assert row["strict_note"].endswith("result_4003.txt: reason 3; and 991 more for other reasons")
    assert row["note"].endswith("runs of different global batches (1, 2, 3, 4, 5 and 4,990 more)")


def test_runs_of_different_batches_have_no_reference() -> None:
    runs = made_up([5.0] * 10)
    assert submissions(runs)["reference_samples"].notna().all()
    runs.loc[0, "global_batch"] = 4608
    (row,) = submissions(runs).to_dict("records")
    assert (row["global_batch"], row["note"]) == (4608, "runs of different global batches (448, 4608)")
    assert np.isnan(row["reference_samples"])


def test_throughput_energy_and_reference_time_of_a_set() -> None:
    runs = made_up([10.0] * 10, scaling_factor=1.1, energy_kj=100.0, step_throughput=5000.0, evaluation_min=1.0)
    (row,) = submissions(runs).to_dict("records")
    assert row["throughput"] == pytest.approx(2.4e6 / 600)
    assert row["throughput_per_device"] == pytest.approx(500)
    assert row["device_hours"] == pytest.approx(8 * 11 / 60)
    assert (row["energy_kj"], row["step_throughput"], row["evaluation_min"]) == (pytest.approx(110), 5000, 1)
    # At the reference's own convergence their time would be longer, by as much as it needs more samples.
    assert row["reference_samples"] > 2.4e6
    assert row["time_reference_min"] / row["time_raw_min"] == pytest.approx(row["reference_samples"] / 2.4e6)
    assert np.isnan(row["startup_min"])


def test_a_mean_is_over_all_runs_that_count_or_unknown() -> None:
    runs = made_up([1.0, *[2.0] * 8, 3.0], step_throughput=5.0)
    runs.loc[0, ["step_throughput", "step_throughput_note"]] = [None, "no tracked_stats"]
    assert submissions(runs)["step_throughput"].tolist() == [5.0]
    assert submissions(runs)["step_throughput_note"].tolist() == [""]
    runs.loc[4, ["step_throughput", "step_throughput_note"]] = [None, "no tracked_stats"]
    assert submissions(runs)["step_throughput"].isna().all()
    assert submissions(runs)["step_throughput_note"].tolist() == ["no tracked_stats"]


def test_logs_older_than_the_round_are_told() -> None:
    assert not score_of([1.0] * 10)["old_logs"]
    old = made_up([1.0] * 10)
    old.loc[3, "log_month"] = "2023-10"
    (row,) = submissions(old).to_dict("records")
    assert (row["old_logs"], row["log_months"]) == (True, "2023-10..2024-09")


def test_a_system_without_a_known_number_of_devices_is_scored_all_the_same() -> None:
    row = score_of([1.0] * 10, nodes=None, accelerators_per_node=None, devices=None)
    assert row["time_to_train_min"] == 1
    assert pd.isna(row["devices"])
    assert pd.isna(row["device_hours"])


def naive_olympic(times: Sequence[float | None], dropped: int) -> float | None:
    """By the words of the rules: failed runs are slowest; strike so many at either end, average the rest."""
    ordered = sorted([time for time in times if time is not None]) + [time for time in times if time is None]
    failed = sum(time is None for time in times)
    if failed > dropped:
        return None
    for _ in range(dropped):
        if len(ordered) < 3:
            return None
        ordered = ordered[1:-1]
    return sum(ordered) / len(ordered)  # type: ignore[arg-type]


minutes = st.floats(0.01, 1e4)


@given(
    times=st.lists(st.one_of(minutes, st.none()), min_size=1, max_size=14),
    factor=st.floats(1, 2),
    unet3d=st.booleans(),
)
def test_scores_equal_a_naive_olympic_mean(times: list[float | None], factor: float, unet3d: bool) -> None:
    where = {"round": "v4.0", "benchmark": "unet3d"} if unet3d else {}
    row = score_of(times, scaling_factor=factor, **where)
    expected = naive_olympic(times, 4 if unet3d else 1)
    for column in ("time_to_train_min", "time_to_train_strict_min"):
        if expected is None:
            assert np.isnan(row[column])
        else:
            assert row[column] == pytest.approx(expected * factor, rel=1e-12)
    assert (row["note"] == "") == (expected is not None and len(times) >= (40 if unet3d else 10))


@given(times=st.lists(minutes, min_size=3, max_size=12), stretch=st.floats(0.01, 100), order=st.randoms())
def test_scores_scale_with_their_times_and_ignore_the_order_of_runs(
    times: list[float], stretch: float, order: random.Random
) -> None:
    row = score_of(times)
    shuffled = [time * stretch for time in times]
    order.shuffle(shuffled)
    again = score_of(shuffled)
    for column in ("time_to_train_min", "time_to_train_strict_min", "device_hours", "time_reference_min"):
        assert again[column] == pytest.approx(row[column] * stretch, rel=1e-9)
    assert again["throughput"] == pytest.approx(row["throughput"] / stretch, rel=1e-9)


def test_a_benchmark_that_the_round_does_not_hold_is_named(facts: pd.DataFrame) -> None:
    with pytest.raises(UserError, match=r"'minigo' in the runs is none of round v4\.1\.\nKnown there: bert, "):
        submissions(facts.head(10).assign(benchmark="minigo"))
    with pytest.raises(UserError, match=r"'v0\.1' is not known"):
        submissions(facts.head(10).assign(round="v0.1"))


def test_a_benchmark_goes_by_any_of_its_names() -> None:
    row = score_of([1.0] * 5, round="v3.0", benchmark="mask", global_batch=48)
    assert (row["benchmark"], row["runs_required"], row["note"]) == ("mask", 5, "")
    assert row["reference_samples"] > 1e6


def test_rounds_may_share_a_table_and_each_keeps_its_rules(facts: pd.DataFrame) -> None:
    runs = pd.concat([made_up([1.0] * 10), made_up([1.0] * 10, round="v5.1", benchmark="llama31_8b")])
    assert submissions(runs)[["round", "benchmark", "note"]].to_numpy().tolist() == [
        ["v4.1", "bert", ""],
        ["v5.1", "llama31_8b", ""],
    ]


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference values are kept outside the repository")
def test_every_set_agrees_with_the_reference(facts: pd.DataFrame, scored: pd.DataFrame) -> None:
    reference = pd.read_csv(REFERENCE).rename(columns={"system_id": "system"})
    both = scored.merge(
        reference, on=["submitter", "system", "benchmark"], how="outer", suffixes=("", "_reference"), validate="1:1"
    )
    assert len(both) == len(scored) == 154
    book = rulebook_of(facts)
    unit = [book["v4.1", name].benchmark.convergence.samples_per_unit for name in both["benchmark"]]
    pairs = {
        "time_to_train_min": both["time_to_train_min_reference"],
        "time_to_train_strict_min": both["time_official_tool_min"],
        "time_raw_min": both["time_raw_olympic_min"],
        "time_min_min": both["time_min"],
        "time_max_min": both["time_max"],
        "samples_to_converge": both["samples_to_converge_reference"],
        "scaling_factor": both["rcp_scaling_factor"],
        "devices": both["accelerators_total"],
        "global_batch": both["global_batch_size"],
        "runs": both["runs_reference"],
        "runs_converged": both["runs_converged_reference"],
        "throughput": both["throughput_samples_s"],
        "device_hours": both["accel_hours"],
        "reference_samples": both["rcp_mean_conv"] * unit,
        "time_reference_min": both["time_rcp_normalised_min"],
    }
    # Batches below the reference's smallest: the checker takes its smallest point, the reference values leave them out.
    smaller = both["rcp_mean_conv"].isna() & both["reference_samples"].notna()
    assert sorted(zip(both["system"][smaller], both["benchmark"][smaller], strict=True)) == BELOW_THE_REFERENCE
    both.loc[smaller, ["reference_samples", "time_reference_min"]] = np.nan
    for column, expected in pairs.items():
        np.testing.assert_allclose(both[column].astype(float), expected, rtol=1e-9, err_msg=column)
    # The reference is the plain mean of the rates that logs track. Here blocks count by their time, evaluation is taken
    # out where a benchmark's logs count it in, and only the timed part is read: for Llama 2 alone that is the same.
    ratio = (both["step_throughput"] / both["tracked_throughput"]).dropna()
    assert ratio[both["benchmark"] == "llama2_70b_lora"].between(0.99, 1.0001).all()
    assert ratio.between(0.97, 1.2).all()


BELOW_THE_REFERENCE = [
    ("R760x2H100NVL-PCIe-94GB", "ssd"),
    ("cloud-tpu-trillium-512-maxtext", "gpt3"),
    ("tinybox_green", "bert"),
    ("tinybox_red", "bert"),
]


def test_critical_batches_of_v4_1s_submissions(facts: pd.DataFrame, scored: pd.DataFrame) -> None:
    fits = critical_batches(scored, rulebook_of(facts)).set_index(["benchmark", "of"])
    expected = {
        "bert": (29, 2.506e6, 1.446e4, 13.1),
        "llama2_70b_lora": (28, 2564, 32.48, 4.9),
        "ssd": (26, 4.051e6, 1619, 1.9),
        "stable_diffusion": (25, 1.834e6, 1769, 4.1),
    }
    for benchmark, (points, samples_min, critical_batch, rmse_percent) in expected.items():
        fit = fits.loc[(benchmark, "submissions")]
        assert (fit["points"], fit["note"]) == (points, "")
        assert fit["samples_min"] == pytest.approx(samples_min, rel=3e-4)
        assert fit["critical_batch"] == pytest.approx(critical_batch, rel=5e-4)
        assert fit["rmse_percent"] == pytest.approx(rmse_percent, abs=0.05)
    assert set(fits.index) == {(name, of) for name in scored["benchmark"] for of in ("reference", "submissions")}


def test_a_critical_batch_is_of_full_closed_sets_each_once() -> None:
    kinds: list[dict[str, object]] = [{}, {"duplicate_of": "Maker/other"}, {"division": "Open"}]
    runs = [made_up([1.0] * 10, system=f"s{i}", **kind) for i, kind in enumerate(kinds)]
    runs.append(made_up([1.0] * 9, system="short"))
    book = rules_for("v4.1", "bert")
    fits = critical_batches(scores(pd.concat(runs), book), book).set_index("of")
    assert fits["points"].to_dict() == {"reference": 7, "submissions": 1}


def test_the_command_writes_three_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, out = tmp_path / "runs.csv", tmp_path / "out"
    runs.write_text(facts_csv(dataclasses.replace(BLANK, run=run, run_time_min=5.0) for run in range(10)))
    names = {"--scores": "scores.csv", "--critical-batch": "critical_batch.csv", "--reference": "reference.csv"}
    options = [text for option, name in names.items() for text in (option, str(out / name))]
    monkeypatch.setattr("sys.argv", ["score", "--runs", str(runs), *options])
    main()
    written = pd.read_csv(out / "scores.csv")
    assert list(written.columns) == SCORE_COLUMNS
    assert written["time_to_train_strict_min"].tolist() == [5.0]
    fits = pd.read_csv(out / "critical_batch.csv")
    assert fits[["of", "points"]].to_numpy().tolist() == [["reference", 7], ["submissions", 1]]
    assert fits["note"].tolist()[1] == "not identifiable: 1 batch, of 3 a fit needs"
    points = pd.read_csv(out / "reference.csv")
    assert (len(points), points["kept"].sum()) == (13, 7)


def test_the_command_tells_what_is_wrong_with_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text("round,benchmark\nv4.1,bert\n")
    arguments = ["score", "--runs", str(runs)]
    for option in ("--scores", "--critical-batch", "--reference"):
        arguments += [option, str(tmp_path / "out.csv")]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"breakeven: {runs}: lacks the columns" in capsys.readouterr().err
