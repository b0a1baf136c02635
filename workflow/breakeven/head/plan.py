"""The whole plan of one invocation: every study expanded, every path known, before Snakemake builds its graph."""

import csv
import dataclasses
import json
import os
import random
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake.io import ancient

from breakeven.config.load import closest, load_config, load_platform, load_study, study_name
from breakeven.config.machine import Machine, resolve
from breakeven.config.models import Config, MeasuredStudy, MlperfStudy, PointsStudy
from breakeven.config.sweep import Cell, cells, workload_title
from breakeven.head.sources import PACKAGE
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec, Workload, canonical_json, data_id, data_part, slug

RUNS = "results/runs"
STUDIES = "results/studies"


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """One study, ready for rules: ``document`` is the text of its plan.json."""

    name: str
    source: str
    workloads: dict[str, str]
    """Slug of each workload and its title."""
    document: str
    cells: list[Cell]
    repeats: int
    timeout_min: int
    data_file: str | None
    model: str
    table: str | None
    facts: str | None

    def steps(self) -> list[str]:
        return [record.replace("record.json", "steps.npz") for record in self.records()]

    def records(self) -> list[str]:
        runs = dict.fromkeys(cell.run_id for cell in self.cells)
        return [f"{RUNS}/{run}/r{repeat}/record.json" for run in runs for repeat in range(1, self.repeats + 1)]


@dataclass(frozen=True, slots=True)
class Plan:
    """What rules look things up in. ``specs`` maps a run id to its spec, ``owner`` to the study that asks first."""

    config: Config
    studies: dict[str, StudyPlan]
    specs: dict[str, Spec]
    owner: dict[str, StudyPlan]

    def of(self, source: str) -> list[StudyPlan]:
        return [study for study in self.studies.values() if study.source == source]

    def pattern(self, source: str) -> str:
        """A regular expression that matches the names of the studies of one source and nothing else."""
        return "|".join(re.escape(study.name) for study in self.of(source)) or "(?!)"

    def spec_json(self, run: str) -> str:
        return self.specs[run].to_json()

    def timeout_min(self, run: str) -> int:
        return self.owner[run].timeout_min

    def gpus(self, run: str) -> int | None:
        """GPUs to ask a batch system for; None (no such resource) for a run on CPU cores."""
        spec = self.specs[run]
        return spec.devices if spec.device_kind == "cuda" else None

    def data_path(self, run: str) -> str:
        return f"results/data/{data_id(self.specs[run].workload)}.npz"

    def run_inputs(self, wildcards: Any) -> dict[str, str]:
        """What a measured run reads. Ancient: the content is in the run's identity, its date means nothing."""
        spec = self.specs[wildcards.run_id]
        inputs = {"data": ancient(self.data_path(wildcards.run_id))}
        if is_hub(spec):
            inputs["model"] = ancient(model_dir(spec))
        return inputs

    def data_inputs(self, wildcards: Any) -> dict[str, str]:
        """A fetched model brings its tokenizer; nothing else is an input (workflow/rules/data.smk says why)."""
        spec = self.specs[self.data_runs()[wildcards.data_id]]
        return {"model": ancient(model_dir(spec))} if is_hub(spec) else {}

    def data_arguments(self, name: str) -> str:
        """Quoted for the shell."""
        run = self.data_runs()[name]
        arguments = ["--workload", canonical_json(dataclasses.asdict(data_part(self.specs[run].workload)))]
        if file := self.owner[run].data_file:
            arguments += ["--file", file]
        return shlex.join(arguments + self.model_arguments(run))

    def model_arguments(self, run: str) -> list[str]:
        folder = model_dir(self.specs[run])
        return ["--model-dir", folder] if folder else []

    def data_runs(self) -> dict[str, str]:
        """Each data id and one run that reads it."""
        return {data_id(spec.workload): run for run, spec in self.specs.items()}

    def hub_models(self) -> dict[str, list[str]]:
        """Folder name of each hub model, and the arguments that fetch it."""
        return {hub_folder(spec): fetch_arguments(spec.workload) for spec in self.specs.values() if is_hub(spec)}

    def priority(self, run: str, repeat: int) -> int:
        """Blocked random order: all first repeats in random order, then all second ones. Higher runs first."""
        shuffled = random.Random(f"{self.config.order_seed}-{repeat}")  # noqa: S311  an order, not a secret
        order = sorted(self.specs)
        shuffled.shuffle(order)
        last = max(study.repeats for study in self.studies.values())
        return (last - repeat) * len(order) + len(order) - order.index(run)


def is_hub(spec: Spec) -> bool:
    return len(spec.workload.revision or "") == 40


def fetch_arguments(workload: Workload) -> list[str]:
    arguments = ["--model", workload.model, "--revision", workload.revision or ""]
    return [*arguments, "--remote-code"] if workload.trust_remote_code else arguments


