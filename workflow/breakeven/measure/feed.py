"""The batches of a rank, in order, on its device: loaded, copied and made ready as the spec says."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.datasets.batches import Data
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

    def __getitem__(self, position: int) -> Tensors:
        return self.objective.host(self.data.take(self.parts[position]))


def feed(data: Data, objective: Objective, parts: Sequence[Indices], spec: Spec, device: Any) -> Iterator[Tensors]:
    """One item per update. ``parts``: this rank's samples of each update."""
    if spec.synthetic:
        return _synthetic(Batches(data, objective, parts), objective, device)
    return _loaded(data, objective, parts, spec, device)


def _synthetic(batches: Batches, objective: Objective, device: Any) -> Iterator[Tensors]:
    few = [
        objective.device({name: tensor.to(device) for name, tensor in batches[u].items()})
        for u in range(min(SYNTHETIC_BATCHES, len(batches)))
    ]
    for update in range(len(batches)):
        yield few[update % len(few)]


def _loaded(
    data: Data, objective: Objective, parts: Sequence[Indices], spec: Spec, device: Any
) -> Iterator[Tensors]:
    from torch.utils.data import DataLoader

    batches = Batches(data, objective, parts)
    order = _Order()
    worked: dict[str, Any] = {}
    if spec.workers:
        worked = {"prefetch_factor": spec.prefetch_factor, "persistent_workers": spec.persistent_workers}
    loader: Any = DataLoader(
        batches,  # type: ignore[arg-type]
        batch_size=None,
        sampler=order,
        num_workers=spec.workers,
        pin_memory=spec.pin_memory and device.type != "cpu",
        **worked,
    )
    for order.positions in epochs(len(parts), spec.global_batch, data.samples):
        for batch in loader:
            yield objective.device(
                {name: tensor.to(device, non_blocking=spec.non_blocking) for name, tensor in batch.items()}
            )


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
    return [range(begin, end) for begin, end in zip(bounds, bounds[1:], strict=False) if end > begin]
