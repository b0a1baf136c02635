"""Waits for the ranks while the launcher's own ancestors live: no rank outlives the head process that asked for it."""

import os
import select
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import PurePath
from typing import Literal, Protocol

from breakeven.measure.processes import Process, command_line, identity, parent

Ended = Literal["exited", "orphaned", "deadline", "stalled"]

#: Seconds between looks where the kernel has no pidfd (before 5.3).
POLL_S = 0.5


class Waited(Protocol):
    def fileno(self) -> int:
        """Readable when there is news of it; -1 where the kernel cannot tell."""

    def ended(self) -> bool: ...


def ancestors() -> list[Process]:
    """The parent, and everything up to and including the outermost ``snakemake`` above it.

    Snakemake runs a rule as snakemake → bash → launcher: when it is killed, bash lives on and would hide it.
    """
    chain: list[int] = []
    pid = os.getppid()
    while pid > 1:
        chain.append(pid)
        pid = parent(pid)
    heads = [index for index, pid in enumerate(chain) if is_snakemake(command_line(pid))]
    return [identity(pid) for pid in chain[: max(heads, default=0) + 1]]


def is_snakemake(words: list[str]) -> bool:
    """``snakemake``, ``python …/bin/snakemake`` or ``python -m snakemake``; not an editor in a folder of that name."""
    return "snakemake" in [PurePath(word).name for word in words[:4]]


def pidfd(pid: int) -> int:
    """-1 where it has ended already, or the kernel has no pidfds."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def wait(
    waited: Waited,
    watched: list[Process],
    deadline: float,
    stalled: Callable[[], bool] = lambda: False,
    every_s: float | None = None,
) -> Ended:
    """Until what is waited for ends, or one of ``watched`` does, or ``time.monotonic()`` passes ``deadline``, or it is
    ``stalled``, which is asked ``every_s`` seconds.

    pidfds wake this process only when something happened: it takes no time from the ranks beside it.
    """
    with ExitStack() as stack:
        fds = [pidfd(process.pid) for process in watched]
        for fd in fds:
            if fd >= 0:
                stack.callback(os.close, fd)
        fds.append(waited.fileno())
        if -1 in fds:
            every_s = min(every_s or POLL_S, POLL_S)
        poller = select.poll()
        for fd in fds:
            if fd >= 0:
                poller.register(fd, select.POLLIN)
        while True:
            if waited.ended():
                return "exited"
            if not all(process.lives for process in watched):
                return "orphaned"
            left = deadline - time.monotonic()
            if left <= 0:
                return "deadline"
            if stalled():
                return "stalled"
            poller.poll(1000 * (left if every_s is None else min(left, every_s)))
