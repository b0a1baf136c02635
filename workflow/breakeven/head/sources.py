"""Source files of rooms, as inputs of the rules that run them: Snakemake tracks a rule's text, not what it imports."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def sources(*rooms: str) -> list[str]:
    """Every file of the rooms and of ``schema``, which all of them read: code, and data such as rule sets (but not the
    facts, which are an input by name). Never of a measured room, whose identity is its ``measure_version``."""
    return sorted(
        os.path.relpath(path)  # so that a project folder may be moved without making everything again
        for room in ("schema", *rooms)
        for path in (PACKAGE / room).rglob("*")
        if path.suffix in (".py", ".j2", ".css", ".yaml", ".csv") and not {"__pycache__", "facts"} & set(path.parts)
    )
