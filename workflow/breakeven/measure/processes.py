"""Processes that must not outlive each other, by the kernel's own means."""

import ctypes
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

#: Seconds a killed process may take to go: a device driver can hold it for a while.
KILL_WAIT_S = 20.0

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


def children(pid: int) -> list[int]:
    """Its children now, zombies among them."""
    others = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return [other for other in others if parent(other) == pid]


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def threads() -> int:
    """Of this process, those that Python did not start among them."""
    return len(os.listdir("/proc/self/task"))


def name_this(name: str) -> None:
    """What ``ps -o comm`` and the kernel's messages call this process: a forked one has its server's command line."""
    _libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def die_with_parent() -> None:
    """From now on SIGKILL reaches this process when its parent ends, however that ends. Survives exec, not fork."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def child_dies_with(parent_pid: int) -> None:
    """In a child, first of all: the same, and the parent may have died before."""
    die_with_parent()
    if os.getppid() != parent_pid:
        os._exit(1)


def rank_dies_with(launcher_pid: int) -> None:
    """In a rank that torchrun's agent started, first of all: the same. The agent's parent is the launcher."""
    die_with_parent()
    if parent(os.getppid()) != launcher_pid:
        os._exit(1)


def adopt_orphans() -> None:
    """From now on a descendant whose parent ends becomes this process's child, so that none is lost sight of."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """After ``adopt_orphans``: kill every descendant, whatever session it is in, and wait until all are gone."""
    give_up = time.monotonic() + KILL_WAIT_S
    while (left := children(os.getpid())) and time.monotonic() < give_up:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                return
        time.sleep(0.002)


class ChildEnds:
    """Readable (``fileno``) once a child of this process has ended since ``clear``."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wake-up needs a handler, even one that does nothing
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._reader.fileno()

    def clear(self) -> None:
        try:
            while self._reader.recv(512):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """In a forked child, before it waits for children of its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._reader.close()
        self._writer.close()


def _stat(pid: int) -> list[str] | None:
    """``/proc/<pid>/stat`` from the state on: [0] state, [1] parent, [19] start time. The name may hold blanks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
