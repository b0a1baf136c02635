"""The olympic mean of MLPerf: sort, drop the fastest and the slowest run, average the rest."""

from collections.abc import Sequence


def olympic_kept(times: Sequence[float | None]) -> list[int]:
    """Indices of the runs that count. ``None`` is a run that did not reach its target: it counts as the slowest.

    Raises ValueError with fewer than three runs or more than one failed run: then there is no score.
    """
    failed = [i for i, time in enumerate(times) if time is None]
    if len(failed) > 1:
        raise ValueError(f"{len(failed)} of {len(times)} runs did not reach their target; at most one may fail")
    if len(times) < 3:
        raise ValueError(f"{len(times)} runs; an olympic mean needs at least three")
    order = sorted(range(len(times)), key=lambda i: (times[i] is None, times[i] or 0.0, i))
    return order[1:-1]
