"""What a model tells of itself so that a strategy can split it: each family says it once, beside what builds it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from breakeven.schema.strategy import Need

Cut = Literal["column", "row"]
"""How a linear layer is cut: its outputs, or its inputs (then the parts are summed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPlan:
    """How one tensor-parallel group divides a model. Names are of modules, from the root of the bare model."""

    linears: dict[str, Cut]
    """Linear layers inside the repeated blocks, by name."""
    inputs: tuple[str, ...] = ()
    """Modules that hand one input to all their column-cut layers: attention and feed-forward. The input's gradient is
    summed over the ranks once, not once per layer."""
    embedding: str | None = None
    """A token embedding, cut along the vocabulary."""
    head: str | None = None
    """The last linear layer, cut along its outputs (classes, or the vocabulary)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencePlan:
    """What of a model, beside its tensor plan, works on any part of the tokens. Only models whose embedding and head
    are cut can offer it: there the tokens are dealt out and gathered."""

    norms: tuple[str, ...]
    """Norms of the hidden size: each rank norms its part of the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """``blocks`` are the repeated layers in the order of the forward pass, by name from the root of the bare model."""

    blocks: tuple[str, ...]
    tensor_plan: TensorPlan | None = None
    sequence_plan: SequencePlan | None = None
    heads: int = 0
    """Attention heads, shared by queries, keys and values: a degree that deals out heads must divide it. 0: no such."""
    pieces: Callable[[Any], list[Any]] | None = field(default=None, repr=False)
    """The model as modules to be called one after the other: the first takes the model's input tensor, the last gives
    logits. A pipeline's stages are runs of them."""
    attention: Callable[[Any, str], None] | None = field(default=None, repr=False)
    """(model, name): lets the model use the attention function registered with transformers under that name."""

    def offers(self, need: Need) -> bool:
        return getattr(self, need) is not None


def bare(model: Any) -> Any:
    """The model without the wrapper of an adapter method; its layers hold the adapters."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
