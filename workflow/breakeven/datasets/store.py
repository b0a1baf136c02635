"""Prepared data on disk: one ``.npz`` file, equal bytes for equal arrays, whole or absent."""

import os
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Written to a temporary name and renamed. numpy stamps no time into the archive: content alone decides bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            named: dict[str, Any] = {name: arrays[name] for name in sorted(arrays)}
            np.savez(stream, **named)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
