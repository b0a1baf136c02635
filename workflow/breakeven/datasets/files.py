"""Images that stay files: opened, decoded and made square when they are asked for, by whoever loads a batch."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.schema.errors import UserError


@dataclass(frozen=True, slots=True)
class Files:
    """Indexed as the array ``(N, size, size, 3)`` it stands for."""

    root: str
    names: NDArray[np.uint8]
    """All names one after the other, as the file system holds them: workers would come to copy a million strings."""
    offsets: NDArray[np.int64]
    """(N + 1,): name i is ``names[offsets[i]:offsets[i + 1]]``."""
    size: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.offsets) - 1, self.size, self.size, 3)

    def path(self, index: int) -> str:
        name = self.names[self.offsets[index] : self.offsets[index + 1]].tobytes()
        return os.path.join(self.root, os.fsdecode(name))

    def __getitem__(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        images = np.empty((len(indices), *self.shape[1:]), dtype=np.uint8)
        for row, index in enumerate(indices):
            images[row] = decode(self.path(int(index)), self.size)
        return images


def joined(names: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """``names`` and ``offsets`` of Files."""
    raw = [os.fsencode(name) for name in names]
    return np.frombuffer(b"".join(raw), dtype=np.uint8), np.cumsum([0, *map(len, raw)], dtype=np.int64)


def decode(path: str, size: int) -> NDArray[np.uint8]:
    """(size, size, 3): scaled to cover the square, and the middle of it; grey is three equal channels."""
    from PIL import Image, ImageOps

    with opened(path) as image:
        square = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BILINEAR)
    return np.asarray(square)


class opened:
    """``PIL.Image.open``. Raises UserError, naming the file, where it or the decoding inside finds no image."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> Any:
        from PIL import Image

        try:
            self.image = Image.open(self.path)
        except Exception as error:
            raise self._refusal(error) from None
        return self.image

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.image.close()
        if isinstance(error, Exception):
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> UserError:
        what = str(error) or type(error).__name__
        if isinstance(error, OSError):
            what = error.strerror or ("of no known format" if self.path in what else what)
        return UserError(f"{self.path}: not readable as an image ({what}). Mend it or take it away, and plan again.")
