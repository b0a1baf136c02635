"""How far each rank is, in a file that the launcher reads while the rank writes: no message, no system call."""

import mmap
import time
from array import array
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

#: Numbers at the head of the file, all of one type so that each is written at once; a stamp per update follows.
_HEAD = ("marks", "sign", "phase", "silent", "host_gib", "device_gib")
_MARKS, _SIGN, _PHASE, _SILENT, _HOST, _DEVICE = range(len(_HEAD))


class Phase(IntEnum):
    """What a rank is at within an update, in the order it comes to it."""

    DATA = 0
    FORWARD = 1
    BACKWARD = 2
    UPDATE = 3

    @property
    def words(self) -> str:
        return ("waiting for data", "in the forward pass", "in the backward pass", "at the update of the weights")[self]


def progress_file(scratch: Path, rank: int) -> Path:
    return scratch / f"progress-{rank}.bin"


class Progress:
    """A rank's own side. ``mark`` is called once before the first update and after each."""

    def __init__(self, scratch: Path, rank: int, updates: int) -> None:
        path = progress_file(scratch, rank)
        part = path.with_suffix(".part")
        part.write_bytes(bytes(8 * (len(_HEAD) + updates + 1)))
        part.rename(path)
        with path.open("r+b") as stream:
            self._values = memoryview(mmap.mmap(stream.fileno(), 0)).cast("d")
        self._marks = 0

    def mark(self, host_gib: float, device_gib: float) -> None:
        # The stamp before the count that covers it: a reader never counts a stamp that is not there.
        self._values[len(_HEAD) + self._marks] = time.monotonic()
        self._marks += 1
        self.memory(host_gib, device_gib)
        self._values[_PHASE] = Phase.DATA
        self._values[_MARKS] = self._marks
        self.sign()

    def memory(self, host_gib: float, device_gib: float) -> None:
        """Peaks so far."""
        self._values[_HOST] = host_gib
        self._values[_DEVICE] = device_gib

    def phase(self, phase: Phase) -> None:
        self._values[_PHASE] = phase

    def sign(self) -> None:
        """A sign of life where no update is made."""
        self._values[_SIGN] = time.monotonic()
        self._values[_SILENT] = 0

    def silent(self) -> None:
        """What follows may take long, once: until the next sign nobody should wait for one."""
        self._values[_SILENT] = 1


@dataclass(frozen=True, slots=True)
class Reached:
    """What a launcher reads of one rank."""

    stamps: tuple[float, ...]
    """``time.monotonic()`` before the first update and after each that is done."""
    sign: float
    """``time.monotonic()`` of the last sign of life; 0 before the first."""
    phase: Phase
    silent: bool
    """Whether the rank has said that no sign is to be expected."""
    peak_host_gib: float
    peak_device_gib: float

    @property
    def updates(self) -> int:
        """Updates done; -1 before the first was begun."""
        return len(self.stamps) - 1


def read_progress(scratch: Path, rank: int) -> Reached | None:
    """None where the rank has not come so far."""
    values = _numbers(progress_file(scratch, rank))
    if len(values) < len(_HEAD):
        return None
    head, stamps = values[: len(_HEAD)], values[len(_HEAD) :]
    return Reached(
        stamps=tuple(stamps[: int(head[_MARKS])]),
        sign=head[_SIGN],
        phase=Phase(int(head[_PHASE])),
        silent=bool(head[_SILENT]),
        peak_host_gib=head[_HOST],
        peak_device_gib=head[_DEVICE],
    )


def last_sign(scratch: Path, rank: int) -> float:
    """The sign alone, at the price of one small reading; 0 where there is none."""
    head = _numbers(progress_file(scratch, rank), len(_HEAD))
    return head[_SIGN] if len(head) > _SIGN else 0.0


def _numbers(path: Path, count: int = -1) -> "array[float]":
    """The first so many that are there whole; none where there is no file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(8 * count if count >= 0 else -1)
    except OSError:
        content = b""
    return array("d", content[: len(content) // 8 * 8])