def hub_folder(spec: Spec) -> str:
    return f"{slug(spec.workload.model)}-{(spec.workload.revision or '')[:12]}"


def model_dir(spec: Spec) -> str:
    """The folder of the model's files: the user's own, the fetched one, or none where a config is enough."""
    if is_hub(spec):
        return f"results/models/{hub_folder(spec)}"
    return spec.workload.model if (spec.workload.revision or "").startswith("folder-") else ""


def make_plan(raw: Mapping[str, Any], config_file: Path = Path("config/config.yaml")) -> Plan:
    """Expand every study the config names. Raises UserError for the first thing that cannot be."""
    config = load_config(raw, config_file)
    studies: dict[str, StudyPlan] = {}
    specs: dict[str, Spec] = {}
    owner: dict[str, StudyPlan] = {}
    for entry in config.studies:
        name = study_name(entry)
        if name in studies:
            raise UserError(f"{config_file}: two entries of 'studies' are named '{name}'. Rename one of the files.")
        studies[name] = study = _expand(entry, name, config, config_file.parent)
        for cell in study.cells:
            specs[cell.run_id] = cell.spec
            # A run shared by studies is limited by the most patient of them.
            if cell.run_id not in owner or owner[cell.run_id].timeout_min < study.timeout_min:
                owner[cell.run_id] = study
    return Plan(config, studies, specs, owner)


def facts_path(study: MlperfStudy) -> Path:
    return PACKAGE / "mlperf" / "facts" / f"{study.round}_runs.csv"


def refuse_unknown_facts(study: MlperfStudy, place: str) -> None:
    """Benchmarks and families are what the round's facts hold, so a typing error is found before anything runs."""
    with facts_path(study).open(newline="") as file:
        held = {(row["benchmark"], row["accelerator_family"]) for row in csv.DictReader(file)}
    for benchmark in study.workloads:
        if benchmark not in (known := {name for name, _ in held}):
            raise UserError(f"{place}: workloads: unknown benchmark '{benchmark}'. {closest(benchmark, known)}")
        if study.family not in (families := {family for name, family in held if name == benchmark}):
            raise UserError(
                f"{place}: family '{study.family}' has no result of '{benchmark}'. {closest(study.family, families)}"
            )


def table_titles(study: PointsStudy, name: str) -> list[str]:
    """The workloads in a user's table, read here so that what is wrong with it is said before anything runs."""
    # Only where there is such a study: pandas takes most of a second to import.
    from breakeven.points.elsewhere import read_timings
    from breakeven.points.table import refuse_mixtures

    timings = read_timings(Path(study.table), name, study.workload or name, study.device)
    refuse_mixtures(timings)
    return list(dict.fromkeys(timings["workload"]))


def _expand(entry: str, name: str, config: Config, folder: Path) -> StudyPlan:
    study, file = load_study(entry, folder / "studies")
    place = str(file.path) if file else entry
    machine: Machine | None = None
    found: list[Cell] = []
    if isinstance(study, MeasuredStudy):
        machine = resolve(load_platform(study.platform, folder / "platforms"))
        found = cells(study, machine, place)
        titles = [workload_title(study.workload)]
    elif isinstance(study, MlperfStudy):
        refuse_unknown_facts(study, place)
        titles = list(study.workloads.values())
    else:
        if not Path(study.table).is_file():
            where = file.where(["table"]) if file else place
            raise UserError(f"{where}: table {study.table}: no such file (paths start where you run snakemake).")
        titles = table_titles(study, name)
    workloads = {slug(title): title for title in titles}
    if "" in workloads:
        raise UserError(f"{place}: the workload title '{workloads['']}' needs a letter or digit to name its folder.")
    if len(workloads) < len(titles):
        raise UserError(f"{place}: two workloads have the same title. Give each its own.")
    document = {
        "study": name,
        "title": study.title,
        "source": study.source,
        "config": place,
        "workloads": titles,
        "settings": study.model_dump(mode="json"),
        "machine": dataclasses.asdict(machine) | {"device_word": machine.device_word} if machine else None,
        "repeats": study.repeats if isinstance(study, MeasuredStudy) else None,
        "cells": [dataclasses.asdict(cell) for cell in found],
    }
    return StudyPlan(
        name=name,
        source=study.source,
        workloads=workloads,
        document=json.dumps(document, indent=1, sort_keys=True) + "\n",
        cells=found,
        repeats=study.repeats if isinstance(study, MeasuredStudy) else 0,
        timeout_min=study.timeout_min if isinstance(study, MeasuredStudy) else 0,
        data_file=(study.workload.data.file or None)
        if isinstance(study, MeasuredStudy) and study.workload.data
        else None,
        model=study.workload.model if isinstance(study, MeasuredStudy) else "",
        table=study.table if isinstance(study, PointsStudy) else None,
        facts=os.path.relpath(facts_path(study)) if isinstance(study, MlperfStudy) else None,
    )
