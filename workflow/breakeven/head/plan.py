"""The whole plan of one invocation: every study expanded, every path known, before Snakemake builds its graph."""

import csv
import dataclasses
import random
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake.io import ancient

from breakeven.config.load import closest, load_config, load_platform, load_study, study_name
from breakeven.config.machine import Machine, resolve
from breakeven.config.models import Config, MeasuredStudy, MlperfStudy, PointsStudy
from breakeven.config.places import Places
from breakeven.config.sweep import Cell, cells, workload_title
from breakeven.config.yamlfile import YamlFile
from breakeven.head.equivalence import TIMEOUT_MIN, checks
from breakeven.head.rounds import ROUNDS, RoundPlan, Rounds, rule_files
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec, Workload, canonical_json, data_id, data_part, slug

RUNS = "results/runs"
STUDIES = "results/studies"


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """One study, ready for rules: ``document`` is what its plan.json tells of it, figures apart."""

    name: str
    source: str
    workloads: dict[str, str]
    """Slug of each workload and its title."""
    document: dict[str, Any]
    cells: list[Cell]
    repeats: int
    timeout_min: int
    data_file: str | None
    model: str
    table: str | None
    round: str = ""
    """The round of published results."""
    benchmarks: dict[str, str] = field(default_factory=dict)
    """Slug of each workload and its benchmark's name, of published results."""
    family: str = ""

    def round_table(self, name: str) -> str:
        """A table of the study's round."""
        return f"{ROUNDS}/{self.round}/{name}.csv"

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
    rounds: dict[str, RoundPlan] = field(default_factory=dict)
    rules_folder: Path | None = None
    """Rule files of the user's own."""

    def rounds_from(self, *kinds: str) -> str:
        """A regular expression that matches the rounds whose results come from there, and nothing else."""
        return "|".join(re.escape(name) for name, found in self.rounds.items() if found.source in kinds) or "(?!)"

    def rule_files(self) -> list[str]:
        return rule_files(self.rules_folder)

    def rules_arguments(self) -> list[str]:
        return [f"--rules={self.rules_folder}"] if self.rules_folder else []

    def extract_arguments(self, wildcards: Any) -> list[str]:
        found = self.rounds[wildcards.round]
        of = [f"--repository={found.repository}", f"--commit={found.commit}"] if found.commit else []
        return [*of, *self.rules_arguments()]

    def of(self, source: str) -> list[StudyPlan]:
        return [study for study in self.studies.values() if study.source == source]

    def pattern(self, source: str) -> str:
        """A regular expression that matches the names of the studies of one source and nothing else."""
        return "|".join(re.escape(study.name) for study in self.of(source)) or "(?!)"

    def spec(self, run: str) -> Spec:
        """Of a study's run, or of one that the equivalence table asks for and no study."""
        return self.specs[run] if run in self.specs else checks().specs[run]

    def spec_json(self, run: str) -> str:
        return self.spec(run).to_json()

    def timeout_min(self, run: str) -> int:
        return self.owner[run].timeout_min if run in self.owner else TIMEOUT_MIN

    def gpus(self, run: str) -> int | None:
        """GPUs to ask a batch system for; None (no such resource) for a run on CPU cores."""
        spec = self.spec(run)
        return spec.devices if spec.device_kind == "cuda" else None

    def data_path(self, run: str) -> str:
        return f"results/data/{data_id(self.spec(run).workload)}.npz"

    def run_inputs(self, wildcards: Any) -> dict[str, str]:
        """What a measured run reads. Ancient: the content is in the run's identity, its date means nothing."""
        spec = self.spec(wildcards.run_id)
        inputs = {"data": ancient(self.data_path(wildcards.run_id))}
        if is_hub(spec):
            inputs["model"] = ancient(model_dir(spec))
        return inputs

    def data_inputs(self, wildcards: Any) -> dict[str, str]:
        """A fetched model brings its tokenizer; nothing else is an input (workflow/rules/data.smk says why)."""
        spec = self.spec(self.run_of_data(wildcards.data_id))
        return {"model": ancient(model_dir(spec))} if is_hub(spec) else {}

    def data_arguments(self, name: str) -> str:
        """Quoted for the shell."""
        run = self.run_of_data(name)
        arguments = ["--workload", canonical_json(dataclasses.asdict(data_part(self.spec(run).workload)))]
        if run in self.owner and (file := self.owner[run].data_file):
            arguments += ["--file", file]
        return shlex.join(arguments + self.model_arguments(run))

    def model_arguments(self, run: str) -> list[str]:
        folder = model_dir(self.spec(run))
        return ["--model-dir", folder] if folder else []

    def data_runs(self) -> dict[str, str]:
        """Each data id and one run that reads it."""
        return {data_id(spec.workload): run for run, spec in self.specs.items()}

    def run_of_data(self, name: str) -> str:
        """A run that reads these prepared data."""
        runs = self.data_runs()
        return runs[name] if name in runs else checks().run_of_data(name)

    def hub_models(self) -> dict[str, list[str]]:
        """Folder name of each hub model, and the arguments that fetch it."""
        return {hub_folder(spec): fetch_arguments(spec.workload) for spec in self.specs.values() if is_hub(spec)}

    def priority(self, run: str, repeat: int) -> int:
        """Blocked random order: all first repeats in random order, then all second ones. Higher runs first."""
        if run not in self.specs:
            return 0
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


