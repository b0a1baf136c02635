"""One run's numbers from its raw steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from breakeven.records.load import Run
from breakeven.schema.status import Status
from breakeven.stats.bootstrap import generator, moving_block_means
from breakeven.stats.warmup import stationary, warmup_end

RESAMPLES = 1000
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The measured part of a run, warm-up dropped."""

    dropped: int
    step_s: Array
    """Shape (steps,): the slowest rank's seconds per step."""
    work: float
    """Samples, or non-padding tokens for text, over all devices."""
    stationary: bool

    @property
    def seconds(self) -> float:
        return float(self.step_s.sum())

    def seconds_se(self, name: str) -> float:
        """Standard error of ``seconds`` by a moving-block bootstrap of the steps."""
        means = moving_block_means(self.step_s, RESAMPLES, generator(name))
        return float(means.std() * len(self.step_s))


def run_step_s(per_rank_s: Array) -> Array:
    """The run's step time: the maximum over ranks, shape (ranks, steps) to (steps,)."""
    if not per_rank_s.size:
        return np.empty(0)
    slowest: Array = per_rank_s.max(axis=0)
    return slowest


def own_step_s(per_rank_s: Array, sync_wait_s: Array) -> Array:
    """What each rank itself took: its steps without the time it waited in gradient synchronisation, (ranks, steps).

    In a synchronous step every rank ends together, so a slow rank shows here and nowhere in the plain step times.
    """
    own: Array = per_rank_s - sync_wait_s
    return own


def window(run: Run) -> Window | None:
    """None where the run is not ``ok``, or has past its warm-up no steps, no work, or a step without a real time."""
    minimum = run.record.spec.min_warmup
    past = run.steps["step_s"][:, minimum:]
    # of every rank: the maximum over ranks would hide a clock that ran backwards on one of them
    if run.record.status is not Status.OK or not past.size or not _all_positive(past):
        return None
    step_s = run_step_s(run.steps["step_s"])
    dropped = warmup_end(step_s, minimum)
    text = run.record.spec.workload.sequence_length is not None
    work = run.steps["tokens" if text else "samples"][dropped:]
    if not _all_positive(work.sum()):
        return None
    kept = step_s[dropped:]
    return Window(dropped=dropped, step_s=kept, work=float(work.sum()), stationary=stationary(kept))


def reached(evaluated_at: Array, accuracy: Array, target: float | None) -> int | None:
    """Updates made when an evaluation first saw the target; None where none did, or there is no target."""
    if target is None or not (hits := np.flatnonzero(accuracy >= target)).size:
        return None
    return int(evaluated_at[hits[0]])


def _all_positive(values: Array | np.float64) -> bool:
    return bool(np.all(np.isfinite(values) & (values > 0)))
