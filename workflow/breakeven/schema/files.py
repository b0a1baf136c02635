"""Atomic writes: a reader sees the whole file or none, whatever is killed in between."""

import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write to a temporary name beside ``path``, then rename. Parent folders are made."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes private files; results are meant to be read by others, as umask allows.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
