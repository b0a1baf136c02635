"""The critical batch: D(B) = Dmin · (1 + B / Bcrit), samples to the target against the global batch.

The form of McCandlish et al. (2018, arXiv:1812.06162): Dmin is what small batches need, and at B = Bcrit half the
samples are wasted. It is fitted to log D, so that an error of a tenth weighs the same at any batch.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from breakeven.mlperf.reference import pruned
from breakeven.mlperf.rulebook import Rulebook

Array = NDArray[np.float64]

#: Different batches that a fit of two parameters needs at the least, to have an error at all.
FEWEST_BATCHES = 3

#: Bcrit is sought this many times below the smallest and above the largest batch; beyond, no data tells it from none.
REACH = 1000.0

LEVEL = 0.95

#: How near a search goes, in ln Bcrit. Grids within grids do it: importing scipy.optimize takes longer than all fits.
PRECISE = 1e-10

CRITICAL_BATCH_COLUMNS = ["round", "benchmark", "workload", "of", "points", "batch_min", "batch_max", "samples_min",
                          "critical_batch", "critical_batch_low", "critical_batch_high", "rmse_percent",
                          "note"]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalBatch:
    """A fit. Where the data do not identify it, its numbers are None and ``note`` says why."""

    points: int
    batch_min: int | None
    batch_max: int | None
    samples_min: float | None = None
    """Dmin, samples."""
    critical_batch: float | None = None
    """Bcrit, samples."""
    critical_batch_low: float | None = None
    critical_batch_high: float | None = None
    """The 95 % profile interval of Bcrit; None where the data do not bound it on that side."""
    rmse_percent: float | None = None
    """Root mean square of ln(D / fit), in percent."""
    note: str = ""


def fit_critical_batch(batches: Sequence[int], samples: Sequence[float]) -> CriticalBatch:
    """Fit Dmin and Bcrit to points of a batch and the samples to the target, both in samples. Points of which either is
    none (0, negative or not finite) are left out."""
    batch, needed = np.asarray(batches, dtype=float), np.asarray(samples, dtype=float)
    usable = (batch > 0) & (needed > 0) & np.isfinite(batch) & np.isfinite(needed)
    batch, log_samples = batch[usable], np.log(needed[usable])
    different = len(np.unique(batch))
    fit = CriticalBatch(
        points=len(batch),
        batch_min=int(batch.min()) if len(batch) else None,
        batch_max=int(batch.max()) if len(batch) else None,
    )
    if different < FEWEST_BATCHES:
        return replace(fit, note=f"not identifiable: {_batches(different)}, of {FEWEST_BATCHES} a fit needs")
    if np.ptp(log_samples) == 0:
        return replace(fit, note="not identifiable: every batch takes the same samples")

    def all_squares(log_critical: Array) -> Array:
        """The sum of squares at each of many Bcrit: at once, because a search asks for thousands."""
        shape = log_samples - np.log1p(batch / np.exp(log_critical)[:, None])
        # the best ln Dmin for a Bcrit is the mean
        return ((shape - shape.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)  # type: ignore[no-any-return]

    def squares(log_critical: float) -> float:
        return float(all_squares(np.array([log_critical]))[0])

    bounds = float(np.log(batch.min() / REACH)), float(np.log(batch.max() * REACH))
    best = _lowest(all_squares, *bounds)
    if best is None:
        # Which bound: samples that fall with the batch, or not at all grow with it, against growth in full proportion.
        rises = squares(bounds[0]) < squares(bounds[1])
        why = "samples grow in proportion to the batch" if rises else "samples do not grow with the batch"
        return replace(fit, note=f"not identifiable: {why}")
    # fdtri: the quantile of the F distribution, without the second that scipy.stats takes to import
    limit = squares(best) * (1 + special.fdtri(1, len(batch) - 2, LEVEL) / (len(batch) - 2))
    low = _crossing(all_squares, limit, best, bounds[0])
    high = _crossing(all_squares, limit, best, bounds[1])
    open_sides = [side for side, end in (("below", low), ("above", high)) if end is None]
    return replace(
        fit,
        samples_min=float(np.exp(np.mean(log_samples - np.log1p(batch / np.exp(best))))),
        critical_batch=float(np.exp(best)),
        critical_batch_low=low,
        critical_batch_high=high,
        rmse_percent=float(100 * np.sqrt(squares(best) / len(batch))),
        note=f"not bounded {' or '.join(open_sides)} by the data" if open_sides else "",
    )


def _lowest(function: Callable[[Array], Array], low: float, high: float) -> float | None:
    """Where ``function`` is least; None where that is at an end. It may be flat there, so a grid goes first."""
    grid = np.linspace(low, high, 2001)
    i = int(np.argmin(function(grid)))
    if i in (0, len(grid) - 1):
        return None
    low, high = grid[i - 1], grid[i + 1]
    while high - low > PRECISE:
        grid = np.linspace(low, high, 101)
        i = int(np.argmin(function(grid)))
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    return float(low + high) / 2


def _crossing(function: Callable[[Array], Array], limit: float, inside: float, bound: float) -> float | None:
    """exp of where ``function`` first passes ``limit`` on the way from ``inside`` to ``bound``; None: nowhere."""
    steps = np.linspace(inside, bound, 1001)
    over = function(steps) > limit
    if not over.any():
        return None
    above = int(np.argmax(over))
    if above == 0:
        return float(np.exp(inside))
    near, far = steps[above - 1], steps[above]
    while abs(far - near) > PRECISE:
        grid = np.linspace(near, far, 101)
        above = int(np.argmax(function(grid) > limit))
        near, far = grid[above - 1], grid[above]
    return float(np.exp((near + far) / 2))


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"


def critical_batches(scored: pd.DataFrame, book: Rulebook) -> pd.DataFrame:
    """The fits of each round and benchmark, columns ``CRITICAL_BATCH_COLUMNS``: one to its reference points (those that
    the official checker keeps) and one to its result sets: those without a note and not of the open division, which may
    train another model. A set submitted twice counts once."""
    rows = []
    for (round_name, folder), ruled in book.items():
        reference = pruned(ruled.reference)
        sets = scored[(scored["round"] == round_name) & (scored["benchmark"] == folder)]
        sets = sets[(sets["note"] == "") & (sets["duplicate_of"] == "") & (sets["division"].str.lower() == "closed")]
        sets = sets.dropna(subset=["global_batch", "samples_to_converge"])
        of = {
            "reference": ([p.global_batch for p in reference], [p.samples_mean for p in reference]),
            "submissions": (sets["global_batch"].tolist(), sets["samples_to_converge"].tolist()),
        }
        for name, (batches, samples) in of.items():
            place = {"round": round_name, "benchmark": folder, "workload": ruled.benchmark.workload, "of": name}
            rows.append(place | dataclasses.asdict(fit_critical_batch(batches, samples)))
    return pd.DataFrame(rows, columns=CRITICAL_BATCH_COLUMNS).astype({"batch_min": "Int64", "batch_max": "Int64"})
