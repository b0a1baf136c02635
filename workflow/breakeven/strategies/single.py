"""One device, no parallelism: the base that every other strategy is held against."""

from dataclasses import replace

from breakeven.schema.spec import Json
from breakeven.schema.strategy import Check, StrategyMeta
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.trainee import Trainee

META = StrategyMeta(
    name="single",
    title="one device, no parallelism",
    kind="none",
    max_devices=1,
    checks=(
        Check(devices=1, workloads=("llama", "vit", "resnet"), settings={"gradient_accumulation": 4}),
        Check(devices=1, workloads=("llama", "resnet"), settings={"gradient_accumulation": 4, "optimizer": "adamw"}),
        Check(devices=1, workloads=("llama", "vit", "resnet"), settings={"activation_checkpointing": True}),
    ),
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    return replace(trainee, sync_wait_s=lambda: 0.0)
