"""The files of a results repository, from a tree or a tar archive, at its top or under one leading folder of any name.

Nothing is ever written to disk, and nothing outside the source is read: links are followed where they lead to a place
inside it, and an archive's entries are read in memory, never extracted.
"""

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from breakeven.mlperf.layout import Place, leads_to_files, place_of
from breakeven.mlperf.tarball import Tarball, is_tarball
from breakeven.schema.errors import UserError

EXPECTED = (
    "Expected an MLPerf Training results repository, <submitter>/results/<system>/<benchmark>/result_*.txt: a folder "
    "or a tar archive (.tar, .tar.gz, .tar.xz), at its top or under one leading folder."
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the repository. ``read`` is valid until the next file is asked for."""

    top: str
    """The leading folder under which it was found, "" for none."""
    place: Place
    size: int
    read: Callable[[], BinaryIO]
    disk: str | None = None
    """Its path on disk, for any process to open; None in an archive."""


@dataclass(frozen=True, slots=True)
class Oddity:
    """What could not be read, and why. ``kind`` is one of ``anomalies.KINDS``."""

    kind: str
    top: str | None
    """None: of the source as a whole."""
    parts: tuple[str, ...]
    detail: str


class Source:
    """A results repository. After ``files`` has been exhausted, ``top`` and ``oddities`` hold what was learnt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.top = ""
        self.oddities: list[Oddity] = []

    def files(self) -> Iterator[SourceFile]:
        """Every file that has a place. Those whose ``top`` is not ``self.top`` at the end belong to no repository; of a
        name that comes twice, as it may in an archive, the later one holds. Raises UserError for a source that is no
        results repository."""
        try:
            mode = os.stat(self.path).st_mode
        except (OSError, ValueError) as error:
            raise UserError(f"{self.path}: {_reason(error)}.\n{EXPECTED}") from error
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise UserError(f"{self.path}: is neither a folder nor a file.\n{EXPECTED}")
        yield from _tree_files(self) if stat.S_ISDIR(mode) else _tar_files(self)

    def note(self, kind: str, top: str | None, parts: Iterable[str], detail: str) -> None:
        self.oddities.append(Oddity(kind, top, tuple(parts), detail))

    def settle_top(self, tops: Iterable[str]) -> None:
        """Take the top where there are results at the top, else the one folder that has some."""
        found = sorted(set(tops))
        if not found:
            raise UserError(f"{self.path}: holds no results.\n{EXPECTED}")
        if "" not in found and len(found) > 1:
            several = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
            raise UserError(f"{self.path}: holds several repositories ({several}); give one of them.\n{EXPECTED}")
        self.top = found[0]
        self.oddities = [oddity for oddity in self.oddities if oddity.top in (None, self.top)]


class FileSystem(Protocol):
    """What the walk needs of a tree: real paths are below its root, "" is the root itself."""

    def children(self, real: str) -> Iterable[str]:
        """Names in the folder; OSError where it cannot be read."""

    def resolve(self, real: str) -> str:
        """The real path behind one that may be a link; OSError if it leads outside, to nothing, or in a circle."""

    def kind(self, real: str) -> str:
        """What the entry itself is: folder, file, link or other."""


#: How often links may lead to one folder. Some submitters link a system's results to another's; forty links to "."
#: would be thousands of result sets.
_MOST_LINKS = 64


def _walk(
    files: FileSystem, top: str, parts: tuple[str, ...], real: str, source: Source, led: Counter[str]
) -> Iterator[tuple[Place, str]]:
    """Files that have a place, below the folder at ``parts`` under ``top``, and their real paths. ``led`` counts, for
    all of a walk, the links that have led to each folder."""
    try:
        names = sorted(files.children(real))
    except OSError as error:
        source.note("unreadable_file", top, parts, _reason(error))
        return
    for name in names:
        child, child_real = (*parts, name), f"{real}/{name}" if real else name
        place, leads = place_of(child), leads_to_files(child)
        if place is None and not leads:
            continue
        kind = files.kind(child_real)
        if kind == "link":
            try:
                child_real = files.resolve(child_real)
            except OSError as error:
                source.note("link_not_followed", top, child, _reason(error))
                continue
            kind = files.kind(child_real)
            if kind == "folder" and leads:
                led[child_real] += 1
                if led[child_real] > _MOST_LINKS:
                    if led[child_real] == _MOST_LINKS + 1:
                        detail = f"{_MOST_LINKS} links before it lead to the same folder; neither are more of them"
                        source.note("link_not_followed", top, child, detail)
                    continue
        if kind == "folder" and leads:
            yield from _walk(files, top, child, child_real, source, led)
        elif kind == "file" and place is not None:
            yield place, child_real
        elif place is not None:
            source.note("unreadable_file", top, child, "is a folder" if kind == "folder" else "is no regular file")


def _listing(files: FileSystem, source: Source) -> list[tuple[str, Place, str]]:
    """(top, place, real path) of the files at the top, or else under each folder of the top."""
    at_top = [("", place, real) for place, real in _walk(files, "", (), "", source, Counter())]
    if at_top:
        return at_top
    found = []
    for name in sorted(files.children("")):
        try:
            real = files.resolve(name)
        except OSError as error:
            source.note("link_not_followed", name, (), _reason(error))
            continue
        if files.kind(real) == "folder":
            found += [(name, place, path) for place, path in _walk(files, name, (), real, source, Counter())]
    return found


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


# A tree


class _Disk:
    """The files below a folder. Links that lead out of it do not resolve."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, real: str) -> str:
        return os.path.join(self.root, real)

    def children(self, real: str) -> Iterable[str]:
        return os.listdir(self.path(real))

    def resolve(self, real: str) -> str:
        target = os.path.realpath(self.path(real), strict=True)
        if os.path.commonpath([self.root, target]) != self.root:
            raise OSError(errno.EXDEV, "leads out of the repository")
        return "" if target == self.root else os.path.relpath(target, self.root)

    def kind(self, real: str) -> str:
        try:
            mode = os.lstat(self.path(real)).st_mode
        except OSError:
            return "other"  # gone in the meantime, or in a folder that may be listed but not entered
        kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"))
        return next((name for is_kind, name in kinds if is_kind(mode)), "other")


def _tree_files(source: Source) -> Iterator[SourceFile]:
    disk = _Disk(os.path.realpath(source.path))
    try:
        found = _listing(disk, source)
    except OSError as error:
        raise UserError(f"{source.path}: cannot be read ({_reason(error)}).\n{EXPECTED}") from error
    source.settle_top(top for top, _, _ in found)
    for top, place, real in found:
        path = disk.path(real)
        try:
            size = os.stat(path).st_size
        except OSError as error:
            source.note("unreadable_file", top, place.parts, _reason(error))
            continue
        yield SourceFile(top, place, size, partial(_open, path), path)


def _open(path: str) -> BinaryIO:
    return open(path, "rb")


# An archive


class _Names:
    """The tree that an archive's names make, links and all."""

    def __init__(self, tarball: Tarball) -> None:
        self.links = tarball.links
        self.files = tarball.names
        self.folders: dict[str, set[str]] = {"": set(), **{name: set() for name in tarball.folders}}
        for name in [*tarball.names, *tarball.links, *(tarball.folders - {""})]:
            parent, _, last = name.rpartition("/")
            while last not in self.folders.setdefault(parent, set()):
                self.folders[parent].add(last)
                if not parent:
                    break
                parent, _, last = parent.rpartition("/")

    def children(self, real: str) -> Iterable[str]:
        return self.folders[real]

    def kind(self, real: str) -> str:
        if real in self.links:
            return "link"
        if real in self.folders:
            return "folder"
        return "file" if real in self.files else "other"

    def resolve(self, real: str) -> str:
        """As a file system does it: name by name, each link put in the place of its name, forty at the most."""
        waiting, done, followed = list(reversed(real.split("/"))), list[str](), 0
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not done:
                    raise OSError(errno.EXDEV, "leads out of the repository")
                done.pop()
                continue
            path = "/".join([*done, name])
            if path not in self.links:
                done.append(name)
                continue
            followed += 1
            if followed > 40:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target, is_from_root = self.links[path]
            if target.startswith("/"):
                raise OSError(errno.EXDEV, "leads out of the repository")
            done = [] if is_from_root else done
            waiting += reversed(target.split("/"))
        path = "/".join(done)
        if path not in self.folders and path not in self.files:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return path


def _tar_files(source: Source) -> Iterator[SourceFile]:
    if not is_tarball(source.path):
        raise UserError(f"{source.path}: is not a tar archive.\n{EXPECTED}")
    tarball = Tarball(source.path, EXPECTED)
    tops = set()
    for member in tarball.members(note_names=True):
        parts = tuple(member.name.split("/"))
        for top, below in (("", parts), (parts[0], parts[1:])):
            place = place_of(below)
            if place is not None:
                tops.add(top)
                yield SourceFile(top, place, member.size, member.open)
    for name, detail in tarball.unsafe:
        source.note("unsafe_path", None, (name,), detail)
    if not tarball.links:
        source.settle_top(tops)
        return
    # What lies behind links is known when all names are: a second reading, for those files alone.
    listing = _listing(_Names(tarball), source)
    source.settle_top(top for top, _, _ in listing)
    behind: dict[str, list[Place]] = {}
    for top, place, real in listing:
        if real != (f"{top}/{place.path}" if top else place.path):
            behind.setdefault(real, []).append(place)
    if behind:
        for member in tarball.members(note_names=False):
            for place in behind.get(member.name, ()):
                yield SourceFile(source.top, place, member.size, member.open)
