"""The two lines a run says on the terminal; everything else goes to its log."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from breakeven.schema.spec import Spec


def say(line: str) -> None:
    """On stderr, whole: lines of others on the same terminal must not cut into it."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class Progress:
    """Where this run stands among those that one invocation makes."""

    index: int
    total: int
    left_s: float | None
    """Seconds left, this run included, by the mean of the finished ones; None before any has finished."""

    @classmethod
    def read(cls, path: Path | None, now: float | None = None) -> "Progress | None":
        if path is None or not path.exists():
            return None
        raw = json.loads(path.read_text())
        total = len(raw["records"])
        done = sum(Path(record).exists() for record in raw["records"])
        elapsed = (time.time() if now is None else now) - raw["started_at"]
        return cls(min(done + 1, total), total, elapsed / done * (total - done) if done else None)


def start_line(spec: Spec, repeat: int, progress: Progress | None) -> str:
    """``run 5 of 24: llama-lora ddp on 2 CPU cores, repeat 2, about 3 min left``."""
    model = spec.workload.model.rstrip("/").rsplit("/", 1)[-1]
    workload = model if spec.workload.technique == "full" else f"{model}-{spec.workload.technique}"
    word = "CPU core" if spec.device_kind == "cpu" else spec.device_model
    plural = f"{word}s" if spec.devices > 1 and spec.device_kind == "cpu" else word
    where = f"run {progress.index} of {progress.total}" if progress else "run"
    line = f"{where}: {workload} {spec.strategy} on {spec.devices} {plural}, repeat {repeat}"
    if progress and progress.left_s is not None:
        line += f", about {duration(progress.left_s)} left"
    return line


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
