"""The measured window: updates back to back, and nothing else."""

import gc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.datasets.batches import Work
from breakeven.measure.clocks import Clock
from breakeven.measure.faults import Faults
from breakeven.strategies.trainee import Criterion, Inputs, Trainee
from breakeven.workloads.objectives import Objective


@dataclass(frozen=True, slots=True)
class Timeline:
    """One rank's updates, each array of shape (updates,); seconds, but for the loss."""

    step_s: NDArray[np.float64]
    data_wait_s: NDArray[np.float64]
    sync_wait_s: NDArray[np.float64]
    device_s: NDArray[np.float64]
    loss: NDArray[np.float64] | None
    """Of this rank's part; the mean over the ranks that have one is the global batch's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """What happens after an update, outside its time."""

    due: Callable[[int], bool]
    """Whether after this many updates."""
    act: Callable[[int], None]


def run_updates(
    *,
    trainee: Trainee,
    optimizer: Any,
    scaler: Any,
    objective: Objective,
    work: list[Work],
    feed: Iterator[Inputs],
    accumulation: int,
    clock: Clock,
    mark: Callable[[], None],
    faults: Faults,
    between: Between | None = None,
) -> Timeline:
    """One pass over ``work``, one update per entry. Collective: every rank calls it, after a barrier.

    ``scaler``: a GradScaler, or None. Gradients of the last update are left, to be counted.
    """
    data_wait, sync_wait, losses = [], [], []
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection falls on one rank's step and is waited for by all
    mark()
    clock.stamp()
    for update, global_work in enumerate(work):
        asked = perf_counter()
        inputs = trainee.part(next(feed))
        data_wait.append(perf_counter() - asked)
        clock.begin()
        faults.before_forward(update)
        optimizer.zero_grad(set_to_none=True)
        losses.append(accumulate(trainee, inputs, objective.criterion(global_work), accumulation, faults))
        trainee.after_backward()
        if scaler is None:
            faults.step(optimizer)
        elif not faults.no_update:
            scaler.step(optimizer)
            scaler.update()
        sync_wait.append(trainee.sync_wait_s())
        clock.stamp()
        mark()
        if between is not None and between.due(update + 1):
            clock.pause()
            between.act(update + 1)
            clock.stamp()
    step_s, device_s = clock.intervals_s(), clock.device_s()
    gc.enable()
    loss = None if losses[0] is None else np.array([float(one) for one in losses], dtype=np.float64)
    return Timeline(step_s, np.array(data_wait), np.array(sync_wait), device_s, loss)


def accumulate(trainee: Trainee, inputs: Inputs, criterion: Criterion, parts: int, faults: Faults) -> Any:
    """Forward and backward passes of a rank's batch, cut along its samples; gradients are exchanged with the last."""
    if parts == 1 and not faults.no_sync:
        return trainee.run(trainee, inputs, criterion)
    total: Any = None
    for part, some in enumerate(cut(inputs, parts)):
        kept = part < parts - 1 or faults.no_sync
        with trainee.no_sync() if kept else nullcontext():
            loss = trainee.run(trainee, some, criterion)
        total = loss if total is None else total + loss
    return total


def cut(inputs: Inputs, parts: int) -> Iterator[Inputs]:
    """Equal parts of every tensor along the samples."""
    chunks = {name: tensor.chunk(parts) for name, tensor in inputs.items()}
    for part in range(parts):
        yield {name: pieces[part] for name, pieces in chunks.items()}
