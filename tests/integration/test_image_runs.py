"""Real runs on images: the same losses however they are loaded and split, one accuracy, and no process left."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from breakeven.datasets.__main__ import main as prepare
from breakeven.schema.imagefolder import list_images
from breakeven.schema.spec import DataSource, Workload, canonical_json
from breakeven.schema.status import Status
from tests.measured_runs import Run, spec

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores"),
]

RESNET = Workload(
    model="resnet",
    config={"embedding_size": 16, "hidden_sizes": [16, 32, 64], "depths": [1, 1, 1], "layer_type": "basic"},
    data=DataSource(name="digits"),
    image_size=32,
)
VIT = Workload(
    model="vit",
    config={
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "patch_size": 8,
        "hidden_dropout_prob": 0.1,
    },
    data=DataSource(name="digits"),
    image_size=32,
)


def prepared(workload: Workload, output: Path, *arguments: str) -> Path:
    text = canonical_json(dataclasses.asdict(workload))
    assert prepare(["--workload", text, "--output", str(output), *arguments]) == 0
    return output


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    return prepared(RESNET, tmp_path_factory.mktemp("digits") / "digits.npz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """40 photographs of noise, two classes."""
    own = tmp_path_factory.mktemp("own")
    random = np.random.RandomState(0)
    for name, low in (("dark", 0), ("light", 100)):
        (own / name).mkdir()
        for i in range(20):
            pixels = random.randint(low, low + 150, (50, 40 + i, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(own / name / f"{i}.jpg")
    return own


def of_folder(folder: Path) -> Workload:
    return dataclasses.replace(VIT, data=DataSource(name="folder", sha256=list_images(folder).sha256))


def test_two_ranks_that_load_files_by_workers_train_and_are_evaluated_as_without_any(folder, tmp_path):
    data = prepared(of_folder(folder), tmp_path / "own.npz", "--file", str(folder))
    settings = [
        {},
        {"workers": 2, "persistent_workers": True, "resize_on": "host"},
        {"workers": 1, "prefetch_factor": 1},
    ]
    runs = []
    for number, loading in enumerate(settings):
        # 32 images are four updates: three epochs, in each of which workers begin anew or not; dropout is on
        one = spec(of_folder(folder), updates=12, evaluate_every=4, learning_rate=0.05, **loading)
        runs.append(Run(one, tmp_path / str(number), data).measured())
    losses = [run.steps()["loss"] for run in runs]
    assert np.ptp(losses[0]) > 0.05
    assert np.abs(losses[1] - losses[0]).max() <= 1e-6
    assert np.abs(losses[2] - losses[0]).max() <= 1e-6
    accuracies = [run.steps()["accuracy"].tolist() for run in runs]
    assert accuracies[0] == accuracies[1] == accuracies[2]
    assert len(accuracies[0]) == 3
    assert accuracies[0][-1] == 1.0
    assert [run.processes() for run in runs] == [[], [], []]


def test_an_image_that_cannot_be_decoded_ends_the_run_naming_it_and_makes_no_record(folder, tmp_path):
    broken = tmp_path / "broken"
    for file in folder.glob("*/*.jpg"):
        (broken / file.parent.name).mkdir(parents=True, exist_ok=True)
        (broken / file.parent.name / file.name).write_bytes(file.read_bytes()[:-900])
    data = prepared(of_folder(broken), tmp_path / "own.npz", "--file", str(broken))
    run = Run(spec(of_folder(broken), workers=1), tmp_path / "run", data)
    done = run.execute()
    assert done.returncode == 2
    assert f"{broken}/" in done.stderr
    assert "not readable as an image" in done.stderr
    assert "Traceback" not in done.stderr
    assert not run.record_file.exists()
    assert run.processes() == []


def test_every_strategy_that_evaluates_finds_the_accuracy_of_one_device(digits, tmp_path):
    found = {}
    for strategy, workload in (
        ("single", VIT),
        ("ddp", VIT),
        ("fsdp", VIT),
        ("tp", VIT),
        ("ddp", RESNET),
        ("fsdp", RESNET),
    ):
        plain = dataclasses.replace(workload, config={**workload.config, "hidden_dropout_prob": 0.0})
        one = spec(
            plain if workload is VIT else workload,
            strategy=strategy,
            devices=1 if strategy == "single" else 2,
            global_batch=64,
            optimizer="adamw",
            learning_rate=2e-3,
            updates=16,
            evaluate_every=8,
        )
        steps = Run(one, tmp_path / f"{strategy}-{workload.model}", digits).measured().steps()
        assert steps["evaluated_at"].tolist() == [8, 16]
        found[workload.model, strategy] = steps["accuracy"]
    single = found["vit", "single"]
    assert single[-1] > 0.15  # of ten classes
    one_sample = 1 / 297 + 1e-9  # a tie that rounding decides
    assert all(np.abs(found["vit", other] - single).max() <= one_sample for other in ("ddp", "fsdp", "tp"))
    # batch norms keep each rank's averages, and the model that is evaluated has their mean
    assert np.abs(found["resnet", "fsdp"] - found["resnet", "ddp"]).max() <= one_sample


def test_a_small_resnet_knows_97_of_100_digits_it_has_never_seen_within_five_epochs(digits, tmp_path):
    one = spec(
        RESNET, strategy="single", devices=1, global_batch=32, learning_rate=0.05, updates=5 * 47, evaluate_every=47
    )
    steps = Run(one, tmp_path / "run", digits).measured().steps()
    assert steps["accuracy"].max() >= 0.97
    assert len(steps["accuracy"]) == 5
    # what is measured leaves evaluation out
    assert steps["step_s"].shape == (1, 5 * 47)


@pytest.mark.parametrize(("precision", "band"), [("fp64", 1e-4), ("bf16", 3e-2), ("fp16", 3e-2)])
def test_every_precision_trains_on_a_cpu_and_differs_from_fp32_by_its_own_rounding(digits, tmp_path, precision, band):
    group = dataclasses.replace(RESNET, config={**RESNET.config, "norm": "group"})
    runs = [
        Run(spec(group, precision=one, global_batch=16, updates=6), tmp_path / one, digits).measured()
        for one in ("fp32", precision)
    ]
    losses = [run.steps()["loss"] for run in runs]
    difference = np.abs(losses[1] - losses[0]).max()
    assert 0 < difference <= band


def test_what_a_cpu_cannot_do_is_a_record_that_says_so(digits, tmp_path):
    for settings, says in (({"precision": "tf32"}, "tensor cores"), ({"pin_memory": True}, "copy to a device")):
        run = Run(spec(RESNET, **settings), tmp_path / next(iter(settings)), digits).measured()
        assert run.record().status is Status.UNSUPPORTED
        assert says in run.record().error.message
        assert json.loads(run.record_file.read_text())["elapsed_s"] == 0
