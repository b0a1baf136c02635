"""Expansions of earlier invocations, kept for the next: a batch system's jobs each read the Snakefile again, and must
not expand the sweep again.

A kept expansion is taken only where nothing it was made of has changed; anything else about it that is not as it was
written makes it as if it were not there.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakeven.config.load import load_platform, study_path
from breakeven.config.machine import resolve
from breakeven.config.sweep import Cell
from breakeven.head.hooks import is_head
from breakeven.head.sources import PACKAGE
from breakeven.head.study import StudyPlan
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.spec import Json, Spec, Workload, canonical_json

FOLDER = Path("results/.plan")
#: Rooms and files whose code decides what a study is expanded to.
_CODE = ("schema", "config", "strategies", "head/study.py", "head/keep.py")


@dataclass(frozen=True, slots=True)
class Kept:
    folder: Path
    writes: bool
    """Off in the processes that Snakemake starts for single jobs: they come in dozens, and on other machines."""

    def study(self, entry: str, name: str, config: Path) -> StudyPlan | None:
        """The study as it was expanded from what lies there now; None where that is not kept."""
        try:
            checksum, content = (self.folder / f"{name}.json").read_text(encoding="utf-8").split("\n", 1)
            if checksum != _sha256(content.encode()):
                return None
            found = json.loads(content)
            if found["made_of"] != made_of(entry, found["platform"], found["study"]["watched"], config):
                return None
            return _revived(found["study"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError):
            return None

    def keep(self, entry: str, study: StudyPlan, config: Path) -> None:
        """Of a measured study: others are expanded in no time."""
        if not self.writes or study.source != "measured":
            return
        platform = study.document["settings"]["platform"]
        held = {name: getattr(study, name) for name in study.__slots__ if name != "cells"}
        content = canonical_json(
            {"platform": platform, "made_of": made_of(entry, platform, study.watched, config), "study": held}
        )
        with suppress(UserError):  # what cannot be kept is expanded again
            write_text(self.folder / f"{study.name}.json", f"{_sha256(content.encode())}\n{content}")


def kept(workflow: Any) -> Kept:
    return Kept(FOLDER, writes=is_head(workflow))


def made_of(entry: str, platform: str, watched: list[str], config: Path) -> Json:
    """All that an expansion depends on, as JSON."""
    return {
        "code": code_digest(),
        "study": _sha256(study_path(entry, config / "studies").read_bytes()),
        "machine": dataclasses.asdict(resolve(load_platform(platform, config / "platforms"))),
        "watched": {path: state(Path(path)) for path in watched},
    }


@functools.cache
def code_digest() -> str:
    total = hashlib.sha256()
    for name in _CODE:
        place = PACKAGE / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            total.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def state(path: Path) -> str:
    """What a file or folder looks like from outside: sizes and dates of all there is, no content. Empty: nothing."""
    if not path.is_dir():
        return _look(path)
    total = hashlib.sha256()
    for line in _below(path):
        total.update(line.encode(errors="surrogateescape"))
    return total.hexdigest()


def _below(path: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            file = os.path.join(folder, name)
            yield f"{file}\0{_look(Path(file))}\n"


def _look(path: Path) -> str:
    try:
        seen = path.stat()
    except OSError:
        return ""
    return f"{seen.st_size} {seen.st_mtime_ns}"


def _revived(held: Json) -> StudyPlan:
    known: list[tuple[Json, Workload]] = []  # a study has few, and its cells share them

    def workload(raw: Json) -> Workload:
        if found := next((made for other, made in known if other == raw), None):
            return found
        known.append((raw, Workload.from_dict(raw)))
        return known[-1][1]

    def cell(raw: Json) -> Cell:
        return Cell(**{**raw, "spec": Spec(**{**raw["spec"], "workload": workload(raw["spec"]["workload"])})})

    return StudyPlan(**held, cells=[cell(raw) for raw in held["document"]["cells"]])


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
