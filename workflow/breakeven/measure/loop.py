"""The measured window: updates back to back, and nothing else."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.datasets.batches import Work
from breakeven.measure.clocks import Clock
from breakeven.measure.faults import Faults
from breakeven.strategies.registry import Strategy
from breakeven.workloads.objectives import Inputs, Objective


@dataclass(frozen=True, slots=True)
class Timeline:
    """One rank's updates, each array of shape (updates,); seconds, but for the loss."""

    step_s: NDArray[np.float64]
    data_wait_s: NDArray[np.float64]
    sync_wait_s: NDArray[np.float64]
    loss: NDArray[np.float64]
    """Of this rank's part; the ranks' mean is the global batch's."""


def run_updates(
    *,
    model: Any,
    optimizer: Any,
    objective: Objective,
    strategy: Strategy,
    work: list[Work],
    feed: Callable[[int], Inputs],
    autocast: Callable[[], AbstractContextManager[Any]],
    clock: Clock,
    faults: Faults,
) -> Timeline:
    """One pass over ``work``, one update per entry. Collective: every rank calls it, after a barrier."""
    data_wait, sync_wait, losses = [], [], []
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection falls on one rank's step and is waited for by all
    clock.stamp()
    for update, global_work in enumerate(work):
        asked = perf_counter()
        inputs = feed(update)
        data_wait.append(perf_counter() - asked)
        faults.before_forward(update)
        with faults.synchronisation(model):
            with autocast():
                loss = objective.loss(model, inputs, global_work)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        sync_wait.append(strategy.sync_wait_s(model))
        clock.stamp()
    step_s = clock.intervals_s()
    gc.enable()
    return Timeline(
        step_s, np.array(data_wait), np.array(sync_wait), np.array([float(loss) for loss in losses], dtype=np.float64)
    )
