"""Samples that the reference implementation needs at a global batch, found as the official checker finds them.

The checker (``rcp_checker`` of mlperf-logging, as its result summarizer calls it) first prunes the points to those
that converge fastest, then takes the point of the batch, or a straight line between its neighbours, or the smallest
point for a smaller batch; beyond the largest there is none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from breakeven.mlperf.reference_points import ReferencePoint, read_points
from breakeven.mlperf.rules import Benchmark
from breakeven.schema.errors import UserError

TABLE = Path(__file__).parent / "rules" / "reference_convergence.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSamples:
    """What the reference needs at one batch, in samples."""

    global_batch: int
    runs: int
    samples_mean: float
    samples_sd: float


def all_reference_points(extra: Path | None = None) -> list[ReferencePoint]:
    """The points of every round. ``extra``, a folder of further rule sets, may hold a table of the same name: it adds
    to the packaged one, and a benchmark of a round that it names is taken from it alone."""
    packaged = read_points(TABLE)
    own = [] if extra is None or not (extra / TABLE.name).exists() else read_points(extra / TABLE.name)
    replaced = {(point.round, point.benchmark) for point in own}
    return [point for point in packaged if (point.round, point.benchmark) not in replaced] + own


def in_samples(points: Iterable[ReferencePoint], benchmark: Benchmark) -> tuple[BatchSamples, ...]:
    """The points of one benchmark of one round, smallest batch first, in samples."""
    converted = []
    for point in points:
        factor = _samples_per_unit(point, benchmark)
        converted.append(
            BatchSamples(
                global_batch=point.global_batch,
                runs=point.runs,
                samples_mean=point.mean * factor,
                samples_sd=point.sd * factor,
            )
        )
    return tuple(sorted(converted, key=lambda point: point.global_batch))


def _samples_per_unit(point: ReferencePoint, benchmark: Benchmark) -> float:
    # Steps become samples before points are compared: the checker compares steps, by which a larger batch always wins.
    if point.unit == "steps":
        return point.global_batch
    per_unit = 1.0 if point.unit == "samples" else benchmark.convergence.samples_per_unit
    if per_unit is None:
        raise UserError(
            f"{TABLE.name}: {point.round} {point.benchmark} counts {point.unit}, the round's rules optimiser steps.\n"
            "Give the points in steps or samples, or convergence.samples_per_unit in the rules."
        )
    return per_unit


def pruned(points: Sequence[BatchSamples]) -> tuple[BatchSamples, ...]:
    """The points that the official checker keeps, of points sorted by batch.

    Below the batch of the fewest samples all go; of the rest, walking up, one that needs more samples than the line
    between its neighbours, where the lower neighbour is one already kept.
    """
    if not points:
        return ()
    fewest = min(points, key=lambda point: point.samples_mean)
    kept: list[BatchSamples] = []
    candidates = [point for point in points if point.global_batch >= fewest.global_batch]
    for i, point in enumerate(candidates):
        if not kept or i == len(candidates) - 1 or _is_below_line(point, kept[-1], candidates[i + 1]):
            kept.append(point)
    return tuple(kept)


def _is_below_line(point: BatchSamples, low: BatchSamples, high: BatchSamples) -> bool:
    return point.samples_mean <= _between(point.global_batch, low, high)


def _between(global_batch: float, low: BatchSamples, high: BatchSamples) -> float:
    batches, samples = (low.global_batch, high.global_batch), (low.samples_mean, high.samples_mean)
    return float(np.interp(global_batch, batches, samples))


def reference_samples(global_batch: float, points: Sequence[BatchSamples]) -> float | None:
    """Samples to the target at ``global_batch``; None above the largest batch of the reference, or without points."""
    kept = pruned(points)
    if not kept or not global_batch <= kept[-1].global_batch:
        return None
    above = next(i for i, point in enumerate(kept) if point.global_batch >= global_batch)
    if above == 0 or kept[above].global_batch == global_batch:
        return kept[above].samples_mean
    return _between(global_batch, kept[above - 1], kept[above])
