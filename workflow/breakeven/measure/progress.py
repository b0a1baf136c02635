"""How far each rank is, in a file that the launcher reads while the rank writes: no message, no system call."""

import mmap
import struct
import time
from dataclasses import dataclass
from pathlib import Path

_HEAD = struct.Struct("<qdd")  # updates done, peak host GiB, peak device GiB
_STAMP = struct.Struct("<d")


def progress_file(scratch: Path, rank: int) -> Path:
    return scratch / f"progress-{rank}.bin"


class Progress:
    """A rank's own side. ``mark`` is called once before the first update and after each."""

    def __init__(self, scratch: Path, rank: int, updates: int) -> None:
        path = progress_file(scratch, rank)
        path.write_bytes(bytes(_HEAD.size + _STAMP.size * (updates + 1)))
        with path.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), 0)
        self._marks = 0

    def mark(self, host_gib: float, device_gib: float) -> None:
        # The stamp before the count that covers it: a reader never counts a stamp that is not there.
        _STAMP.pack_into(self._map, _HEAD.size + _STAMP.size * self._marks, time.monotonic())
        self._marks += 1
        _HEAD.pack_into(self._map, 0, self._marks, host_gib, device_gib)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a launcher reads of one rank."""

    stamps: tuple[float, ...]
    """``time.monotonic()`` before the first update and after each that is done."""
    peak_host_gib: float
    peak_device_gib: float

    @property
    def updates(self) -> int:
        """Updates done; -1 before the first was begun."""
        return len(self.stamps) - 1


def read_progress(scratch: Path, rank: int) -> Reached | None:
    """None where the rank has not come so far."""
    try:
        raw = progress_file(scratch, rank).read_bytes()
    except OSError:
        return None
    if len(raw) < _HEAD.size:
        return None
    marks, host, device = _HEAD.unpack_from(raw)
    stamps = struct.unpack_from(f"<{marks}d", raw, _HEAD.size)
    return Reached(stamps, host, device)
