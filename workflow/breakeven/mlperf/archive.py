"""Files of a results repository, from a tar archive or a directory: ``<submitter>/results/<system>/<benchmark>/…`` and
``<submitter>/systems/<system>.json``, under any leading folders."""

import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from breakeven.schema.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """A file of one submission: a log or ``scaling.json``. ``path`` is the one inside the repository."""

    submitter: str
    system: str
    benchmark: str
    path: str
    read: Callable[[], bytes]

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFile:
    """The description of a system, JSON."""

    submitter: str
    system: str
    path: str
    read: Callable[[], bytes]


def repository_files(source: Path) -> Iterator[ResultFile | SystemFile]:
    """Results and system descriptions in the order they lie in. ``read`` is valid until the next file is asked for:
    an archive is read once, front to back, because xz cannot seek."""
    for path, read in _tree(source) if source.is_dir() else _archive(source):
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        if len(parts) >= 5 and parts[-4] == "results":
            submitter, _, system, benchmark, _ = parts[-5:]
            yield ResultFile(
                submitter=submitter, system=system, benchmark=benchmark, path="/".join(parts[-5:]), read=read
            )
        elif len(parts) >= 3 and parts[-2] == "systems" and parts[-1].endswith(".json"):
            system = parts[-1].removesuffix(".json")
            yield SystemFile(submitter=parts[-3], system=system, path="/".join(parts[-3:]), read=read)


def _tree(root: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield path.relative_to(root).as_posix(), path.read_bytes


def _archive(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    with _readable(path), tarfile.open(path, "r:*") as archive:
        for member in archive:
            if member.isfile():
                yield member.name, partial(_member_bytes, path, archive, member)


def _member_bytes(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    with _readable(path):
        stream = archive.extractfile(member)
        return stream.read() if stream else b""


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        raise UserError(
            f"{path}: cannot be read as an archive ({error}).\n"
            "Expected a tar archive (.tar, .tar.xz, .tar.gz) or a directory of an MLPerf Training results repository."
        ) from error
