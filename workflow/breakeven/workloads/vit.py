"""Vision transformer from a config (ViT-B unless said otherwise): image classification, weights drawn from the seed."""

from typing import Any

from breakeven.datasets.batches import Data, Images
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload
from breakeven.workloads.anatomy import Anatomy, TensorPlan


def build(workload: Workload, data: Data) -> Any:
    """``config`` overrides ViTConfig."""
    # Its own module: ``import transformers`` by name alone would resolve every model family.
    from transformers.models.vit.configuration_vit import ViTConfig
    from transformers.models.vit.modeling_vit import ViTForImageClassification

    if not isinstance(data, Images):
        raise UserError(f"vit needs images, but data set {workload.data.name!r} is text.")
    settings = {"num_labels": data.classes, "image_size": workload.image_size, **workload.config}
    return ViTForImageClassification(ViTConfig(**settings))


def anatomy(model: Any) -> Anatomy:
    layers = [f"vit.layers.{i}" for i in range(model.config.num_hidden_layers)]
    columns = ("attention.q_proj", "attention.k_proj", "attention.v_proj", "mlp.fc1")
    rows = ("attention.o_proj", "mlp.fc2")
    return Anatomy(
        blocks=tuple(layers),
        tensor_plan=TensorPlan(
            linears={
                **{f"{layer}.{name}": "column" for layer in layers for name in columns},
                **{f"{layer}.{name}": "row" for layer in layers for name in rows},
            },
            inputs=tuple(f"{layer}.{name}" for layer in layers for name in ("attention", "mlp")),
        ),
        # No sequence plan: with its class token a ViT has an odd number of tokens (197 at 224 pixels), which no even
        # number of ranks can share equally. No attention function: its attention is not causal.
        heads=model.config.num_attention_heads,
        pieces=pieces,
    )


def pieces(model: Any) -> list[Any]:
    """Patch embedding, each layer, and what turns the class token into logits."""
    from torch import nn

    class Head(nn.Module):
        def __init__(self, norm: Any, classifier: Any) -> None:
            super().__init__()
            self.norm, self.classifier = norm, classifier

        def forward(self, hidden: Any) -> Any:
            return self.classifier(self.norm(hidden)[:, 0])

    return [model.vit.embeddings, *model.vit.layers, Head(model.vit.layernorm, model.classifier)]
