"""One study of an invocation, expanded: what it is, its runs, and the document that later stages read."""

import csv
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.config.comparison import comparisons
from breakeven.config.load import closest, load_platform, load_study
from breakeven.config.machine import Machine, resolve
from breakeven.config.models import MeasuredStudy, MlperfStudy, PointsStudy
from breakeven.config.sweep import Cell, cells
from breakeven.config.workload import workload_title
from breakeven.config.yamlfile import YamlFile
from breakeven.head.rounds import ROUNDS, RoundPlan, Rounds
from breakeven.schema.catalog import WORKLOADS
from breakeven.schema.errors import UserError
from breakeven.schema.spec import slug

RUNS = "results/runs"
STUDIES = "results/studies"


# No repr: Snakemake takes that of every method that a rule names, and of a large plan it is megabytes.
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class StudyPlan:
    """One study, ready for rules: ``document`` is what its plan.json tells of it, figures apart."""

    name: str
    source: str
    workloads: dict[str, str]
    """Slug of each workload and its title."""
    document: dict[str, Any]
    cells: list[Cell] = field(default_factory=list)
    repeats: int = 0
    timeout_min: int = 0
    launcher: str = "auto"
    data_file: str | None = None
    """The file or folder of the user's own that its data are prepared from."""
    table: str | None = None
    """The user's timings."""
    round: str = ""
    """The round of published results."""
    benchmarks: dict[str, str] = field(default_factory=dict)
    """Slug of each workload and its benchmark's name, of published results."""
    family: str = ""
    watched: list[str] = field(default_factory=list)
    """Files and folders, apart from the study's own and the platform's, whose change may change the plan."""

    def round_table(self, name: str) -> str:
        """A table of the study's round."""
        return f"{ROUNDS}/{self.round}/{name}.csv"

    def steps(self) -> list[str]:
        return [record.replace("record.json", "steps.npz") for record in self.records()]

    def records(self) -> list[str]:
        runs = dict.fromkeys(cell.run_id for cell in self.cells)
        return [f"{RUNS}/{run}/r{repeat}/record.json" for run in runs for repeat in range(1, self.repeats + 1)]


def refuse_unknown_workloads(study: MlperfStudy, found: RoundPlan, file: YamlFile) -> None:
    """A typing error is found before anything runs: in a benchmark always, in a family or submitter where the facts
    that come with the project say what there is. Of other sources it shows when their results have been read."""
    rules = found.rules
    named: dict[str, str] = {}
    for name in study.workloads:
        benchmark = rules.benchmark(name)
        if benchmark is None:
            raise UserError(
                f"{file.where(['workloads', name])}: workloads: unknown benchmark '{name}' of round {rules.name}. "
                f"{closest(name, rules.benchmarks)}"
            )
        other = named.setdefault(benchmark.folder, name)
        if other != name:
            raise UserError(
                f"{file.where(['workloads', name])}: workloads: '{other}' and '{name}' are one benchmark of round "
                f"{rules.name}. Leave one out."
            )
    if found.source != "facts":
        return
    with Path(found.path).open(newline="") as table:
        rows = list(csv.DictReader(table))
    for name in study.workloads:
        benchmark = rules.benchmark(name)
        of_workload = [row for row in rows if benchmark and row["benchmark"] == benchmark.folder]
        if not of_workload:
            held = {row["benchmark"] for row in rows}
            raise UserError(
                f"{file.where(['workloads', name])}: workloads: the facts of round {rules.name} hold no result of "
                f"'{name}'. {closest(name, held)}"
            )
        families = {row["accelerator_family"] for row in of_workload}
        if study.family not in families:
            raise UserError(
                f"{file.where(['family'])}: family '{study.family}' has no result of '{name}' in round {rules.name}. "
                f"{closest(study.family, families)}"
            )
        submitters = {row["submitter"] for row in of_workload if row["accelerator_family"] == study.family}
        if study.submitter not in ("auto", *submitters):
            raise UserError(
                f"{file.where(['submitter'])}: submitter '{study.submitter}' has no result of '{name}' on "
                f"{study.family} in round {rules.name}. {closest(study.submitter, submitters)}"
            )


