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

OPTIONS = {
    "offload": Option(
        default=False, means="Shards and the optimiser's state rest in host memory, where updates happen."
    ),
    "param_dtype": Option(
        default="fp32",
        choices=("fp32", "bf16", "fp16"),
        means="The type parameters are gathered and computed in; shards and reductions stay fp32.",
    ),
}

META = StrategyMeta(
    name="fsdp",
    title="fully sharded data parallelism",
    kind="data",
    axes=("shard",),
    combines=("context", "tensor", "pipeline"),
    options=OPTIONS,
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit")),
        Check(devices=4, workloads=("llama",)),
        Check(devices=2, workloads=("llama", "resnet"), settings={"gradient_accumulation": 2}),
        Check(devices=2, workloads=("llama", "vit"), settings={"activation_checkpointing": True}),
        Check(devices=2, workloads=("llama", "resnet"), settings={"optimizer": "adamw"}),
        Check(devices=2, workloads=("llama", "llama-lora"), options={"offload": True}),
        Check(
            devices=2,
            workloads=("llama",),
            options={"param_dtype": "bf16"},
            tolerance=1e-3,
            note="computed with 8 bits, held against fp32",
        ),
        Check(
            devices=2,
            workloads=("llama",),
            options={"param_dtype": "fp16"},
            tolerance=1e-4,
            note="computed with 11 bits, held against fp32",
        ),
    ),
    source="https://arxiv.org/abs/2304.11277",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    return shard(trainee, mesh, options, reshard=True)


def shard(trainee: Trainee, mesh: Mesh, options: Json, *, reshard: bool) -> Trainee:
    """Every repeated block and the rest, a group of parameters each. ``reshard``: freed after the forward pass, to be
    gathered again for the backward pass."""
    import torch
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[options["param_dtype"]]
    settings: dict[str, Any] = {
        "mesh": device_mesh(mesh),
        "reshard_after_forward": reshard,
        "mp_policy": MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32 if dtype else None),
        "offload_policy": CPUOffloadPolicy(mesh.device.type == "cuda") if options["offload"] else OffloadPolicy(),
    }
    for _, block in blocks(trainee):
        fully_shard(block, **settings)
    for root in trainee.roots:
        fully_shard(root, **settings)

    def sync(wanted: bool) -> None:
        for root in trainee.roots:
            root.set_requires_gradient_sync(wanted)

    @contextlib.contextmanager
    def no_sync() -> Iterator[None]:
        sync(False)
        try:
            yield
        finally:
            sync(True)

    return replace(trainee, no_sync=no_sync)


def device_mesh(mesh: Mesh) -> Any:
    """Replicas, where there are any, of shards. These lie over the ranks of context parallelism too, which see other
    tokens of the same samples and hold equal parameters."""
    shards = ("shard", "cp") if "cp" in mesh.degrees else ("shard",)
    return mesh.grid(("replicate",), shards) if "replicate" in mesh.degrees else mesh.flat(*shards)


def state(parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
    """Each parameter's first dimension is cut."""
    parts, part = mesh.degree("shard", "cp"), mesh.coordinate("shard", "cp")
    shards = [replace(p, shape=(chunk(p.shape[0], parts, part), *p.shape[1:])) if p.shape else p for p in parameters]
    return replicated(shards, moments)
