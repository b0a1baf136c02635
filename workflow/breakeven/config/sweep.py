"""A measured study to cells: every combination of the sweep, checked before anything runs."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from breakeven.config.cell import Ground, NoFit, Planned, plan_cell
from breakeven.config.load import closest, explain
from breakeven.config.machine import Machine
from breakeven.config.models import MeasuredStudy, RunSettings, Sweep
from breakeven.config.series import differing, series_names
from breakeven.config.usual import usual_settings
from breakeven.config.workload import ground_of, workload_title
from breakeven.schema.errors import UserError
from breakeven.schema.point import Scaling
from breakeven.schema.spec import Json, Spec, run_id, slug

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

    def to_dict(self) -> Json:
        return {name: getattr(self, name) for name in self.__slots__} | {"spec": self.spec.to_dict()}


def cells(study: MeasuredStudy, machine: Machine, place: str) -> list[Cell]:
    """Every cell of a study, in the file's order. ``place`` is the study's file, for messages.

    Raises UserError naming study, sweep and row for the first cell that cannot be.
    """
    _refuse_unknown_names(study, place)
    _refuse_too_many(study, machine, place)
    ground = ground_of(study.workload, machine, place)
    title = workload_title(study.workload)
    if not slug(title):
        raise UserError(f"{place}: workload.title is missing: the model's own name '{title}' has no letter or digit.")
    placed: list[tuple[str, Planned]] = []
    matched = [0] * len(study.exclude)
    for name in study.sweeps:
        placed += [(name, found) for found in _sweep(study, name, ground, place, matched)]
    for rule, count in zip(study.exclude, matched, strict=True):
        if not count:
            raise UserError(f"{place}: 'exclude' row {rule} matches no cell. Remove it or mend its values.")
    _refuse_idle_target(study, [found.spec for _, found in placed], place)
    usual = usual_settings(study, machine)
    names = series_names(title, [(found.spec, found.scaling, found.held) for _, found in placed], usual)
    refuse_mixed_series([(*one, series) for one, series in zip(placed, names, strict=True)], place)
    result: dict[tuple[str, str], Cell] = {}
    for (sweep, found), series in zip(placed, names, strict=True):
        cell = Cell(run_id=run_id(found.spec), spec=found.spec, series=series, scaling=found.scaling, sweep=sweep)
        first = result.setdefault((cell.run_id, series), cell)
        # A cell of two sweeps is of the one that makes the study's curves.
        if cell.sweep in study.headline and first.sweep not in study.headline:
            result[cell.run_id, series] = cell
    return list(result.values())


def _sweep(study: MeasuredStudy, name: str, ground: Ground, place: str, matched: list[int]) -> list[Planned]:
    """The cells of one sweep; ``matched`` counts the hits of every 'exclude' row."""
    sweep = study.sweeps[name]
    found: list[Planned] = []
    rows = 0
    for row in _rows(study, name, ground, place):
        rows += 1
        kept = [settings for settings in row.sizes if not _excluded(settings, study.exclude, matched)]
        found += _planned(row, kept, ground, oversubscribe=sweep.oversubscribe)
    if not found:
        why = "'exclude' leaves no cell of it." if rows else "a list in it has no value."
        raise UserError(f"{place}: sweep '{name}' is empty: {why}")
    return found


def _planned(row: "Row", kept: Iterable[RunSettings], ground: Ground, *, oversubscribe: bool) -> list[Planned]:
    """Of ``devices: auto`` the sizes that fit; where none does, the last says why."""
    found: list[Planned] = []
    unfit: NoFit | None = None
    for settings in kept:
        where = f"{row.where} at {settings.devices} devices" if row.auto else row.where
        try:
            found.append(plan_cell(settings, ground, where, oversubscribe=oversubscribe))
        except NoFit as error:
            if not row.auto:
                raise
            unfit = error
    if unfit and not found:
        raise unfit
    return found


def refuse_mixed_series(placed: Iterable[tuple[str, Planned, str]], place: str) -> None:
    """Names tell apart what differs; where two settings read the same in a name, their curves would be one."""
    first: dict[str, tuple[str, Planned]] = {}
    for sweep, found, series in placed:
        if not found.spec.timed:
            continue
        other_sweep, other = first.setdefault(series, (sweep, found))
        for key in differing(found.held, other.held) if found is not other else ():
            raise UserError(
                f"{place}: series '{series}' mixes {key} {other.held.get(key)!r} (sweep '{other_sweep}', "
                f"{other.spec.devices} devices) and {found.held.get(key)!r} (sweep '{sweep}', "
                f"{found.spec.devices} devices). Give both the same, or put one in a study of its own."
            )


def _refuse_idle_target(study: MeasuredStudy, specs: Iterable[Spec], place: str) -> None:
    if study.target_accuracy is not None and not any(spec.evaluate_every for spec in specs):
        raise UserError(
            f"{place}: target_accuracy {study.target_accuracy:g} needs runs that measure their accuracy. "
            "Give evaluate_every, such as evaluate_every: epoch in 'defaults'."
        )


def _refuse_unknown_names(study: MeasuredStudy, place: str) -> None:
    for name in study.headline:
        if name not in study.sweeps:
            raise UserError(f"{place}: headline: unknown sweep '{name}'. {closest(name, study.sweeps)}")
    for number, rule in enumerate(study.exclude, 1):
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


#: Keys of which a row says one, so that one of its own replaces the other of 'defaults'.
_EITHER = (("global_batch", "batch_per_device"), ("updates", "epochs"))


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a sweep, at every device count that it stands for."""

    where: str
    sizes: list[RunSettings]
    auto: bool


def _rows(study: MeasuredStudy, name: str, ground: Ground, place: str) -> Iterator[Row]:
    for row, combo in _combos(study.sweeps[name]):
        merged = {**study.defaults, **combo}
        for one, other in (*_EITHER, *(pair[::-1] for pair in _EITHER)):
            if one in combo and other not in combo:
                merged.pop(other, None)
        where = f"{place}: sweep '{name}', {row}"
        try:
            settings = RunSettings.model_validate(merged)
        except ValidationError as error:
            given = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
            of_defaults = given and given <= study.defaults.keys() - combo.keys()
            raise explain(error, None, f"{place}: 'defaults'" if of_defaults else where, RunSettings) from None
        if settings.devices == "auto":
            sizes = powers_of_two(min(study.max_devices, ground.machine.devices))
            yield Row(where, [settings.model_copy(update={"devices": devices}) for devices in sizes], auto=True)
        else:
            yield Row(where, [settings], auto=False)


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
