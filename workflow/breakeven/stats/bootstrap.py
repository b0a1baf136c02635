"""Bootstrap with a seed that comes from the data's name, so that the same table gives the same interval."""

import hashlib

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def generator(name: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))


def block_length(steps: int) -> int:
    """n^(1/3), rounded up: the usual order of growth for a moving-block bootstrap of a mean (Kuensch 1989)."""
    return max(1, int(np.ceil(steps ** (1 / 3))))


def moving_block_means(values: Array, resamples: int, rng: np.random.Generator) -> Array:
    """Means of ``resamples`` moving-block resamples of a series, shape (resamples,).

    Steps of a run are autocorrelated, so blocks are drawn whole; an independent bootstrap would be too narrow.
    Raises ValueError on an empty series.
    """
    steps = len(values)
    if not steps:
        raise ValueError("no steps to resample")
    length = block_length(steps)
    blocks = -(-steps // length)
    starts = rng.integers(0, steps - length + 1, size=(resamples, blocks))
    index = (starts[:, :, None] + np.arange(length)).reshape(resamples, -1)[:, :steps]
    means: Array = values[index].mean(axis=1)
    return means


def interval(samples: Array, level: float = 0.95) -> tuple[float, float]:
    """The central ``level`` of bootstrap samples; NaN samples (a resample without a score) are left out."""
    kept = samples[np.isfinite(samples)]
    if not kept.size:
        return float("nan"), float("nan")
    low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
