"""Tensor parallelism (Megatron): every layer is cut over the ranks, attention by its heads; they share all samples and
sum what they computed twice per block."""

from collections.abc import Sequence

from breakeven.schema.spec import Json
from breakeven.schema.strategy import Check, Option, StrategyMeta
from breakeven.strategies import tensor
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter
from breakeven.strategies.trainee import Trainee

META = StrategyMeta(
    name="tp",
    title="tensor parallelism",
    kind="tensor",
    axes=("tp",),
    needs=("tensor_plan",),
    combines=("data", "context", "pipeline"),
    options={
        "loss_parallel": Option(
            default=True, means="The loss is computed from logits that stay cut, where the plan cuts the head."
        ),
    },
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora", "vit")),
        Check(devices=4, workloads=("llama",)),
        Check(devices=2, workloads=("llama",), options={"loss_parallel": False}),
        Check(devices=2, workloads=("llama",), settings={"activation_checkpointing": True}),
        Check(
            devices=2,
            workloads=("llama",),
            settings={"precision": "bf16"},
            tolerance=5e-4,
            note="bf16 rounds a cut layer's sums otherwise than a whole one's",
        ),
        Check(devices=4, product="ddp", workloads=("llama", "llama-lora", "vit"), degrees={"tp": 2}),
        Check(devices=4, product="ddp", workloads=("llama",), degrees={"tp": 2}, settings={"gradient_accumulation": 2}),
        Check(devices=4, product="fsdp", workloads=("llama", "llama-lora", "vit"), degrees={"tp": 2}),
        Check(
            devices=4, product="fsdp", workloads=("llama",), degrees={"tp": 2}, settings={"gradient_accumulation": 2}
        ),
        Check(devices=8, product="hsdp", workloads=("llama",), degrees={"replicate": 2, "tp": 2}),
    ),
    source="https://arxiv.org/abs/1909.08053",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    return tensor.split(trainee, mesh, sequence=False, loss_parallel=options["loss_parallel"])


def local(parameters: Sequence[Parameter], trainee: Trainee, mesh: Mesh, options: Json) -> list[Parameter]:
    return tensor.local(parameters, trainee, mesh, sequence=False)
