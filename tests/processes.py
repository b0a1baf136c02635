"""Which processes a test has started, whoever their parent is by now: they carry a mark in their environment."""

import time
from collections.abc import Callable
from pathlib import Path

MARK = "BREAKEVEN_TEST_MARK"


def marked(mark: str) -> list[int]:
    """Living processes with ``MARK=mark``; a zombie does not live.

    A process that was forked without a command of its own has the environment of the one it was forked from.
    """
    wanted, found = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def command_name(pid: int) -> str:
    """What a process calls itself; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def is_rank(pid: int) -> bool:
    """Whether it is a rank of a measured run, however it was started."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    by_torchrun = b"breakeven.measure.worker" in words and b"torch.distributed.run" not in words
    return by_torchrun or command_name(pid).startswith("breakeven-rank")


def wait_for(true: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.05)