def make_plan(
    raw: Mapping[str, Any],
    config_files: Sequence[Path] = (Path("config/config.yaml"),),
    command_line: Mapping[str, Any] | None = None,
) -> Plan:
    """Expand every study the config names. Raises UserError for the first thing that cannot be.

    ``raw``: the config as Snakemake merged it. ``config_files``: what it was merged from, the most binding first and
    the workflow's own last; ``command_line``: the keys of ``--config``.
    """
    own = config_files[-1]
    places = Places.of(raw, config_files, command_line)
    config = load_config(raw, own, places)
    rounds = Rounds(config.mlperf, places)
    studies: dict[str, StudyPlan] = {}
    specs: dict[str, Spec] = {}
    owner: dict[str, StudyPlan] = {}
    for number, entry in enumerate(config.studies):
        name = study_name(entry)
        if name in studies:
            where = places.where(["studies", number])
            raise UserError(f"{where}: two entries of 'studies' are named '{name}'. Rename one of the files.")
        studies[name] = study = _expand(entry, name, rounds, own.parent)
        for cell in study.cells:
            specs[cell.run_id] = cell.spec
            # A run shared by studies is limited by the most patient of them.
            if cell.run_id not in owner or owner[cell.run_id].timeout_min < study.timeout_min:
                owner[cell.run_id] = study
    return Plan(config, studies, specs, owner, rounds.found, rounds.rules_folder)


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


def _expand(entry: str, name: str, rounds: Rounds, folder: Path) -> StudyPlan:
    study, file = load_study(entry, folder / "studies")
    place = str(file.path) if file else entry
    machine: Machine | None = None
    found: list[Cell] = []
    if isinstance(study, MeasuredStudy):
        machine = resolve(load_platform(study.platform, folder / "platforms"))
        found = cells(study, machine, place)
        titles = [workload_title(study.workload)]
    elif isinstance(study, MlperfStudy):
        assert file is not None  # only a table of timings is a study without a file
        found_round = rounds.named(study.round, file.where(["round"]))
        refuse_unknown_workloads(study, found_round, file)
        scored = {found_round.rules.scored_as(name): title for name, title in study.workloads.items()}
        study = study.model_copy(update={"workloads": scored})
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
        document=document,
        cells=found,
        repeats=study.repeats if isinstance(study, MeasuredStudy) else 0,
        timeout_min=study.timeout_min if isinstance(study, MeasuredStudy) else 0,
        data_file=(study.workload.data.file or None)
        if isinstance(study, MeasuredStudy) and study.workload.data
        else None,
        model=study.workload.model if isinstance(study, MeasuredStudy) else "",
        table=study.table if isinstance(study, PointsStudy) else None,
        round=study.round if isinstance(study, MlperfStudy) else "",
        benchmarks={slug(title): name for name, title in study.workloads.items()}
        if isinstance(study, MlperfStudy)
        else {},
        family=study.family if isinstance(study, MlperfStudy) else "",
    )
