"""ZeRO stage 2 (FSDP2): parameters, gradients and optimiser state are split over the shard axis, but parameters once
gathered in the forward pass stay until the backward pass has used them: half the gathers of ``fsdp``, more memory."""

from collections.abc import Sequence

from breakeven.schema.spec import Json
from breakeven.schema.strategy import Check, StrategyMeta
from breakeven.strategies import fsdp
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter, State
from breakeven.strategies.trainee import Trainee

META = StrategyMeta(
    name="zero2",
    title="sharded gradients and optimiser (ZeRO-2)",
    kind="data",
    axes=("shard",),
    combines=("context", "tensor", "pipeline"),
    options=fsdp.OPTIONS,
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit")),
        Check(devices=4, workloads=("llama",)),
        Check(devices=2, workloads=("llama",), settings={"gradient_accumulation": 2}),
    ),
    source="https://arxiv.org/abs/1910.02054",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    return fsdp.shard(trainee, mesh, options, reshard=False)


def state(parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
    """Between updates as of ``fsdp``: what is gathered lives within one."""
    return fsdp.state(parameters, mesh, options, moments)
