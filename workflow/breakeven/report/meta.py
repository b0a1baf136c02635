"""What the report is told about each study besides its tables: a JSON object by study name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.schema.errors import UserError

SOURCES = ("measured", "mlperf", "points")


@dataclass(frozen=True, slots=True)
class StudyMeta:
    title: str
    source: str = "points"
    platform: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the machine, by the name they are shown under."""
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Command lines that made the study."""


def read_meta(path: Path | None) -> dict[str, StudyMeta]:
    if path is None:
        return {}
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. --meta takes a JSON file with one object per study.") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}.") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path}: must be a JSON object from study name to its title, source, platform and notes.")
    return {name: _study(path, name, entry) for name, entry in raw.items()}


def _study(path: Path, name: str, entry: Any) -> StudyMeta:
    if not isinstance(entry, dict) or entry.get("source", "points") not in SOURCES:
        raise UserError(f"{path}: study {name!r} must be an object whose source is one of {', '.join(SOURCES)}.")
    return StudyMeta(
        title=str(entry.get("title") or name),
        source=str(entry.get("source", "points")),
        platform=dict(entry.get("platform") or {}),
        notes=tuple(str(n) for n in entry.get("notes") or ()),
        commands=tuple(str(c) for c in entry.get("commands") or ()),
    )


def presumed(name: str) -> StudyMeta:
    """Of a study without an entry. A published round is known by its name, so its notice is never lost."""
    return StudyMeta(title=name, source="mlperf" if name.startswith("mlperf") else "points")
