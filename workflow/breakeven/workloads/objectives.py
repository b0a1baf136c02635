"""From a rank's samples to its share of the loss. The shares' mean over ranks is the global batch's loss, and so for
gradients."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from breakeven.datasets.batches import IGNORED, Data, Texts, Work
from breakeven.schema.spec import Spec

Tensors = dict[str, Any]


class Objective(Protocol):
    def host(self, samples: Mapping[str, Any]) -> Tensors:
        """Samples (arrays) as they are copied to the device. May run in a process that loads data."""

    def device(self, batch: Tensors) -> Tensors:
        """What the model is called with, and ``labels``, from a batch that lies on the device."""

    def criterion(self, work: Work) -> Callable[[Any, Any], Any]:
        """For an update of this work: (logits, labels) to the rank's share of the loss, a scalar tensor."""


def objective(data: Data, spec: Spec, shares: int) -> Objective:
    """``shares``: ranks whose losses are averaged, each of other samples or tokens."""
    if isinstance(data, Texts):
        return NextToken(shares)
    size = spec.workload.image_size or data.images.shape[1]
    return Classification(shares, size, data.levels, spec.resize_on == "host", spec.memory_format, spec.precision)


@dataclass(frozen=True, slots=True)
class Classification:
    shares: int
    size: int
    levels: int
    """The pixels' largest value; they are trained on as -1 to 1."""
    resized_by_host: bool
    memory_format: str
    precision: str

    def host(self, samples: Mapping[str, Any]) -> Tensors:
        import torch

        images, labels = torch.from_numpy(samples["images"]), torch.from_numpy(samples["labels"])
        return {"images": self._pixels(images) if self.resized_by_host else images, "labels": labels}

    def device(self, batch: Tensors) -> Tensors:
        images = batch["images"] if self.resized_by_host else self._pixels(batch["images"])
        return {"pixel_values": images, "labels": batch["labels"]}

    def _pixels(self, images: Any) -> Any:
        """uint8 (N, H, W) or (N, H, W, 3) to the model's type (N, 3, size, size)."""
        import torch
        from torch.nn.functional import interpolate

        dtype = torch.float64 if self.precision == "fp64" else torch.float32
        pixels = images.to(dtype).mul_(2 / self.levels).sub_(1)
        pixels = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
        if pixels.shape[-2:] != (self.size, self.size):
            pixels = interpolate(pixels, size=self.size, mode="bilinear", align_corners=False)
        pixels = pixels.expand(-1, 3, -1, -1)
        layout = torch.channels_last if self.memory_format == "channels_last" else torch.contiguous_format
        return pixels.contiguous(memory_format=layout)

    def criterion(self, work: Work) -> Callable[[Any, Any], Any]:
        from torch.nn.functional import cross_entropy

        scale = self.shares / work.samples

        def loss(logits: Any, labels: Any) -> Any:
            return cross_entropy(at_least_float32(logits), labels, reduction="sum") * scale

        return loss


@dataclass(frozen=True, slots=True)
class NextToken:
    shares: int

    def host(self, samples: Mapping[str, Any]) -> Tensors:
        import torch

        # Shifted here, so that a rank that has a part of the tokens has their labels too.
        labels = torch.from_numpy(samples["labels"])
        following = torch.full_like(labels, IGNORED)
        following[:, :-1] = labels[:, 1:]
        ids = torch.from_numpy(samples["input_ids"])
        # No attention mask: padding is on the right and attention causal, so no token that bears loss sees padding,
        # and transformers' test whether a mask is all ones would stop the device in every step. Positions are said
        # because a rank with a part of the tokens could not count them.
        positions = torch.arange(ids.shape[1]).expand_as(ids).contiguous()
        return {"input_ids": ids, "position_ids": positions, "labels": following}

    def device(self, batch: Tensors) -> Tensors:
        return batch

    def criterion(self, work: Work) -> Callable[[Any, Any], Any]:
        from torch.nn.functional import cross_entropy

        # Ranks hold different numbers of tokens: scaled so that their average is the global mean per token.
        scale = self.shares / max(work.tokens_loss, 1)

        def loss(logits: Any, labels: Any) -> Any:
            total = cross_entropy(
                at_least_float32(logits).flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
            )
            return total * scale

        return loss


def at_least_float32(logits: Any) -> Any:
    """A sum of exponentials needs more digits than fp16 or bf16 have."""
    return logits if logits.itemsize >= 4 else logits.float()
