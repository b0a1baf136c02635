"""What ``nvidia-smi`` says, where it is installed: it needs no torch, so the launcher can ask before a rank starts."""

import os
import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    uuid: str
    name: str
    driver: str
    power_limit_w: float | None


def visible_gpus() -> list[Gpu]:
    """The GPUs a rank will see, in its order: CUDA_VISIBLE_DEVICES picks by index or by the beginning of a UUID."""
    lines = _query("--query-gpu=index,uuid,name,driver_version,power.limit")
    gpus = [_gpu(line) for line in lines or []]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return gpus
    chosen = []
    for entry in filter(None, (part.strip() for part in visible.split(","))):
        found = [gpu for gpu in gpus if str(gpu.index) == entry or gpu.uuid.startswith(entry)]
        if not found:
            break  # CUDA too ignores everything from the first entry on that it does not know
        chosen.append(found[0])
    return chosen


def compute_processes() -> int | None:
    """Processes that compute on any GPU; None where there is no GPU or it cannot be read."""
    lines = _query("--query-compute-apps=pid")
    return None if lines is None else len(lines)


def _gpu(line: str) -> Gpu:
    index, uuid, name, driver, limit = (cell.strip() for cell in line.split(","))
    try:
        watts = float(limit)
    except ValueError:  # [N/A]: not every GPU has a limit
        watts = None
    return Gpu(int(index), uuid, name, driver, watts)


def _query(what: str) -> list[str] | None:
    if shutil.which("nvidia-smi") is None:
        return None
    try:
        answer = subprocess.run(
            ["nvidia-smi", what, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return [line for line in answer.stdout.splitlines() if line.strip()]
