"""Prepared data in one fixed global order. numpy alone, for the timed job.

Each epoch is one seeded permutation; update u takes the next ``global_batch`` samples of it, and rank r the r-th equal
part of those. So what an update trains on does not depend on the number of devices, and every rank knows the global
batch's token counts without asking the others.
"""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.datasets.files import Files
from breakeven.schema.errors import UserError

IGNORED = -100
"""The label of a token that bears no loss, by torch's convention."""


def global_batch_indices(samples: int, global_batch: int, update: int, seed: int) -> NDArray[np.int64]:
    """Which samples update ``update`` trains on, shape (global_batch,). An epoch's end may fall inside a batch."""
    positions = update * global_batch + np.arange(global_batch)
    epochs, within = np.divmod(positions, samples)
    indices = np.empty(global_batch, dtype=np.int64)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        indices[here] = epoch_order(samples, int(epoch), seed)[within[here]]
    return indices


def epoch_order(samples: int, epoch: int, seed: int) -> NDArray[np.int64]:
    """The epoch's permutation, shape (samples,)."""
    # RandomState's stream is frozen for good, so two numpy versions train on the same order.
    state = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([seed, epoch])))
    return state.permutation(samples).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Work:
    """What one update trains on, over all ranks. Token counts are 0 for images."""

    samples: int
    tokens_padded: int = 0
    tokens: int = 0
    tokens_loss: int = 0


@dataclass(frozen=True, slots=True)
class Images:
    images: NDArray[np.uint8] | Files
    """(N, H, W) or (N, H, W, 3)."""
    labels: NDArray[np.int64]
    """(N,)"""
    levels: int
    """The largest value of a pixel."""
    classes: int
    test: "Images | None" = None
    """Held out: never trained on."""

    @property
    def samples(self) -> int:
        return len(self.labels)

    @property
    def epoch_tokens(self) -> None:
        return None

    def take(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        return {"images": self.images[indices], "labels": self.labels[indices]}

    def work(self, indices: NDArray[np.int64]) -> Work:
        return Work(samples=len(indices))


@dataclass(frozen=True, slots=True)
class Texts:
    input_ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    """(N + 1,): sample i is ``input_ids[offsets[i]:offsets[i + 1]]``."""
    prompt_lengths: NDArray[np.int32]
    """(N,): tokens at a sample's start that bear no loss."""
    pad_id: int
    vocab_size: int
    sequence_length: int
    """Every sample is padded or cut to it, on the right."""

    @property
    def samples(self) -> int:
        return len(self.prompt_lengths)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,): tokens of each sample after cutting, without padding."""
        return np.minimum(np.diff(self.offsets), self.sequence_length)

    @property
    def loss_lengths(self) -> NDArray[np.int64]:
        """(N,): tokens that bear loss. A sample's first token never does: nothing predicts it."""
        return np.maximum(self.lengths - np.maximum(self.prompt_lengths, 1), 0)

    @property
    def epoch_tokens(self) -> int:
        return int(self.lengths.sum())

    def take(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """``input_ids`` and ``labels`` int64 (len(indices), sequence_length); a label is the token at its place."""
        shape = (len(indices), self.sequence_length)
        ids, labels = np.full(shape, self.pad_id, np.int64), np.full(shape, IGNORED, np.int64)
        for row, index in enumerate(indices):
            begin = self.offsets[index]
            length = min(int(self.offsets[index + 1] - begin), self.sequence_length)
            first = max(int(self.prompt_lengths[index]), 1)
            ids[row, :length] = self.input_ids[begin : begin + length]
            labels[row, first:length] = ids[row, first:length]
        return {"input_ids": ids, "labels": labels}

    def work(self, indices: NDArray[np.int64]) -> Work:
        return Work(
            samples=len(indices),
            tokens_padded=len(indices) * self.sequence_length,
            tokens=int(self.lengths[indices].sum()),
            tokens_loss=int(self.loss_lengths[indices].sum()),
        )


Data = Images | Texts


def read(path: Path, *, data_id: str, sequence_length: int | None, image_size: int | None = None) -> Data:
    """Prepared data, checked to be what the run is named for. ``image_size`` is what files are decoded to.

    Raises UserError for a damaged file: that is no result of the run, so it must not become one.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        found = str(arrays["data_id"])
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"{path}: not readable ({type(error).__name__}). Delete it, and it is prepared again."
        ) from None
    if found != data_id:
        raise UserError(
            f"{path}: holds data {found}, but the run needs {data_id}. Delete it, and it is prepared again."
        )
    if "labels" in arrays:
        return _images(path, arrays, image_size)
    if sequence_length is None:
        raise UserError(f"{path}: text, but the workload names no sequence_length.")
    texts = Texts(
        input_ids=arrays["input_ids"],
        offsets=arrays["offsets"],
        prompt_lengths=arrays["prompt_lengths"],
        pad_id=int(arrays["pad_id"]),
        vocab_size=int(arrays["vocab_size"]),
        sequence_length=sequence_length,
    )
    if not texts.loss_lengths.any():
        raise UserError(
            f"{path}: no sample bears loss at sequence_length {sequence_length}: every prompt alone fills it. "
            f"Use {int(texts.prompt_lengths.min()) + 2} or more."
        )
    return texts


def _images(path: Path, arrays: dict[str, NDArray[Any]], size: int | None) -> Images:
    levels = int(arrays["levels"])
    if "images" in arrays:
        classes = int(arrays["labels"].max()) + 1
        test = Images(arrays["test_images"], arrays["test_labels"], levels, classes)
        return Images(arrays["images"], arrays["labels"], levels, classes, test)
    root, classes = str(arrays["root"]), len(arrays["class_names"])
    if size is None:
        raise UserError(f"{path}: image files, but the workload names no image_size.")
    if not Path(root).is_dir():
        raise UserError(f"{path}: lists files of {root}, which is gone. Delete it, and it is prepared again.")
    held_out = Files(root, arrays["test_names"], arrays["test_offsets"], size)
    test = Images(held_out, arrays["test_labels"], levels, classes)
    trained = Files(root, arrays["names"], arrays["offsets"], size)
    return Images(trained, arrays["labels"], levels, classes, test)


def schedule(data: Data, *, global_batch: int, updates: int, seed: int) -> list[NDArray[np.int64]]:
    """The samples of each update, over all ranks: ``updates`` arrays of shape (global_batch,)."""
    return [global_batch_indices(data.samples, global_batch, update, seed) for update in range(updates)]


def rank_part(indices: NDArray[np.int64], rank: int, ranks: int) -> NDArray[np.int64]:
    """Rank ``rank``'s equal part of a global batch."""
    local = len(indices) // ranks
    return indices[rank * local : (rank + 1) * local]
