"""What is trained, as strategies hand it on: each takes one and returns one that is its own."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import nan
from typing import Any

from breakeven.workloads.anatomy import Anatomy, bare

Inputs = dict[str, Any]
"""Tensors on the device: ``labels``, and what the model is called with."""
Criterion = Callable[[Any, Any], Any]
"""(logits, labels) to this rank's share of the global batch's loss, a scalar tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainee:
    """A model and how one rank trains it. Every callable has the default of a model that is not split."""

    module: Any
    """Holds the parameters of this rank."""
    anatomy: Anatomy
    run: Callable[["Trainee", Inputs, Criterion], Any] = field(default=None)  # type: ignore[assignment]
    """Forward and backward pass of (a part of) the rank's batch. The detached loss; None where this rank sees none."""
    part: Callable[[Inputs], Inputs] = lambda inputs: inputs
    """This rank's part of the inputs that its data rank was given: a slice of the tokens, for example."""
    no_sync: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Within it a backward pass keeps gradients to this rank; more parts of the batch follow."""
    after_backward: Callable[[], None] = lambda: None
    """Once per update, after the last backward pass."""
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Entered around criterion and backward pass."""
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Entered around forward pass and criterion: the run's mixed precision."""
    scale: Callable[[Any], Any] = lambda loss: loss
    """The loss to what the backward pass starts from: fp16 gradients would vanish unscaled."""
    scaled: bool = False
    """Whether that is another number, so that gradients may overflow and an update be skipped."""
    optimizer: Callable[[Iterable[Any], Any, dict[str, Any]], Any] = lambda parameters, kind, settings: kind(
        parameters, **settings
    )
    """(trained parameters, optimiser class, its settings) to the optimiser."""
    sync_wait_s: Callable[[], float] = lambda: nan
    """Seconds of the last step spent in gradient synchronisation that compute did not hide; NaN where unknown."""
    evaluates: bool = True
    """Whether ``module`` called with inputs gives logits."""
    stages: tuple[Any, ...] = ()
    """Parts of ``module`` that are called on their own, in its place: a pipeline's."""
    piece_sizes: tuple[int, ...] | None = None
    """Parameters of each of the anatomy's pieces, of the model as built: what cuts layers must not move the stages."""

    def __post_init__(self) -> None:
        if self.run is None:
            object.__setattr__(self, "run", whole)
        if self.piece_sizes is None and self.anatomy.pieces is not None:
            pieces = self.anatomy.pieces(bare(self.module))
            sizes = tuple(sum(parameter.numel() for parameter in piece.parameters()) for piece in pieces)
            object.__setattr__(self, "piece_sizes", sizes)

    @property
    def roots(self) -> tuple[Any, ...]:
        """What is called in a forward pass."""
        return self.stages or (self.module,)


def forward(module: Any, inputs: Inputs) -> Any:
    """Logits, by the names the model gives its inputs."""
    return module(**{name: tensor for name, tensor in inputs.items() if name != "labels"}).logits


def whole(trainee: Trainee, inputs: Inputs, criterion: Criterion) -> Any:
    """One forward and one backward pass through ``module``."""
    with trainee.autocast():
        logits = forward(trainee.module, inputs)
    with trainee.around():
        with trainee.autocast():
            loss = criterion(logits, inputs["labels"])
        trainee.scale(loss).backward()
    return loss.detach()


def blocks(trainee: Trainee) -> list[tuple[str, Any]]:
    """The repeated blocks this rank holds, with their names from the root of ``module``."""
    return repeated(trainee.module, trainee.anatomy.blocks)


def repeated(module: Any, names: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Modules of these names, wherever a wrapper has put them below ``module``."""
    found: list[tuple[str, Any]] = []
    for name, child in module.named_modules():
        if any(name == block or name.endswith(f".{block}") for block in names):
            found.append((name, child))
    return found
