"""What the report is told about each study besides its tables: a JSON object by study name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.figures.labels import presumed_source
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


def from_plan(path: Path) -> tuple[str, StudyMeta]:
    """A study's name and what its plan.json tells of it."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        name, settings, machine = str(plan["study"]), plan.get("settings") or {}, plan.get("machine") or {}
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. --plan takes the plan.json of a study.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a study's plan: {error}.") from None
    told = {key: settings[key] for key in ("round", "family", "platform") if settings.get(key)}
    named = {{"device_word": "device"}.get(key, key): value for key, value in machine.items() if key != "device_kind"}
    return name, StudyMeta(
        title=str(plan.get("title") or name),
        source=str(plan.get("source", "points")),
        platform={**told, **named, **({"study file": plan["config"]} if plan.get("config") else {})},
        notes=tuple(str(n) for n in plan.get("notes") or ()),
        commands=("snakemake",),
    )


def presumed(name: str) -> StudyMeta:
    """Of a study without an entry."""
    return StudyMeta(title=name, source=presumed_source(name))