def table_titles(study: PointsStudy, name: str) -> list[str]:
    """The workloads in a user's table, read here so that what is wrong with it is said before anything runs."""
    # Only where there is such a study: pandas takes most of a second to import.
    from breakeven.points.elsewhere import read_timings
    from breakeven.points.table import refuse_mixtures

    timings = read_timings(Path(study.table), name, study.workload or name, study.device)
    refuse_mixtures(timings)
    return list(dict.fromkeys(timings["workload"]))


def expand(entry: str, name: str, rounds: Rounds, folder: Path) -> StudyPlan:
    """The study that an entry of the config names. Raises UserError for the first thing that cannot be."""
    study, file = load_study(entry, folder / "studies")
    place = str(file.path) if file else entry
    if isinstance(study, MeasuredStudy):
        return _measured(study, name, place, resolve(load_platform(study.platform, folder / "platforms")))
    if isinstance(study, MlperfStudy):
        assert file is not None  # only a table of timings is a study without a file
        return _published(study, name, file, rounds.named(study.round, file.where(["round"])))
    if not Path(study.table).is_file():
        where = file.where(["table"]) if file else place
        raise UserError(f"{where}: table {study.table}: no such file (paths start where you run snakemake).")
    titles = table_titles(study, name)
    workloads = _by_slug(titles, place)
    document = _document(study, name, place, titles)
    return StudyPlan(name=name, source=study.source, workloads=workloads, document=document, table=study.table)


def _measured(study: MeasuredStudy, name: str, place: str, machine: Machine) -> StudyPlan:
    found = cells(study, machine, place)
    titles = [workload_title(study.workload)]
    data = study.workload.data
    data_file = (data.file or data.folder or None) if data else None
    model = None if study.workload.model in WORKLOADS else study.workload.model
    document = _document(study, name, place, titles) | {
        "machine": dataclasses.asdict(machine) | {"device_word": machine.device_word},
        "repeats": study.repeats,
        "cells": [cell.to_dict() for cell in found],
        "comparisons": [one.to_dict() for one in comparisons(study, machine, found)],
    }
    return StudyPlan(
        name=name,
        source=study.source,
        workloads=_by_slug(titles, place),
        document=document,
        cells=found,
        repeats=study.repeats,
        timeout_min=study.timeout_min,
        launcher=study.launcher,
        data_file=data_file,
        watched=[path for path in (data_file, model) if path],
    )


def _published(study: MlperfStudy, name: str, file: YamlFile, found: RoundPlan) -> StudyPlan:
    refuse_unknown_workloads(study, found, file)
    scored = {found.rules.scored_as(name): title for name, title in study.workloads.items()}
    study = study.model_copy(update={"workloads": scored})
    titles = list(scored.values())
    return StudyPlan(
        name=name,
        source=study.source,
        workloads=_by_slug(titles, str(file.path)),
        document=_document(study, name, str(file.path), titles),
        round=study.round,
        benchmarks={slug(title): benchmark for benchmark, title in scored.items()},
        family=study.family,
    )


def _by_slug(titles: list[str], place: str) -> dict[str, str]:
    workloads = {slug(title): title for title in titles}
    if "" in workloads:
        raise UserError(f"{place}: the workload title '{workloads['']}' needs a letter or digit to name its folder.")
    if len(workloads) < len(titles):
        raise UserError(f"{place}: two workloads have the same title. Give each its own.")
    return workloads


def _document(
    study: MeasuredStudy | MlperfStudy | PointsStudy, name: str, place: str, titles: list[str]
) -> dict[str, Any]:
    return {
        "study": name,
        "title": study.title,
        "source": study.source,
        "config": place,
        "workloads": titles,
        "settings": study.model_dump(mode="json"),
        "machine": None,
        "repeats": None,
        "cells": [],
        "comparisons": [],
    }
