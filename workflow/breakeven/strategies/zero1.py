"""ZeRO stage 1: replicas as in DDP, but each rank keeps the optimiser's state of a part of the parameters alone,
updates those, and sends them to the others."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from breakeven.schema.spec import Json
from breakeven.schema.strategy import Check, Option, StrategyMeta
from breakeven.strategies import ddp
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter, State, replicated
from breakeven.strategies.trainee import Trainee

META = StrategyMeta(
    name="zero1",
    title="sharded optimiser (ZeRO-1)",
    kind="data",
    axes=("replicate",),
    combines=("context", "tensor", "pipeline"),
    options={
        "parameters_as_bucket_view": Option(
            default=False, means="Each rank's parameters lie in one buffer, sent as a whole."
        ),
    },
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit")),
        Check(devices=4, workloads=("llama", "resnet")),
        Check(devices=2, workloads=("llama",), options={"parameters_as_bucket_view": True}),
        Check(devices=2, workloads=("llama", "resnet"), settings={"optimizer": "adamw"}),
        Check(devices=2, workloads=("llama",), settings={"gradient_accumulation": 2}),
    ),
    source="https://arxiv.org/abs/1910.02054",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def optimizer(parameters: Iterable[Any], kind: Any, settings: dict[str, Any]) -> Any:
        sharded = functools.partial(
            ZeroRedundancyOptimizer,
            optimizer_class=kind,
            process_group=mesh.group("replicate", "cp"),
            parameters_as_bucket_view=options["parameters_as_bucket_view"],
        )
        return trainee.optimizer(parameters, sharded, settings)

    defaults = {name: option.default for name, option in ddp.META.options.items()}
    return replace(ddp.apply(trainee, mesh, defaults), optimizer=optimizer)


def state(parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
    whole = replicated(list(parameters), moments)
    parts, part = mesh.degree("replicate", "cp"), mesh.coordinate("replicate", "cp")
    trained = [parameter for parameter in parameters if parameter.trained]
    mine = greedy([parameter.numel for parameter in trained], parts)[part]
    return replace(whole, optimizer=moments * sum(trained[i].bytes for i in mine))


def greedy(sizes: Sequence[int], parts: int) -> list[list[int]]:
    """Which of them each part gets: the largest first, each to the part that has least (of equals, the first)."""
    found: list[list[int]] = [[] for _ in range(parts)]
    held = [0] * parts
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        part = held.index(min(held))
        found[part].append(place)
        held[part] += sizes[place]
    return found
