"""A study's folder as the report sees it: tables, a view per workload, figures, and what it is told about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from breakeven.figures.view import View, read_table, view, workloads
from breakeven.report.meta import StudyMeta, presumed
from breakeven.report.notices import notice
from breakeven.schema.errors import UserError
from breakeven.schema.spec import slug

#: Tables that only some studies have.
_OPTIONAL = ("runs", "equivalence", "anomalies")
KINDS = ("time", "efficiency")


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    folder: Path
    meta: StudyMeta
    tables: Mapping[str, pd.DataFrame]
    """By the file's name without its ending; those of ``_OPTIONAL`` may be missing."""
    views: tuple[View, ...]

    @property
    def title(self) -> str:
        return self.meta.title

    @property
    def notice(self) -> str:
        return notice(self.meta)

    def figure(self, workload: str, kind: str) -> Path:
        return self.folder / "figures" / slug(workload) / f"{kind}.svg"


def read_study(name: str, folder: Path, meta: Mapping[str, StudyMeta]) -> Study:
    tables = {key: read_table(folder / "tables" / f"{key}.csv") for key in ("points", "efficiency", "breakeven")}
    for key in _OPTIONAL:
        path = folder / "tables" / f"{key}.csv"
        if path.exists():
            tables[key] = read_table(path)
    titles = workloads(tables["efficiency"])
    views = tuple(view(w, tables["points"], tables["efficiency"], tables["breakeven"]) for w in titles)
    return Study(name, folder, meta.get(name, presumed(name)), tables, views)


def read_studies(named: Sequence[tuple[str, Path]], meta: Mapping[str, StudyMeta]) -> list[Study]:
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"{', '.join(twice)}: given twice. Name each study once.")
    return [read_study(name, folder, meta) for name, folder in named]
