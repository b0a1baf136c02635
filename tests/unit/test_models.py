"""What is built to be trained: a family from a config, or weights of one's own with a head for the data's classes."""

import numpy as np
import pytest
import torch
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.models.vit.configuration_vit import ViTConfig
from transformers.models.vit.modeling_vit import ViTForImageClassification

from breakeven.datasets.batches import Images
from breakeven.schema.errors import UserError
from breakeven.schema.spec import DataSource, Spec, Workload
from breakeven.workloads.pretrained import build
from breakeven.workloads.registry import build_model

TEN_CLASSES = Images(np.zeros((4, 8, 8), np.uint8), np.arange(4), levels=16, classes=10)
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "patch_size": 8}


def saved(folder, classes: int) -> ViTForImageClassification:
    torch.manual_seed(1)
    model = ViTForImageClassification(ViTConfig(num_labels=classes, image_size=32, **VIT))
    model.save_pretrained(folder)
    return model


def own(folder, *, image_size: int = 32, **config) -> Workload:
    return Workload(model=str(folder), config=config, data=DataSource(name="digits"), image_size=image_size)


def same(one, two, but: str) -> bool:
    mine, its = one.state_dict(), two.state_dict()
    return all(torch.equal(mine[name], its[name]) for name in mine if not name.startswith(but))


def test_weights_of_five_classes_get_a_head_of_ten_drawn_from_the_seed_and_keep_the_rest(tmp_path):
    model = saved(tmp_path, classes=5)
    heads = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        built = build(own(tmp_path), TEN_CLASSES, None)
        assert same(model, built, but="classifier")
        assert built(pixel_values=torch.zeros(2, 3, 32, 32)).logits.shape == (2, 10)
        heads.append(built.classifier.weight)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_weights_of_as_many_classes_keep_their_head(tmp_path):
    assert same(saved(tmp_path, classes=10), build(own(tmp_path), TEN_CLASSES, None), but="nothing")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"image_size": 64}, "Use image_size 32, not 64"),
        ({"intermediate_size": 32}, r"layers\.0\.mlp\.fc1\.bias is of shape \(64,\), but the config asks for \(32,\)"),
    ],
)
def test_weights_are_never_replaced_by_random_ones_without_a_word(tmp_path, change, says):
    saved(tmp_path, classes=5)
    with pytest.raises(UserError, match=says):
        build(own(tmp_path, **change), TEN_CLASSES, None)


def test_a_language_models_weights_are_no_classifier_of_images(tmp_path):
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=32, **sizes)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="no model of this kind"):
        build(own(tmp_path), TEN_CLASSES, None)


def test_a_batch_norms_averages_span_many_batches_whatever_the_library_says():
    workload = Workload(
        model="mobilenet_v2", config={"depth_multiplier": 0.35}, data=DataSource(name="digits"), image_size=32
    )
    spec = Spec(
        workload=workload,
        strategy="single",
        device_kind="cpu",
        device_model="x",
        devices=1,
        devices_per_node=1,
        global_batch=4,
    )
    norms = [m for m in build_model(spec, TEN_CLASSES, None).modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(norms) > 50
    assert {norm.momentum for norm in norms} == {0.1}  # transformers says 0.997
