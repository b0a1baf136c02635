"""Which parts of a real model a pipeline's rank holds."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from breakeven.schema.errors import UserError
from breakeven.strategies import pp
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.pp import META, stages_of_rank
from breakeven.strategies.state import parameters_of
from breakeven.strategies.trainee import Trainee
from breakeven.workloads.anatomy import Anatomy, bare
from breakeven.workloads.objectives import objective
from breakeven.workloads.registry import anatomy, build_model
from tests.ranks import data_of, spec

WORKLOADS = ["llama", "llama-lora", "mobilenet_v2", "resnet", "vit"]


def mesh(ranks: int, rank: int) -> Mesh:
    class Place:
        def get_local_rank(self, name: str) -> int:
            return rank

    return Mesh({"pp": ranks}, torch.device("cpu"), Place())


def options(**given):
    return {name: given.get(name, option.default) for name, option in META.options.items()}


def trainee_of(workload: str) -> Trainee:
    run = spec("single", 1, workload)
    model = build_model(run, data_of(run), None)
    return Trainee(module=model, anatomy=anatomy(model))


def of_layers(*layers: nn.Module) -> Trainee:
    model = nn.Sequential(*layers)
    return Trainee(module=model, anatomy=Anatomy(blocks=(), pieces=list))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_parameter_is_of_exactly_one_rank(workload):
    trainee = trainee_of(workload)
    parameters = parameters_of(trainee.module)
    for balance in ("pieces", "parameters"):
        held = [pp.local(parameters, trainee, mesh(3, rank), options(balance=balance)) for rank in range(3)]
        names = [parameter.name for one in held for parameter in one]
        assert sorted(names) == sorted(parameter.name for parameter in parameters)
        assert all(held)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_pieces_called_one_after_the_other_are_the_model(workload):
    run = spec("single", 1, workload)
    data = data_of(run)
    model = build_model(run, data, None)
    task = objective(data, run, shares=1)
    batch = task.device(task.host(data.take(range(4))))
    del batch["labels"]
    hidden = batch[bare(model).main_input_name]
    for piece in anatomy(model).pieces(bare(model)):
        hidden = piece(hidden)
    torch.testing.assert_close(hidden, model(**batch).logits)


def test_the_same_layers_whatever_cut_them_before():
    """A rank's stages follow from the model as built: cut by tensor parallelism, its layers are smaller, not fewer."""
    trainee = of_layers(*(nn.Linear(4, 4 * (place + 1)) for place in range(6)))
    before = stages_of_rank(trainee, mesh(2, 0), options(balance="parameters"))
    cut = replace(trainee, module=nn.Sequential(*(nn.Linear(1, 6 - place) for place in range(6))))
    after = stages_of_rank(cut, mesh(2, 0), options(balance="parameters"))
    assert [list(stage) for stage in before.values()] == [list(stage) for stage in after.values()] == [[0, 1, 2, 3]]


def test_a_weight_that_two_stages_would_train_apart_is_refused():
    first, last = nn.Linear(4, 4), nn.Linear(4, 4)
    last.weight = first.weight
    with pytest.raises(UserError, match="two stages share a parameter"):
        stages_of_rank(of_layers(first, nn.ReLU(), last), mesh(2, 0), options())
    stages_of_rank(of_layers(first, last, nn.ReLU()), mesh(2, 0), options())  # in one stage it is one weight


def test_more_stages_than_pieces_are_refused_with_what_would_do():
    with pytest.raises(UserError, match="each need 4 pieces, and the model has 3"):
        stages_of_rank(of_layers(*(nn.Linear(1, 1) for _ in range(3))), mesh(2, 0), options(schedule="looped_bfs"))
