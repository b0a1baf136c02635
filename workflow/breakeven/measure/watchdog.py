"""Ends a run that has come to a stand: a collective in which one rank is missing waits for ever."""

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from breakeven.measure.progress import Phase, Reached, last_sign, read_progress

#: A warmed-up run that makes no progress for this long, or this many steps if that is longer, has come to a stand.
LEAST_S = 30.0
STEPS = 10

#: Seconds between looks.
EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Stall:
    """How far the ranks were when they stopped. ``behind``: those that are least far, where not all are equally far."""

    behind: tuple[int, ...]
    update: int
    """The one they are in, from 1 on; one more than there are, after the last."""
    updates: int
    phase: Phase
    median_step_s: float
    limit_s: float

    @property
    def message(self) -> str:
        who = "every rank is"
        if self.behind:
            word = "ranks" if len(self.behind) > 1 else "rank"
            who = f"{word} {', '.join(map(str, self.behind))} {'are' if len(self.behind) > 1 else 'is'} behind,"
        where = f"in update {self.update} of {self.updates}, {self.phase.words}"
        if self.update > self.updates:
            where = f"after the last of {self.updates} updates"
        return f"no progress for {self.limit_s:.0f} s (median step {1e3 * self.median_step_s:.4g} ms): {who} {where}"


def stall(ranks: Sequence[Reached | None], now: float, updates: int, min_warmup: int) -> Stall | None:
    """None while there is progress, before every rank is warmed up, and where a rank has said it will be silent."""
    found = [rank for rank in ranks if rank is not None]
    warm = max(min_warmup, 1)
    if len(found) < len(ranks) or min(rank.updates for rank in found) < warm or any(rank.silent for rank in found):
        return None
    median_s = max(_median_step_s(rank.stamps, warm) for rank in found)
    limit_s = max(LEAST_S, STEPS * median_s)
    if now - max(rank.sign for rank in found) < limit_s:
        return None
    places = [(rank.updates, rank.phase) for rank in found]
    least = min(places)
    behind = tuple(number for number, place in enumerate(places) if place == least)
    return Stall(
        behind=behind if len(behind) < len(places) else (),
        update=least[0] + 1,
        updates=updates,
        phase=least[1],
        median_step_s=median_s,
        limit_s=limit_s,
    )


def _median_step_s(stamps: Sequence[float], warm: int) -> float:
    """Of the updates after the warm-up; of all while there are none."""
    kept = stamps[warm:] if len(stamps) > warm + 1 else stamps
    return statistics.median(after - before for before, after in itertools.pairwise(kept))


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Looks at the progress of a run's ranks, cheaply as long as there is any."""

    scratch: Path
    ranks: int
    updates: int
    min_warmup: int

    def look(self) -> Stall | None:
        now = time.monotonic()
        if now - max(last_sign(self.scratch, rank) for rank in range(self.ranks)) < LEAST_S:
            return None
        reached = [read_progress(self.scratch, rank) for rank in range(self.ranks)]
        return stall(reached, now, self.updates, self.min_warmup)
