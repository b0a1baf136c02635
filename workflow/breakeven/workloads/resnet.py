"""ResNet from a config (ResNet-50 unless said otherwise): image classification with weights drawn from the seed."""

from typing import Any

from breakeven.datasets.batches import Data, Images
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload
from breakeven.workloads.anatomy import Anatomy
from breakeven.workloads.norms import choose_norm


def build(workload: Workload, data: Data) -> Any:
    """``config`` overrides ResNetConfig, but for ``norm``: ``batch`` as published, or ``group``."""
    # Its own module: ``import transformers`` by name alone would resolve every model family.
    from transformers.models.resnet.configuration_resnet import ResNetConfig
    from transformers.models.resnet.modeling_resnet import ResNetForImageClassification

    if not isinstance(data, Images):
        raise UserError(f"resnet needs images, but data set {workload.data.name!r} is text.")
    config, norm = choose_norm(workload)
    return norm(ResNetForImageClassification(ResNetConfig(**{"num_labels": data.classes, **config})))


def anatomy(model: Any) -> Anatomy:
    stages = model.resnet.encoder.stages
    blocks = [
        f"resnet.encoder.stages.{i}.layers.{j}" for i, stage in enumerate(stages) for j in range(len(stage.layers))
    ]
    return Anatomy(blocks=tuple(blocks), pieces=pieces)


def pieces(model: Any) -> list[Any]:
    """Embedder, each block, and what turns the last features into logits."""
    from torch import nn

    blocks = [block for stage in model.resnet.encoder.stages for block in stage.layers]
    return [model.resnet.embedder, *blocks, nn.Sequential(model.resnet.pooler, model.classifier)]
