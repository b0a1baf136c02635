"""What a study trains on is found, counted and pinned while it is planned, and refused then where it does not fit."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from breakeven.config.machine import Machine
from breakeven.config.models import Data, MeasuredStudy, WorkloadConfig
from breakeven.config.sources import find_source
from breakeven.config.sweep import cells
from breakeven.schema.errors import UserError
from breakeven.schema.spec import DataSource, Spec, Workload

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = {"hub": "ylecun/mnist", "revision": COMMIT}


def planned(workload: dict, **defaults: object) -> Spec:
    study = MeasuredStudy.model_validate(
        {
            "source": "measured",
            "title": "t",
            "workload": workload,
            "defaults": {"global_batch": 8, **defaults},
            "sweeps": {"one": {"grid": {"strategy": ["single"], "devices": [1]}}},
        }
    )
    return cells(study, Machine("cpu", "a CPU", 2, 1), "s.yaml")[0].spec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cat", "dog"):
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("L", (4, 4)).save(tmp_path / "own" / name / f"{i}.png")
    return tmp_path / "own"


def test_an_epoch_of_ones_own_images_is_known_before_they_are_prepared(folder: Path) -> None:
    # a fifth of 20 images is held out; two updates of 8 are 16
    spec = planned({"model": "resnet", "data": {"folder": str(folder)}}, epochs=6, evaluate_every="epoch")
    assert (spec.updates, spec.evaluate_every) == (12, 2)
    assert spec.workload.data.name == "folder"
    bounded = planned({"model": "resnet", "data": {"folder": str(folder), "samples": 7}}, epochs=12)
    assert bounded.updates == 12


def test_what_a_model_of_ones_own_is_for_follows_from_its_data(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    vit = {"model_type": "vit", "image_size": 96, "patch_size": 16, "architectures": ["ViTForImageClassification"]}
    (model / "config.json").write_text(json.dumps(vit))
    images = {"model": str(model), "data": {"folder": str(folder)}}
    assert planned(images).workload.image_size == 96
    assert planned({"model": "org/name", "revision": COMMIT, "data": HUB}).workload.image_size == 224
    with pytest.raises(UserError, match="for every patch of 96 pixels"):
        planned({**images, "image_size": 32})
    text = tmp_path / "own.jsonl"
    text.write_text('{"text": "a"}\n')
    assert (
        planned({"model": "org/name", "revision": COMMIT, "data": {"file": str(text)}}).workload.sequence_length == 128
    )
    with pytest.raises(UserError, match=r"data is for causal-lm, model '.*' \(ViTForImageClassification\) for image"):
        planned({"model": str(model), "data": {"file": str(text)}})


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ({"model": "vit", "image_size": 100}, "into patches of 16. Use a multiple of it, such as 96 or 112"),
        ({"model": "vit", "image_size": 9, "config": {"patch_size": 10}}, "such as 10 or 20"),
        ({"model": "vit", "config": {"hidden_size": 100}}, "hidden_size 100 does not divide among 12 attention heads"),
        ({"model": "llama", "config": {"num_attention_heads": 4, "num_key_value_heads": 3}}, "is no multiple of"),
        ({"model": "resnet", "config": {"depths": [1, 1]}}, "hidden_sizes is of 4 stages and depths of 2"),
        ({"model": "resnet", "data": {"name": "chat-en"}}, "Leave it out to train on 'digits'"),
        ({"model": "resnet", "data": {"name": "digit-large"}}, "Did you mean 'digits-large'?"),
        ({"model": "resnet", "data": {"folder": "nowhere"}}, "workload.data.folder: nowhere: no such folder"),
        ({"model": "org/name", "revision": COMMIT}, "workload.data is missing"),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_would(workload: dict, says: str) -> None:
    with pytest.raises(UserError) as raised:
        planned(workload)
    assert says in str(raised.value)


def test_the_image_size_of_a_run_is_held_against_the_model_too() -> None:
    assert planned({"model": "vit", "image_size": 32}, image_size=48).workload.image_size == 48
    with pytest.raises(UserError, match="image_size 50 does not divide"):
        planned({"model": "vit", "image_size": 32}, image_size=50)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "give one of 'name'"),
        ({"name": "digits", "folder": "own"}, "give one of 'name'"),
        ({"hub": "ylecun/mnist"}, "'hub' needs 'revision'"),
        ({"hub": "mnist", "revision": COMMIT}, "hub"),
        ({"folder": "own", "image": "img"}, "'image' is about a data set of the hub"),
        ({"name": "digits", "samples": 10}, "'samples' needs 'folder' or 'hub'"),
        ({**HUB, "test": "train"}, "what is held out must be another split"),
    ],
)
def test_data_are_of_one_source_with_its_own_keys(data: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Data.model_validate(data)


def test_a_hubs_data_are_pinned_by_commit_columns_and_splits() -> None:
    config = WorkloadConfig.model_validate({"model": "vit", "data": {**HUB, "image": "img", "samples": 100}})
    found = find_source(config, "s.yaml")
    assert found.samples is None  # what there is shows once it is fetched
    assert found.data == DataSource(
        name="hub",
        hub="ylecun/mnist",
        revision=COMMIT,
        image="img",
        label="label",
        train="train",
        test="test",
        samples=100,
    )


@given(rate=st.floats(1e-6, 1.0), base=st.integers(1, 4096), factor=st.integers(1, 64))
def test_the_learning_rate_follows_the_global_batch_by_its_rule(rate: float, base: int, factor: int) -> None:
    def scaled(rule: str, batch: int) -> float:
        workload = Workload(model="resnet", data=DataSource(name="digits"), image_size=32)
        return Spec(
            workload=workload,
            strategy="single",
            device_kind="cpu",
            device_model="a CPU",
            devices=1,
            devices_per_node=1,
            global_batch=batch,
            learning_rate=rate,
            learning_rate_rule=rule,
            learning_rate_batch=None if rule == "constant" else base,
        ).scaled_learning_rate

    assert scaled("constant", base * factor) == scaled("linear", base) == scaled("sqrt", base) == rate
    assert scaled("linear", 2 * base * factor) == pytest.approx(2 * scaled("linear", base * factor))
    assert scaled("linear", base * factor) == pytest.approx(factor * rate)
    assert scaled("sqrt", 4 * base * factor) == pytest.approx(2 * scaled("sqrt", base * factor))
