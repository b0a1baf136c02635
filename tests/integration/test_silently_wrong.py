"""What runs without an error and trains something else, next to what is used in its place: layers and tokens that are
cut over ranks.

A strategy is held to 1e-5 of one device's losses. What is wrong here differs by 1e-3 or more, so it would be seen.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.ranks import losses, mean_losses, on_ranks, prepared, spec

pytestmark = [pytest.mark.integration, pytest.mark.slow]

WRONG, RIGHT = 1e-3, 1e-5

KEYS = spec("cp", 2, "llama")
HEADS = spec("cp", 2, "llama", strategy_options={"exchange": "heads"})
REPLICAS = spec("ddp*tp", 4, "llama", degrees={"tp": 2})


@pytest.fixture(scope="module")
def one_device():
    return mean_losses(on_ranks(1, losses, spec("single", 1, "llama")))


@pytest.fixture(scope="module")
def two_ranks():
    return on_ranks(2, _two)


@pytest.fixture(scope="module")
def four_ranks():
    return on_ranks(4, _four)


def _two(rank):
    return {
        "gathered": losses(rank, KEYS),
        "torch.distributed.nn": _gathered_by_torch(rank),
        "overflow": _overflow(rank),
        "coalescing": _coalescing(rank),
    }


def _four(rank):
    return {"ddp": losses(rank, REPLICAS), "replicate": _replicate(rank)}


def difference(ran, name, reference) -> float:
    """The largest of a loss."""
    return float(np.abs(mean_losses([one[name] for one in ran]) - reference).max())


class TestKeysGatheredOverRanks:
    def test_by_functional_collectives_they_are_right(self, one_device, two_ranks):
        assert difference(two_ranks, "gathered", one_device) <= RIGHT

    def test_by_torch_distributed_nn_their_gradients_are_wrong(self, one_device, two_ranks):
        """https://github.com/pytorch/pytorch/issues/192920"""
        assert difference(two_ranks, "torch.distributed.nn", one_device) >= WRONG


def _gathered_by_torch(rank):
    """As one would write it; tokens lie one after the other, as where heads are exchanged."""
    import torch
    from torch.distributed.nn.functional import all_gather
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from breakeven.strategies import exchange

    def with_group(group):
        def attend(module, query, key, value, attention_mask, **settings):
            keys, values = (torch.cat(all_gather(tensor, group), dim=2) for tensor in (key, value))
            causal = torch.ones(query.shape[2], keys.shape[2], dtype=torch.bool).tril(group.rank() * query.shape[2])
            return sdpa_attention_forward(module, query, keys, values, causal, **settings)

        return attend

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "ExchangedHeads", with_group)
        return losses(rank, HEADS)


class TestReplicasOfCutLayers:
    def test_in_ddp_they_are_right(self, one_device, four_ranks):
        assert difference(four_ranks, "ddp", one_device) <= RIGHT

    def test_in_composable_replicate_they_are_wrong(self, one_device, four_ranks):
        assert difference(four_ranks, "replicate", one_device) >= WRONG


def _replicate(rank):
    """As one would write it by torch's own plan for each layer."""
    from torch.distributed._composable.replicate import replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    from breakeven.strategies import ddp, tp

    def cut(trainee, mesh, options):
        styles = {"column": ColwiseParallel, "row": RowwiseParallel}
        plan = {name: styles[way]() for name, way in trainee.anatomy.tensor_plan.linears.items()}
        parallelize_module(trainee.module, mesh.sub("tp"), plan)
        return trainee

    def copied(trainee, mesh, options):
        replicate(trainee.module, device_mesh=mesh.sub("replicate"))
        return trainee

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tp, "apply", cut)
        patch.setattr(ddp, "apply", copied)
        return losses(rank, REPLICAS)


class TestOverflow:
    def test_an_update_is_skipped_by_all_parts_of_a_layer_or_by_none(self, two_ranks):
        for one in two_ranks:
            assert one["overflow"] == {"changed": [False, True], "scale": 2.0}


def _overflow(rank):
    """Two updates; in the first the gradient of one rank's part of a layer is not finite."""
    import torch

    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    run = prepared(replace(spec("tp", 2, "llama"), updates=2), scaler=scaler)
    changed = []
    for update in range(2):
        parameters = list(run.trainee.module.parameters())
        before = [parameter.detach().clone() for parameter in parameters]
        if update == 0 and rank == 1:
            part = run.trainee.module.model.layers[0].mlp.down_proj.parametrizations.weight.original
            hook = part.register_hook(lambda gradient: gradient * torch.inf)
            run.update()
            hook.remove()
        else:
            run.update()
        changed.append(any(not torch.equal(old, new) for old, new in zip(before, parameters, strict=True)))
    return {"changed": changed, "scale": scaler.get_scale()}


class TestCoalescedCollectives:
    def test_gloo_has_none_and_after_the_attempt_runs_nothing_on_the_group(self, two_ranks):
        """Why no strategy uses them."""
        for one in two_ranks:
            assert "startCoalescing" in one["coalescing"]["message"]
            assert one["coalescing"]["sum_of_ones"] == 1.0  # of two ranks


def _coalescing(rank):
    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _coalescing_manager

    group = dist.new_group([0, 1])  # its own: no other collective may be lost
    message = ""
    try:
        with _coalescing_manager(group, torch.device("cpu")):
            dist.all_reduce(torch.ones(1), group=group)
    except RuntimeError as error:
        message = str(error)
    ones = torch.ones(1)
    dist.all_reduce(ones, group=group)
    return {"message": message, "sum_of_ones": float(ones)}
