"""Hybrid sharding (FSDP2): replicas, each sharded over a few ranks. Parameters are gathered among those, on one node
for example, and gradients averaged over the replicas."""

from collections.abc import Sequence

from breakeven.schema.spec import Json
from breakeven.schema.strategy import Check, StrategyMeta
from breakeven.strategies import fsdp
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter, State
from breakeven.strategies.trainee import Trainee

META = StrategyMeta(
    name="hsdp",
    title="hybrid sharded data parallelism",
    kind="data",
    axes=("replicate", "shard"),
    combines=("context", "tensor", "pipeline"),
    options=fsdp.OPTIONS,
    checks=(
        Check(devices=4, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit"), degrees={"shard": 2}),
        Check(devices=4, workloads=("llama",), degrees={"shard": 2}, settings={"gradient_accumulation": 2}),
    ),
    source="https://arxiv.org/abs/2304.11277",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    return fsdp.shard(trainee, mesh, options, reshard=True)


def state(parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
    return fsdp.state(parameters, mesh, options, moments)
