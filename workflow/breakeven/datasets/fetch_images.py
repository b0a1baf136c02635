"""``python -m breakeven.datasets.fetch_images``: download a hub's data set of images once, pinned by commit, into a
folder of image files. No timed job ever downloads."""

import argparse
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from breakeven.schema.errors import UserError
from breakeven.schema.spec import DataSource, digest, slug

#: Pillow's name of a format and the suffix its files get. Bytes are kept as they are: nothing is compressed twice.
FORMATS = {
    "JPEG": ".jpg",
    "MPO": ".jpg",
    "PNG": ".png",
    "WEBP": ".webp",
    "BMP": ".bmp",
    "GIF": ".gif",
    "PPM": ".ppm",
    "TIFF": ".tif",
}
#: A stream is shuffled within so many images where only some of them are wanted.
SHUFFLED = 10_000
SEED = 23


def fetch_images(source: DataSource, output: Path) -> None:
    """``output/train/<class>/<file>`` and ``output/test/...``; whole or absent."""
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        classes = _write_split(source, str(source.train), part / "train")
        _write_split(source, str(source.test), part / "test", of=classes if source.samples else None)
        shutil.rmtree(output, ignore_errors=True)
        os.replace(part, output)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_split(source: DataSource, split: str, folder: Path, of: set[str] | None = None) -> set[str]:
    """The classes found. ``of``: only images of these, where some classes may be in no image that is trained on."""
    rows, name_of = _load(source, split)
    image, label_column = str(source.image), str(source.label)
    classes: set[str] = set()
    written = 0
    for number, row in enumerate(rows):
        label = row[label_column]
        if label is None or label == -1:
            raise UserError(
                f"{_said(source)}: split '{split}' has no labels. Name another (workload.data.train or "
                "workload.data.test)."
            )
        name = name_of(label)
        if of is not None and name not in of:
            continue
        raw = _bytes(row[image])
        suffix = _suffix(raw, f"{_said(source)}: split '{split}', row {number + 1}")
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / f"{number:08d}{suffix}").write_bytes(raw)
        classes.add(name)
        written += 1
        if written == source.samples:
            break
    if not written:
        raise UserError(f"{_said(source)}: split '{split}' is empty.")
    return classes


def _load(source: DataSource, split: str) -> tuple[Iterable[dict[str, Any]], Callable[[Any], str]]:
    """The rows of a split, images as they are stored; and a label to the name of its class's folder."""
    try:
        from datasets import Image, load_dataset
        from datasets.exceptions import DatasetNotFoundError
    except ImportError:
        raise UserError("A data set of the hub is read by the library 'datasets': pip install datasets.") from None
    some = source.samples is not None  # then no more is downloaded than it takes
    try:
        found = load_dataset(source.hub, revision=source.revision, split=split, streaming=some)
    except DatasetNotFoundError as error:
        raise UserError(
            f"{_said(source)}: not found, or gated: then accept its licence on the hub and log in with 'hf auth login' "
            f"({_first_line(error)})."
        ) from None
    except ValueError as error:
        raise UserError(f"{_said(source)}: {_first_line(error)}") from None
    except (ConnectionError, OSError) as error:
        raise UserError(
            f"{_said(source)}: the hub cannot be reached ({_first_line(error)}). Run `snakemake data` where there is a "
            "network."
        ) from None
    columns = found.features or {}
    for key, column in (("image", source.image), ("label", source.label)):
        if column not in columns:
            raise UserError(
                f"{_said(source)}: no column '{column}'. Set workload.data.{key} to one of {', '.join(columns)}."
            )
    if not isinstance(columns[source.image], Image):
        raise UserError(
            f"{_said(source)}: column '{source.image}' holds no images ({type(columns[source.image]).__name__})."
        )
    rows = found.select_columns([source.image, source.label]).cast_column(source.image, Image(decode=False))
    if some:
        rows = rows.shuffle(seed=SEED, buffer_size=SHUFFLED)
    return rows, _class_folders(columns[source.label])


def _class_folders(feature: Any) -> Callable[[Any], str]:
    """Names that sort as the labels count, and that any file system takes."""
    names = getattr(feature, "names", None)
    if names:
        digits = len(str(len(names) - 1))
        return lambda label: f"{label:0{digits}d}-{slug(names[label]) or 'class'}"

    def folder(label: Any) -> str:
        if isinstance(label, int):
            return f"{label:06d}"
        return str(label) if slug(str(label)) == label else f"{slug(str(label))}-{digest(label, 4)}"

    return folder


def _bytes(image: dict[str, Any]) -> bytes:
    stored: bytes | None = image["bytes"]
    return Path(image["path"]).read_bytes() if stored is None else stored


def _suffix(raw: bytes, where: str) -> str:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(raw)) as image:
            return FORMATS[str(image.format)]
    except UnidentifiedImageError:
        raise UserError(f"{where}: not readable as an image.") from None
    except KeyError as error:
        raise UserError(f"{where}: images of format {error} are not read. Known are {', '.join(FORMATS)}.") from None


def _said(source: DataSource) -> str:
    return f"Data set '{source.hub}' at {source.revision}"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m breakeven.datasets.fetch_images", description=__doc__)
    parser.add_argument("--data", required=True, metavar="JSON", help="the workload's data, as they stand in a spec")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        fetch_images(DataSource(**json.loads(options.data)), options.output)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
