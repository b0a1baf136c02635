"""Reference convergence points and the critical batch, against the package that the points come from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlperf_logging
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mlperf_logging.rcp_checker.rcp_checker import RCP_Checker
from scipy import stats

from breakeven.mlperf.critical_batch import CriticalBatch, fit_critical_batch
from breakeven.mlperf.reference import (
    TABLE,
    BatchSamples,
    all_reference_points,
    in_samples,
    pruned,
    reference_samples,
)
from breakeven.mlperf.reference_points import ROUNDS, main, packaged_points, read_points
from breakeven.mlperf.rules import load_round
from breakeven.schema.errors import UserError


def official_package() -> Path:
    assert mlperf_logging.__file__
    return Path(mlperf_logging.__file__).parent


def test_the_committed_table_is_what_the_package_says() -> None:
    made = packaged_points(official_package())
    kept = read_points(TABLE)
    assert {point.round for point in kept} == set(ROUNDS)
    for ours, theirs in zip(kept, made, strict=True):
        assert (ours.round, ours.benchmark, ours.global_batch, ours.runs, ours.unit) == (
            theirs.round,
            theirs.benchmark,
            theirs.global_batch,
            theirs.runs,
            theirs.unit,
        )
        assert (ours.mean, ours.sd) == pytest.approx((theirs.mean, theirs.sd), rel=1e-12)


def test_the_mistyped_gpt3_run_is_the_slowest_and_left_out_of_the_mean() -> None:
    (point,) = (p for p in read_points(TABLE) if (p.round, p.benchmark, p.global_batch) == ("v4.1", "gpt3", 3072))
    assert (point.runs, point.mean, point.unit) == (7, pytest.approx(1_218_025_881.6), "tokens")
    assert point.sd > point.mean


def test_the_command_writes_what_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "points.csv"
    arguments = ["reference_points", str(official_package()), "--rounds", "v5.1", "--out", str(out)]
    monkeypatch.setattr("sys.argv", arguments)
    main()
    again = read_points(out)
    assert [p.benchmark for p in again if p.unit == "epochs"] == ["dlrm_dcnv2"] * 6 + ["retinanet"] * 9 + ["rgat"] * 5


def test_a_folder_that_is_not_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"training_4\.1\.0: holds no reference points of round v4\.1"):
        packaged_points(tmp_path, ["v4.1"])


def test_a_damaged_file_of_the_package_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "rcp_checker" / "training_4.1.0"
    folder.mkdir(parents=True)
    (folder / "rcps_bert.json").write_text('{"bert_ref_256": {"BS": 256}}')
    with pytest.raises(UserError, match=r"rcps_bert\.json: not a file of reference points"):
        packaged_points(tmp_path, ["v4.1"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("v4.1,bert,256,20,fast,1.0,samples", "line 2: ValueError"),
        ("v4.1,bert,256,20,1.0,1.0,miles", "line 2: unit is 'miles'"),
        ("v4.1,bert,0,20,1.0,1.0,samples", "line 2: global_batch and mean must be above 0"),
        ("v4.1,bert,256", "line 2: TypeError"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "points.csv"
    path.write_text("round,benchmark,global_batch,runs,mean,sd,unit\n" + row + "\n")
    with pytest.raises(UserError, match=message):
        read_points(path)


def of(round_name: str, benchmark: str) -> tuple[BatchSamples, ...]:
    found = load_round(round_name).benchmark(benchmark)
    assert found is not None
    points = (p for p in read_points(TABLE) if (p.round, p.benchmark) == (round_name, benchmark))
    return in_samples(points, found)


def tables() -> list[tuple[str, str]]:
    """Benchmarks of a round that have reference points. (v5.1 has points of bert, which it no longer holds.)"""
    both = {(point.round, point.benchmark) for point in read_points(TABLE)}
    return sorted((name, folder) for name, folder in both if folder in load_round(name).benchmarks)


def test_every_benchmark_of_every_round_has_reference_points() -> None:
    with_rules = {(name, folder) for name in ROUNDS for folder in load_round(name).benchmarks}
    assert with_rules == set(tables())


@pytest.mark.parametrize(("round_name", "benchmark"), tables())
def test_points_count_what_the_rounds_logs_count(round_name: str, benchmark: str) -> None:
    units = {p.unit for p in read_points(TABLE) if (p.round, p.benchmark) == (round_name, benchmark)}
    per_unit = load_round(round_name).benchmarks[benchmark].convergence.samples_per_unit
    expected = {None: "steps", 1: "samples", 1 / 2048: "tokens"}.get(per_unit, "epochs")
    assert units == {expected}


# In v3.1 the checker compares stable_diffusion's optimiser steps, and this project its samples.
@pytest.mark.parametrize(
    ("round_name", "benchmark"), [table for table in tables() if table != ("v3.1", "stable_diffusion")]
)
def test_samples_are_those_the_official_checker_finds(round_name: str, benchmark: str) -> None:
    checker = RCP_Checker("training", f"{round_name[1:]}.0", benchmark, False)
    points = of(round_name, benchmark)
    kept = {record["BS"] for record in checker.pruned_rcp_data.values()}
    assert [p.global_batch for p in pruned(points)] == sorted(kept)
    (unit,) = {p.unit for p in read_points(TABLE) if (p.round, p.benchmark) == (round_name, benchmark)}
    per_unit = load_round(round_name).benchmarks[benchmark].convergence.samples_per_unit if unit != "samples" else 1
    largest = max(point.global_batch for point in points)
    for batch in {1, 2, largest, largest + 1, *(round(largest * i / 97) for i in range(1, 98))}:
        official = checker_mean(checker, batch)
        ours = reference_samples(batch, points)
        assert ours == (None if official is None else pytest.approx(official * per_unit, rel=1e-12)), batch


def checker_mean(checker: Any, batch: int) -> float | None:
    """The mean that ``check_directory`` compares a submission of this batch with."""
    found = checker._find_rcp(batch, "pruned_rcps")
    if found is not None:
        return float(found["RCP Mean"])
    low, high = checker._find_top_min_rcp(batch, "pruned_rcps"), checker._find_bottom_max_rcp(batch, "pruned_rcps")
    if high is None:
        return None
    if low is None:
        return float(checker._find_min_rcp("pruned_rcps")["RCP Mean"])
    return float(checker._create_interp_rcp(batch, low, high)[1]["RCP Mean"])


def test_steps_become_samples_before_points_are_compared() -> None:
    # By steps the largest batch converges fastest and the checker would prune the others; by samples it needs most.
    points = of("v3.1", "stable_diffusion")
    assert [(p.global_batch, p.samples_mean) for p in points] == [
        (512, 2_560_000),
        (1024, pytest.approx(2_839_272.7, abs=0.1)),
        (2048, pytest.approx(4_002_909.1, abs=0.1)),
    ]
    assert pruned(points) == points


def test_a_batch_between_two_points_is_on_the_line_between_them() -> None:
    low, high = batch_samples(100, 1000.0), batch_samples(300, 3000.0)
    assert [reference_samples(b, [low, high]) for b in (50, 100, 150, 300, 301)] == [1000, 1000, 1500, 3000, None]
    assert reference_samples(8, []) is None


def batch_samples(batch: int, samples: float) -> BatchSamples:
    return BatchSamples(global_batch=batch, runs=10, samples_mean=samples, samples_sd=0.0)


def test_points_of_ones_own_join_and_replace_the_packaged_ones(tmp_path: Path) -> None:
    header = "round,benchmark,global_batch,runs,mean,sd,unit\n"
    (tmp_path / TABLE.name).write_text(header + "v4.1,bert,8,20,5.0,1.0,samples\nv9.0,mine,8,20,7.0,1.0,samples\n")
    points = all_reference_points(tmp_path)
    assert [p.mean for p in points if (p.round, p.benchmark) == ("v4.1", "bert")] == [5.0]
    assert [p.mean for p in points if p.round == "v9.0"] == [7.0]
    assert [p for p in points if p.round == "v5.1"] == [p for p in all_reference_points() if p.round == "v5.1"]
    assert all_reference_points(tmp_path / "empty") == all_reference_points()


# D = Dmin(1 + B / Bcrit): the points that the checker keeps are fitted, not all of them.
@pytest.mark.parametrize(
    ("benchmark", "points", "samples_min", "critical_batch", "rmse_percent"),
    [
        ("bert", 7, 2.216e6, 1.187e4, 4.5),
        ("llama2_70b_lora", 3, 2766, 41.15, 3.6),
        ("ssd", 5, 3.796e6, 1285, 7.5),
        ("stable_diffusion", 3, 1.762e6, 1629, 0.8),
    ],
)
def test_critical_batches_of_v4_1s_reference(
    benchmark: str, points: int, samples_min: float, critical_batch: float, rmse_percent: float
) -> None:
    fit = fit_of(pruned(of("v4.1", benchmark)))
    assert (fit.points, fit.note) == (points, "")
    assert fit.samples_min == pytest.approx(samples_min, rel=2e-4)
    assert fit.critical_batch == pytest.approx(critical_batch, rel=5e-4)
    assert fit.rmse_percent == pytest.approx(rmse_percent, abs=0.05)
    assert fit.critical_batch_low is not None
    assert fit.critical_batch_high is not None
    assert fit.critical_batch_low < critical_batch < fit.critical_batch_high
    every = fit_of(of("v4.1", benchmark))
    assert every.rmse_percent != pytest.approx(rmse_percent, abs=0.05)


def fit_of(points: Sequence[BatchSamples]) -> CriticalBatch:
    return fit_critical_batch([p.global_batch for p in points], [p.samples_mean for p in points])


@given(
    least=st.floats(1e2, 1e8),
    critical=st.floats(4, 1e5),
    batches=st.lists(st.integers(1, 10_000), min_size=3, max_size=8, unique=True),
)
def test_an_exact_law_is_found_again(least: float, critical: float, batches: list[int]) -> None:
    # Where batches are all far from Bcrit on one side, rounding hides it.
    assume(max(batches) > critical / 10 and min(batches) < critical * 10 and max(batches) > 2 * min(batches))
    fit = fit_critical_batch(batches, [least * (1 + batch / critical) for batch in batches])
    assert fit.samples_min == pytest.approx(least, rel=1e-3)
    assert fit.critical_batch == pytest.approx(critical, rel=1e-3)
    assert fit.rmse_percent == pytest.approx(0, abs=1e-3)


def test_the_interval_holds_the_truth_about_19_times_in_20() -> None:
    rng = np.random.default_rng(1)
    batches = [64, 128, 256, 512, 1024, 2048, 4096]
    truth = np.array([1e6 * (1 + b / 700) for b in batches])
    held = 0
    for _ in range(100):
        fit = fit_critical_batch(batches, list(truth * np.exp(rng.normal(0, 0.05, len(batches)))))
        assert fit.critical_batch_low is not None
        assert fit.critical_batch_high is not None
        held += fit.critical_batch_low <= 700 <= fit.critical_batch_high
    assert 88 <= held <= 99


def test_samples_scale_dmin_and_batches_scale_bcrit() -> None:
    batches, samples = [8, 16, 64, 128], [2800.0, 3900.0, 7300.0, 11600.0]
    fit = fit_critical_batch(batches, samples)
    scaled = fit_critical_batch([b * 10 for b in batches], [s * 3 for s in samples])
    for name, factor in {"samples_min": 3, "critical_batch": 10, "critical_batch_low": 10, "rmse_percent": 1}.items():
        assert getattr(scaled, name) == pytest.approx(getattr(fit, name) * factor, rel=1e-5)


@pytest.mark.filterwarnings("error")
def test_points_without_a_batch_or_samples_are_left_out() -> None:
    batches, samples = [8, 16, 64, 128], [2800.0, 3900.0, 7300.0, 11600.0]
    odd = fit_critical_batch([*batches, 0, -5, 32, 32, 32], [*samples, 5.0, 5.0, 0.0, -5.0, float("nan")])
    assert odd == fit_critical_batch(batches, samples)
    assert fit_critical_batch([0, 8], [0.0, -1.0]).note == "not identifiable: 0 batches, of 3 a fit needs"


@pytest.mark.parametrize(
    ("batches", "samples", "note"),
    [
        ([], [], "not identifiable: 0 batches, of 3 a fit needs"),
        ([8] * 20, [3072.0] * 20, "not identifiable: 1 batch, of 3 a fit needs"),
        ([8, 16], [1.0, 2.0], "not identifiable: 2 batches, of 3 a fit needs"),
        ([8, 16, 32], [3072.0] * 3, "not identifiable: every batch takes the same samples"),
        ([8, 16, 32], [3000.0, 2000.0, 1000.0], "not identifiable: samples do not grow with the batch"),
        ([8, 16, 32], [1000.0, 2000.0, 4000.0], "not identifiable: samples grow in proportion to the batch"),
        ([8, 16, 32, 64], [1000.0, 1010.0, 1000.0, 1011.0], "not bounded above by the data"),
    ],
)
def test_what_the_data_do_not_identify_is_said(batches: list[int], samples: list[float], note: str) -> None:
    fit = fit_critical_batch(batches, samples)
    assert fit.note == note
    assert (fit.critical_batch is None) == note.startswith("not identifiable")
    assert fit.critical_batch_high is None


def test_at_both_ends_of_the_interval_the_misfit_is_that_of_the_f_quantile() -> None:
    batches = np.array([64, 128, 256, 512, 1024, 2048, 4096])
    samples = 1e6 * (1 + batches / 700) * np.exp([0.03, -0.05, 0.02, 0.04, -0.03, 0.01, -0.02])

    def misfit(critical_batch: float) -> float:
        shape = np.log(samples) - np.log1p(batches / critical_batch)
        return float(((shape - shape.mean()) ** 2).sum())

    fit = fit_critical_batch(list(batches), list(samples))
    assert fit.critical_batch is not None
    limit = misfit(fit.critical_batch) * (1 + stats.f.ppf(0.95, 1, len(batches) - 2) / (len(batches) - 2))
    assert fit.critical_batch_low is not None
    assert fit.critical_batch_high is not None
    assert misfit(fit.critical_batch_low) == pytest.approx(limit, rel=1e-7)
    assert misfit(fit.critical_batch_high) == pytest.approx(limit, rel=1e-7)
