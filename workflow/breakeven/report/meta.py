"""What the report is told about each study besides its tables: a JSON object by study name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.figures.labels import presumed_source
from breakeven.schema.errors import UserError

_ANEW = "Delete it and run snakemake to make it anew."
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
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {error}.") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path}: must be a JSON object from study name to its title, source, platform and notes.")
    return {name: _study(path, name, entry) for name, entry in raw.items()}


def _study(path: Path, name: str, entry: Any) -> StudyMeta:
    if not isinstance(entry, dict) or entry.get("source", "points") not in SOURCES:
        raise UserError(f"{path}: study {name!r} must be an object whose source is one of {', '.join(SOURCES)}.")
    if not isinstance(entry.get("platform") or {}, dict):
        raise UserError(f"{path}: study {name!r}: platform must be an object.")
    for key in ("notes", "commands"):
        if not isinstance(entry.get(key) or [], list):
            raise UserError(f"{path}: study {name!r}: {key} must be a list of texts.")
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
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. --plan takes the plan.json of a study.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}.") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty. {_ANEW}")
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {error}. {_ANEW}") from None
    if not _is_plan(plan):
        raise UserError(f"{path}: not a study's plan. {_ANEW}")
    name, settings, machine = plan["study"], plan.get("settings") or {}, plan.get("machine") or {}
    told = {key: settings[key] for key in ("round", "family", "platform") if settings.get(key)}
    named = {{"device_word": "device"}.get(key, key): value for key, value in machine.items() if key != "device_kind"}
    return name, StudyMeta(
        title=str(plan.get("title") or name),
        source=str(plan.get("source", "points")),
        platform={**told, **named, **({"study file": plan["config"]} if plan.get("config") else {})},
        notes=tuple(str(n) for n in plan.get("notes") or ()),
        commands=("snakemake",),
    )


def _is_plan(plan: Any) -> bool:
    return (
        isinstance(plan, dict)
        and isinstance(plan.get("study"), str)
        and plan.get("source", "points") in SOURCES
        and all(isinstance(plan.get(key) or {}, dict) for key in ("settings", "machine"))
        and isinstance(plan.get("notes") or [], list)
    )


def presumed(name: str) -> StudyMeta:
    """Of a study without an entry."""
    return StudyMeta(title=name, source=presumed_source(name))
