"""nn.DataParallel without the devices it needs: its replicas run one after the other on the CPU."""

import sys
import threading

import pytest
import torch
from torch import nn

from breakeven.strategies import dp
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import measured, parameters_of
from breakeven.strategies.trainee import Trainee
from breakeven.workloads.anatomy import Anatomy
from breakeven.workloads.objectives import objective
from breakeven.workloads.registry import anatomy, build_model
from tests.ranks import data_of, spec


@pytest.fixture
def replicas_on_cpu(monkeypatch):
    """What copies to devices and gathers from them, here without copies."""
    copies = sys.modules["torch.nn.parallel.replicate"]
    monkeypatch.setattr(
        copies,
        "_broadcast_coalesced_reshape",
        lambda tensors, devices, detach=False: [[tensor.view_as(tensor) for tensor in tensors] for _ in devices],
    )

    class Gather:
        @staticmethod
        def apply(device, dim, *parts):
            return torch.cat(parts, dim)

    monkeypatch.setattr(sys.modules["torch.nn.parallel.scatter_gather"], "Gather", Gather)


def in_threads(replicas, parts):
    found = [None] * len(replicas)

    def run(place):
        found[place] = replicas[place](**parts[place])

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(replicas))]
    for thread in threads:
        thread.start()
        thread.join()
    return found


@pytest.mark.parametrize("workload", ["llama-lora", "mobilenet_v2", "vit"])
def test_replicas_make_the_models_gradients(workload, replicas_on_cpu):
    run = spec("dp", 2, workload)
    data = data_of(run)
    task = objective(data, run, shares=1)
    batch = task.device(task.host(data.take(range(8))))
    labels = batch.pop("labels")
    criterion = task.criterion(data.work(range(8)))

    def gradients(model, logits_of):
        loss = criterion(logits_of(model, batch), labels)
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.requires_grad)]

    def of_replicas(model, batch):
        replica = dp.apply(Trainee(module=model, anatomy=anatomy(model)), Mesh({}, torch.device("cpu"), None, 2), {})
        halves = [{name: tensor.chunk(2)[place] for name, tensor in batch.items()} for place in range(2)]
        outputs = in_threads(nn.parallel.replicate(replica.module.module, [0, 1]), halves)
        return nn.parallel.gather(outputs, 0).logits

    whole = gradients(build_model(run, data, None), lambda model, batch: model(**batch).logits)
    halved = gradients(build_model(run, data, None), of_replicas)
    for one, other in zip(whole, halved, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_thread_computes_in_the_runs_own_precision():
    model = nn.Linear(2, 2)
    trainee = Trainee(
        module=model, anatomy=Anatomy(blocks=()), autocast=lambda: torch.autocast("cpu", dtype=torch.bfloat16)
    )
    replica = dp.apply(trainee, Mesh({}, torch.device("cpu"), None, 2), {}).module.module
    [output] = in_threads([replica], [{"input": torch.ones(1, 2)}])
    assert output.dtype == torch.bfloat16


def test_devices_are_those_that_follow_the_ranks_own():
    assert dp.devices(torch.device("cuda", 0), 4) == [0, 1, 2, 3]


def test_the_first_device_holds_a_whole_replica():
    model = nn.Linear(3, 5)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    expected = dp.state(parameters_of(model), Mesh({}, torch.device("cpu"), None, 2), {}, moments=2)
    assert measured(model, optimizer) == expected
