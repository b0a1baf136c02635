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
    """The runs of one device count: seconds, work, and what turns them into one rate. Arrays of shape (runs,)."""

    time_s: Array
    """Above 0; NaN where a run did not reach its target."""
    samples: Array
    """Above 0; NaN where unknown."""
    time_s_se: Array
    """Standard error within each run; 0 where unknown."""
    quantum_s: Array
    """Seconds between two looks at the target, never more than the run; 0 where unknown."""
    step_rate: Array
    training_share: Array
    energy_kj: Array
    aggregate: str
    time_factor: float
    runs_dropped: int

    @property
    def olympic(self) -> bool:
        return self.aggregate == "olympic"


def size_of(rows: pd.DataFrame) -> Size | None:
    """The measured runs among the rows of one device count; None where none counts."""
    olympic = rows["aggregate"].iloc[0] == "olympic"
    # A run of no time or of no work has no rate: as one without a time it failed, as one without work that is unknown.
    times, work = _above_0(rows["time_s"]), _above_0(rows["samples"])
    ok = rows["status"] == Status.OK
    if not olympic:
        # one row without a time would make the whole size's rate NaN, and another size the reference
        ok &= np.isfinite(times) & np.isfinite(work)
    kept = rows[rows["status"] != Status.NOT_MEASURED] if olympic else rows[ok]
    if kept.empty or not ok.any():
        return None
    time_s = np.asarray(times[kept.index].where(kept["status"] == Status.OK), dtype=np.float64)
    return Size(
        time_s=time_s,
        samples=np.asarray(work[kept.index], dtype=np.float64),
        time_s_se=kept["time_s_se"].fillna(0.0).to_numpy(dtype=float),
        quantum_s=np.nan_to_num(np.minimum(kept["time_quantum_s"].to_numpy(dtype=float), time_s)),
        step_rate=kept["step_rate"].to_numpy(dtype=float),
        training_share=kept["training_share"].to_numpy(dtype=float),
        energy_kj=kept["energy_kj"].to_numpy(dtype=float),
        aggregate=str(kept["aggregate"].iloc[0]),
        time_factor=float(kept["time_factor"].iloc[0]),
        runs_dropped=int(kept["runs_dropped"].iloc[0]),
    )


def _above_0(values: "pd.Series[float]") -> "pd.Series[float]":
    numbers = values.astype(float)
    return numbers.where(numbers > 0)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One size as one number each; NaN where it has no score."""

    rate: float
    """X: work per second; for a run to a target, targets per second."""
    time_s: float
    """Seconds to the target; for a rate, seconds of the mean run."""
    samples: float
    """Mean work of the runs that count."""
    counted: list[int]
    """The runs that count; empty where there is no score."""


def aggregate(size: Size) -> Aggregate:
    """Rate: work over time, every run taken for the same work (the harmonic mean of the runs' rates): how many steps a
    run kept past its warm-up must not weigh it. Olympic: 1 over the scaled olympic mean; NaN where there is no score.
    """
    if not size.olympic:
        rate = len(size.time_s) / float((size.time_s / size.samples).sum())
        every = list(range(len(size.time_s)))
        return Aggregate(rate, float(size.time_s.mean()), float(size.samples.mean()), every)
    times = [None if np.isnan(t) else float(t) for t in size.time_s]
    try:
        kept = olympic_kept(times, size.runs_dropped)
    except ValueError:
        return Aggregate(float("nan"), float("nan"), float("nan"), [])
    time_s = float(np.mean(size.time_s[kept])) * size.time_factor
    return Aggregate(1 / time_s, time_s, float(np.mean(size.samples[kept])), kept)


@dataclass(frozen=True, slots=True)
class Draws:
    """``RESAMPLES`` resamples of one size; NaN where a resample has no score."""

    rate: Array
    samples: Array
    """Mean work of the runs that count, scaled as the time is."""


def resample(size: Size, rng: np.random.Generator) -> Draws | None:
    """Runs drawn with replacement, time and work together, each with its own uncertainty added.

    None where one run without a known uncertainty is all there is: then there is no interval to state.
    """
    runs = len(size.time_s)
    if runs < 2 and not size.time_s_se.any() and not size.quantum_s.any():
        return None
    index = rng.integers(0, runs, size=(RESAMPLES, runs))
    times = size.time_s[index] + rng.standard_normal(index.shape) * size.time_s_se[index]
    samples = size.samples[index]
    if size.quantum_s.any():
        # Convergence is known to the evaluation that saw it, no nearer: half an interval to either side keeps the mean.
        shift = 1 + rng.uniform(-0.5, 0.5, size=index.shape) * (size.quantum_s / size.time_s)[index]
        times, samples = times * shift, samples * shift
    if not size.olympic:
        return Draws(runs / (times / samples).sum(axis=1), samples.mean(axis=1))
    return _olympic(times, samples, size)


def _olympic(times: Array, samples: Array, size: Size) -> Draws:
    """The rule of ``olympic_kept`` along the rows: failed runs are the slowest, and too many of them leave no score."""
    runs, dropped = times.shape[1], size.runs_dropped
    if runs < 2 * dropped + 1:
        return Draws(np.full(len(times), np.nan), np.full(len(times), np.nan))
    order = np.argsort(times, axis=1, kind="stable")[:, dropped : runs - dropped]  # NaN sorts last
    scored = np.isnan(times).sum(axis=1) <= dropped
    mean_s = np.take_along_axis(times, order, axis=1).mean(axis=1) * size.time_factor
    work = np.take_along_axis(samples, order, axis=1).mean(axis=1) * size.time_factor
    return Draws(np.where(scored, 1 / mean_s, np.nan), np.where(scored, work, np.nan))
