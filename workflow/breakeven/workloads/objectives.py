"""From a rank's samples to its loss. The mean of the ranks' losses is the global batch's loss, and so for gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.datasets.batches import IGNORED, Data, Images, Work

Inputs = dict[str, Any]
"""Tensors on the device, first dimension the local batch."""


@dataclass(frozen=True, slots=True)
class Objective:
    inputs: Callable[[dict[str, NDArray[Any]]], Inputs]
    """What the model is fed, from a rank's samples."""
    loss: Callable[[Any, Inputs, Work], Any]
    """(model, inputs, the global batch's work) to a scalar tensor."""


def objective(data: Data, *, device: Any, ranks: int, image_size: int | None) -> Objective:
    if isinstance(data, Images):
        return _classification(device, image_size or data.images.shape[-1])
    return _next_token(device, ranks)


def _classification(device: Any, image_size: int) -> Objective:
    import torch
    from torch.nn.functional import cross_entropy, interpolate

    def inputs(samples: dict[str, NDArray[Any]]) -> Inputs:
        # Moved as 8 x 8 bytes and made large on the device: what a real loader does with small files.
        pixels = _moved(samples["images"], device).to(torch.float32).div_(8).sub_(1)
        pixels = interpolate(pixels[:, None], size=image_size, mode="bilinear", align_corners=False)
        return {"pixel_values": pixels.expand(-1, 3, -1, -1), "labels": _moved(samples["labels"], device)}

    def loss(model: Any, inputs: Inputs, work: Work) -> Any:
        # Equal local batches: the mean of the ranks' means is the global mean.
        logits = model(pixel_values=inputs["pixel_values"]).logits
        return cross_entropy(logits.float(), inputs["labels"])

    return Objective(inputs, loss)


def _next_token(device: Any, ranks: int) -> Objective:
    from torch.nn.functional import cross_entropy

    def inputs(samples: dict[str, NDArray[Any]]) -> Inputs:
        return {name: _moved(array, device) for name, array in samples.items()}

    def loss(model: Any, inputs: Inputs, work: Work) -> Any:
        # No attention mask: padding is on the right and attention causal, so no token that bears loss sees padding, and
        # transformers' test whether a mask is all ones would stop the device in every step.
        logits = model(input_ids=inputs["input_ids"]).logits[:, :-1].float()
        total = cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            inputs["labels"][:, 1:].reshape(-1),
            ignore_index=IGNORED,
            reduction="sum",
        )
        # Ranks hold different numbers of tokens: scaled so that their average is the global mean per token.
        return total * (ranks / max(work.tokens_loss, 1))

    return Objective(inputs, loss)


def _moved(array: NDArray[Any], device: Any) -> Any:
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
