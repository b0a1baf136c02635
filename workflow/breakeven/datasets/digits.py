"""Handwritten digits, 8 x 8 pixels, ten classes: small enough for a laptop, real enough for a loss to fall."""

import numpy as np

from breakeven.datasets.store import Arrays

#: Of 1797 images; the rest is the test split.
TRAIN_SAMPLES = 1500
SPLIT_SEED = 20


def digits() -> Arrays:
    """``images`` uint8 (N, 8, 8) with values 0 to 16, ``labels`` int64 (N,); the test split likewise, prefixed."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images, labels = bunch.images.astype(np.uint8), bunch.target.astype(np.int64)
    # RandomState's stream is frozen for good; Generator's may change with numpy, and the split with it.
    order = np.random.RandomState(SPLIT_SEED).permutation(len(images))
    train, test = order[:TRAIN_SAMPLES], order[TRAIN_SAMPLES:]
    return {
        "levels": np.array(16),
        "images": images[train],
        "labels": labels[train],
        "test_images": images[test],
        "test_labels": labels[test],
    }
