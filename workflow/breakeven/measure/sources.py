"""What the measured rooms are, as one digest: it stands in every record, and a test holds ``measure_version`` to it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

ROOMS = ("datasets", "workloads", "strategies", "measure")
PACKAGE = Path(__file__).resolve().parents[1]

#: One line per state of the sources: ``<digest> <measure_version> <reason>``.
LEDGER = Path(__file__).with_name("sources.txt")


def measured_sources_digest(package: Path = PACKAGE) -> str:
    """16 hex digits over the relative paths and bytes of every Python file in the measured rooms."""
    return sources_digest(ROOMS, package)


def sources_digest(rooms: Sequence[str], package: Path = PACKAGE) -> str:
    total = hashlib.sha256()
    for file in sorted(file for room in rooms for file in (package / room).rglob("*.py")):
        content = file.read_bytes()
        total.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()[:16]
