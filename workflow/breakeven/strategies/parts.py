"""Parameters of which a rank holds a part. Needs torch to be read, unlike what imports it."""

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Partial
from torch.nn.functional import embedding as look_up
from torch.nn.utils import parametrize

from breakeven.strategies.state import chunk


class Part(nn.Module):
    """Shows a plain tensor as the part of a whole that it is."""

    def __init__(self, whole: DTensor) -> None:
        super().__init__()
        self.ranks, self.placements = whole.device_mesh, whole.placements
        self.shape, self.stride = whole.shape, whole.stride()

    def forward(self, part: torch.Tensor) -> DTensor:
        return DTensor.from_local(
            part, self.ranks, self.placements, run_check=False, shape=self.shape, stride=self.stride
        )


def hold_plainly(root: nn.Module) -> None:
    """Every parameter that is a DTensor becomes a plain one, which its layer reads as the part that it is.

    DTensors could not share buckets or a fused optimiser step with the layers that are not cut, and their gradients
    would be left as they fall: summed over the ranks, or not yet.
    """
    for module in list(root.modules()):
        for name, parameter in list(module.named_parameters(recurse=False)):
            if isinstance(parameter, DTensor):
                part = parameter.detach().to_local()
                setattr(module, name, nn.Parameter(part, requires_grad=parameter.requires_grad))
                parametrize.register_parametrization(module, name, Part(parameter), unsafe=True)


class EmbeddingPart(nn.Module):
    """A rank's rows of a token embedding, and the sum over the ranks that makes it whole.

    Not torch's own RowwiseParallel, under which every rank keeps the gradient of every row.
    """

    def __init__(self, whole: nn.Embedding, ranks: Any, placement: Any) -> None:
        """``placement``: how the tokens' vectors lie on the ranks afterwards."""
        super().__init__()
        self.ranks, self.placement = ranks, placement
        self.first = min(ranks.get_local_rank() * chunk(whole.num_embeddings, ranks.size(), 0), whole.num_embeddings)
        self.rows = chunk(whole.num_embeddings, ranks.size(), ranks.get_local_rank())
        rows = whole.weight.detach()[self.first : self.first + self.rows].clone()
        self.weight = nn.Parameter(rows.to(ranks.device_type), requires_grad=whole.weight.requires_grad)
        # The padding's row is never trained; taken for a row of every part, it would stop another token's too.
        padding = -1 if whole.padding_idx is None else whole.padding_idx - self.first
        self.padding = padding if 0 <= padding < self.rows else None

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        row = tokens - self.first
        elsewhere = (row < 0) | (row >= self.rows)
        found = look_up(row.masked_fill(elsewhere, 0), self.weight, self.padding)
        found = found.masked_fill(elsewhere[..., None], 0)
        summed = DTensor.from_local(found, self.ranks, [Partial()], run_check=False)
        return summed.redistribute(placements=[self.placement]).to_local()
