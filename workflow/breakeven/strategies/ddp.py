"""Distributed data parallelism: each device holds a replica and trains on its part of the batch; gradients are averaged
by all-reduce, bucket by bucket, while the backward pass still computes."""

import inspect
import math
from typing import Any

from breakeven.schema.spec import Json


def apply(model: Any, device: Any, options: Json) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    # Buffers are batch-norm statistics, which training never reads: sending them in every forward pass would only add a
    # wait that no gradient needs, before the forward pass, where it cannot be told from compute.
    names = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"  # before torch 2.13
    replica = DistributedDataParallel(
        model,
        device_ids=[device.index] if device.type == "cuda" else None,
        **{buffers: False},
    )
    if device.type == "cpu":
        # DDP's own stamps of each step. On CUDA they are events that cannot be read without stopping the device.
        replica._set_ddp_runtime_logging_sample_rate(1)
    return replica


def sync_wait_s(model: Any) -> float:
    """From the end of the backward pass's compute to the end of the last all-reduce."""
    if next(model.parameters()).device.type != "cpu":
        return math.nan
    model.logger.set_runtime_stats_and_log()  # DDP does it in the next forward pass; this step's figures are due now
    stamps = model._get_ddp_logging_data()
    communicated = stamps.get("backward_comm_time", 0)
    if communicated <= 0:
        return math.nan
    exposed_ns: int = communicated - stamps.get("backward_compute_comm_overlap_time", 0)
    return max(exposed_ns, 0) / 1e9
