"""Distributed data parallelism: each device holds a replica and trains on its part of the batch; gradients are averaged
by all-reduce, bucket by bucket, while the backward pass still computes."""

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from breakeven.schema.spec import Json, Spec
from breakeven.schema.strategy import Check, Option, StrategyMeta
from breakeven.strategies.averaging import average_afterwards
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter, State, replicated
from breakeven.strategies.trainee import Trainee

#: torch's default.
_BUCKET_MB = 25
_EVERYTHING_MB = 2**20

#: Options that need the backward pass to be one of DDP's own.
_OVERLAPPED = ("static_graph", "gradient_as_bucket_view", "hook", "powersgd_rank", "powersgd_start")


def refuses(spec: Spec) -> str:
    given = [name for name in _OVERLAPPED if name in spec.strategy_options]
    if "pp" in spec.resolved_degrees:
        if given:
            return f"strategy_options.{given[0]}: with a pipeline, gradients are averaged as they are, and afterwards."
    elif spec.strategy_options.get("static_graph") and spec.gradient_accumulation > 1:
        return "strategy_options.static_graph: with gradient_accumulation the graph is not the same in every part."
    return ""


META = StrategyMeta(
    name="ddp",
    title="distributed data parallelism",
    kind="data",
    axes=("replicate",),
    combines=("context", "tensor", "pipeline"),
    options={
        "static_graph": Option(default=False, means="The graph is the same in every update."),
        "gradient_as_bucket_view": Option(default=False, means="Gradients lie in the buckets that are exchanged."),
        "bucket_cap_mb": Option(
            default=_BUCKET_MB, minimum=1, means="Size of a bucket in MiB; unless it is given, the first has 1 MiB."
        ),
        "hook": Option(
            default="none",
            choices=("none", "fp16", "bf16", "powersgd"),
            means="What is done to gradients before they are exchanged: rounded to 16 bits, or approximated by "
            "matrices of low rank.",
        ),
        "powersgd_rank": Option(default=1, minimum=1, means="Rank of PowerSGD's approximation."),
        "powersgd_start": Option(
            default=2,
            minimum=2,
            means="Updates before PowerSGD begins: until then gradients are exchanged as they are.",
        ),
    },
    refuses=refuses,
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit")),
        Check(devices=4, workloads=("llama", "resnet")),
        Check(devices=2, workloads=("llama", "resnet"), settings={"gradient_accumulation": 2}),
        Check(devices=2, workloads=("llama", "resnet"), settings={"sampling": "replicated"}),
        Check(devices=2, workloads=("llama", "resnet"), settings={"optimizer": "adamw"}),
        Check(
            devices=2,
            workloads=("llama",),
            settings={"precision": "bf16"},
            tolerance=1e-3,
            note="rounded anew in each part",
        ),
        Check(
            devices=2,
            workloads=("llama-lora", "mobilenet_v2"),
            options={"static_graph": True, "gradient_as_bucket_view": True},
        ),
        Check(devices=2, workloads=("llama", "mobilenet_v2"), options={"bucket_cap_mb": 1}),
        Check(
            devices=2,
            workloads=("llama", "vit"),
            options={"hook": "fp16"},
            tolerance=1e-4,
            note="gradients rounded to 11 bits",
        ),
        Check(
            devices=2,
            workloads=("llama", "vit"),
            options={"hook": "bf16"},
            tolerance=5e-4,
            note="gradients rounded to 8 bits",
        ),
        Check(
            devices=2,
            workloads=("vit",),
            options={"hook": "powersgd", "powersgd_rank": 4},
            tolerance=5e-3,
            note="gradients as matrices of rank 4 from the third update on (with no exchange at all: 1e-1)",
        ),
    ),
    source="https://arxiv.org/abs/2006.15704",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    trainee.module.to(mesh.device)
    if trainee.stages:
        return average_afterwards(trainee, mesh, ("replicate", "cp"), options["bucket_cap_mb"])
    return replicate(trainee, mesh, options)


def replicate(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    from torch.nn.parallel import DistributedDataParallel

    # Buffers are batch-norm statistics, which training never reads: sending them in every forward pass would only add a
    # wait that no gradient needs, before the forward pass, where it cannot be told from compute.
    names = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"  # before torch 2.13
    replica = DistributedDataParallel(
        trainee.module,
        device_ids=[mesh.device.index] if mesh.device.type == "cuda" else None,
        process_group=mesh.group("replicate", "cp"),
        bucket_cap_mb=bucket_mb(options, mesh.device.type),
        static_graph=options["static_graph"],
        gradient_as_bucket_view=options["gradient_as_bucket_view"],
        **{buffers: False},
    )
    register_hook(replica, mesh, options)
    trainee = replace(trainee, module=replica, no_sync=replica.no_sync)
    if mesh.device.type != "cpu":
        return trainee  # there DDP's stamps are events, which cannot be read without stopping the device
    replica._set_ddp_runtime_logging_sample_rate(1)
    return replace(trainee, sync_wait_s=lambda: sync_wait_s(replica.logger))


def bucket_mb(options: Json, device_kind: str) -> int | None:
    """None: torch's default, of which the first bucket is small, so that the exchange begins early."""
    if options["hook"] == "powersgd" and device_kind == "cpu":
        # gloo runs what follows each of PowerSGD's sums in no set order: with several buckets another on every rank,
        # which aborts them all.
        return _EVERYTHING_MB
    return None if options["bucket_cap_mb"] == _BUCKET_MB else int(options["bucket_cap_mb"])


def register_hook(replica: Any, mesh: Mesh, options: Json) -> None:
    if options["hook"] == "none":
        return
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    group = mesh.group("replicate", "cp")
    if options["hook"] == "powersgd":
        # Its own default start, update 1000, is later than most measured runs end.
        state = powerSGD_hook.PowerSGDState(group, options["powersgd_rank"], options["powersgd_start"])
        replica.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[options["hook"]]

    # torch's own hook for bf16 runs with NCCL alone, though gloo sums bf16 too.
    def rounded(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        whole = bucket.buffer()
        half = whole.to(dtype).div_(group.size())  # before the sum, which could overflow in fp16
        exchanged = dist.all_reduce(half, group=group, async_op=True).get_future()
        return exchanged.then(lambda done: whole.copy_(done.value()[0]))

    replica.register_comm_hook(group, rounded)


def state(parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
    return replicated(list(parameters), moments)


def sync_wait_s(logger: Any) -> float:
    """From the end of the backward pass's compute to the end of the last all-reduce, by a replica's own stamps."""
    logger.set_runtime_stats_and_log()  # DDP does it in the next forward pass; this step's figures are due now
    stamps = logger._get_ddp_logging_data().ints_map  # its texts with it would take twice as long
    communicated = stamps.get("backward_comm_time", 0)
    if communicated <= 0:
        return math.nan
    exposed_ns: int = communicated - stamps.get("backward_compute_comm_overlap_time", 0)
    return max(exposed_ns, 0) / 1e9
