"""Which pieces of a model make a pipeline's stages, and which rank has which stage."""

import functools
import itertools
import math
from collections.abc import Sequence


def split(costs: Sequence[int], stages: int) -> list[range]:
    """Runs of neighbouring pieces, one a stage and none empty. The dearest stage costs as little as can be; then all
    are as even as can be; then the first are the dearer ones, since a pipeline's last stage has the loss besides.

    Raises ValueError where there are fewer pieces than stages.
    """
    if not 1 <= stages <= len(costs):
        raise ValueError(f"{len(costs)} pieces make no {stages} stages")
    upto = [0, *itertools.accumulate(costs)]
    limit = _smallest_limit(costs, stages)

    @functools.cache
    def best(begin: int, left: int) -> tuple[float, int]:
        """Least sum of squares of ``left`` stages from piece ``begin`` on, and where the first of them ends."""
        ends = range(begin + 1, len(costs) - left + 2) if left > 1 else (len(costs),)
        found = [(math.inf, -len(costs))]
        for end in ends:
            held = upto[end] - upto[begin]
            if held <= limit:
                found.append((held**2 + (best(end, left - 1)[0] if left > 1 else 0), -end))
        squares, end = min(found)
        return squares, -end

    found: list[range] = []
    for left in range(stages, 0, -1):
        begin = found[-1].stop if found else 0
        found.append(range(begin, best(begin, left)[1]))
    return found


def _smallest_limit(costs: Sequence[int], stages: int) -> int:
    """Of the dearest stage: the least that so many stages, filled one after the other, can keep."""
    low, high = max(costs), sum(costs)
    while low < high:
        middle = (low + high) // 2
        if _needed(costs, middle) <= stages:
            high = middle
        else:
            low = middle + 1
    return low


def _needed(costs: Sequence[int], limit: int) -> int:
    stages, held = 1, 0
    for cost in costs:
        if held + cost > limit:
            stages, held = stages + 1, 0
        held += cost
    return stages


def held_by(rank: int, ranks: int, per_rank: int, *, folded: bool) -> list[int]:
    """The stages of a rank, in the order of the forward pass. Dealt out round and round; ``folded``: to the last rank
    and back, so that the first rank has the first stage and the last."""
    back = ranks - 1 - rank
    return [turn * ranks + (back if folded and turn % 2 else rank) for turn in range(per_rank)]
