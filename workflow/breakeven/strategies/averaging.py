"""Gradients averaged after the backward pass, bucket by bucket, for a model whose stages are called one by one: DDP
would exchange what it has seen of a stage's first micro-batch."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from breakeven.strategies.mesh import Mesh
from breakeven.strategies.trainee import Trainee

MIB = 2**20


def average_afterwards(trainee: Trainee, mesh: Mesh, axes: tuple[str, ...], bucket_cap_mb: float) -> Trainee:
    """Nothing of it is hidden by compute: all of it is waited for."""
    import torch
    import torch.distributed as dist

    group, ranks = mesh.group(*axes), mesh.degree(*axes)
    before = trainee.after_backward
    waited_s = math.nan

    def after_backward() -> None:
        nonlocal waited_s
        before()
        began = time.perf_counter()
        gradients = [p.grad for p in trainee.module.parameters() if p.grad is not None]
        for bucket in buckets([g.numel() * g.element_size() for g in gradients], int(bucket_cap_mb * MIB)):
            some = [gradients[i] for i in bucket]
            flat = torch.cat([gradient.flatten() for gradient in some]).div_(ranks)
            dist.all_reduce(flat, group=group)
            means = flat.split([gradient.numel() for gradient in some])
            torch._foreach_copy_(some, [mean.view_as(gradient) for mean, gradient in zip(means, some, strict=True)])
        waited_s = time.perf_counter() - began

    def sync_wait_s() -> float:
        return waited_s if mesh.device.type == "cpu" else math.nan

    return replace(trainee, after_backward=after_backward, sync_wait_s=sync_wait_s)


def buckets(sizes: Sequence[int], cap: int) -> list[range]:
    """Runs of neighbours that together are at most ``cap``, each as long as can be; what is larger stands alone."""
    found: list[range] = []
    begin, held = 0, 0
    for place, size in enumerate(sizes):
        if place > begin and held + size > cap:
            found.append(range(begin, place))
            begin, held = place, 0
        held += size
    return [*found, range(begin, len(sizes))] if sizes else []
