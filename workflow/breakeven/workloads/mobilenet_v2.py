"""MobileNetV2 from a config: image classification with weights drawn from the seed."""

from typing import Any

from breakeven.datasets.batches import Data, Images
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload
from breakeven.workloads.anatomy import Anatomy
from breakeven.workloads.norms import choose_norm


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
    config, norm = choose_norm(workload)
    settings = {"num_labels": data.classes, "image_size": workload.image_size, **config}
    return norm(MobileNetV2ForImageClassification(MobileNetV2Config(**settings)))


def anatomy(model: Any) -> Anatomy:
    return Anatomy(blocks=tuple(f"mobilenet_v2.layer.{i}" for i in range(len(model.mobilenet_v2.layer))), pieces=pieces)


def pieces(model: Any) -> list[Any]:
    """Stem, each block, and what turns the last features into logits."""
    from torch import nn

    body = model.mobilenet_v2
    tail = nn.Sequential(body.conv_1x1, body.pooler, nn.Flatten(), model.dropout, model.classifier)
    return [body.conv_stem, *body.layer, tail]
