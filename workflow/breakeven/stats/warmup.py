"""Where a run's warm-up ends: a fixed minimum, then the truncation that makes the rest's mean most certain."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

Array = NDArray[np.float64]


def warmup_end(step_s: Array, minimum: int) -> int:
    """Steps to drop. MSER (White 1997): of all truncations past ``minimum``, the one with the least squared standard
    error of the remaining mean; at most half of what is left after the minimum, so that a trend cannot eat the run.

    ``step_s``: shape (updates,), seconds. Returns ``len(step_s)`` where the run is not longer than the minimum.
    """
    steps = len(step_s)
    if steps <= minimum:
        return steps
    last = minimum + (steps - minimum) // 2
    scores = np.array([np.var(step_s[drop:]) / (steps - drop) for drop in range(minimum, last + 1)])
    # the earliest of equals: rounding alone must not drop steps of an even run
    return minimum + int(np.argmax(scores <= scores.min() + 1e-12 * step_s[minimum:].mean() ** 2))


def stationary(window: Array, level: float = 0.01) -> bool:
    """Whether the two halves of the window look alike (Mann-Whitney rank test at ``level``)."""
    half = len(window) // 2
    if half < 4:
        return True
    return bool(mannwhitneyu(window[:half], window[half:]).pvalue >= level)
