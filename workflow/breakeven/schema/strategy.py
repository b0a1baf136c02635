"""What a strategy says of itself before torch is imported."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from breakeven.schema.degrees import Axis

if TYPE_CHECKING:
    from breakeven.schema.spec import Spec

Kind = Literal["none", "data", "context", "tensor", "pipeline"]
"""What of the work is split. A product holds at most one strategy of a kind."""

#: The order in which a product is named: from what is split outermost in the batch to what is split in the model.
KINDS: tuple[Kind, ...] = ("none", "data", "context", "tensor", "pipeline")

Need = Literal["tensor_plan", "sequence_plan", "pieces", "attention"]
"""What a model must tell of itself (``workloads.anatomy``) for a strategy to split it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One of a strategy's options: its default, which gives its type, and what else it may hold."""

    default: Any
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row of the equivalence table: the strategy on a model, held against one device with the same batch."""

    devices: int
    workloads: tuple[str, ...]
    """Names of ``breakeven.schema.checks.WORKLOADS``."""
    product: str = ""
    """The other factors, such as ``tp`` or ``tp*pp``; empty: the strategy alone."""
    degrees: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """Other fields of the spec: ``gradient_accumulation``, ``precision``, ``optimizer``."""
    tolerance: float = 1e-5
    """Largest difference of a loss; wider only with a reason in ``note``."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyMeta:
    """How a strategy uses devices. ``name`` is its file's."""

    name: str
    title: str
    kind: Kind
    axes: tuple[Axis, ...] = ()
    device_kinds: tuple[str, ...] = ("cpu", "cuda")
    max_devices: int | None = None
    one_process: bool = False
    """All devices are driven by one process, not one each."""
    needs: tuple[Need, ...] = ()
    combines: tuple[Kind, ...] = ()
    """Kinds of strategy it makes a product with."""
    options: dict[str, Option] = field(default_factory=dict)
    refuses: Callable[["Spec"], str] = lambda spec: ""
    """What is wrong with a run whose fields are right one by one, in a user's words; empty where nothing is. Asked
    before anything runs."""
    checks: tuple[Check, ...] = ()
    source: str = ""
    """The paper or page that describes it."""
