"""E = E_stat · E_step · E_overhead · E_residual: exact on every table, blank with the reason where a log is silent."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.points.table import points_frame
from breakeven.scaling.breakeven import breakeven_table
from breakeven.scaling.efficiency import efficiency_table
from breakeven.schema.point import Point
from breakeven.schema.status import Status

FACTORS = ["efficiency_step", "efficiency_overhead", "efficiency_residual"]


def size(
    devices: int, times: list[float | None], samples: list[float] | float = 1000.0, **fields: object
) -> list[Point]:
    """One device count of a series of runs to a target; a time of None is a failed run."""
    every = samples if isinstance(samples, list) else [samples] * len(times)
    common: dict = {
        "study": "s", "workload": "w", "series": "w, A", "scaling": "free", "device": "H100", "nodes": 1,
        "aggregate": "olympic", "label": "A: n",
    } | fields  # fmt: skip
    return [
        Point(
            **common,
            devices=devices,
            repeat=repeat,
            status=Status.OK if time else Status.FAILED,
            time_s=time,
            samples=work if time else None,
        )
        for repeat, (time, work) in enumerate(zip(times, every, strict=True))
    ]


def table(*sizes: list[Point]) -> pd.DataFrame:
    return efficiency_table(points_frame(point for points in sizes for point in points)).set_index("devices")


def test_ten_times_the_devices_at_half_the_work_a_step_and_half_the_time_in_steps() -> None:
    # 10 samples a second and device, all the time in steps; then 5, and half of the time evaluating
    one = size(1, [100.0] * 3, 1000.0, step_rate=10.0, training_share=1.0)
    ten = size(10, [40.0] * 3, 1000.0, step_rate=50.0, training_share=0.5)
    row = table(one, ten).loc[10]
    assert row["efficiency"] == pytest.approx(0.25)
    assert row[["efficiency_stat", *FACTORS]].tolist() == pytest.approx([1.0, 0.5, 0.5, 1.0])
    assert row["decomposition_note"] == ""


def test_what_neither_steps_nor_evaluation_explain_is_the_residual() -> None:
    one = size(1, [100.0] * 3, 1000.0, step_rate=10.0, training_share=1.0)
    two = size(2, [100.0] * 3, 1000.0, step_rate=20.0, training_share=1.0)  # logs say perfect, the clock says half
    assert table(one, two).loc[2, FACTORS].tolist() == pytest.approx([1.0, 1.0, 0.5])


def test_the_smallest_size_is_its_own_reference() -> None:
    row = table(size(8, [100.0] * 3, step_rate=10.0, training_share=0.9)).loc[8]
    assert row[["efficiency", "efficiency_stat", "efficiency_sys", *FACTORS]].tolist() == [1.0] * 6


def test_the_share_of_a_size_is_training_seconds_over_seconds_of_the_runs_that_count() -> None:
    one = size(1, [100.0] * 3, step_rate=10.0, training_share=1.0)
    two = size(2, [1.0, 100.0, 300.0, 9999.0], step_rate=20.0)
    shares = dict(zip([1.0, 100.0, 300.0, 9999.0], [0.1, 1.0, 0.5, 0.1], strict=True))
    frame = points_frame([*one, *two])
    frame.loc[3:, "training_share"] = frame.loc[3:, "time_s"].map(shares)
    # (100 x 1 + 300 x 0.5) / 400 s; the fastest and the slowest run do not count
    assert efficiency_table(frame)["efficiency_overhead"].iloc[1] == pytest.approx(0.625)


def test_an_evaluation_outside_the_clock_leaves_the_whole_run_to_training() -> None:
    both = [size(n, [100.0 / n] * 3, step_rate=10.0 * n, training_share=1.0) for n in (1, 2)]
    assert table(*both)["efficiency_overhead"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("lacking", [1, 2])
def test_without_a_step_rate_here_or_at_the_reference_step_and_residual_are_blank_with_the_reason(lacking: int) -> None:
    known = {"step_rate": 10.0, "training_share": 0.9}
    fields = {n: {"label": f"A: n{n}", **known} for n in (1, 2)}
    fields[lacking] |= {"step_rate": None, "step_rate_note": "no throughput in the log"}
    row = table(*[size(n, [100.0 / n] * 3, **fields[n]) for n in (1, 2)]).loc[2]
    assert row[["efficiency_step", "efficiency_residual"]].isna().all()
    assert row["efficiency_overhead"] == pytest.approx(1.0)
    assert row["decomposition_note"] == f"A: n{lacking}, {lacking} x H100: no step rate (no throughput in the log)"


def test_one_counted_run_without_a_step_rate_leaves_none_as_it_does_in_the_scores() -> None:
    frame = points_frame([*size(1, [100.0] * 4, step_rate=10.0, training_share=1.0),
                          *size(2, [49.0, 50.0, 51.0, 52.0], step_rate=16.0, training_share=1.0)])  # fmt: skip
    frame.loc[[4, 7], "step_rate"] = math.nan  # the fastest and the slowest do not count
    assert efficiency_table(frame)["efficiency_step"].iloc[1] == pytest.approx(0.8)
    frame.loc[5, ["step_rate", "step_rate_note"]] = [math.nan, "no throughput in the log"]
    row = efficiency_table(frame).iloc[1]
    assert row[["efficiency_step", "efficiency_residual"]].isna().all()
    assert row["decomposition_note"] == "A: n, 2 x H100: no step rate in 1 of 2 logs (no throughput in the log)"


def test_the_step_rate_of_a_size_is_work_over_the_seconds_it_takes_at_the_runs_rates() -> None:
    one = size(1, [100.0] * 3, step_rate=10.0, training_share=1.0)
    two = size(2, [10.0, 20.0, 30.0, 40.0], [1.0, 3000.0, 1000.0, 1.0], training_share=1.0)
    frame = points_frame([*one, *two])
    frame.loc[3:, "step_rate"] = [1.0, 30.0, 10.0, 1.0]
    # 4,000 samples in 100 + 100 s
    assert efficiency_table(frame)["efficiency_step"].iloc[1] == pytest.approx(20.0 / 2 / 10.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("time_s", [0.0, -5.0, 1e-320])
@pytest.mark.parametrize("aggregate", ["olympic", "rate"])
def test_a_run_that_took_no_time_is_no_run(time_s: float, aggregate: str) -> None:
    fields = {"aggregate": aggregate, "step_rate": 10.0, "training_share": 0.9}
    frame = points_frame(
        [*size(1, [100.0] * 3, **fields), *size(2, [50.0] * 4, **fields), *size(4, [7.0] * 3, **fields)]
    )
    frame.loc[3, "time_s"] = time_s
    frame.loc[7:, "time_s"] = time_s
    rows = efficiency_table(frame).set_index("devices")
    assert np.isfinite(rows["efficiency"].iloc[:2].astype(float)).all()
    numbers = rows.select_dtypes("number").to_numpy(dtype=float)
    assert not np.isinf(numbers).any()
    if time_s <= 0:
        assert math.isnan(rows.loc[4, "efficiency"])
        assert rows.loc[2, "efficiency"] == pytest.approx(1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("samples", [0.0, -5.0])
def test_work_of_nothing_is_unknown(samples: float) -> None:
    rows = table(size(1, [100.0] * 3), size(2, [50.0] * 3, samples))
    assert rows["efficiency"].tolist() == [1.0, 1.0]
    assert rows.loc[2, ["efficiency_stat", "efficiency_sys", "rate_per_device", "work"]].isna().all()


@pytest.mark.parametrize(
    ("share", "why"),
    [(-0.2, "longer than the run"), (0.0, "longer than the run"), (None, "not in the logs")],
)
def test_an_impossible_or_unknown_training_share_is_blank_with_the_reason(share: float | None, why: str) -> None:
    one = size(1, [100.0] * 3, step_rate=10.0, training_share=0.9)
    two = size(2, [50.0] * 3, step_rate=20.0, training_share=share)
    row = table(one, two).loc[2]
    assert row[["efficiency_overhead", "efficiency_residual"]].isna().all()
    assert row["efficiency_step"] == pytest.approx(1.0)
    assert row["decomposition_note"] == f"A: n, 2 x H100: evaluation and start-up {why}"


def test_a_measured_series_has_no_target_and_so_no_factors() -> None:
    rows = table(*[size(n, [100.0 / n] * 3, step_rate=10.0, training_share=0.9, aggregate="rate") for n in (1, 2)])
    assert rows[["efficiency_stat", "efficiency_sys", *FACTORS, "time_reference_s"]].isna().all(axis=None)


positive = st.floats(1e-3, 1e6)
a_size = st.fixed_dictionaries(
    {
        "times": st.lists(st.one_of(st.none(), positive), min_size=1, max_size=7),
        "samples": positive,
        "step_rate": st.one_of(st.none(), positive),
        "training_share": st.one_of(st.none(), st.floats(-0.5, 1.5)),
        "time_factor": st.floats(1.0, 1.2),
        "time_quantum_s": st.one_of(st.none(), positive),
        "runs_dropped": st.sampled_from([1, 2]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.integers(1, 5000), a_size, min_size=1, max_size=5), st.integers(0, 99))
def test_the_factors_multiply_to_the_efficiency_on_any_table(sizes: dict[int, dict], seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = []
    for devices, fields in sizes.items():
        samples = (fields["samples"] * rng.uniform(0.5, 2.0, len(fields["times"]))).tolist()
        points.extend(size(devices, **(fields | {"samples": samples})))
    rows = efficiency_table(points_frame(points))
    measured = rows.dropna(subset=["efficiency"])
    product = measured["efficiency_stat"] * measured["efficiency_sys"]
    assert product.to_numpy(dtype=float) == pytest.approx(measured["efficiency"].to_numpy(dtype=float), rel=1e-9)
    whole = measured.dropna(subset=FACTORS)
    factors = whole[FACTORS].astype(float).prod(axis=1)
    assert factors.to_numpy() == pytest.approx(whole["efficiency_sys"].to_numpy(dtype=float), rel=1e-9)
    told = measured[FACTORS].notna().all(axis=1)
    assert (told == (measured["decomposition_note"] == "")).all()
    for name in ("time_s", "efficiency", "efficiency_stat", "efficiency_sys"):
        both = measured.dropna(subset=[f"{name}_low"])
        assert (both[f"{name}_low"] <= both[f"{name}_high"]).all()


def spread(row: "pd.Series[float]", name: str) -> float:
    """Half the interval, relative to its middle."""
    return (row[f"{name}_high"] - row[f"{name}_low"]) / (row[f"{name}_high"] + row[f"{name}_low"])


def test_runs_that_all_stop_at_one_evaluation_are_uncertain_by_part_of_its_interval() -> None:
    # five runs of four epochs, evaluated once an epoch: each is known to +-1/8 of its time, their middle three to 7-8 %
    fixed = size(8, [400.0] * 5, 4.0, time_quantum_s=100.0)
    assert 0.05 < spread(table(fixed).loc[8], "time_s") < 0.10
    assert spread(table(size(8, [400.0] * 5, 4.0)).loc[8], "time_s") == 0.0


def test_the_evaluation_interval_is_in_the_samples_too_and_so_not_in_e_sys() -> None:
    row = table(*[size(n, [400.0 / n] * 5, 4.0, time_quantum_s=100.0 / n) for n in (1, 8)]).loc[8]
    assert spread(row, "efficiency_stat") == pytest.approx(spread(row, "efficiency"), rel=1e-6)
    assert 0.07 < spread(row, "efficiency") < 0.15
    assert spread(row, "efficiency_sys") < 1e-9


def test_noise_of_convergence_is_in_e_stat_and_noise_of_the_machine_in_e_sys() -> None:
    work = [900.0, 950.0, 1000.0, 1050.0, 1100.0]
    even = [size(n, [w / n for w in work], work) for n in (1, 8)]  # the same samples per second in every run
    row = table(*even).loc[8]
    assert spread(row, "efficiency_stat") > 0.03
    assert spread(row, "efficiency_sys") < 1e-9
    odd = [size(n, [w / n for w in work], 1000.0) for n in (1, 8)]  # the same samples, in more or less time
    row = table(*odd).loc[8]
    assert spread(row, "efficiency_stat") == 0.0
    assert spread(row, "efficiency_sys") > 0.03


def test_an_evaluation_interval_longer_than_the_run_moves_it_by_half_its_time_at_most() -> None:
    row = table(size(8, [100.0] * 3, time_quantum_s=1e6)).loc[8]
    assert 50.0 <= row["time_s_low"] < row["time_s_high"] <= 150.0


def test_the_break_even_is_as_unsure_as_the_efficiency_it_is_drawn_from() -> None:
    sizes = [size(1, [400.0] * 5, 4.0), size(2, [400.0 / 2 / 0.71] * 5, 4.0)]  # E = 0.71, a hair above the threshold
    sure = points_frame(point for points in sizes for point in points)
    unsure = sure.assign(time_quantum_s=sure["time_s"] / 4)
    low = [breakeven_table(frame, efficiency_table(frame), 0.7).loc[0, "devices_low"] for frame in (sure, unsure)]
    assert low == [2, 1]


def test_time_at_the_references_convergence_leaves_the_scaling_factor_and_luck_out() -> None:
    one = size(1, [100.0] * 3, 1000.0, reference_samples=1200.0, time_factor=1.1)
    two = size(2, [80.0] * 3, 1500.0, reference_samples=1300.0)
    rows = table(one, two)
    assert rows["time_reference_s"].tolist() == pytest.approx([120.0, 80.0 * 1300 / 1500])
    assert rows.loc[2, "efficiency_reference"] == pytest.approx(120.0 / (2 * 80.0 * 1300 / 1500))
    unknown = table(size(1, [100.0] * 3), two)
    assert unknown.loc[2, "time_reference_s"] > 0
    assert math.isnan(unknown.loc[2, "efficiency_reference"])


def test_cost_is_device_hours_times_the_price_and_energy_the_mean_of_the_runs_that_count() -> None:
    frame = points_frame(size(8, [1800.0, 3600.0, 7200.0], time_factor=1.5, price_per_device_hour=2.5))
    frame["energy_kj"] = [1.0, 400.0, 9.0]
    row = efficiency_table(frame).iloc[0]
    assert row["device_hours"] == pytest.approx(12.0)
    assert row["cost"] == pytest.approx(30.0)
    assert row["energy_kj"] == pytest.approx(600.0)
    assert (
        efficiency_table(frame.assign(energy_kj=None, price_per_device_hour=None))[["cost", "energy_kj"]]
        .isna()
        .all(axis=None)
    )


def test_energy_of_a_measured_series_is_for_the_work_its_time_is_quoted_for() -> None:
    frame = points_frame(
        size(1, [10.0, 20.0], [100.0, 200.0], aggregate="rate", target_work=1000.0, price_per_device_hour=36.0)
    )
    frame["energy_kj"] = [3.0, 6.0]
    row = efficiency_table(frame).iloc[0]
    assert row["time_s"] == pytest.approx(100.0)
    assert row["energy_kj"] == pytest.approx(30.0)
    assert row["cost"] == pytest.approx(1.0)


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_runs_for_an_olympic_mean_have_no_numbers(runs: int) -> None:
    row = table(size(8, [100.0] * runs, step_rate=10.0, training_share=0.9)).loc[8]
    assert row[["time_s", "efficiency", "efficiency_stat", *FACTORS]].isna().all()
