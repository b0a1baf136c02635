"""A tar archive read front to back, once: entries in memory, nothing extracted, nothing taken on trust."""

import bz2
import gzip
import lzma
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Self, cast

from breakeven.schema.errors import UserError

#: Long names and extended headers are read whole, and tarfile's time grows with their square (16 KiB of digits: 0.3 s,
#: 64 KiB: 4 s). A name has 4 KiB at the most.
_LONGEST_HEADER = 16 << 10
#: More than all logs of a round together.
_LARGEST_FILE = 8 << 30
_READ_WHOLE = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
               tarfile.GNUTYPE_LONGLINK)  # fmt: skip

#: What damaged or hostile archives make tarfile and the decompressors raise.
_DAMAGE = (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error, struct.error, ValueError, OverflowError,
           MemoryError, RecursionError)  # fmt: skip


class _Header(tarfile.TarInfo):
    """A header. One that is cut short or damaged, which tarfile takes for the archive's end in silence, is an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if _is_end_mark(buf):
            return super().frombuf(buf, encoding, errors)  # tarfile's own way to end
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} instead of an entry or the end mark") from error
        if header.size < 0 or (header.type in _READ_WHOLE and header.size > _LONGEST_HEADER):
            raise tarfile.ReadError(f"a header claims {header.size} bytes")
        return header

    # Sparse files are never read (``_checked``), and their maps, which may be of any length, are passed over.

    def _proc_sparse(self, archive: tarfile.TarFile) -> Self:
        file = cast(IO[bytes], archive.fileobj)
        _, is_continued, _ = self._sparse_structs  # type: ignore[attr-defined]
        while is_continued:
            block = file.read(tarfile.BLOCKSIZE)
            if len(block) < tarfile.BLOCKSIZE:
                raise tarfile.ReadError("the map of a sparse file breaks off")
            is_continued = bool(block[504])
        self.sparse = b""
        self.offset_data = file.tell()
        blocks = -(-self.size // tarfile.BLOCKSIZE)
        archive.offset = self.offset_data + blocks * tarfile.BLOCKSIZE  # type: ignore[attr-defined]
        return self

    def _is_sparse(self, header: tarfile.TarInfo, *_: object) -> None:
        header.sparse = b""

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _is_sparse


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file of the archive, to be opened before the next is asked for."""

    name: str
    size: int
    open: Callable[[], BinaryIO]


class Tarball:
    """What an archive holds. ``names``, ``links``, ``folders`` and ``unsafe`` are known when ``members`` has ended."""

    def __init__(self, path: Path, expected: str) -> None:
        self.path = path
        self.expected = expected
        self.names: set[str] = set()
        """Regular files."""
        self.links: dict[str, tuple[str, bool]] = {}
        """Link → target, and whether that counts from the archive's root (hard links) or from the link's folder."""
        self.folders: set[str] = set()
        """Those with an entry of their own."""
        self.unsafe: list[tuple[str, str]] = []
        """Names never read, and why."""

    def members(self, note_names: bool) -> Iterator[Member]:
        """Regular files with safe names, "." taken out of them."""
        with self.readable(), _decompressed(self.path) as stream, self.tar(stream) as archive:
            while (header := archive.next()) is not None:
                # tarfile keeps every header, and repositories have many files.
                archive.members.clear()  # type: ignore[attr-defined]
                if header.size < 0:  # an extended header may say so; tarfile would go round in a circle
                    raise tarfile.ReadError(f"an entry claims {header.size} bytes")
                name, problem = _checked(header)
                if problem:
                    if note_names:
                        self.unsafe.append((header.name, problem))
                elif header.isreg():
                    if note_names:
                        self._replace(name)
                        self.names.add(name)
                    yield Member(name, header.size, lambda header=header: self.opened(archive, header))  # type: ignore[misc]
                elif note_names and header.isdir():
                    self.folders.add(name)
                elif note_names and (header.issym() or header.islnk()):
                    self._replace(name)
                    self.links[name] = (header.linkname, header.islnk())
            while stream.read(1 << 16):  # to the checksums at the end, which a copy cut short lacks
                pass

    def _replace(self, name: str) -> None:
        """A later entry of the same name takes the place of the one before."""
        self.names.discard(name)
        self.links.pop(name, None)

    def tar(self, stream: IO[bytes]) -> tarfile.TarFile:
        return tarfile.TarFile(fileobj=stream, mode="r", tarinfo=_Header, errorlevel=1)

    def opened(self, archive: tarfile.TarFile, header: tarfile.TarInfo) -> BinaryIO:
        return _Damageable(self, cast(BinaryIO, archive.extractfile(header)))  # type: ignore[return-value]

    @contextmanager
    def readable(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            reason = str(error) or type(error).__name__
            raise UserError(
                f"{self.path}: cannot be read as an archive ({reason}); is it damaged or cut short?\n{self.expected}"
            ) from error


class _Damageable:
    """A stream out of an archive; where that breaks off, it is the archive's fault, not this file's."""

    def __init__(self, tarball: Tarball, stream: BinaryIO) -> None:
        self.tarball = tarball
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        with self.tarball.readable():
            return self.stream.read(size)

    def readline(self, size: int = -1) -> bytes:
        with self.tarball.readable():
            return self.stream.readline(size)

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


def is_tarball(path: Path) -> bool:
    """Whether the file begins as a tar archive does, by its first bytes, never by its name."""
    try:
        with _decompressed(path) as stream:
            block = stream.read(tarfile.BLOCKSIZE)
        if not _is_end_mark(block):  # that alone is an archive of nothing
            _Header.frombuf(block, tarfile.ENCODING, "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    except _DAMAGE:
        return True  # damaged, as reading it says better
    return True


def _is_end_mark(block: bytes | bytearray) -> bool:
    return len(block) == tarfile.BLOCKSIZE and not any(block)


def _decompressed(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"\xfd7zXZ\x00"):
        return lzma.open(path)
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path))
    return bz2.open(path) if start.startswith(b"BZh") else path.open("rb")


def _checked(header: tarfile.TarInfo) -> tuple[str, str]:
    """The name without "." and doubled slashes; and why the entry is not read, "" if it is."""
    parts = [part for part in header.name.split("/") if part not in ("", ".")]
    if header.name.startswith("/"):
        return "", "an absolute name"
    if ".." in parts:
        return "", 'a name with ".."'
    if not (header.isreg() or header.isdir() or header.issym() or header.islnk()):
        return "", "neither file, folder nor link"
    if header.issparse():
        return "", "a sparse file"
    if header.size > _LARGEST_FILE:
        return "", f"a file of {header.size} bytes"
    return "/".join(parts), ""
