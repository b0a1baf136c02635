"""Accuracy on held-out samples, between updates and outside their time."""

from typing import Any

import numpy as np

from breakeven.datasets.batches import Images
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.trainee import Trainee, forward
from breakeven.workloads.objectives import Objective


def accuracy(trainee: Trainee, objective: Objective, held_out: Images, mesh: Mesh, batch: int) -> float:
    """Share of ``held_out`` that is classified rightly. Collective: every rank runs as many batches, some of them empty
    of anything new, so that what is gathered in a forward pass is gathered by all."""
    import torch
    import torch.distributed as dist

    module = trainee.module
    share_statistics(module)
    module.eval()
    right = torch.zeros(2, dtype=torch.float64, device=mesh.device)  # right, seen
    size = batch * mesh.data_ranks
    with torch.no_grad():
        for begin in range(0, held_out.samples, size):
            mine = begin + mesh.data_rank * batch + np.arange(batch)
            new = torch.from_numpy(mine < held_out.samples).to(mesh.device)
            samples = objective.host(held_out.take(np.minimum(mine, held_out.samples - 1)))
            inputs = objective.device({name: tensor.to(mesh.device) for name, tensor in samples.items()})
            with trainee.autocast():
                logits: Any = forward(module, inputs)
            hits = logits.argmax(-1) == inputs["labels"]
            right += torch.stack([(hits & new).sum(), new.sum()])
    dist.all_reduce(right)  # ranks that share a batch count it alike, so the share stays
    module.train()
    return float(right[0] / right[1])


def share_statistics(module: Any) -> None:
    """Batch norms' running averages to their mean over the ranks: each has seen its own samples, and what is evaluated
    is one model. Training never reads them."""
    import torch.distributed as dist

    for buffer in module.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()
