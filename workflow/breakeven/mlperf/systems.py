"""Descriptions of systems: how many devices of which family.

Number fields come as numbers and as text, and the accelerator's name in as many spellings as there are submitters.
"""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from breakeven.mlperf.table import printable

ACCELERATORS = Path(__file__).parent / "rules" / "accelerators.yaml"

#: The family of systems that train on their processors.
CPU = "CPU"

#: What submitters write where there is nothing to write.
_NOTHING = {"", "-", "n/a", "na", "none"}

#: More of anything than any system has; a greater number is a mistake, and two of them still multiply exactly.
_MOST = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What a table of runs needs of a system description. Empty text and None are unknown."""

    name: str = ""
    accelerator: str = ""
    """Exactly as described; the processor's name where there are no accelerators."""
    family: str = ""
    nodes: int | None = None
    accelerators_per_node: int | None = None
    devices: int | None = None
    """nodes × accelerators per node; without accelerators nodes × processors per node."""
    division: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to be listed. ``kind`` is one of ``anomalies.KINDS``."""

    kind: str
    detail: str


def read_system(content: bytes) -> tuple[System | None, Sequence[Problem]]:
    """A system from its description, and what is wrong with that. None where it is no JSON object at all."""
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError) as error:
        return None, [Problem("bad_system_description", printable(f"not valid JSON: {error}"))]
    if not isinstance(raw, dict):
        return None, [Problem("bad_system_description", f"holds a JSON {type(raw).__name__}, not an object")]
    return _Reader(raw).system()


def family(accelerator: str) -> str | None:
    """The family of an exact ``accelerator_model_name``; None for a name not known here."""
    return next((name for name, pattern in _families() if pattern.fullmatch(accelerator)), None)


@functools.cache
def _families() -> list[tuple[str, re.Pattern[str]]]:
    entries = yaml.safe_load(ACCELERATORS.read_text(encoding="utf-8"))
    return [(entry["family"], re.compile("|".join(entry["names"]), re.IGNORECASE)) for entry in entries]


class _Reader:
    """One description, and the problems found while it is read."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.problems: list[Problem] = []

    def system(self) -> tuple[System, list[Problem]]:
        known = System(name=self.text("system_name"), division=self.text("division"), status=self.text("status"))
        nodes = self.count("number_of_nodes")
        accelerators: int | None
        if self.without_accelerators():
            accelerator, kind = self.text("host_processor_model_name"), CPU
            per_node, accelerators = self.count("host_processors_per_node"), 0
            self.note("no_accelerators", f"devices are processors: {accelerator or 'name unknown'}")
        else:
            accelerator = self.text("accelerator_model_name")
            kind = self.family(accelerator)
            per_node = accelerators = self.count("accelerators_per_node")
        system = System(
            name=known.name,
            accelerator=accelerator,
            family=kind,
            nodes=nodes,
            accelerators_per_node=accelerators,
            devices=None if nodes is None or per_node is None else nodes * per_node,
            division=known.division,
            status=known.status,
        )
        return system, self.problems

    def without_accelerators(self) -> bool:
        """Neither a name nor a number above 0: Intel's Xeon systems say "N/A" and "0"."""
        name, number = self.raw.get("accelerator_model_name"), self.raw.get("accelerators_per_node")
        return _is_nothing(name) and (_is_nothing(number) or _whole(number) == 0)

    def family(self, accelerator: str) -> str:
        known = family(accelerator)
        if known is None and accelerator:
            self.note("unknown_accelerator", accelerator)
        return known or accelerator

    def text(self, key: str) -> str:
        value = self.raw.get(key, "")
        if isinstance(value, str) and value.strip():
            return printable(value.strip())
        self.bad(key, value, "text")
        return ""

    def count(self, key: str) -> int | None:
        value = self.raw.get(key, "")
        number = _whole(value)
        if number is None or number == 0:
            self.bad(key, value, "a whole number above 0")
            return None
        return number

    def bad(self, key: str, value: object, expected: str) -> None:
        is_there = not isinstance(value, str) or value.strip()
        self.note(
            "bad_system_description",
            f"{key} {f'is {_shown(value)}' if is_there else 'is missing or empty'}; expected {expected}",
        )

    def note(self, kind: str, detail: str) -> None:
        self.problems.append(Problem(kind, detail))


def _shown(value: object) -> str:
    try:
        return printable(repr(value))[:200]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to show"


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _whole(value: object) -> int | None:
    """A count from 1, 1.0, "1" and " 1 "; None for anything else."""
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,8}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _MOST and value == int(value) else None
