"""Processes that must not outlive each other, by the kernel's own means."""

import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)  # loaded here: nothing may be loaded between fork and exec


@dataclass(frozen=True, slots=True)
class Process:
    """A process id alone may be given out again; with its start time it is one process for good."""

    pid: int
    started: int
    """Clock ticks since boot."""

    @property
    def lives(self) -> bool:
        """Whether it runs; a zombie does not."""
        status = _stat(self.pid)
        return status is not None and int(status[19]) == self.started and status[0] not in ("Z", "X")


def identity(pid: int) -> Process:
    status = _stat(pid)
    return Process(pid, int(status[19]) if status else -1)


def parent(pid: int) -> int:
    """The parent's id; 0 where there is none or the process is gone."""
    status = _stat(pid)
    return int(status[1]) if status else 0


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def die_with_parent() -> None:
    """From now on SIGKILL reaches this process when its parent ends, however that ends. Survives exec, not fork."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def child_dies_with(launcher_pid: int) -> None:
    """Between fork and exec of the launcher's child: the same, and the launcher may have died before."""
    die_with_parent()
    if os.getppid() != launcher_pid:
        os._exit(1)


def rank_dies_with(launcher_pid: int) -> None:
    """In a rank, first of all: the same. Its parent is torchrun's agent, whose parent is the launcher."""
    die_with_parent()
    if parent(os.getppid()) != launcher_pid:
        os._exit(1)


def _stat(pid: int) -> list[str] | None:
    """``/proc/<pid>/stat`` from the state on: [0] state, [1] parent, [19] start time. The name may hold blanks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
