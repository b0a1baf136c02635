"""Handwritten digits drawn at the image size: for images that are large by nature, not by the loader.

Every sample is another of the 8 x 8 digits, turned, stretched and bent, its strokes sharpened at full size, on a
background of uneven brightness with noise in every pixel. So a sample has as much to read, copy and compress as a
photograph of that size has.
"""

from typing import Any

import numpy as np

from breakeven.datasets.digits import digits
from breakeven.datasets.store import Arrays

#: 192 MB at 500 x 500, and divided by every usual batch.
TRAIN_SAMPLES = 640
TEST_SAMPLES = 128
SEED = 21
#: Samples drawn at once: bounds the memory that drawing takes.
AT_ONCE = 64
#: Degrees turned, and the share stretched, moved and bent by, at most or (bent) as a standard deviation.
TURN, STRETCH, MOVE, BEND = 15.0, 0.15, 0.08, 0.05


def digits_large(size: int) -> Arrays:
    """``images`` uint8 (N, size, size) with values 0 to 255, ``labels`` int64 (N,); the test split likewise."""
    import torch

    torch.set_num_threads(1)  # two wait for each other on a busy machine, and preparation is one of several jobs
    small = digits()
    parts: Arrays = {"levels": np.array(255)}
    for number, (prefix, samples) in enumerate((("", TRAIN_SAMPLES), ("test_", TEST_SAMPLES))):
        sources = small[f"{prefix}images"][:samples]
        random = np.random.RandomState(SEED + number)
        drawn = [_draw(sources[at : at + AT_ONCE], size, random) for at in range(0, samples, AT_ONCE)]
        parts[f"{prefix}images"] = np.concatenate(drawn)
        parts[f"{prefix}labels"] = small[f"{prefix}labels"][:samples]
    return parts


def _draw(sources: Any, size: int, random: np.random.RandomState) -> Any:
    import torch
    from torch.nn.functional import affine_grid, grid_sample, interpolate

    count = len(sources)

    def field(side: int, *, channels: int, scale: float) -> Any:
        """Values that change smoothly from place to place, of about this standard deviation."""
        coarse = torch.from_numpy(random.normal(0, scale, (count, channels, side, side)).astype(np.float32))
        return interpolate(coarse, size=(size, size), mode="bicubic", align_corners=True)

    angle = np.deg2rad(random.uniform(-TURN, TURN, count))
    stretch = random.uniform(1 - STRETCH, 1 + STRETCH, (2, count))
    moved = random.uniform(-MOVE, MOVE, (2, count))
    rows = [
        [np.cos(angle) * stretch[0], -np.sin(angle) * stretch[0], moved[0]],
        [np.sin(angle) * stretch[1], np.cos(angle) * stretch[1], moved[1]],
    ]
    matrix = torch.from_numpy(np.array(rows, dtype=np.float32)).permute(2, 0, 1)
    grid = affine_grid(matrix, [count, 1, size, size], align_corners=False)
    grid = grid + field(4, channels=2, scale=BEND).permute(0, 2, 3, 1)
    ink = torch.from_numpy(sources.astype(np.float32) / 16)[:, None]
    # Strokes are where the smooth image is above a half, with an edge as steep at every size.
    strokes = torch.sigmoid((grid_sample(ink, grid, mode="bicubic", align_corners=False) - 0.45) * 12)
    background = 0.25 + field(6, channels=1, scale=0.08) + field(max(2, size // 8), channels=1, scale=0.03)
    noise = torch.from_numpy(random.normal(0, 0.04, (count, 1, size, size)).astype(np.float32))
    pixels = background + strokes * 0.6 + noise
    return (pixels.clamp(0, 1) * 255).round().to(torch.uint8)[:, 0].numpy()
