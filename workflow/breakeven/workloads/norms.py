"""Batch norms as an evaluation needs them, and GroupNorm in their place for checks that a strategy trains as one device
does."""

from collections.abc import Callable
from typing import Any

from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json, Workload

#: Groups of a GroupNorm that replaces a BatchNorm2d, at most; fewer where the channels do not divide.
GROUPS = 8

#: What a batch norm's running averages take of each batch: torch's own default.
MOMENTUM = 0.1


def choose_norm(workload: Workload) -> tuple[Json, Callable[[Any], Any]]:
    """The model library's own part of ``config``, and what makes a built model's norms as ``norm`` says: ``batch`` as
    published, or ``group``."""
    config = dict(workload.config)
    norm = config.pop("norm", "batch")
    if norm not in ("batch", "group"):
        raise UserError(f"{workload.model}: norm {norm!r} is unknown. Use 'batch' or 'group'.")
    return config, with_group_norm if norm == "group" else lambda model: model


def with_group_norm(model: Any) -> Any:
    """Every BatchNorm2d replaced by a GroupNorm of as many channels. GroupNorm starts at 1 and 0: no random draw."""
    from torch import nn

    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                channels = child.num_features
                groups = max(g for g in range(1, GROUPS + 1) if channels % g == 0)
                setattr(module, name, nn.GroupNorm(groups, channels, eps=child.eps))
    return model


def with_running_averages(model: Any) -> Any:
    """Batch norms that average over many batches. transformers' MobileNetV2 hands TensorFlow's decay, 0.997, to torch,
    where it means that the last batch alone counts: accuracy on held-out samples then jumps by tens of per cent."""
    from torch import nn

    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and (module.momentum or 0) > 0.5:
            module.momentum = MOMENTUM
    return model
