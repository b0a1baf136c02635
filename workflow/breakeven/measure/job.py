"""What the launcher hands to the ranks, as one JSON file; and the notes that a rank leaves for the launcher."""

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from breakeven.measure import processes
from breakeven.schema.spec import Json, Spec

ErrorKind = Literal["oom", "failed", "user", "infrastructure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    spec: Spec
    data: Path
    model_dir: Path | None
    scratch: Path
    """Folder for everything the ranks write; on the record's file system, so that results are renamed into place."""
    launcher_pid: int
    launched_at: float
    """``time.monotonic()``, which all processes of a host share."""
    timeout_s: float
    cores: list[int]
    """The core each local rank is pinned to; empty: not pinned."""
    memory_limit_bytes: int | None = None
    """Host memory that a rank may allocate once it has imported everything."""

    def write(self, path: Path) -> None:
        raw = asdict(self)
        for name in ("data", "model_dir", "scratch"):
            raw[name] = str(raw[name]) if raw[name] is not None else None
        path.write_text(json.dumps(raw))

    @classmethod
    def read(cls, path: Path) -> "Job":
        raw = json.loads(path.read_text())
        raw["spec"] = Spec.from_dict(raw["spec"])
        raw["data"], raw["scratch"] = Path(raw["data"]), Path(raw["scratch"])
        raw["model_dir"] = Path(raw["model_dir"]) if raw["model_dir"] else None
        return cls(**raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankError:
    """``at``: ``time.monotonic()``, so that the first failure is told from those it caused."""

    rank: int
    kind: ErrorKind
    message: str
    at: float
    memory_gib: dict[str, float | None] = field(default_factory=dict)
    """The rank's peaks, by the record's own names."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Files in the scratch folder, each written whole."""

    scratch: Path

    @property
    def steps(self) -> Path:
        return self.scratch / "steps.npz"

    @property
    def result(self) -> Path:
        return self.scratch / "result.json"

    def write_alive(self, rank: int) -> None:
        _write(self.scratch / f"alive-{rank}.json", asdict(processes.identity(os.getpid())))

    def alive(self) -> dict[int, processes.Process]:
        """The process of every rank that ever ran, whether or not it still does."""
        found = {}
        for file in self.scratch.glob("alive-*.json"):
            found[int(file.stem.removeprefix("alive-"))] = processes.Process(**json.loads(file.read_text()))
        return found

    def write_started(self, rank: int) -> None:
        """The rank has imported everything and reached the others: from here on a failure is the run's own."""
        _write(self.scratch / f"started-{rank}.json", {"at": time.monotonic()})

    def started(self) -> bool:
        return any(self.scratch.glob("started-*.json"))

    def write_error(
        self, rank: int, kind: ErrorKind, message: str, memory_gib: dict[str, float | None] | None = None
    ) -> None:
        error = RankError(rank=rank, kind=kind, message=message, at=time.monotonic(), memory_gib=memory_gib or {})
        _write(self.scratch / f"error-{rank}.json", asdict(error))

    def errors(self) -> list[RankError]:
        """Of every rank that failed, the first one first."""
        errors = [RankError(**json.loads(file.read_text())) for file in self.scratch.glob("error-*.json")]
        return sorted(errors, key=lambda error: error.at)

    def stack(self, rank: int) -> Path:
        """Where a rank writes which line it is at, when it is asked."""
        return self.scratch / f"stack-{rank}.txt"

    def stacks(self) -> dict[int, str]:
        """Of the ranks that were asked."""
        files = {int(file.stem.removeprefix("stack-")): file for file in self.scratch.glob("stack-*.txt")}
        return {rank: text for rank, file in sorted(files.items()) if (text := file.read_text())}

    def write_facts(self, facts: Json) -> None:
        """What rank 0 knows of the run; written anew as more is known, so that a run that fails leaves some."""
        _write(self.scratch / "facts.json", facts)

    def facts(self) -> Json:
        file = self.scratch / "facts.json"
        facts: Json = json.loads(file.read_text()) if file.exists() else {}
        return facts


def _write(path: Path, value: Json) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    os.replace(part, path)
