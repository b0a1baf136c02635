"""The batches of a rank, in order, on its device: loaded, copied and made ready as the spec says."""

import gc
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.datasets.batches import Data
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec
from breakeven.workloads.objectives import Objective, Tensors

Indices = NDArray[np.int64]

#: Batches that a synthetic feed repeats: more than one, so that no update trains on what the last one did.
SYNTHETIC_BATCHES = 4


class Batches:
    """A torch dataset of whole batches: item u is what this rank needs for one update."""

    def __init__(self, data: Data, objective: Objective, parts: Sequence[Indices]) -> None:
        self.data, self.objective, self.parts = data, objective, parts

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, position: int) -> "Tensors | UserError":
        try:
            return self.objective.host(self.data.take(self.parts[position]))
        except UserError as error:
            # As a value: raised in a worker, its message would come wrapped in a traceback.
            return error


def feed(data: Data, objective: Objective, parts: Sequence[Indices], spec: Spec, device: Any) -> Iterator[Tensors]:
    """One item per update. ``parts``: this rank's samples of each update."""
    if spec.synthetic:
        return _synthetic(Batches(data, objective, parts), objective, device)
    return _loaded(data, objective, parts, spec, device)


def _synthetic(batches: Batches, objective: Objective, device: Any) -> Iterator[Tensors]:
    few = [_ready(batches[u], objective, device) for u in range(min(SYNTHETIC_BATCHES, len(batches)))]
    for update in range(len(batches)):
        yield few[update % len(few)]


def _loaded(data: Data, objective: Objective, parts: Sequence[Indices], spec: Spec, device: Any) -> Iterator[Tensors]:
    import torch
    from torch.utils.data import DataLoader

    batches = Batches(data, objective, parts)
    order = _Order()
    worked: dict[str, Any] = {}
    if spec.workers:
        worked = {
            "prefetch_factor": spec.prefetch_factor,
            "persistent_workers": spec.persistent_workers,
            # Python's default from 3.14 on would copy the data to every worker.
            "multiprocessing_context": "fork",
            "worker_init_fn": _begin_worker,
        }
    loader: Any = DataLoader(
        batches,  # type: ignore[arg-type]
        batch_size=None,
        sampler=order,
        num_workers=spec.workers,
        pin_memory=spec.pin_memory and device.type != "cpu",
        # A loader draws a number whenever it starts: of torch's own, dropout would depend on how data are loaded.
        generator=torch.Generator(),
        **worked,
    )
    batch = len(parts[0]) if spec.sampling == "replicated" else spec.global_batch
    for order.positions in epochs(len(parts), batch, data.samples):
        for loaded in loader:
            yield _ready(loaded, objective, device, non_blocking=spec.non_blocking)


def _begin_worker(_number: int) -> None:
    """In a new worker; it stays on the rank's core, as every child does."""
    gc.enable()  # the rank's own is off in the measured window


def _ready(batch: "Tensors | UserError", objective: Objective, device: Any, *, non_blocking: bool = False) -> Tensors:
    if isinstance(batch, UserError):
        raise batch
    return objective.device({name: tensor.to(device, non_blocking=non_blocking) for name, tensor in batch.items()})


class _Order:
    """What an epoch reads; set anew for every epoch, since a loader with persistent workers cannot be made anew."""

    positions: range = range(0)

    def __iter__(self) -> Iterator[int]:
        return iter(self.positions)

    def __len__(self) -> int:
        return len(self.positions)


def epochs(updates: int, global_batch: int, samples: int) -> list[range]:
    """The updates of each pass over the data; one that straddles two belongs to the first."""
    ends = [-(-samples * epoch // global_batch) for epoch in range(1, updates * global_batch // samples + 2)]
    bounds = [0, *(min(end, updates) for end in ends)]
    return [range(begin, end) for begin, end in itertools.pairwise(bounds) if end > begin]
