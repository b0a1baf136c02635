"""A folder of images of the user's own. What is prepared are names and labels; the files stay where they are."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from breakeven.datasets.files import joined, opened
from breakeven.datasets.store import Arrays
from breakeven.schema.errors import UserError
from breakeven.schema.imagefolder import ImageFile, held_out, list_images

SPLIT_SEED = 22
#: Faulty files that a message names.
SHOWN = 3


def read_folder(folder: Path, sha256: str | None = None, samples: int | None = None) -> Arrays:
    """Names and labels of both splits, ``samples`` of each at most, in a seeded order. ``sha256`` pins the folder to
    what the run's name says. Every file used is looked into: what is no image is found before anything runs."""
    found = list_images(folder)
    if sha256 is not None and found.sha256 != sha256:
        raise UserError(
            f"{folder}: its names and sizes have sha256 {found.sha256}, but the run is named for {sha256}. "
            "Plan again to use it as it is."
        )
    random = np.random.RandomState(SPLIT_SEED)  # its stream is frozen for good
    splits = (found.train, found.test) if found.test else _split(found.train, random)
    parts: Arrays = {
        "levels": np.array(255),
        "root": np.array(os.path.abspath(folder)),
        "class_names": np.array(found.classes),
    }
    for prefix, files in zip(("", "test_"), splits, strict=True):
        used = [files[i] for i in random.permutation(len(files))[:samples]]
        _look_into(folder, used)
        parts[f"{prefix}names"], parts[f"{prefix}offsets"] = joined(file.name for file in used)
        parts[f"{prefix}labels"] = np.array([file.label for file in used], dtype=np.int64)
    return parts


def _split(files: Sequence[ImageFile], random: np.random.RandomState) -> tuple[list[ImageFile], list[ImageFile]]:
    """A seeded share of every class, one image at least, is the test split."""
    labels = np.array([file.label for file in files])
    train: list[ImageFile] = []
    test: list[ImageFile] = []
    for label in np.unique(labels):
        of_class = random.permutation(np.flatnonzero(labels == label))
        held = held_out(len(of_class))
        test += [files[i] for i in of_class[:held]]
        train += [files[i] for i in of_class[held:]]
    return train, test


def _look_into(folder: Path, files: Sequence[ImageFile]) -> None:
    """At the head of each: a pixel that is missing further on is found when it is decoded."""
    faults: list[UserError] = []
    for file in files:
        try:
            with opened(os.path.join(folder, file.name)):
                pass
        except UserError as error:
            faults.append(error)
    if faults:
        more = f"\n... and {len(faults) - SHOWN} more." if len(faults) > SHOWN else ""
        raise UserError("\n".join(map(str, faults[:SHOWN])) + more)
