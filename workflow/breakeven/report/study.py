"""A study's folder as the report sees it: tables, a view per workload, figures, and what it is told about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from breakeven.figures.kinds import KINDS, kinds
from breakeven.figures.view import View, read_table, view, workloads
from breakeven.figures.words import DEVICE, listing
from breakeven.report.meta import StudyMeta, presumed
from breakeven.report.notices import notice
from breakeven.report.published import Round
from breakeven.schema.errors import UserError
from breakeven.schema.spec import slug

#: Tables that only some studies have.
_OPTIONAL = ("runs", "equivalence", "comparison")


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    folder: Path
    meta: StudyMeta
    tables: Mapping[str, pd.DataFrame]
    """By the file's name without its ending; those of ``_OPTIONAL`` may be missing."""
    views: tuple[View, ...]
    rounds: tuple[Round, ...] = ()
    """Of published results: the tables of the rounds."""

    @property
    def title(self) -> str:
        return self.meta.title

    @property
    def notice(self) -> str:
        return notice(self.meta)

    @property
    def absent(self) -> str:
        """Workloads of published results that the results at hand do not hold; "" for none."""
        there = {view.workload for view in self.views}
        gone = [title for title in self.meta.benchmarks if title not in there]
        family = self.meta.platform.get("family", "")
        on = f" on {family}" if family else ""
        return f"These results hold no scored submission of {listing(gone)}{on}." if gone else ""

    def drawn(self, workload: str) -> Mapping[str, Sequence[str]]:
        """Kinds of figures that the workload has, and the arguments that draw each."""
        planned = self.meta.figures.get(workload)
        if planned:
            return {kind: planned[kind] for kind in KINDS if kind in planned}
        compared = len(self.tables.get("comparison", ())) > 0
        return {kind: self._arguments(workload, kind) for kind in kinds("points", settings=compared)}

    @property
    def device(self) -> str:
        """The word for one device."""
        return next((curve.device for view in self.views for curve in view.curves), DEVICE)

    def _arguments(self, workload: str, kind: str) -> list[str]:
        """Of the kinds that are drawn from a study's own tables."""
        tables = [f"--{t}={(self.folder / 'tables' / t).as_posix()}.csv" for t in KINDS[kind].needs]
        device = ["--device", self.device] if kind == "settings" else []
        return ["--workload", workload, "--source", self.meta.source, *tables, *device]

    def round_table(self, round_name: str, table: str) -> Path:
        """``results/studies/<study>`` stands beside ``results/mlperf/<round>``."""
        return self.folder.parents[1] / "mlperf" / round_name / f"{table}.csv"

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
    study = Study(name, folder, meta.get(name, presumed(name)), tables, views)
    return replace(study, rounds=tuple(_round(study, of) for of in study.meta.rounds))


def _round(study: Study, name: str) -> Round:
    found = (read_table(study.round_table(name, table)) for table in ("scores", "anomalies", "critical_batch"))
    return Round(name, *found)


def read_studies(named: Sequence[tuple[str, Path]], meta: Mapping[str, StudyMeta]) -> list[Study]:
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"{', '.join(twice)}: given twice. Name each study once.")
    return [read_study(name, folder, meta) for name, folder in named]
