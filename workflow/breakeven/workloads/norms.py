"""GroupNorm in place of BatchNorm, for checks that a strategy trains as one device does."""

from collections.abc import Callable
from typing import Any

from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json, Workload

#: Groups of a GroupNorm that replaces a BatchNorm2d, at most; fewer where the channels do not divide.
GROUPS = 8


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
