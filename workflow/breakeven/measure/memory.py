"""Host memory: how much a run may take, so that it runs out before the machine does, and who is to go if it does.

A rank on CPU gets a limit on what it allocates (RLIMIT_DATA), a share of what is available. An allocation past it fails
in the rank, which says so: the run's status is ``oom``, and nothing else on the machine notices. Where the kernel has
to kill all the same, it is to choose a rank, never the launcher or Snakemake.
"""

import contextlib
import os
import resource
from pathlib import Path

from breakeven.schema.errors import UserError

#: GiB of host memory that the ranks of a CPU run may take together; 0: no limit.
VARIABLE = "BREAKEVEN_MEMORY_GIB"

#: Of the memory available at the start, where the variable is not set.
SHARE = 0.8

GIB = 2**30


def rank_limit_bytes(ranks: int) -> int | None:
    """What one rank may allocate once its libraries are imported; None: no limit. Raises UserError."""
    text = os.environ.get(VARIABLE)
    if not text:
        return int(available_bytes() * SHARE / ranks)
    try:
        total_gib = float(text)
    except ValueError:
        total_gib = -1.0
    if not 0 <= total_gib < float("inf"):
        raise UserError(f"{VARIABLE}={text}: not a number of GiB. Use 0 for no limit.")
    return int(total_gib * GIB / ranks) or None


def limit_this(more_bytes: int) -> None:
    """This process may allocate so much more than it has now."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _status_bytes("VmData", os.getpid()) + more_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def lift_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def be_killed_first() -> None:
    """Should the kernel run out of memory. Raising one's own score is always allowed."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def peak_host_gib(pid: int | None = None) -> float | None:
    """Most resident memory so far, pages shared with others included; None where the process is gone."""
    found = _status_bytes("VmHWM", os.getpid() if pid is None else pid)
    return found / GIB if found else None


def kernel_kills() -> int | None:
    """Processes killed for want of memory since boot, in any control group; None where the kernel does not tell."""
    return _field(Path("/proc/vmstat"), "oom_kill")


def available_bytes() -> int:
    """What can be allocated without swapping: of the machine, or of the control group this process is in."""
    machine = _field(Path("/proc/meminfo"), "MemAvailable:")
    found = [machine * 1024] if machine is not None else [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _lines(Path("/proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup")
        if not controllers:
            found += left(root, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            found += left(
                root / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            )
    return max(min(found), 0)


def left(root: Path, path: str, limit: str, usage: str, cache: str) -> list[int]:
    """Bytes left under each limit from this group up to the root; file cache that can be dropped is no usage."""
    found = []
    folder = root / path.strip("/")
    for group in [folder, *folder.parents]:
        if not group.is_relative_to(root):
            break
        try:
            most, used = int((group / limit).read_text()), int((group / usage).read_text())
        except (OSError, ValueError):  # no such file at the root, or "max"
            continue
        found.append(most - used + (_field(group / "memory.stat", cache) or 0))
    return found


def _status_bytes(name: str, pid: int) -> int:
    return (_field(Path(f"/proc/{pid}/status"), f"{name}:") or 0) * 1024


def _field(path: Path, name: str) -> int | None:
    for line in _lines(path):
        words = line.split()
        if words and words[0] == name:
            return int(words[1])
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
