"""Warm-up, bootstrap and the olympic mean, with answers known beforehand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.stats.bootstrap import generator, interval, moving_block_means
from breakeven.stats.olympic import olympic_kept
from breakeven.stats.warmup import stationary, warmup_end


def test_warmup_past_the_minimum_is_found() -> None:
    rng = generator("warm-up")
    steps = np.concatenate([np.full(18, 0.5), 0.1 + 0.002 * rng.standard_normal(42)])
    assert warmup_end(steps, 10) == 18


def test_no_more_than_the_minimum_is_dropped_from_a_flat_run_and_never_more_than_half_the_rest() -> None:
    assert warmup_end(np.full(40, 0.1), 10) == 10
    assert warmup_end(np.linspace(1.0, 0.1, 40), 10) <= 25
    assert warmup_end(np.full(5, 0.1), 10) == 5


def test_a_drift_is_not_stationary_and_noise_is() -> None:
    rng = generator("drift")
    noise = 0.1 + 0.002 * rng.standard_normal(60)
    assert stationary(noise)
    assert not stationary(noise + np.linspace(0, 0.02, 60))


def test_block_bootstrap_of_correlated_steps_is_wider_than_an_independent_one() -> None:
    rng = generator("correlated")
    values = np.empty(400)
    values[0] = 0.0
    for i in range(1, 400):
        values[i] = 0.9 * values[i - 1] + rng.standard_normal()
    blocks = moving_block_means(values, 2000, generator("a")).std()
    independent = values.std() / 20
    assert blocks > 1.8 * independent


def test_interval_covers_ninety_five_percent_and_ignores_resamples_without_a_score() -> None:
    low, high = interval(np.append(np.linspace(0, 1, 1001), np.nan))
    assert (low, high) == pytest.approx((0.025, 0.975))


def test_equal_names_draw_equal_numbers() -> None:
    assert generator("x").random() == generator("x").random() != generator("y").random()


def test_the_fastest_and_the_slowest_run_do_not_count_and_a_failed_run_is_the_slowest() -> None:
    assert sorted(olympic_kept([5.0, 1.0, 3.0, 100.0])) == [0, 2]
    assert sorted(olympic_kept([5.0, 1.0, 3.0, None])) == [0, 2]
    with pytest.raises(ValueError, match="2 of 4 runs"):
        olympic_kept([5.0, None, 3.0, None])


def test_where_four_are_dropped_at_either_end_four_may_fail() -> None:
    times = [float(i) for i in range(36)] + [None] * 4
    assert olympic_kept(times, dropped=4) == list(range(4, 36))
    with pytest.raises(ValueError, match="5 of 40 runs did not reach their target; at most 4 may fail"):
        olympic_kept([*times[1:], None], dropped=4)
    with pytest.raises(ValueError, match="8 runs; this olympic mean needs at least 9"):
        olympic_kept([1.0] * 8, dropped=4)


@given(st.lists(st.floats(0.1, 1e6), min_size=3, max_size=20))
def test_the_runs_that_count_lie_between_those_that_do_not(times: list[float]) -> None:
    kept = [times[i] for i in olympic_kept(times)]
    assert sorted(kept) == sorted(times)[1:-1]
