"""What the planner knows of a model without building it, held against the model as built."""

from typing import Any, get_args

import numpy as np
import pytest

from breakeven.datasets.batches import Images, Texts
from breakeven.schema.catalog import WORKLOADS, attention_heads, piece_count
from breakeven.schema.spec import DataSource, Spec, Workload
from breakeven.schema.strategy import Need

TEXTS = Texts(
    input_ids=np.arange(8, dtype=np.int32),
    offsets=np.array([0, 8]),
    prompt_lengths=np.array([1], dtype=np.int32),
    pad_id=0,
    vocab_size=16,
    sequence_length=8,
)
IMAGES = Images(images=np.zeros((2, 8, 8), np.uint8), labels=np.array([0, 1]), levels=16, classes=2)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("llama", {}),
        ("llama", {"num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2}),
        ("llama", {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3}),
        ("vit", {}),
        ("vit", {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}),
        ("resnet", {}),
        ("resnet", {"depths": [1, 2], "hidden_sizes": [8, 16]}),
        ("mobilenet_v2", {}),
    ],
)
def test_what_the_planner_knows_of_a_model_is_what_the_built_model_tells(name: str, config: dict[str, Any]) -> None:
    import torch

    from breakeven.workloads.registry import anatomy, build_model

    meta = WORKLOADS[name]
    text = meta.objective == "causal-lm"
    workload = Workload(
        model=name,
        config=config,
        data=DataSource(name=meta.data),
        sequence_length=8 if text else None,
        image_size=None if text else 32,
    )
    spec = Spec(
        workload=workload,
        strategy="single",
        device_kind="cpu",
        device_model="",
        devices=1,
        devices_per_node=1,
        global_batch=1,
    )
    with torch.device("meta"):
        model = build_model(spec, TEXTS if text else IMAGES, None)
    told = anatomy(model)
    known = {**meta.defaults, **config}
    assert {need for need in get_args(Need) if told.offers(need)} == set(meta.offers)
    assert attention_heads(known) == told.heads
    assert told.pieces is not None
    assert piece_count(known) in (0, len(told.pieces(model)))
    built = {key: getattr(model.config, key) for key in known}
    assert {key: list(value) if isinstance(value, tuple) else value for key, value in built.items()} == known


def test_every_family_is_in_the_catalogue_with_what_it_offers() -> None:
    assert {name for name, meta in WORKLOADS.items() if "tensor_plan" in meta.offers} == {"llama", "vit"}
    assert all("pieces" in meta.offers for meta in WORKLOADS.values())
