"""fp16 gradients that overflow on one rank alone: an update is skipped by all ranks that share a model, or by none."""

from typing import Any


def agree_on_overflow(module: Any, group: Any, device: Any) -> None:
    """Called by every rank of the group: where one's gradients overflowed, all ranks' do."""
    import torch
    import torch.distributed as dist

    gradients = [p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad for p in module.parameters()]
    gradients = [gradient for gradient in gradients if gradient is not None and gradient.numel()]
    overflowed = torch.zeros((), device=device)
    for gradient in gradients:
        overflowed = torch.maximum(overflowed, (~gradient.isfinite()).any().float())
    dist.all_reduce(overflowed, dist.ReduceOp.MAX, group=group)
    for gradient in gradients[:1]:
        gradient.mul_(torch.where(overflowed > 0, torch.inf, 1.0))  # without asking the device
