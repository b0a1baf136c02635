"""Efficiency and break-even are arithmetic on a table: numbers a person can check by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.points.table import points_frame
from breakeven.scaling.breakeven import breakeven_table, crossing
from breakeven.scaling.efficiency import COLUMNS, efficiency_table
from breakeven.scaling.resample import resample, size_of
from breakeven.schema.point import Point
from breakeven.schema.status import Status
from breakeven.stats.bootstrap import generator


def points(times: dict[int, list[float | None]], work: float = 1000.0, **fields: object) -> pd.DataFrame:
    """A series: seconds of each repeat at each device count; None is a failed run."""
    common: dict = {
        "study": "s", "workload": "w", "series": "w", "scaling": "strong", "device": "H100", "nodes": 1,
    } | fields  # fmt: skip
    return points_frame(
        Point(
            **common,
            devices=devices,
            repeat=repeat,
            status=Status.OK if time else Status.FAILED,
            time_s=time,
            samples=work if time else None,
        )
        for devices, repeats in times.items()
        for repeat, time in enumerate(repeats, 1)
    )


def weak(times: dict[int, float]) -> pd.DataFrame:
    frame = points({n: [t] for n, t in times.items()}, scaling="weak")
    frame["samples"] = frame["devices"] * 10.0
    return frame


def test_constant_step_time_at_fixed_local_batch_is_perfect_weak_scaling() -> None:
    table = efficiency_table(weak({1: 0.1, 2: 0.1, 4: 0.1}))
    assert table["efficiency"].tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert table["speedup"].tolist() == pytest.approx([1.0, 2.0, 4.0])


def test_halved_time_on_four_devices_is_half_efficient_and_costs_twice_the_device_hours() -> None:
    table = efficiency_table(points({1: [3600.0], 4: [1800.0]})).set_index("devices")
    assert table.loc[4, "speedup"] == pytest.approx(2.0)
    assert table.loc[4, "efficiency"] == pytest.approx(0.5)
    assert table["device_hours"].tolist() == pytest.approx([1.0, 2.0])


def test_repeats_pool_as_work_over_time_not_as_a_mean_of_rates() -> None:
    table = efficiency_table(points({1: [1.0, 3.0]}))
    # 2000 samples in 4 s: 500/s; the mean of the rates 1000/s and 333/s would say 667/s
    assert table["rate_per_device"].tolist() == pytest.approx([500.0])


def test_repeats_of_unequal_windows_count_as_the_same_work() -> None:
    frame = points({1: [1.0, 1.0]}, time_s_se=0.01)
    frame["samples"] = [100.0, 300.0]
    row = efficiency_table(frame).iloc[0]
    # 1/100 s and 1/300 s for one sample: two of them in 4/300 s. Sum over sum would say 200/s.
    assert row["rate_per_device"] == pytest.approx(150.0)
    # the resamples are of the two repeats too: from 100/s to 300/s, and 1 % of a second on top
    assert row["time_s_low"] == pytest.approx(row["work"] / 300, rel=0.03)
    assert row["time_s_high"] == pytest.approx(row["work"] / 100, rel=0.03)


def test_resampled_repeats_of_unequal_windows_count_as_the_same_work_too() -> None:
    frame = points({1: [1.0, 1.0]})
    frame["samples"] = [100.0, 300.0]
    size = size_of(frame)
    assert size is not None
    draws = resample(size, generator("a quarter 100, a half 150, a quarter 300"))
    assert draws is not None
    assert np.median(draws.rate) == pytest.approx(150.0)


def test_the_error_within_a_run_is_of_its_own_time() -> None:
    frame = points({1: [8.0]}, work=2.0, time_s_se=0.08)
    row = efficiency_table(frame).iloc[0]
    # 1 % of the time, whatever the work: 95 % within 1.96 % on both sides
    assert row["time_s_high"] - row["time_s_low"] == pytest.approx(2 * 1.96 * 0.01 * 8.0, rel=0.1)


def test_a_row_without_a_time_does_not_remove_its_size_or_move_the_reference() -> None:
    frame = points({1: [2.0, 2.0], 2: [1.0, 1.0]})
    frame.loc[0, "time_s"] = math.nan
    table = efficiency_table(frame)
    assert table["reference_devices"].tolist() == [1, 1]
    assert table["efficiency"].tolist() == pytest.approx([1.0, 1.0])


def test_times_are_quoted_for_the_work_asked_for() -> None:
    table = efficiency_table(points({1: [2.0], 2: [1.0]}, target_work=5000.0))
    assert table["time_s"].tolist() == pytest.approx([10.0, 5.0])


def test_the_reference_is_the_smallest_size_that_fits_and_is_named() -> None:
    table = efficiency_table(points({1: [None, None], 2: [1.0, 1.0], 4: [0.5, 0.5]}, label="mine"))
    assert table["reference_devices"].tolist() == [2, 2, 2]
    assert table["efficiency"].tolist()[1:] == pytest.approx([1.0, 1.0])
    assert math.isnan(table["efficiency"].iloc[0])
    assert table["runs_not_ok"].tolist() == [2, 0, 0]


def test_olympic_series_drops_the_fastest_and_the_slowest_and_scales() -> None:
    frame = points({8: [10.0, 20.0, 22.0, None], 16: [10.0, 11.0, 12.0]}, aggregate="olympic", time_factor=1.1)
    table = efficiency_table(frame)
    assert table["time_s"].tolist() == pytest.approx([21.0 * 1.1, 11.0 * 1.1])
    assert table["efficiency"].tolist()[1] == pytest.approx(21 / 22)


def test_the_interval_of_an_olympic_series_is_of_the_scaled_time() -> None:
    frame = points({8: [10.0, 10.1, 10.2, 10.3, 10.4]}, aggregate="olympic", time_factor=1.5)
    row = efficiency_table(frame).iloc[0]
    assert row["time_s"] == pytest.approx(10.2 * 1.5)
    assert 10.0 * 1.5 <= row["time_s_low"] < row["time_s"] < row["time_s_high"] <= 10.4 * 1.5


def test_a_series_of_failures_keeps_its_rows() -> None:
    table = efficiency_table(points({1: [None], 2: [None]}))
    assert table["devices"].tolist() == [1, 2]
    assert table["time_s"].isna().all()
    assert list(table.columns) == COLUMNS


@given(
    st.dictionaries(st.integers(1, 4096), st.floats(1e-3, 1e6), min_size=1, max_size=8),
    st.floats(1e-2, 1e9),
)
def test_throughput_times_time_is_work_and_efficiency_is_speedup_per_device(
    times: dict[int, float], work: float
) -> None:
    table = efficiency_table(points({n: [t] for n, t in times.items()}, work=work))
    for row in table.to_dict("records"):
        assert row["rate_per_device"] * row["devices"] * row["time_s"] == pytest.approx(row["work"])
        assert row["efficiency"] == pytest.approx(row["speedup"] * row["reference_devices"] / row["devices"])
        assert row["device_hours"] * 3600 == pytest.approx(row["devices"] * row["time_s"])


def test_intervals_hold_the_estimate_and_have_the_width_of_the_noise() -> None:
    frame = points({1: [0.98, 1.0, 1.02, 1.01, 0.99], 2: [0.49, 0.51, 0.5, 0.505, 0.495]})
    row = efficiency_table(frame).iloc[1]
    assert row["efficiency_low"] < row["efficiency"] < row["efficiency_high"]
    # standard error of each mean is about 0.7 %, of the ratio 1 %: 95 % within about +-2 %
    assert 0.01 < row["efficiency_high"] - row["efficiency_low"] < 0.06


def test_one_run_without_a_known_error_has_no_interval_and_one_with_it_has() -> None:
    frame = points({1: [1.0], 2: [0.6]})
    assert efficiency_table(frame)["efficiency_low"].isna().all()
    frame["time_s_se"] = [0.01, 0.006]
    row = efficiency_table(frame).iloc[1]
    assert row["efficiency_high"] - row["efficiency_low"] == pytest.approx(4 * 0.0141 * row["efficiency"], rel=0.2)


def breakeven(times: dict[int, float], threshold: float = 0.7) -> pd.DataFrame:
    frame = points({n: [t] for n, t in times.items()})
    return breakeven_table(frame, efficiency_table(frame), threshold).set_index("criterion")


def test_breakeven_is_the_largest_size_that_keeps_the_threshold() -> None:
    # E = 1, 0.9, 0.75, 0.5
    table = breakeven({1: 1.0, 2: 1 / 1.8, 4: 1 / 3.0, 8: 1 / 4.0})
    row = table.loc["efficiency >= 0.7"]
    assert row["devices"] == 4
    assert 4 < row["crossing"] < 8
    assert row["note"] == ""


def test_breakeven_beyond_what_was_tested_is_not_a_number() -> None:
    row = breakeven({1: 1.0, 2: 0.51}).loc["efficiency >= 0.7"]
    assert pd.isna(row["crossing"])
    assert row["note"] == "not reached up to 2, the largest size tested"


def test_one_size_is_no_curve() -> None:
    table = breakeven({4: 1.0})
    assert table["note"].tolist() == ["one size: no curve", "one size: no curve"]


def test_a_dip_is_named() -> None:
    row = breakeven({1: 1.0, 2: 1.0, 4: 0.3}).loc["efficiency >= 0.7"]
    assert row["devices"] == 4
    assert row["note"] == "below the threshold at 2"


def test_max_speedup_times_efficiency_is_least_n_t_squared() -> None:
    times = {1: 1.0, 2: 0.55, 4: 0.31, 8: 0.26}
    best = min(times, key=lambda n: n * times[n] ** 2)
    assert breakeven(times).loc["max speedup x efficiency", "devices"] == best == 4


def test_crossing_is_straight_in_log_log() -> None:
    assert crossing([1, 100], [1.0, 0.01], 0.1) == pytest.approx(10.0)
    assert crossing([1, 2], [1.0, 0.9], 0.7) is None
