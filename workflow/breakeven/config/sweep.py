"""A measured study to cells: every combination of the sweep, checked before anything runs."""

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from breakeven.config.load import closest, explain
from breakeven.config.machine import Machine
from breakeven.config.models import MeasuredStudy, RunSettings, Sweep, WorkloadConfig
from breakeven.config.series import differing, held_equal, series_names
from breakeven.schema.catalog import DATASETS, TECHNIQUES, WORKLOADS, Objective
from breakeven.schema.errors import UserError
from breakeven.schema.point import Scaling
from breakeven.schema.spec import DataSource, Json, Spec, Workload, digest, run_id, slug
from breakeven.schema.strategies import Product, find_strategy

#: Far more than anyone measures, and still planned in seconds.
MAX_CELLS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A spec and its place in a study: the same run may be a cell of several studies and series."""

    run_id: str
    spec: Spec
    series: str
    scaling: Scaling
    sweep: str


def cells(study: MeasuredStudy, machine: Machine, place: str) -> list[Cell]:
    """Every cell of a study, in the file's order. ``place`` is the study's file, for messages.

    Raises UserError naming study, sweep and row for the first cell that cannot be.
    """
    _refuse_unknown_excludes(study.exclude, place)
    _refuse_too_many(study, machine, place)
    workload = resolve_workload(study.workload, place)
    title = workload_title(study.workload)
    if not slug(title):
        raise UserError(f"{place}: workload.title is missing: the model's own name '{title}' has no letter or digit.")
    placed: list[tuple[str, Spec, Scaling]] = []
    matched = [0] * len(study.exclude)
    for name in study.sweeps:
        placed += [(name, *found) for found in _sweep(study, name, workload, machine, place, matched)]
    for rule, count in zip(study.exclude, matched, strict=True):
        if not count:
            raise UserError(f"{place}: 'exclude' row {rule} matches no cell. Remove it or mend its values.")
    names = series_names(title, [(spec, scaling) for _, spec, scaling in placed])
    result: dict[tuple[str, str], Cell] = {}
    for (sweep_name, spec, scaling), series in zip(placed, names, strict=True):
        cell = Cell(run_id=run_id(spec), spec=spec, series=series, scaling=scaling, sweep=sweep_name)
        result.setdefault((cell.run_id, cell.series), cell)
    refuse_mixed_series(result.values(), place)
    return list(result.values())


def _sweep(
    study: MeasuredStudy, name: str, workload: Workload, machine: Machine, place: str, matched: list[int]
) -> list[tuple[Spec, Scaling]]:
    """The cells of one sweep; ``matched`` counts the hits of every 'exclude' row."""
    sweep = study.sweeps[name]
    rows = list(_rows(study, name, sweep, machine, place))
    kept = [(row, settings) for row, settings in rows if not _excluded(settings, study.exclude, matched)]
    if not kept:
        why = "'exclude' leaves no cell of it." if rows else "a list in it has no value."
        raise UserError(f"{place}: sweep '{name}' is empty: {why}")
    return [
        (
            _spec(settings, sweep, workload, machine, f"{place}: sweep '{name}', {row}"),
            "strong" if settings.global_batch is not None else "weak",
        )
        for row, settings in kept
    ]


def refuse_mixed_series(found: Iterable[Cell], place: str) -> None:
    """Names tell apart what differs; where two settings read the same in a name, their curves would be one."""
    first: dict[str, Cell] = {}
    for cell in found:
        if not cell.spec.timed:
            continue
        other = first.setdefault(cell.series, cell)
        mine, its = held_equal(cell.spec, cell.scaling), held_equal(other.spec, other.scaling)
        for key in differing(mine, its):
            raise UserError(
                f"{place}: series '{cell.series}' mixes {key} {its[key]!r} (sweep '{other.sweep}', "
                f"{other.spec.devices} devices) and {mine[key]!r} (sweep '{cell.sweep}', {cell.spec.devices} devices). "
                "Give both the same, or put one in a study of its own."
            )


def _refuse_unknown_excludes(exclude: list[Json], place: str) -> None:
    for number, rule in enumerate(exclude, 1):
        for key in rule:
            if key not in RunSettings.model_fields:
                hint = closest(key, RunSettings.model_fields)
                raise UserError(f"{place}: 'exclude' row {number}: unknown key '{key}'. {hint}")


def _refuse_too_many(study: MeasuredStudy, machine: Machine, place: str) -> None:
    """Counted before anything is expanded: a product of lists outgrows memory with a few keys."""
    default = study.defaults.get("devices", "auto")
    auto = len(powers_of_two(min(study.max_devices, machine.devices)))
    total = 0
    for name, sweep in study.sweeps.items():
        total += _size(sweep, default, auto)
        if total > MAX_CELLS:
            raise UserError(
                f"{place}: sweep '{name}' brings the study to {total} cells ('exclude' not counted); at most "
                f"{MAX_CELLS} are planned. Shorten a list, or split the study."
            )


def _size(sweep: Sweep, default: Any, auto: int) -> int:
    """Cells of a sweep, where ``devices: auto`` stands for ``auto`` counts and ``default`` for a missing key."""
    if sweep.grid is None:
        return sum(auto if case.get("devices", default) == "auto" else 1 for case in sweep.cases or [])
    axes = {"devices": [default]} | _axes(sweep.grid)
    counts = sum(auto if devices == "auto" else 1 for devices in axes.pop("devices"))
    return counts * math.prod(len(values) for values in axes.values())


def _axes(grid: Json) -> dict[str, list[Any]]:
    """A grid's lists; a lone value is a list of one."""
    return {key: value if isinstance(value, list) else [value] for key, value in grid.items()}


