"""Atomic writes: a reader sees the whole file or none, whatever is killed in between."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from breakeven.schema.errors import UserError


def write_text(path: Path, text: str) -> None:
    """Write to a temporary name beside ``path``, then rename. Parent folders are made.

    Raises UserError where that cannot be, and for what is there and no file: a device or a pipe stays what it is.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{path}: cannot be written (characters that are no text: {error}).") from error
    write_bytes(path, content)


def write_bytes(path: Path, content: bytes) -> None:
    try:
        _refuse_no_file(path)
        # Behind a link lies what is meant: /dev/stdout is one, and not ours to replace.
        _replace(Path(os.path.realpath(path)), content)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(
            f"{path}: cannot be written ({reason}). Name a file in a folder that you may write to."
        ) from error


def _refuse_no_file(path: Path) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise ValueError("is a folder" if stat.S_ISDIR(mode) else "is there and is no regular file")


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A part of the name tells whose it is; the whole might be too long with what is added to it.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes private files; results are meant to be read by others, as umask allows.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink(missing_ok=True)
        raise
