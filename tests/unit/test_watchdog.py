"""A run that has come to a stand is ended after max(30 s, 10 x median step), and it is said who is behind."""

import time

import pytest

from breakeven.measure.progress import Phase, Progress, Reached, last_sign, read_progress
from breakeven.measure.watchdog import Watchdog, stall

UPDATES = 100


def rank(updates: int, step_s: float = 0.1, phase: Phase = Phase.FORWARD, silent: bool = False) -> Reached:
    """One that made so many updates, one after the other, and then none."""
    stamps = tuple(step_s * update for update in range(updates + 1))
    return Reached(stamps, stamps[-1], phase, silent, 1.0, 0.0)


def after(seconds: float, *ranks: Reached | None) -> object:
    last = max(one.sign for one in ranks if one is not None)
    return stall(ranks, last + seconds, UPDATES, min_warmup=5)


@pytest.mark.parametrize(("step_s", "limit_s"), [(0.1, 30), (2.9, 30), (4.0, 40)])
def test_the_limit_is_thirty_seconds_or_ten_steps(step_s, limit_s):
    ranks = rank(12, step_s), rank(12, step_s)
    assert after(limit_s - 0.1, *ranks) is None
    assert after(limit_s + 0.1, *ranks).limit_s == pytest.approx(limit_s)


def test_slow_first_updates_make_no_longer_limit():
    stamps = tuple([0.0, 50, 100, 150, 200, 250] + [250 + 0.1 * update for update in range(1, 11)])
    slow_start = Reached(stamps, stamps[-1], Phase.FORWARD, False, 1.0, 0.0)
    assert after(31, slow_start).limit_s == 30


def test_before_every_rank_is_warm_nothing_is_a_standstill():
    assert after(1000, rank(12), rank(4)) is None
    assert after(1000, rank(12), None) is None


def test_one_rank_that_still_gives_signs_is_enough():
    other = Reached((0.0,) * 20, 100.0, Phase.BACKWARD, False, 1.0, 0.0)
    assert stall([rank(12), other], 125, UPDATES, 5) is None


def test_a_rank_that_said_it_will_be_silent_is_waited_for():
    assert after(1000, rank(12), rank(12, silent=True)) is None


class TestMessage:
    def test_names_the_rank_that_is_behind(self):
        found = after(31, rank(13), rank(12))
        assert found.behind == (1,)
        assert found.message == (
            "no progress for 30 s (median step 100 ms): rank 1 is behind, in update 13 of 100, in the forward pass"
        )

    def test_tells_them_apart_within_an_update(self):
        found = after(31, rank(12, phase=Phase.BACKWARD), rank(12, phase=Phase.DATA), rank(12, phase=Phase.DATA))
        assert "ranks 1, 2 are behind, in update 13 of 100, waiting for data" in found.message

    def test_names_none_where_all_are_equally_far(self):
        assert "every rank is in update 13 of 100" in after(31, rank(12), rank(12)).message

    def test_says_so_after_the_last_update(self):
        assert "every rank is after the last of 100 updates" in after(31, rank(100), rank(100)).message


def test_what_a_rank_writes_is_what_a_launcher_reads(tmp_path):
    progress = Progress(tmp_path, 0, updates=3)
    assert read_progress(tmp_path, 0).updates == -1
    assert last_sign(tmp_path, 0) == 0
    progress.mark(0.5, 0.0)
    progress.mark(0.7, 1.5)
    progress.phase(Phase.BACKWARD)
    found = read_progress(tmp_path, 0)
    assert (found.updates, found.phase, found.silent) == (1, Phase.BACKWARD, False)
    assert (found.peak_host_gib, found.peak_device_gib) == (0.7, 1.5)
    assert found.stamps[0] < found.stamps[1] <= found.sign == last_sign(tmp_path, 0) <= time.monotonic()
    progress.silent()
    assert read_progress(tmp_path, 0).silent
    progress.sign()
    assert not read_progress(tmp_path, 0).silent
    assert read_progress(tmp_path, 1) is None


def test_looking_at_two_ranks_takes_less_than_a_ten_thousandth_of_a_core(tmp_path):
    """It looks once a second, beside the ranks that it measures."""
    for number in range(2):
        progress = Progress(tmp_path, number, updates=10_000)
        for _ in range(10_000):
            progress.mark(1.0, 0.0)
    watchdog = Watchdog(tmp_path, ranks=2, updates=10_000, min_warmup=5)
    began = time.process_time()
    for _ in range(1000):
        assert watchdog.look() is None
    assert (time.process_time() - began) / 1000 < 1e-4
