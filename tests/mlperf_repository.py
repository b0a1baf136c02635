"""Small results repositories, as trees and as archives."""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

T0 = 1_727_459_930_638

SYSTEM = {
    "submitter": "Someone Inc.",
    "division": "closed",
    "status": "Available on-premise",
    "system_name": "box",
    "number_of_nodes": "1",
    "host_processors_per_node": "2",
    "host_processor_model_name": "Xeon",
    "accelerators_per_node": "8",
    "accelerator_model_name": "NVIDIA H100-SXM5-80GB",
}


def mllog(key: str, time_ms: float, value: Any = None, **metadata: Any) -> str:
    return ":::MLLOG " + json.dumps({"time_ms": time_ms, "key": key, "value": value, "metadata": metadata}) + "\n"


def log(start_ms: int = T0, minutes: float = 10, batch: int = 8, status: str = "success") -> bytes:
    """A llama2_70b_lora run that reached its target."""
    stop_ms = start_ms + int(minutes * 60_000)
    return "".join(
        [
            mllog("global_batch_size", start_ms - 1000, batch),
            mllog("run_start", start_ms),
            mllog("eval_accuracy", stop_ms - 60_000, 0.95, samples_count=2688),
            mllog("eval_accuracy", stop_ms - 10, 0.92, samples_count=3072),
            mllog("run_stop", stop_ms, status=status),
        ]
    ).encode()


def repository(runs: int = 10, submitter: str = "Someone", start_ms: int = T0, **description: Any) -> dict[str, bytes]:
    """Path → content of one result set of llama2_70b_lora."""
    folder = f"{submitter}/results/box_1/llama2_70b_lora"
    files = {f"{folder}/result_{run}.txt": log(start_ms + run, minutes=10 + run) for run in range(runs)}
    return {**files, f"{submitter}/systems/box_1.json": json.dumps({**SYSTEM, **description}).encode()}


def write_tree(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def write_tar(path: Path, files: Mapping[str, bytes], top: str = "", mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(f"{top}{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def add_link(archive: tarfile.TarFile, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    archive.addfile(member)


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Everything below a folder, with size and time: to show that nothing was written."""
    paths = sorted(path for path in root.rglob("*") if not path.is_symlink())
    return {str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}
