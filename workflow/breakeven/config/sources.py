"""What a workload trains on, as a spec holds it: found, counted and pinned before anything runs."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from breakeven.config.load import closest
from breakeven.config.models import Data, WorkloadConfig
from breakeven.schema.catalog import DATASETS, OWN_DATA, WORKLOADS, Objective
from breakeven.schema.errors import UserError
from breakeven.schema.imagefolder import list_images
from breakeven.schema.spec import DataSource


@dataclass(frozen=True, slots=True)
class Source:
    data: DataSource
    objective: Objective
    """What such data are for."""
    samples: int | None
    """In the training split; None where only the prepared data tell."""


def find_source(config: WorkloadConfig, place: str) -> Source:
    """Raises UserError where there are no such data, or the model cannot be trained on them."""
    meta = WORKLOADS.get(config.model)
    if config.data is None:
        if meta is None:
            raise UserError(
                f"{place}: workload.data is missing: name a JSONL file of text (data: {{file: my.jsonl}}) or a folder "
                "of images (data: {folder: my-images})."
            )
        return bundled(meta.data, f"{place}: workload.data.name")
    found = _found(config.data, place)
    if meta and found.objective != meta.objective:
        raise UserError(
            f"{place}: workload.data is for {found.objective}, model '{config.model}' for {meta.objective}. "
            f"Leave it out to train on '{meta.data}'."
        )
    return found


def _found(config: Data, place: str) -> Source:
    if config.file:
        path = Path(config.file)
        if not path.is_file():
            raise UserError(f"{place}: workload.data.file: {path}: no such file (paths start where you run snakemake).")
        with path.open("rb") as file:
            samples = sum(1 for line in file if line.strip())
        return Source(DataSource(name="jsonl", sha256=file_digest(path)), OWN_DATA["jsonl"], samples)
    if config.folder:
        try:
            images = list_images(Path(config.folder))
        except UserError as error:
            raise UserError(f"{place}: workload.data.folder: {error} Paths start where you run snakemake.") from None
        data = DataSource(name="folder", sha256=images.sha256, samples=config.samples)
        count = images.training_samples
        return Source(data, OWN_DATA["folder"], min(count, config.samples or count))
    if config.hub:
        data = DataSource(
            name="hub",
            hub=config.hub,
            revision=config.revision,
            image=config.image,
            label=config.label,
            train=config.train,
            test=config.test,
            samples=config.samples,
        )
        return Source(data, OWN_DATA["hub"], None)
    return bundled(config.name, f"{place}: workload.data.name")


def bundled(name: str, where: str) -> Source:
    """A data set that comes with the project."""
    dataset = DATASETS.get(name)
    if dataset is None:
        raise UserError(f"{where} '{name}' is unknown. {closest(name, DATASETS)}")
    return Source(DataSource(name=name), dataset.objective, dataset.samples)


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
