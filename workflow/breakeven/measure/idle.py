"""How busy the machine is before the ranks start: a neighbour's load would be measured as ours."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from breakeven.measure.nvidia import compute_processes
from breakeven.schema.record import IdleCheck

WINDOW_S = 0.5

#: Cores' worth of others' work that still counts as idle: a desktop's background, or a twentieth of a large machine.
TOLERATED_CORES = 0.25
TOLERATED_SHARE = 0.05


def idle_check(window_s: float = WINDOW_S, meanwhile: Callable[[], None] = lambda: None) -> IdleCheck:
    """``meanwhile`` is done in the window: what this process and its children take is not counted as others'."""
    began = time.monotonic()
    before = _busy_of_others_s()
    meanwhile()
    time.sleep(max(window_s - (time.monotonic() - began), 0.0))
    busy = max((_busy_of_others_s() - before) / (time.monotonic() - began), 0.0)
    on_devices = compute_processes()
    tolerated = max(TOLERATED_CORES, TOLERATED_SHARE * (os.cpu_count() or 1))
    return IdleCheck(
        busy_cores=round(busy, 3),
        load_average_1min=round(os.getloadavg()[0], 3),
        device_processes=on_devices,
        idle=busy <= tolerated and not on_devices,
    )


def _busy_of_others_s() -> float:
    """Core seconds since boot, but for this process's own and those of children that have ended."""
    return busy_ticks(Path("/proc/stat").read_text()) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def busy_ticks(stat: str) -> int:
    """Clock ticks all cores spent on anything but idling, since boot; time stolen by a hypervisor included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return user + nice + system + irq + softirq + steal
