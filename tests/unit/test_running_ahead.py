"""The host runs ahead of its device: nothing in an update's passes asks the device for a value, which would stop both.

On a CPU it would go unseen, so the operators that read a value are watched.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from breakeven.schema.checks import WORKLOADS
from breakeven.schema.spec import Spec
from breakeven.strategies.compose import checkpoint_blocks
from breakeven.strategies.trainee import Trainee, whole
from breakeven.workloads.objectives import objective
from breakeven.workloads.registry import anatomy, build_model
from tests.ranks import data_of, spec

READING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::is_nonzero"}


class Reads(TorchDispatchMode):
    """Notes what hands values, or sizes that depend on them, to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in READING:
            self.found.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_a_value_that_is_read_is_seen():
    with Reads() as reads:
        assert (torch.ones(3) > 0).all()
    assert reads.found == ["aten::_local_scalar_dense"]


def read_in_passes(run: Spec) -> list[str]:
    """What the host reads in a forward and a backward pass."""
    data = data_of(run)
    model, task = build_model(run, data, None), objective(data, run, 1)
    trainee = Trainee(module=model, anatomy=anatomy(model))
    if run.precision == "bf16":
        autocast = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16)
        trainee = dataclasses.replace(trainee, autocast=autocast)
    if run.activation_checkpointing:
        checkpoint_blocks(trainee)
    samples = np.arange(4)
    batch, criterion = task.host(data.take(samples)), task.criterion(data.work(samples))
    with Reads() as reads:
        whole(trainee, task.device(batch), criterion)
    return reads.found


@pytest.mark.parametrize(
    ("workload", "settings"),
    [
        *((name, {}) for name in WORKLOADS),
        ("llama", {"precision": "bf16"}),
        ("llama", {"activation_checkpointing": True}),
    ],
)
def test_forward_and_backward_pass_read_no_value(workload, settings):
    assert read_in_passes(spec("single", 1, workload, **settings)) == []


@pytest.mark.parametrize("workload", ["mobilenet_v2", "resnet"])
def test_batch_norms_as_published_read_none_either(workload):
    run = spec("single", 1, workload)
    config = {**run.workload.config, "norm": "batch"}
    assert read_in_passes(dataclasses.replace(run, workload=dataclasses.replace(run.workload, config=config))) == []
