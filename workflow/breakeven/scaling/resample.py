"""One size of one series: its runs aggregated, and resampled for an interval."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from breakeven.schema.status import Status
from breakeven.stats.olympic import olympic_kept

RESAMPLES = 2000
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Size:
    """The runs of one device count: seconds, work, and what turns them into one rate."""

    time_s: Array
    """Shape (runs,); NaN where a run did not reach its target."""
    samples: Array
    time_s_se: Array
    """Standard error within each run; 0 where unknown."""
    aggregate: str
    time_factor: float


def size_of(rows: pd.DataFrame) -> Size | None:
    """The measured runs among the rows of one device count; None where none counts."""
    olympic = rows["aggregate"].iloc[0] == "olympic"
    ok = rows["status"] == Status.OK
    if not olympic:
        # one row without a time would make the whole size's rate NaN, and another size the reference
        ok &= np.isfinite(rows["time_s"].to_numpy(dtype=float)) & np.isfinite(rows["samples"].to_numpy(dtype=float))
    kept = rows[rows["status"] != Status.NOT_MEASURED] if olympic else rows[ok]
    if kept.empty or not ok.any():
        return None
    return Size(
        time_s=kept["time_s"].where(kept["status"] == Status.OK).to_numpy(dtype=float),
        samples=kept["samples"].to_numpy(dtype=float),
        time_s_se=kept["time_s_se"].fillna(0.0).to_numpy(dtype=float),
        aggregate=str(kept["aggregate"].iloc[0]),
        time_factor=float(kept["time_factor"].iloc[0]),
    )


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One size as one number each."""

    rate: float
    """X: work per second; for a run to a target, targets per second."""
    time_s: float
    """Seconds to the target; for a rate, seconds of the mean run."""
    samples: float
    """Mean work of the runs that count."""


def aggregate(size: Size) -> Aggregate:
    """Rate: work over time, every run taken for the same work (the harmonic mean of the runs' rates): how many steps a
    run kept past its warm-up must not weigh it. Olympic: 1 over the scaled olympic mean; NaN where there is no score.
    """
    if size.aggregate == "rate":
        rate = len(size.time_s) / float((size.time_s / size.samples).sum())
        return Aggregate(rate, float(size.time_s.mean()), float(size.samples.mean()))
    times = [None if np.isnan(t) else float(t) for t in size.time_s]
    try:
        kept = olympic_kept(times)
    except ValueError:
        return Aggregate(float("nan"), float("nan"), float("nan"))
    time_s = float(np.mean(size.time_s[kept])) * size.time_factor
    return Aggregate(1 / time_s, time_s, float(np.mean(size.samples[kept])))


def resampled_rates(size: Size, rng: np.random.Generator) -> Array | None:
    """Rates of ``RESAMPLES`` resamples: runs drawn with replacement, each with its own uncertainty added.

    None where one run without a known uncertainty is all there is: then there is no interval to state.
    """
    runs = len(size.time_s)
    if runs < 2 and not size.time_s_se.any():
        return None
    index = rng.integers(0, runs, size=(RESAMPLES, runs))
    times = size.time_s[index] + rng.standard_normal(index.shape) * size.time_s_se[index]
    if size.aggregate == "rate":
        rates: Array = runs / (times / size.samples[index]).sum(axis=1)
        return rates
    # A failed run counts as the slowest; a resample with more than one has no score.
    failed = np.isnan(times).sum(axis=1)
    ordered = np.sort(np.where(np.isnan(times), np.inf, times), axis=1)[:, 1:-1]
    with np.errstate(invalid="ignore"):
        means = ordered.mean(axis=1) * size.time_factor if runs >= 3 else np.full(RESAMPLES, np.nan)
    return np.where(failed > 1, np.nan, 1 / means)
