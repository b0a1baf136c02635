"""Fully sharded data parallelism (FSDP2): parameters, gradients and optimiser state are split over the shard axis; a
block's parameters are gathered just before it computes."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from breakeven.schema.spec import Json
from breakeven.schema.strategy import Check, Option, StrategyMeta
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter, State, chunk, replicated
from breakeven.strategies.trainee import Trainee, blocks

META = StrategyMeta(
    name="fsdp",
    title="fully sharded data parallelism",
    kind="data",
    axes=("shard",),
    combines=("context", "tensor", "pipeline"),
    options={
        "offload": Option(default=False, means="Shards rest in host memory."),
        "param_dtype": Option(
            default="fp32",
            choices=("fp32", "bf16", "fp16"),
            means="The type parameters are gathered and computed in; shards and reductions stay fp32.",
        ),
    },
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit")),
        Check(devices=4, workloads=("llama",)),
    ),
    source="https://arxiv.org/abs/2304.11277",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    return shard(trainee, mesh, ("shard",), options, reshard=True)


def shard(trainee: Trainee, mesh: Mesh, axes: tuple[str, ...], options: Json, *, reshard: bool) -> Trainee:
    """Every repeated block and the rest, a group of parameters each. ``reshard``: freed after the forward pass, to be
    gathered again for the backward pass. Ranks that see other tokens of the same samples shard too."""
    import torch
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[options["param_dtype"]]
    settings: dict[str, Any] = {
        "mesh": device_mesh(mesh, axes),
        "reshard_after_forward": reshard,
        "mp_policy": MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32 if dtype else None),
        "offload_policy": CPUOffloadPolicy() if options["offload"] else OffloadPolicy(),
    }
    module = trainee.module
    for _, block in blocks(trainee):
        fully_shard(block, **settings)
    fully_shard(module, **settings)

    @contextlib.contextmanager
    def no_sync() -> Iterator[None]:
        module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            module.set_requires_gradient_sync(True)

    return replace(trainee, no_sync=no_sync)


def device_mesh(mesh: Mesh, axes: tuple[str, ...]) -> Any:
    """Shards lie over the last of ``axes`` and over the ranks of context parallelism, which hold equal parameters."""
    if "cp" not in mesh.degrees:
        return mesh.sub(*axes)
    return mesh.flat(*axes, "cp")


def state(parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
    return sharded(parameters, mesh, ("shard", "cp"), moments)


def sharded(parameters: Sequence[Parameter], mesh: Mesh, axes: tuple[str, ...], moments: int) -> State:
    """Each parameter's first dimension is cut over these axes."""
    parts, part = mesh.degree(*axes), mesh.coordinate(*axes)
    shards = [
        replace(p, shape=(chunk(p.shape[0], parts, part), *p.shape[1:])) if p.shape else p for p in parameters
    ]
    return replicated(shards, moments)
