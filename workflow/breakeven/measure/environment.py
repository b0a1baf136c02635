"""Where and with what a run is measured, as far as the launcher can tell without torch."""

import functools
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version

from breakeven import __version__
from breakeven.measure.cores import available_cores
from breakeven.measure.nvidia import Gpu, visible_gpus
from breakeven.measure.sources import PACKAGE, measured_sources_digest
from breakeven.schema.cpu import cpu_model
from breakeven.schema.errors import UserError
from breakeven.schema.record import Environment
from breakeven.schema.spec import Json, Spec

LIBRARIES = ("torch", "transformers", "peft", "numpy", "safetensors", "tokenizers", "accelerate")

#: Environment variables that can change a measured number.
PREFIXES = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "NCCL_", "GLOO_", "TORCH", "PYTORCH_", "CUDA_", "CUBLAS_",
            "NVIDIA_", "LD_PRELOAD", "MALLOC_", "SLURM_JOB_ID", "SLURM_JOB_PARTITION")  # fmt: skip


def check_devices(spec: Spec) -> list[Gpu]:
    """The GPUs of a CUDA run, none for a CPU run. Raises UserError where this machine is not the one the spec names."""
    if spec.nodes > 1:
        raise UserError(
            f"The run is of {spec.nodes} nodes ({spec.devices} devices, {spec.devices_per_node} per node), but this "
            "version measures on one. Use up to the devices of one node."
        )
    if spec.device_kind == "cuda":
        gpus = visible_gpus()
        found, count, word = sorted({gpu.name for gpu in gpus[: spec.devices]}), len(gpus), "GPU"
    else:
        gpus = []
        found, count, word = [cpu_model()], len(available_cores()), "CPU core"
    if not count:
        raise UserError(f"The run is of device {spec.device_model!r}, but this machine shows no {word} (nvidia-smi).")
    if found != [spec.device_model]:
        raise UserError(
            f"The run is of device {spec.device_model!r}, but this machine has {' and '.join(map(repr, found))}. "
            "Measure it on the machine it names, or plan again on this one (device_model: auto in the platform)."
        )
    if spec.devices > count and (spec.timed or word == "GPU"):
        raise UserError(f"The run needs {spec.devices} {word}s, but this process may use {count}. Use up to {count}.")
    return gpus[: spec.devices]


def surroundings(gpus: list[Gpu], rank_environment: dict[str, str]) -> Json:
    """All that can be told before the ranks start, so that none of it is read beside them."""
    return {
        "breakeven": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libraries": {name: found for name in LIBRARIES if (found := installed(name)) is not None},
        "cpu_model": cpu_model(),
        "cpu_cores": os.cpu_count(),
        "cpu_cores_allowed": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 2),
        "variables": {key: rank_environment[key] for key in sorted(rank_environment) if key.startswith(PREFIXES)},
        "gpus": [{"uuid": gpu.uuid, "name": gpu.name, "power_limit_w": gpu.power_limit_w} for gpu in gpus],
        "git": _git_state(),
    }


def environment(spec: Spec, gpus: list[Gpu], details: Json, facts: Json) -> Environment:
    """``details``: the surroundings. ``facts`` are what rank 0 reported; where it did not get so far, the installed
    version of torch stands in."""
    limits = [gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None]
    return Environment(
        host=platform.node(),
        device_model=spec.device_model,
        driver=gpus[0].driver if gpus else None,
        power_limit_w=min(limits) if limits else None,
        torch_version=str(facts.get("torch") or installed("torch") or "unknown"),
        measure_sources=measured_sources_digest(),
        details={**details, "ranks": facts},
    )


@functools.cache
def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git_state() -> Json | None:
    """Commit and whether tracked files differ from it; None where the package lies in no repository."""
    try:
        _git("ls-files", "--error-unmatch", "__init__.py")  # an installed copy may lie inside a stranger's repository
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(PACKAGE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
