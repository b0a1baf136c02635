"""How many bytes of parameters, gradients and optimiser state a rank must hold: a strategy's own formula.

A sharded run that in truth replicates has the right losses too; its bytes give it away.
"""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as one rank holds it."""

    name: str
    """From the root of the model as built, before any strategy."""
    shape: tuple[int, ...]
    trained: bool
    itemsize: int
    """Bytes of one element."""

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.numel * self.itemsize


@dataclass(frozen=True, slots=True)
class State:
    """Bytes on one rank, once a first update has been made."""

    parameters: int
    gradients: int
    optimizer: int
    """Moments alone: a step count per tensor is not counted."""


def parameters_of(module: Any) -> list[Parameter]:
    return [Parameter(n, tuple(p.shape), p.requires_grad, p.element_size()) for n, p in module.named_parameters()]


def replicated(parameters: list[Parameter], moments: int) -> State:
    """Everything on every rank. ``moments``: tensors of optimiser state per parameter."""
    trained = sum(p.bytes for p in parameters if p.trained)
    return State(sum(p.bytes for p in parameters), trained, moments * trained)


def chunk(size: int, parts: int, part: int) -> int:
    """Rows of part ``part`` where ``torch.chunk`` cuts ``size`` rows into ``parts``: the last may be short."""
    rows = math.ceil(size / parts)
    return max(0, min(rows, size - part * rows))


def measured(module: Any, optimizer: Any) -> State:
    """What this rank holds now. Between backward pass and ``zero_grad``, for then there are gradients."""

    def local(tensor: Any) -> int:
        shard = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        return int(shard.numel() * shard.element_size())

    parameters = list(module.parameters())
    mine = getattr(optimizer, "optim", optimizer)  # of a sharded optimiser, the one that keeps this rank's part
    moments = [
        value
        for state in mine.state.values()
        for name, value in state.items()
        if hasattr(value, "numel") and name != "step"
    ]
    return State(
        sum(map(local, parameters)),
        sum(local(p.grad) for p in parameters if p.grad is not None),
        sum(map(local, moments)),
    )
