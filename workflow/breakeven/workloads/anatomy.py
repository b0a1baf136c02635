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
    embedding: str | None = None
    """A token embedding, cut along the vocabulary."""
    head: str | None = None
    """The last linear layer, cut along its outputs (classes, or the vocabulary)."""
    norms: tuple[str, ...] = ()
    """Norms that see the whole hidden size: under sequence parallelism each rank norms its part of the tokens."""
    attentions: tuple[str, ...] = ()
    """Modules whose input is gathered along the tokens under sequence parallelism: attention ..."""
    mlps: tuple[str, ...] = ()
    """... and the feed-forward part."""
    heads: int = 0
    """Attention heads (keys and values included) that the degree must divide; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """``blocks`` are the repeated layers in the order of the forward pass, by name from the root of the bare model."""

    blocks: tuple[str, ...]
    tensor_plan: TensorPlan | None = None
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
