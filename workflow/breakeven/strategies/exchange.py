"""Attention over tokens that lie on several ranks, as functions that transformers calls. Needs torch to be read, unlike
what imports it.

Queries, keys and values come as (batch, heads, tokens, dimension); the result is (batch, tokens, heads, dimension).
Attention is causal, and no token that bears loss sees padding.
"""

from typing import Any

import torch
from torch.distributed import _functional_collectives as collectives
from torch.nn.attention.bias import causal_lower_right
from transformers.integrations.sdpa_attention import sdpa_attention_forward

# Not ``torch.distributed.nn.functional.all_gather``: its gradients are wrong on gloo (pytorch #192920, torch 2.13).
_gather = getattr(collectives, "all_gather_single_autograd", None) or collectives.all_gather_tensor_autograd


class GatheredKeys:
    """Every rank gathers all keys and values, for the queries of its own tokens.

    Of twice as many slices as ranks a rank has one from the front and one from the back, ``rank`` and its mirror image:
    later tokens see more, and so each rank has as much to compute.
    """

    def __init__(self, group: Any) -> None:
        self.group, self.ranks, self.rank = group, group.size(), group.rank()

    def __call__(
        self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **settings: Any
    ) -> tuple[Any, None]:
        slices = _gather(torch.stack((key, value)).contiguous(), 0, self.group)
        slices = slices.unflatten(0, (self.ranks, 2))  # (ranks, keys and values, batch, heads, tokens, dimension)
        front, back = slices.chunk(2, dim=4)
        keys, values = torch.cat([*front, *back.flip(0)], dim=3)
        length = query.shape[2] // 2
        attended = []
        for queries, place in zip(query.chunk(2, dim=2), (self.rank, 2 * self.ranks - 1 - self.rank), strict=True):
            seen = (place + 1) * length
            mask = causal_mask(length, seen, query.device)
            attended.append(
                sdpa_attention_forward(module, queries, keys[:, :, :seen], values[:, :, :seen], mask, **settings)[0]
            )
        return torch.cat(attended, dim=1), None


def causal_mask(queries: int, keys: int, device: Any) -> Any:
    """Of the last ``queries`` of so many tokens; None where it is the usual one."""
    if queries == keys:
        return None
    if device.type == "cuda":
        return causal_lower_right(queries, keys)  # no tensor: the fused kernels know this shape of mask
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


class ExchangedHeads:
    """Every rank exchanges its tokens' heads for all tokens of some heads, and back (Ulysses)."""

    def __init__(self, group: Any) -> None:
        self.group, self.ranks = group, group.size()

    def __call__(
        self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **settings: Any
    ) -> tuple[Any, None]:
        shares = [tensor.unflatten(1, (self.ranks, -1)) for tensor in (query, key, value)]
        heads = [share.shape[2] for share in shares]
        # (ranks, batch, heads, tokens, dimension): to the rank that has these heads, from the one that had the tokens
        received = self._swap(torch.cat(shares, dim=2).transpose(0, 1))
        whole = received.permute(1, 2, 0, 3, 4).flatten(2, 3)
        attended, _ = sdpa_attention_forward(module, *whole.split(heads, dim=1), None, **settings)
        tokens = attended.unflatten(1, (self.ranks, -1))
        return self._swap(tokens.transpose(0, 1)).permute(1, 2, 0, 3, 4).flatten(2, 3), None

    def _swap(self, parts: Any) -> Any:
        """Part i of the first dimension goes to rank i, and comes from it."""
        return collectives.all_to_all_single_autograd(parts.contiguous(), None, None, self.group)
