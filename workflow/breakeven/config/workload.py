"""A study's workload: which model on which data, named, pinned by content, and checked to go together."""

import json
from pathlib import Path

from breakeven.config.cell import Ground
from breakeven.config.load import closest
from breakeven.config.machine import Machine
from breakeven.config.models import WorkloadConfig
from breakeven.config.sources import Source, file_digest, find_source
from breakeven.schema.catalog import TECHNIQUES, WORKLOADS, Objective
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json, Workload, digest


def workload_title(workload: WorkloadConfig) -> str:
    if workload.title:
        return workload.title
    meta = WORKLOADS.get(workload.model)
    name = meta.title if meta else workload.model.rstrip("/").rsplit("/", 1)[-1]
    return name if workload.technique == "full" else f"{name} + {TECHNIQUES[workload.technique].title}"


def ground_of(config: WorkloadConfig, machine: Machine, place: str) -> Ground:
    """Raises UserError for a model, technique or data that cannot be, or not together."""
    meta = WORKLOADS.get(config.model)
    revision = _revision(config, place)
    source = find_source(config, place)
    model = {**meta.defaults, **config.config} if meta else _folder_config(Path(config.model), place)
    _refuse_other_objective(config.model, model, source.objective, place)
    return Ground(
        workload=_resolved(config, source, model, revision, place),
        objective=source.objective,
        family=config.model if meta else model.get("model_type"),
        model=model,
        samples=source.samples,
        machine=machine,
    )


def _refuse_other_objective(name: str, model: Json, objective: Objective, place: str) -> None:
    """A model of one's own is for what its data are for; its config may tell that it is not."""
    for architecture in model.get("architectures") or []:
        other = {"ForCausalLM": "causal-lm", "ForImageClassification": "image-classification"}
        for suffix, found in other.items():
            if str(architecture).endswith(suffix) and found != objective:
                raise UserError(
                    f"{place}: workload.data is for {objective}, model '{name}' ({architecture}) for {found}."
                )


def _folder_config(folder: Path, place: str) -> Json:
    """Of a folder of weights; empty for a model that is not there yet."""
    if not folder.is_dir():
        return {}
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{place}: workload.model: {folder}/config.json cannot be read ({error}).") from None
    return found if isinstance(found, dict) else {}


def _resolved(config: WorkloadConfig, source: Source, model: Json, revision: str | None, place: str) -> Workload:
    """The workload with its defaults filled. ``model``: what is known of the model's config."""
    technique = TECHNIQUES.get(config.technique)
    if technique is None:
        raise UserError(
            f"{place}: workload.technique '{config.technique}' is unknown. {closest(config.technique, TECHNIQUES)}"
        )
    for option in config.technique_options:
        if option not in technique.options:
            raise UserError(
                f"{place}: workload.technique_options: unknown key '{option}'. {closest(option, technique.options)}"
            )
    meta = WORKLOADS.get(config.model)
    objective = source.objective
    if objective not in technique.objectives:
        raise UserError(
            f"{place}: technique '{config.technique}' does not apply to model '{config.model}' ({objective})."
        )
    for key in config.config:
        if meta and key not in meta.config_keys:
            raise UserError(
                f"{place}: workload.config: '{config.model}' has no key '{key}'. {closest(key, meta.config_keys)}"
            )
    if objective == "causal-lm" and config.image_size is not None:
        raise UserError(f"{place}: workload.image_size is for image models; '{config.model}' takes sequence_length.")
    if objective == "image-classification" and config.sequence_length is not None:
        raise UserError(f"{place}: workload.sequence_length is for language models; '{config.model}' takes image_size.")
    return Workload(
        model=config.model,
        revision=revision,
        config=config.config,
        technique=config.technique,
        technique_options=config.technique_options,
        data=source.data,
        sequence_length=(config.sequence_length or 128) if objective == "causal-lm" else None,
        image_size=_image_size(config, model) if objective == "image-classification" else None,
        trust_remote_code=config.trust_remote_code,
    )


def _revision(config: WorkloadConfig, place: str) -> str | None:
    if config.model in WORKLOADS:
        return None
    folder = Path(config.model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise UserError(
                f"{place}: workload.model: folder '{folder}' holds no config.json, so it is no model folder."
            )
        # Weights may be many GB: their size and the config's content tell one folder from another.
        files = {
            path.relative_to(folder).as_posix(): file_digest(path)
            if path.suffix == ".json"
            else str(path.stat().st_size)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        return f"folder-{digest(files)}"
    parts = config.model.split("/")
    if len(parts) == 2 and all(parts) and not config.model.startswith((".", "~")):
        revision = config.revision or ""
        if len(revision) != 40 or any(c not in "0123456789abcdef" for c in revision):
            raise UserError(
                f"{place}: workload.revision: a hub model is pinned by the commit it is at (40 hex digits); "
                f"found {config.revision!r}. The hub shows it under 'Files', 'History'."
            )
        return revision
    raise UserError(
        f"{place}: workload.model '{config.model}' is no family, no hub id (org/name) and no folder. "
        f"{closest(config.model, WORKLOADS)}"
    )


def _image_size(config: WorkloadConfig, model: Json) -> int:
    if config.image_size is not None:
        return config.image_size
    if config.model in WORKLOADS:
        return 32
    own = model.get("image_size")
    return own if isinstance(own, int) else 224
