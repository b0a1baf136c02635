"""Which core each rank of a CPU run is pinned to: a device of a CPU-only machine is one core."""

import os
from pathlib import Path


def available_cores() -> list[int]:
    """Cores this process may use, one hardware thread of each physical core first, so that ranks share none early."""
    first: dict[str, int] = {}
    second = []
    for core in sorted(os.sched_getaffinity(0)):
        if first.setdefault(_physical(core), core) != core:
            second.append(core)
    return [*first.values(), *second]


def cores_for(ranks: int) -> list[int]:
    """One core per rank; with more ranks than cores (untimed runs alone) they go round."""
    cores = available_cores()
    return [cores[rank % len(cores)] for rank in range(ranks)]


def _physical(core: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(core)
