"""What this machine has: CUDA devices where there are some, else CPU cores. No torch: the head process asks too."""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

from breakeven.config.models import Platform
from breakeven.schema.cpu import cpu_model
from breakeven.schema.spec import DeviceKind


@dataclass(frozen=True, slots=True)
class Machine:
    device_kind: DeviceKind
    device_model: str
    devices_per_node: int
    nodes: int
    price_per_device_hour: float | None = None

    @property
    def devices(self) -> int:
        return self.devices_per_node * self.nodes

    @property
    def device_word(self) -> str:
        """One device in tables and answers: never "GPU" for a CPU core."""
        return "CPU core" if self.device_kind == "cpu" else self.device_model


def resolve(platform: Platform) -> Machine:
    """A platform with every ``auto`` replaced by what this machine has."""
    kind = platform.device_kind
    if kind == "auto":
        kind = "cuda" if cuda_devices() else "cpu"
    found = cuda_devices() if kind == "cuda" else [cpu_model()] * cpu_cores()
    model = platform.device_model if platform.device_model != "auto" else (found[0] if found else "unknown")
    per_node = platform.devices_per_node if platform.devices_per_node != "auto" else max(len(found), 1)
    return Machine(kind, model, per_node, platform.nodes, platform.price_per_device_hour)


@functools.cache
def cuda_devices() -> list[str]:
    """Names of the CUDA devices the driver shows, CUDA_VISIBLE_DEVICES respected; empty without a driver."""
    import pynvml  # NVIDIA's own binding (nvidia-ml-py): without a driver it says so in milliseconds

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        count = pynvml.nvmlDeviceGetCount()
        names = [pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(count)]
    finally:
        pynvml.nvmlShutdown()
    return names if visible is None else names[: len(visible.split(","))]


@functools.cache
def driver_version() -> str:
    """Of NVIDIA's driver; empty without one."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ""
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    finally:
        pynvml.nvmlShutdown()


@functools.cache
def cpu_cores() -> int:
    """Cores this process may use: affinity, and a container's CPU quota where it has one."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return cores
