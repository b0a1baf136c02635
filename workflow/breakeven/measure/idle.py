"""How busy the machine is before the ranks start: a neighbour's load would be measured as ours."""

import os
import time
from pathlib import Path

from breakeven.measure.nvidia import compute_processes
from breakeven.schema.record import IdleCheck

WINDOW_S = 0.5

#: Cores' worth of others' work that still counts as idle: a desktop's background, or a twentieth of a large machine.
TOLERATED_CORES = 0.25
TOLERATED_SHARE = 0.05


def idle_check(window_s: float = WINDOW_S) -> IdleCheck:
    before, started = busy_ticks(Path("/proc/stat").read_text()), time.monotonic()
    time.sleep(window_s)
    ticks, elapsed = busy_ticks(Path("/proc/stat").read_text()) - before, time.monotonic() - started
    busy = ticks / os.sysconf("SC_CLK_TCK") / elapsed
    on_devices = compute_processes()
    tolerated = max(TOLERATED_CORES, TOLERATED_SHARE * (os.cpu_count() or 1))
    return IdleCheck(
        busy_cores=round(busy, 3),
        load_average_1min=round(os.getloadavg()[0], 3),
        device_processes=on_devices,
        idle=busy <= tolerated and not on_devices,
    )


def busy_ticks(stat: str) -> int:
    """Clock ticks all cores spent on anything but idling, since boot; time stolen by a hypervisor included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return user + nice + system + irq + softirq + steal
