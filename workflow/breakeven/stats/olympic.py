"""The olympic mean of MLPerf: sort, drop the fastest and the slowest runs, average the rest."""

from collections.abc import Sequence


def olympic_kept(times: Sequence[float | None], dropped: int = 1) -> list[int]:
    """Indices of the runs that count, fastest first, with ``dropped`` runs left out at either end.

    ``None`` is a run that did not reach its target: it counts as the slowest. Raises ValueError where no run would be
    left or more runs failed than are dropped: then there is no score.
    """
    failed = [i for i, time in enumerate(times) if time is None]
    if len(failed) > dropped:
        raise ValueError(f"{len(failed)} of {len(times)} runs did not reach their target; at most {dropped} may fail")
    if len(times) < 2 * dropped + 1:
        raise ValueError(f"{len(times)} runs; this olympic mean needs at least {2 * dropped + 1}")
    order = sorted(range(len(times)), key=lambda i: (times[i] is None, times[i] or 0.0, i))
    return order[dropped : len(times) - dropped]
