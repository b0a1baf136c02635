"""What is known of each strategy, workload, technique and data set before torch is imported: metadata as data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from breakeven.schema.strategy import Need

Objective = Literal["image-classification", "causal-lm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadMeta:
    """A model family that is built from a config, so it needs no download."""

    name: str
    title: str
    objective: Objective
    data: str
    """The bundled data set it trains on unless the study names another."""
    config_keys: tuple[str, ...]
    """What ``workload.config`` may override: keys of the model library's config (a test compares them), and our own."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """What the config holds where nobody says otherwise, of keys that decide how a model can be split and whether
    its sizes go together."""
    offers: tuple[Need, ...] = ()
    """What it tells of itself for strategies to split it. A test compares both with the model as built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TechniqueMeta:
    name: str
    title: str
    objectives: tuple[Objective, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetMeta:
    """A data set that comes with the project."""

    name: str
    title: str
    objective: Objective
    source: str
    samples: int
    """Of the training split: one pass over it is an epoch."""
    sized: bool = False
    """Made at the workload's image size, so that it is never resized."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Meta = TypeVar("Meta", bound=_Named)


def _by_name(*items: Meta) -> dict[str, Meta]:
    return {item.name: item for item in items}


WORKLOADS: dict[str, WorkloadMeta] = _by_name(
    WorkloadMeta(
        name="mobilenet_v2",
        title="MobileNetV2",
        objective="image-classification",
        data="digits",
        config_keys=(
            "norm",
            "depth_multiplier",
            "depth_divisible_by",
            "min_depth",
            "expand_ratio",
            "output_stride",
            "first_layer_is_expansion",
            "finegrained_output",
            "hidden_act",
            "tf_padding",
            "classifier_dropout_prob",
            "initializer_range",
            "layer_norm_eps",
        ),
        offers=("pieces",),
    ),
    WorkloadMeta(
        name="resnet",
        title="ResNet",
        objective="image-classification",
        data="digits",
        config_keys=(
            "norm",
            "embedding_size",
            "hidden_sizes",
            "depths",
            "layer_type",
            "hidden_act",
            "downsample_in_first_stage",
            "downsample_in_bottleneck",
        ),
        defaults={"hidden_sizes": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3]},
        offers=("pieces",),
    ),
    WorkloadMeta(
        name="vit",
        title="ViT",
        objective="image-classification",
        data="digits",
        config_keys=(
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "hidden_act",
            "hidden_dropout_prob",
            "attention_probs_dropout_prob",
            "initializer_range",
            "layer_norm_eps",
            "patch_size",
            "qkv_bias",
        ),
        defaults={"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "patch_size": 16},
        offers=("tensor_plan", "pieces"),
    ),
    WorkloadMeta(
        name="llama",
        title="Llama",
        objective="causal-lm",
        data="chat-en",
        config_keys=(
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "hidden_act",
            "max_position_embeddings",
            "initializer_range",
            "rms_norm_eps",
            "tie_word_embeddings",
            "rope_parameters",
            "attention_bias",
            "attention_dropout",
            "mlp_bias",
        ),
        defaults={"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 4},
        offers=("tensor_plan", "sequence_plan", "pieces", "attention"),
    ),
)

TECHNIQUES: dict[str, TechniqueMeta] = _by_name(
    TechniqueMeta(name="full", title="full training", objectives=("image-classification", "causal-lm")),
    TechniqueMeta(
        name="lora",
        title="LoRA",
        objectives=("causal-lm",),
        options=("rank", "alpha", "target_modules"),
    ),
)

DATASETS: dict[str, DatasetMeta] = _by_name(
    DatasetMeta(
        name="digits",
        title="handwritten digits, 8 x 8, ten classes",
        objective="image-classification",
        source="scikit-learn's load_digits (UCI optical recognition of handwritten digits)",
        samples=1500,
    ),
    DatasetMeta(
        name="digits-large",
        title="handwritten digits drawn at the image size, distorted, textured and noisy, ten classes",
        objective="image-classification",
        source="made from scikit-learn's load_digits (UCI optical recognition of handwritten digits)",
        samples=640,
        sized=True,
    ),
    DatasetMeta(
        name="chat-en",
        title="English question-and-answer pairs",
        objective="causal-lm",
        source="chatterbot-corpus, data/english (BSD licence)",
        samples=2361,
    ),
)

#: Data that do not come with the project, by the name a spec has for their source.
OWN_DATA: dict[str, Objective] = {
    "jsonl": "causal-lm",
    "folder": "image-classification",
    "hub": "image-classification",
}


def data_objective(name: str) -> Objective | None:
    """What the data of a spec are for; None where no data have this name."""
    return DATASETS[name].objective if name in DATASETS else OWN_DATA.get(name)


def piece_count(model: Mapping[str, Any]) -> int:
    """Pieces that a pipeline can hand out: layers or blocks, what comes before and what after them; 0: not known."""
    blocks: int = model.get("num_hidden_layers") or sum(model.get("depths") or ())
    return blocks + 2 if blocks else 0


def attention_heads(model: Mapping[str, Any]) -> int:
    """Heads that queries, keys and values share, which a degree must divide; 0 where the config tells of none."""
    heads: int = model.get("num_attention_heads", 0)
    return math.gcd(heads, model.get("num_key_value_heads") or heads)
