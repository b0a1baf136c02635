"""Distributed data parallelism: each device holds a replica and trains on its part of the batch; gradients are averaged
by all-reduce, bucket by bucket, while the backward pass still computes."""

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from breakeven.schema.spec import Json
from breakeven.schema.strategy import Check, Option, StrategyMeta
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter, State, replicated
from breakeven.strategies.trainee import Trainee

META = StrategyMeta(
    name="ddp",
    title="distributed data parallelism",
    kind="data",
    axes=("replicate",),
    combines=("context", "tensor", "pipeline"),
    options={
        "static_graph": Option(default=False, means="The graph is the same in every update."),
        "gradient_as_bucket_view": Option(default=False, means="Gradients lie in the buckets that are exchanged."),
        "bucket_cap_mb": Option(default=25, minimum=1, means="Size of a bucket in MiB."),
        "hook": Option(
            default="none",
            choices=("none", "fp16", "bf16", "powersgd"),
            means="What is done to gradients before they are exchanged.",
        ),
        "powersgd_rank": Option(default=1, minimum=1, means="Rank of PowerSGD's approximation."),
    },
    checks=(Check(devices=2, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit")),),
    source="https://arxiv.org/abs/2006.15704",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    from torch.nn.parallel import DistributedDataParallel

    # Buffers are batch-norm statistics, which training never reads: sending them in every forward pass would only add a
    # wait that no gradient needs, before the forward pass, where it cannot be told from compute.
    names = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"  # before torch 2.13
    replica = DistributedDataParallel(
        trainee.module.to(mesh.device),
        device_ids=[mesh.device.index] if mesh.device.type == "cuda" else None,
        process_group=mesh.group("replicate", "cp"),
        bucket_cap_mb=options["bucket_cap_mb"],
        static_graph=options["static_graph"],
        gradient_as_bucket_view=options["gradient_as_bucket_view"],
        **{buffers: False},
    )
    if mesh.device.type == "cpu":
        # DDP's own stamps of each step. On CUDA they are events that cannot be read without stopping the device.
        replica._set_ddp_runtime_logging_sample_rate(1)
    return replace(trainee, module=replica, no_sync=replica.no_sync, sync_wait_s=lambda: sync_wait_s(replica))


def state(parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
    return replicated(list(parameters), moments)


def sync_wait_s(replica: Any) -> float:
    """From the end of the backward pass's compute to the end of the last all-reduce."""
    if next(replica.parameters()).device.type != "cpu":
        return math.nan
    replica.logger.set_runtime_stats_and_log()  # DDP does it in the next forward pass; this step's figures are due now
    stamps = replica._get_ddp_logging_data()
    communicated = stamps.get("backward_comm_time", 0)
    if communicated <= 0:
        return math.nan
    exposed_ns: int = communicated - stamps.get("backward_compute_comm_overlap_time", 0)
    return max(exposed_ns, 0) / 1e9
