"""A folder of images of the user's own, as the planner and whoever prepares it see it: names and sizes, nothing opened.

``<folder>/<class>/<file>``, or with a split that is the user's, ``<folder>/train/<class>/<file>`` and likewise ``test``
(or ``val``, ``validation``).
"""

import hashlib
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from breakeven.schema.errors import UserError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})
TRAIN = "train"
#: Names of the folder that is held out, the best first.
TEST = ("test", "val", "validation")
#: What is held out of each class where the folder does not say.
TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class ImageFile:
    name: str
    """Its path below the folder, with ``/``."""
    label: int
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """Files in the order of their names; ``label`` counts ``classes``, which are in the order of theirs."""

    classes: tuple[str, ...]
    train: tuple[ImageFile, ...]
    """All files where the folder has no split."""
    test: tuple[ImageFile, ...]

    @property
    def training_samples(self) -> int:
        """What is left of ``train`` once some is held out."""
        if self.test:
            return len(self.train)
        of_class = Counter(file.label for file in self.train)
        return sum(count - held_out(count) for count in of_class.values())

    @property
    def sha256(self) -> str:
        """Of names and sizes: content is not read, for there may be a million files."""
        total = hashlib.sha256()
        for file in (*self.train, *self.test):
            total.update(os.fsencode(file.name) + b"\0" + str(file.size).encode() + b"\0")
        return total.hexdigest()


def held_out(count: int) -> int:
    """Of a class of ``count`` images."""
    return max(1, round(TEST_SHARE * count))


def list_images(folder: Path) -> ImageFolder:
    """Raises UserError where the folder is no data set."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder.")
    try:
        return _listed(folder)
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror}).") from None


def _listed(folder: Path) -> ImageFolder:
    inside = _folders(folder)
    if TRAIN not in inside:
        classes = _classes(folder, inside)
        files = _files(folder, "", classes)
        _refuse_lone(folder, files)
        return ImageFolder(classes, files, ())
    held_out = next((name for name in TEST if name in inside and _folders(folder / name)), None)
    if held_out is None:
        raise UserError(
            f"{folder}: has {TRAIN}/ but no {'/, '.join(TEST)}/ with a folder per class. Add one, or put the folders "
            "of the classes where train/ is, to have a part of each held out."
        )
    classes = _classes(folder / TRAIN, _folders(folder / TRAIN))
    unknown = sorted(set(_folders(folder / held_out)) - set(classes))
    if unknown:
        raise UserError(f"{folder}: class '{unknown[0]}' is in {held_out}/ but not in {TRAIN}/.")
    test = _files(folder, f"{held_out}/", classes, may_lack=True)
    if not test:
        raise UserError(f"{folder / held_out}: holds no image ({_suffixes()}).")
    return ImageFolder(classes, _files(folder, f"{TRAIN}/", classes), test)


def _refuse_lone(folder: Path, files: tuple[ImageFile, ...]) -> None:
    of_class = Counter(file.label for file in files)
    lone = next((file for file in files if of_class[file.label] == 1), None)
    if lone:
        raise UserError(
            f"{folder / lone.name}: the only image of its class, which cannot be both trained on and held out. Add "
            f"more, or give folders {TRAIN}/ and {TEST[0]}/."
        )


def _classes(folder: Path, inside: list[str]) -> tuple[str, ...]:
    if len(inside) < 2:
        found = f"one class ('{inside[0]}')" if inside else "no folder"
        raise UserError(f"{folder}: holds {found}. Give two or more classes, a folder of images each.")
    return tuple(inside)


def _files(folder: Path, above: str, classes: tuple[str, ...], *, may_lack: bool = False) -> tuple[ImageFile, ...]:
    found: list[ImageFile] = []
    for label, name in enumerate(classes):
        files = _below(folder, f"{above}{name}", label)
        if not files and not may_lack:
            raise UserError(f"{folder / above / name}: holds no image ({_suffixes()}).")
        found += sorted(files, key=lambda file: file.name)
    return tuple(found)


def _below(folder: Path, path: str, label: int) -> list[ImageFile]:
    found: list[ImageFile] = []
    try:
        entries = os.scandir(folder / path)
    except FileNotFoundError:
        return found
    with entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                found += _below(folder, f"{path}/{entry.name}", label)
            elif os.path.splitext(entry.name)[1].lower() in SUFFIXES and entry.is_file():
                found.append(ImageFile(f"{path}/{entry.name}", label, entry.stat().st_size))
    return found


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _suffixes() -> str:
    return ", ".join(sorted(SUFFIXES))