def workload_title(workload: WorkloadConfig) -> str:
    if workload.title:
        return workload.title
    meta = WORKLOADS.get(workload.model)
    name = meta.title if meta else workload.model.rstrip("/").rsplit("/", 1)[-1]
    return name if workload.technique == "full" else f"{name} + {TECHNIQUES[workload.technique].title}"


def resolve_workload(config: WorkloadConfig, place: str) -> Workload:
    """The workload with its defaults filled and its own files pinned by content."""
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
    objective: Objective = meta.objective if meta else "causal-lm"
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
        revision=_revision(config, place),
        config=config.config,
        technique=config.technique,
        technique_options=config.technique_options,
        data=_data(config, objective, meta.data if meta else None, place),
        sequence_length=(config.sequence_length or 128) if objective == "causal-lm" else None,
        image_size=(config.image_size or 32) if objective == "image-classification" else None,
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
            path.relative_to(folder).as_posix(): _file_digest(path)
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


def _data(config: WorkloadConfig, objective: Objective, default: str | None, place: str) -> DataSource:
    if config.data is None:
        if default is None:
            raise UserError(f"{place}: workload.data is missing: name a JSONL file (data: {{file: my.jsonl}}).")
        return DataSource(name=default)
    if config.data.file:
        path = Path(config.data.file)
        if objective != "causal-lm":
            raise UserError(f"{place}: workload.data.file: a JSONL file holds text; '{config.model}' trains on images.")
        if not path.is_file():
            raise UserError(f"{place}: workload.data.file: {path}: no such file (paths start where you run snakemake).")
        return DataSource(name="jsonl", sha256=_file_digest(path))
    dataset = DATASETS.get(config.data.name)
    if dataset is None:
        raise UserError(
            f"{place}: workload.data.name '{config.data.name}' is unknown. {closest(config.data.name, DATASETS)}"
        )
    if dataset.objective != objective:
        raise UserError(
            f"{place}: data '{dataset.name}' is for {dataset.objective}, model '{config.model}' for {objective}."
        )
    return DataSource(name=dataset.name)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _rows(
    study: MeasuredStudy, name: str, sweep: Sweep, machine: Machine, place: str
) -> Iterator[tuple[str, RunSettings]]:
    """Every row of a sweep: its place in words, and its settings with a device count."""
    for row, combo in _combos(sweep):
        merged = {**study.defaults, **combo}
        if "batch_per_device" in combo and "global_batch" not in combo:
            merged.pop("global_batch", None)
        if "global_batch" in combo and "batch_per_device" not in combo:
            merged.pop("batch_per_device", None)
        try:
            settings = RunSettings.model_validate(merged)
        except ValidationError as error:
            raise explain(error, None, f"{place}: sweep '{name}', {row}", RunSettings) from None
        if settings.devices != "auto":
            yield row, settings
            continue
        strategy = _strategy(settings.strategy, f"{place}: sweep '{name}', {row}")
        limit = min(study.max_devices, machine.devices, strategy.max_devices or study.max_devices)
        for devices in powers_of_two(limit):
            yield f"{row} at {devices} devices", settings.model_copy(update={"devices": devices})


