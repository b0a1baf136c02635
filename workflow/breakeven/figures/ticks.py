"""Where ticks go on logarithmic axes: at sizes that were tested, and at numbers a person would choose."""

import math
from collections.abc import Sequence

_STEPS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0))
#: Inches a digit takes at the tick labels' size, and the gap between two labels.
_DIGIT_IN, _GAP_IN = 0.085, 0.07


def log_ticks(low: float, high: float, at_most: int = 7) -> list[float]:
    """The finest of the usual 1-2-5 like series that puts no more than ``at_most`` ticks between the limits.

    Limits too close for three of them get equal steps instead, so that there are always two ticks or more.
    """
    best: list[float] = []
    for steps in _STEPS:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [step * 10.0**d for d in decades for step in steps]
        ticks = [t for t in ticks if low <= t * (1 + 1e-9) and t <= high * (1 + 1e-9)]
        if not best or len(ticks) <= at_most:
            best = ticks
    return best if len(best) > 2 else even_ticks(low, high, at_most)


def even_ticks(low: float, high: float, at_most: int = 7) -> list[float]:
    """Multiples of the finest 1, 2 or 5 times a power of ten that puts no more than ``at_most`` between the limits."""
    found: list[float] = []
    coarsest = math.floor(math.log10(high - low))
    for power, step in ((p, s) for p in (coarsest, coarsest - 1) for s in (5, 2, 1)):
        width = step * 10.0**power
        first, last = math.ceil(low / width - 1e-9), math.floor(high / width + 1e-9)
        if found and last - first >= at_most:
            break
        found = [round(k * width, 9 - power) for k in range(first, last + 1)]
    return found


def doublings(low: float, high: float, at_most: int = 9) -> list[float]:
    """Powers of two, the ideal speed-ups of the usual sizes; other numbers where these are too few or many."""
    ticks = [2.0**k for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
    return ticks if 3 <= len(ticks) <= at_most else log_ticks(low, high)


def labelled_sizes(
    sizes: Sequence[int], width_in: float, low: float, high: float, taken: Sequence[int] = ()
) -> list[int]:
    """The tested sizes that get a label: the ends, then powers of two, then the rest, where there is room.

    ``taken`` have one already and are returned too.
    """
    distinct = sorted(set(sizes))
    if not distinct:
        return sorted(taken)
    ends = {distinct[0], distinct[-1]}
    wanted = sorted(distinct, key=lambda n: (n not in ends, n & (n - 1) != 0, n))
    per_log = width_in / math.log(high / low)
    chosen = list(taken)
    for n in wanted:
        if n not in chosen and all(abs(math.log(n / other)) * per_log >= _room(n, other) for other in chosen):
            chosen.append(n)
    return sorted(chosen)


def _room(a: int, b: int) -> float:
    return (len(str(a)) + len(str(b))) / 2 * _DIGIT_IN + _GAP_IN


def size_limits(sizes: Sequence[int], pad: float = 0.06) -> tuple[float, float]:
    """Limits of the device axis: a little air on both sides, at least a third of a doubling; a lone size sits amid."""
    low, high = min(sizes), max(sizes)
    octaves = max(math.log2(high / low) * pad, 0.34) if high > low else 1.0
    return low / 2**octaves, high * 2**octaves
