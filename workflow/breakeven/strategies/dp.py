"""Data parallelism in one process (``nn.DataParallel``): each update copies the model to all devices, threads run it on
their parts of the batch, and gradients are summed on the first device, which alone updates."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from breakeven.schema.spec import Json, Spec
from breakeven.schema.strategy import Check, StrategyMeta
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter, State, replicated
from breakeven.strategies.trainee import Trainee


def refuses(spec: Spec) -> str:
    if spec.compile:
        return "strategy dp: a compiled block would compute with the first device's weights on every device. Use ddp."
    return ""


META = StrategyMeta(
    name="dp",
    title="data parallelism in one process",
    kind="data",
    axes=("replicate",),
    device_kinds=("cuda",),
    one_process=True,
    refuses=refuses,
    checks=(Check(devices=2, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit")),),
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    from torch import nn

    class Replica(nn.Module):
        """Runs in a thread of its own, which takes the caller's autocast for fp16 whatever its type."""

        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

        def forward(self, **inputs: Any) -> Any:
            with trainee.autocast():
                return self.module(**inputs)

    replica = Replica(trainee.module.to(mesh.device))
    module = nn.DataParallel(replica, device_ids=devices(mesh.device, mesh.devices))
    return replace(trainee, module=module, sync_wait_s=lambda: float("nan"))


def devices(first: Any, count: int) -> list[int]:
    """Those that follow the rank's own."""
    return [(first.index or 0) + place for place in range(count)]


def state(parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
    """On the first device. The others hold a copy while an update's batch passes."""
    return replicated(list(parameters), moments)
