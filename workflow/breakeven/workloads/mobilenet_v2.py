"""MobileNetV2 from a config: image classification with weights drawn from the seed."""

from typing import Any

from breakeven.datasets.batches import Data, Images
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload

#: Groups of a GroupNorm that replaces a BatchNorm2d, at most; fewer where the channels do not divide.
GROUPS = 8


def build(workload: Workload, data: Data) -> Any:
    """``config`` overrides MobileNetV2Config, but for ``norm``: ``batch`` as published, or ``group``.

    Batch statistics are each device's own, so splitting a batch changes the mathematics. ``norm: group`` is for checks
    that a strategy trains as one device does.
    """
    # Its own module: ``import transformers`` by name alone would resolve every model family.
    from transformers.models.mobilenet_v2.configuration_mobilenet_v2 import MobileNetV2Config
    from transformers.models.mobilenet_v2.modeling_mobilenet_v2 import MobileNetV2ForImageClassification

    if not isinstance(data, Images):
        raise UserError(f"mobilenet_v2 needs images, but data set {workload.data.name!r} is text.")
    config = dict(workload.config)
    norm = config.pop("norm", "batch")
    if norm not in ("batch", "group"):
        raise UserError(f"mobilenet_v2: norm {norm!r} is unknown. Use 'batch' or 'group'.")
    settings = {"num_labels": data.classes, "image_size": workload.image_size, **config}
    model = MobileNetV2ForImageClassification(MobileNetV2Config(**settings))
    return with_group_norm(model) if norm == "group" else model


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
