"""Tensor parallelism with sequence parallelism: between the cut layers, too, a rank has a part, of the tokens. Sums
over the ranks become gathers and scatters of the same size, and a rank keeps fewer activations the more they are."""

from collections.abc import Sequence

from breakeven.schema.spec import Json, Spec
from breakeven.schema.strategy import Check, Option, StrategyMeta
from breakeven.strategies import tensor
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter
from breakeven.strategies.trainee import Trainee


def refuses(spec: Spec) -> str:
    degrees, length = spec.resolved_degrees, spec.workload.sequence_length
    here = length // degrees.get("cp", 1) if length else 0
    return tensor.uneven(here, degrees["tp"]) if here % degrees["tp"] else ""


META = StrategyMeta(
    name="tp_sp",
    title="tensor and sequence parallelism",
    kind="tensor",
    axes=("tp",),
    needs=("tensor_plan", "sequence_plan"),
    combines=("data", "context"),
    options={
        "loss_parallel": Option(default=True, means="The loss is computed from logits that stay cut."),
    },
    refuses=refuses,
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora")),
        Check(devices=4, workloads=("llama",)),
        Check(devices=2, workloads=("llama",), settings={"activation_checkpointing": True}),
        Check(devices=4, product="fsdp", workloads=("llama",), degrees={"tp": 2}),
        Check(
            devices=4, product="fsdp", workloads=("llama",), degrees={"tp": 2}, settings={"gradient_accumulation": 2}
        ),
    ),
    source="https://arxiv.org/abs/2205.05198",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    return tensor.split(trainee, mesh, sequence=True, loss_parallel=options["loss_parallel"])


def local(parameters: Sequence[Parameter], trainee: Trainee, mesh: Mesh, options: Json) -> list[Parameter]:
    return tensor.local(parameters, trainee, mesh, sequence=True)
