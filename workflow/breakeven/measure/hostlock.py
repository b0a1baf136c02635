"""One measured run at a time on a host, whoever starts it: the kernel frees the lock when its holder dies."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: The same for all users and sessions of a host; TMPDIR would differ between them.
LOCK_FILE = Path("/tmp/breakeven-measure.lock")  # noqa: S108

POLL_S = 0.5


@contextlib.contextmanager
def host_lock(on_wait: Callable[[], None], keep_waiting: Callable[[], bool], path: Path = LOCK_FILE) -> Iterator[float]:
    """Holds the lock; yields the seconds waited for it. ``on_wait`` is called once if another holds it.

    Raises InterruptedError as soon as ``keep_waiting`` says no.
    """
    started = time.monotonic()
    fd = _open(path)
    try:
        waiting = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    on_wait()
                waiting = True
            if not keep_waiting():
                raise InterruptedError("gave up waiting for the host lock")
            time.sleep(POLL_S)
        yield time.monotonic() - started if waiting else 0.0
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    """Close-on-exec: a rank that outlived the launcher must not hold the lock."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # First without O_CREAT: in a sticky folder the kernel refuses it on a file of another user.
        return os.open(path, flags)
    except FileNotFoundError:
        old = os.umask(0)
        try:
            return os.open(path, flags | os.O_CREAT, 0o666)
        finally:
            os.umask(old)
