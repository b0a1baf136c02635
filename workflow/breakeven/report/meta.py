"""What the report is told about each study besides its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.figures.labels import presumed_source
from breakeven.schema.errors import UserError
from breakeven.schema.plan import read_plan

SOURCES = ("measured", "mlperf", "points")


@dataclass(frozen=True, slots=True)
class StudyMeta:
    title: str
    source: str = "points"
    platform: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the machine, by the name they are shown under."""
    origin: str = ""
    """Where published results were retrieved: a repository at a commit, a folder."""
    rounds: tuple[str, ...] = ()
    """Rounds of MLPerf Training that the study reads."""
    figures: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """Of each workload, by its title: the kinds of its figures, and the arguments that draw each."""
    benchmarks: Mapping[str, str] = field(default_factory=dict)
    """Title of each workload of a published study → the benchmark's name."""
    commands: tuple[str, ...] = ()
    """Command lines that made the study."""


def from_plan(path: Path) -> tuple[str, StudyMeta]:
    """A study's name and what its plan.json tells of it."""
    plan = read_plan(path, "study", "title", "source")
    if plan["source"] not in SOURCES:
        raise UserError(f"{path}: source {plan['source']!r} is unknown. Delete it: snakemake writes it again.")
    name, settings, machine = plan["study"], plan.get("settings") or {}, plan.get("machine") or {}
    told = {key: settings[key] for key in ("round", "family", "platform") if settings.get(key)}
    named = {{"device_word": "device"}.get(key, key): value for key, value in machine.items() if key != "device_kind"}
    return name, StudyMeta(
        title=plan["title"],
        source=plan["source"],
        platform={**told, **named, **({"study file": plan["config"]} if plan.get("config") else {})},
        rounds=(settings["round"],) if plan["source"] == "mlperf" and settings.get("round") else (),
        origin=str(plan.get("origin") or ""),
        figures=plan.get("figures") or {},
        benchmarks={title: name for name, title in (settings.get("workloads") or {}).items()}
        if plan["source"] == "mlperf"
        else {},
        commands=("snakemake",),
    )


def presumed(name: str) -> StudyMeta:
    """Of a study without an entry."""
    return StudyMeta(title=name, source=presumed_source(name))
