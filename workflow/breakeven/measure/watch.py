"""Waits for a child while its launcher's own ancestors live: no rank outlives the head process that asked for it."""

import os
import select
import subprocess
import time
from contextlib import ExitStack
from pathlib import PurePath
from typing import Literal

from breakeven.measure.processes import Process, command_line, identity, parent

Ended = Literal["exited", "orphaned", "deadline"]

#: Seconds between looks where the kernel has no pidfd (before 5.3).
POLL_S = 0.5


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


def wait(child: subprocess.Popen[bytes], watched: list[Process], deadline: float) -> Ended:
    """Until the child ends, or one of ``watched`` does, or ``time.monotonic()`` passes ``deadline``.

    pidfds wake this process only when something happened: it takes no time from the ranks beside it.
    """
    with ExitStack() as stack:
        poller = select.poll()
        polled = True
        for pid in (child.pid, *(process.pid for process in watched)):
            try:
                fd = os.pidfd_open(pid)
            except OSError:  # ended already, or a kernel without pidfds
                polled = False
                continue
            stack.callback(os.close, fd)
            poller.register(fd, select.POLLIN)
        while True:
            if child.poll() is not None:
                return "exited"
            if not all(process.lives for process in watched):
                return "orphaned"
            left = deadline - time.monotonic()
            if left <= 0:
                return "deadline"
            poller.poll(1000 * (left if polled else min(left, POLL_S)))