def _combos(sweep: Sweep) -> Iterator[tuple[str, Json]]:
    if sweep.grid is None:
        for number, case in enumerate(sweep.cases or [], 1):
            yield f"case {number}", case
        return
    axes = _axes(sweep.grid)
    for values in itertools.product(*axes.values()):
        combo = dict(zip(axes, values, strict=True))
        yield f"cell {{{', '.join(f'{k}: {v}' for k, v in combo.items())}}}", combo


def powers_of_two(limit: int) -> list[int]:
    """1, 2, 4, ... up to and including ``limit``."""
    return [2**k for k in range(max(limit, 1).bit_length())]


def _excluded(settings: RunSettings, exclude: list[Json], matched: list[int]) -> bool:
    hit = False
    values = settings.model_dump()
    for i, rule in enumerate(exclude):
        if all(values.get(key) in (want if isinstance(want, list) else [want]) for key, want in rule.items()):
            matched[i] += 1
            hit = True
    return hit


def _strategy(text: str, where: str) -> Product:
    try:
        return find_strategy(text)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _spec(settings: RunSettings, sweep: Sweep, workload: Workload, machine: Machine, where: str) -> Spec:
    strategy = _strategy(settings.strategy, where)
    devices = int(settings.devices)
    for option in settings.strategy_options:
        if option not in strategy.options:
            known = closest(option, strategy.options) if strategy.options else "It takes none."
            raise UserError(f"{where}: strategy '{strategy.name}' has no option '{option}'. {known}")
    if strategy.max_devices and devices > strategy.max_devices:
        raise UserError(
            f"{where}: strategy '{strategy.name}' runs on {strategy.max_devices} device, not on {devices}. "
            "Use another strategy, such as 'ddp'."
        )
    if devices > machine.devices and not sweep.oversubscribe:
        raise UserError(
            f"{where}: {devices} devices, but the platform has {machine.devices} "
            f"({machine.nodes} node(s) of {machine.devices_per_node} x {machine.device_model}). "
            f"Use at most {machine.devices}, or a platform with more (config/platforms/)."
        )
    spec = Spec(
        workload=workload,
        strategy=settings.strategy,
        strategy_options=settings.strategy_options,
        device_kind=machine.device_kind,
        device_model=machine.device_model,
        devices=devices,
        # more ranks than devices all run on the one node there is
        devices_per_node=max(devices, machine.devices_per_node) if sweep.oversubscribe else machine.devices_per_node,
        global_batch=_global_batch(settings, devices, where),
        precision=settings.precision,
        optimizer=settings.optimizer,
        learning_rate=settings.learning_rate,
        updates=_updates(settings, where),
        min_warmup=settings.min_warmup,
        seed=settings.seed,
        timed=not sweep.oversubscribe,
    )
    if spec.nodes > 1:
        raise UserError(
            f"{where}: {devices} devices are {spec.nodes} nodes of {machine.devices_per_node}, "
            f"and this version measures within one node. Use at most {machine.devices_per_node} devices."
        )
    return spec


def _global_batch(settings: RunSettings, devices: int, where: str) -> int:
    if (settings.global_batch is None) == (settings.batch_per_device is None):
        raise UserError(f"{where}: give either global_batch (strong scaling) or batch_per_device (weak scaling).")
    if settings.global_batch is None:
        return int(settings.batch_per_device or 0) * devices
    if settings.global_batch % devices:
        near = max(devices, settings.global_batch // devices * devices)
        raise UserError(
            f"{where}: global_batch {settings.global_batch} does not divide among {devices} devices. "
            f"Use a multiple of {devices}, such as {near} or {near + devices}."
        )
    return settings.global_batch


def _updates(settings: RunSettings, where: str) -> int:
    if settings.updates < settings.min_warmup + 2:
        raise UserError(
            f"{where}: {settings.updates} updates with min_warmup {settings.min_warmup} leave no window to measure. "
            f"Use at least {settings.min_warmup + 2} updates."
        )
    return settings.updates
