"""The whole plan of one invocation: every study expanded, every path known, before Snakemake builds its graph."""

import dataclasses
import random
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from snakemake.io import ancient

from breakeven.config.load import load_config, study_name
from breakeven.config.models import Config
from breakeven.config.places import Places
from breakeven.head.equivalence import TIMEOUT_MIN, checks
from breakeven.head.keep import Kept
from breakeven.head.rounds import RoundPlan, Rounds, rule_files
from breakeven.head.study import StudyPlan, expand
from breakeven.schema.catalog import OWN_DATA
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec, Workload, canonical_json, data_id, data_part, images_id, slug


# No repr: Snakemake takes that of every method that a rule names, and of a large plan it is megabytes.
@dataclass(frozen=True, repr=False)
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
        return self.specs[run] if run in self.specs else checks(self.config.check_platform).specs[run]

    def spec_json(self, run: str) -> str:
        return self.spec(run).to_json()

    def launcher(self, run: str) -> str:
        """How the run's ranks are started, as its study says."""
        return self.owner[run].launcher if run in self.owner else "auto"

    def timeout_min(self, run: str) -> int:
        return self.owner[run].timeout_min if run in self.owner else TIMEOUT_MIN

    def gpus(self, run: str) -> int | None:
        """GPUs to ask a batch system for; None (no such resource) for a run on CPU cores."""
        spec = self.spec(run)
        return spec.devices if spec.device_kind == "cuda" else None

    def data_path(self, run: str) -> str:
        return f"results/data/{self._data_id(self.spec(run).workload)}.npz"

    def run_inputs(self, wildcards: Any) -> dict[str, str]:
        """What a measured run reads. Ancient: the content is in the run's identity, its date means nothing."""
        spec = self.spec(wildcards.run_id)
        inputs = {"data": ancient(self.data_path(wildcards.run_id))}
        if is_hub(spec):
            inputs["model"] = ancient(model_dir(spec))
        if folder := images_dir(spec):
            inputs["images"] = ancient(folder)
        return inputs

    def data_inputs(self, wildcards: Any) -> dict[str, str]:
        """A fetched model brings its tokenizer, a hub's data set its images; nothing else is an input
        (workflow/rules/data.smk says why)."""
        spec = self.spec(self.run_of_data(wildcards.data_id))
        if folder := images_dir(spec):
            return {"images": ancient(folder)}
        needs_model = is_hub(spec) and data_part(spec.workload).model
        return {"model": ancient(model_dir(spec))} if needs_model else {}

    def data_arguments(self, name: str) -> str:
        """Quoted for the shell."""
        run = self.run_of_data(name)
        workload = self.spec(run).workload
        arguments = ["--workload", canonical_json(dataclasses.asdict(data_part(workload)))]
        own = run in self.owner and workload.data.name in OWN_DATA
        if own and (file := images_dir(self.spec(run)) or self.owner[run].data_file):
            arguments += ["--file", file]
        return shlex.join(arguments + self.model_arguments(run))

    def model_arguments(self, run: str) -> list[str]:
        folder = model_dir(self.spec(run))
        return ["--model-dir", folder] if folder else []

    def data_runs(self) -> dict[str, str]:
        """Each data id and one run that reads it."""
        return self._data_runs

    def run_of_data(self, name: str) -> str:
        """A run that reads these prepared data."""
        runs = self.data_runs()
        return runs[name] if name in runs else checks(self.config.check_platform).run_of_data(name)

    def hub_models(self) -> dict[str, list[str]]:
        """Folder name of each hub model, and the arguments that fetch it."""
        return self._hub_models

    def hub_images(self) -> dict[str, str]:
        """Folder name of each hub's data set, and what it is as JSON."""
        return self._hub_images

    def priority(self, run: str, repeat: int) -> int:
        """Blocked random order: all first repeats in random order, then all second ones. Higher runs first."""
        if run not in self.specs:
            return 0
        if repeat not in self._orders:
            shuffled = random.Random(f"{self.config.order_seed}-{repeat}")  # noqa: S311  an order, not a secret
            order = sorted(self.specs)
            shuffled.shuffle(order)
            self._orders[repeat] = {name: place for place, name in enumerate(order)}
        last = max(study.repeats for study in self.studies.values())
        return (last - repeat + 1) * len(self.specs) - self._orders[repeat][run]

    def _data_id(self, workload: Workload) -> str:
        """Found once for each of the few workloads that thousands of specs share."""
        if id(workload) not in self._data_ids:
            self._data_ids[id(workload)] = (data_id(workload), workload)
        return self._data_ids[id(workload)][0]

    @cached_property
    def _data_ids(self) -> dict[int, tuple[str, Workload]]:
        """The workload beside its data's id stays alive, so that no other gets its place."""
        return {}

    @cached_property
    def _orders(self) -> dict[int, dict[str, int]]:
        """Of each repeat asked for, the place of every run; found once, for Snakemake asks of every job."""
        return {}

    @cached_property
    def _data_runs(self) -> dict[str, str]:
        return {self._data_id(spec.workload): run for run, spec in self.specs.items()}

    @cached_property
    def _hub_models(self) -> dict[str, list[str]]:
        return {hub_folder(spec): fetch_arguments(spec.workload) for spec in self.specs.values() if is_hub(spec)}

    @cached_property
    def _hub_images(self) -> dict[str, str]:
        sources = {spec.workload.data for spec in self.specs.values() if spec.workload.data.hub}
        return {images_id(source): canonical_json(dataclasses.asdict(source)) for source in sources}


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


def images_dir(spec: Spec) -> str:
    """The folder a hub's images are fetched into; empty for other data."""
    return f"results/images/{images_id(spec.workload.data)}" if spec.workload.data.hub else ""


def make_plan(
    raw: Mapping[str, Any],
    config_files: Sequence[Path] = (Path("config/config.yaml"),),
    command_line: Mapping[str, Any] | None = None,
    kept: Kept | None = None,
) -> Plan:
    """Expand every study the config names. Raises UserError for the first thing that cannot be.

    ``raw``: the config as Snakemake merged it. ``config_files``: what it was merged from, the most binding first and
    the workflow's own last; ``command_line``: the keys of ``--config``; ``kept``: expansions of earlier invocations.
    """
    own = config_files[-1]
    places = Places.of(raw, config_files, command_line)
    config = load_config(raw, own, places)
    rounds = Rounds(config.mlperf, places)
    studies: dict[str, StudyPlan] = {}
    specs: dict[str, Spec] = {}
    owner: dict[str, StudyPlan] = {}
    new: list[tuple[str, StudyPlan]] = []
    for number, entry in enumerate(config.studies):
        name = study_name(entry)
        if name in studies:
            where = places.where(["studies", number])
            raise UserError(f"{where}: two entries of 'studies' are named '{name}'. Rename one of the files.")
        known = kept.study(entry, name, own.parent) if kept else None
        studies[name] = study = known or expand(entry, name, rounds, own.parent)
        if not known:
            new.append((entry, study))
        for cell in study.cells:
            specs[cell.run_id] = cell.spec
            # A run shared by studies is limited by the most patient of them.
            if cell.run_id not in owner or owner[cell.run_id].timeout_min < study.timeout_min:
                owner[cell.run_id] = study
    if kept:  # only now: of a config that is refused nothing is left behind
        for entry, study in new:
            kept.keep(entry, study, own.parent)
    return Plan(config, studies, specs, owner, rounds.found, rounds.rules_folder)
