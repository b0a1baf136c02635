"""Which runs of a study differ in one setting alone, and which of its values the others are held against.

Of every run and every setting that the study varies: the runs that are equal in all else, whichever sweep asks for
them. The tables and the figure of settings read this from plan.json.
"""

import dataclasses
import functools
import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breakeven.config.machine import Machine
from breakeven.config.models import MeasuredStudy
from breakeven.config.series import label
from breakeven.config.sweep import Cell
from breakeven.config.usual import usual_settings
from breakeven.schema.spec import Json, Spec, canonical_json

#: Settings that are compared, in the order of tables and panels, and what may differ along with each because it
#: follows from it. Any other field of a spec is held equal.
_FOLLOWS: dict[str, frozenset[str]] = {
    "strategy": frozenset({"strategy_options", "degrees"}),
    "strategy_options": frozenset(),
    "degrees": frozenset(),
    "sampling": frozenset(),
    "global_batch": frozenset({"updates", "evaluate_every"}),
    "gradient_accumulation": frozenset(),
    "precision": frozenset(),
    "compile": frozenset(),
    "activation_checkpointing": frozenset(),
    "memory_format": frozenset(),
    "optimizer": frozenset(),
    "learning_rate": frozenset(),
    "learning_rate_rule": frozenset({"learning_rate_batch"}),
    "data": frozenset({"updates", "evaluate_every"}),
    "image_size": frozenset(),
    "resize_on": frozenset(),
    "workers": frozenset(),
    "prefetch_factor": frozenset(),
    "persistent_workers": frozenset(),
    "pin_memory": frozenset(),
    "non_blocking": frozenset(),
    "synthetic": frozenset(),
}
SETTINGS = tuple(_FOLLOWS)
#: What a run on synthetic batches, which nobody loads, has none of: it is the twin of every way to load real ones.
_LOADING = frozenset({
    "workers", "prefetch_factor", "persistent_workers", "pin_memory", "non_blocking", "resize_on",
})  # fmt: skip
#: Fields that are the same for the whole study, or say nothing of a setting.
_STUDYS = frozenset({"workload", "device_kind", "device_model", "devices_per_node", "measure_version"})
#: All others by the user's names; of the workload what a setting may override.
_NAMES = (*(field.name for field in dataclasses.fields(Spec) if field.name not in _STUDYS), "data", "image_size")
Fields = Mapping[str, str]
"""Every field of a cell as canonical JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    run_id: str
    value: str
    series: str
    sweep: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs on so many devices that differ in one setting."""

    setting: str
    devices: int
    baseline: str
    """The value that the others are held against: the study's default, where one of the runs has it, else the first."""
    held: str
    """What is held equal here, other than the study's default and in other comparisons of this setting."""
    headline: bool
    """Of all comparisons of this setting on so many devices, the one nearest to the study's defaults."""
    cells: tuple[Compared, ...]
    """In the study's order, the baseline first."""

    def to_dict(self) -> Json:
        cells = [{name: getattr(one, name) for name in Compared.__slots__} for one in self.cells]
        return {name: getattr(self, name) for name in self.__slots__} | {"cells": cells}


def comparisons(study: MeasuredStudy, machine: Machine, cells: Sequence[Cell]) -> list[Comparison]:
    """Setting by setting, then by what is held equal, in the study's order."""
    once: dict[str, Cell] = {}
    for cell in cells:
        if cell.spec.timed:
            once.setdefault(cell.run_id, cell)
    timed = list(once.values())
    fields = [_fields(cell.spec) for cell in timed]
    known = usual_settings(study, machine)
    usual = {name: canonical_json(known[name]) for name in _NAMES if name in known}
    found = []
    for setting in SETTINGS:
        if len({one[setting] for one in fields}) > 1:
            groups = _twins(timed, fields) if setting == "synthetic" else _groups(setting, timed, fields)
            found += _of_setting(setting, groups, usual)
    return found


Group = list[tuple[Cell, Fields]]


def _groups(setting: str, cells: Iterable[Cell], fields: Iterable[Fields]) -> list[Group]:
    """Cells that are equal in all but the setting and what follows from it, where it has two values at least."""
    held = operator.itemgetter(*(name for name in _NAMES if name not in (setting, *_FOLLOWS[setting])))
    groups: dict[tuple[Any, ...], dict[str, tuple[Cell, Fields]]] = defaultdict(dict)
    for cell, one in zip(cells, fields, strict=True):
        if setting == "strategy" and cell.spec.strategy_options:
            continue  # held against the strategy's own defaults, not against other strategies
        groups[*held(one), cell.spec.evaluate_every > 0].setdefault(_value(setting, cell.spec), (cell, one))
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def _twins(cells: Iterable[Cell], fields: Iterable[Fields]) -> list[Group]:
    """Every run on real data beside the one on synthetic batches that is equal in all but how batches are loaded."""
    held = operator.itemgetter(*(name for name in _NAMES if name not in ("synthetic", *_LOADING)))
    twins: dict[tuple[str, ...], tuple[Cell, Fields]] = {}
    real: list[tuple[Cell, Fields]] = []
    for cell, one in zip(cells, fields, strict=True):
        if cell.spec.synthetic:
            twins.setdefault(held(one), (cell, one))
        else:
            real.append((cell, one))
    return [[pair, twins[held(pair[1])]] for pair in real if held(pair[1]) in twins]


def _of_setting(setting: str, groups: Sequence[Group], usual: Fields) -> list[Comparison]:
    names = [
        name
        for name in (_NAMES if groups else ())
        if name not in (setting, *_FOLLOWS[setting], "devices", "strategy")
        and len({group[0][1][name] for group in groups}) > 1
    ]
    nearest: dict[int, tuple[int, int]] = {}
    for at, group in enumerate(groups):
        cell, one = group[0]
        far = sum(one[name] != value for name, value in usual.items() if name != setting)
        nearest[cell.spec.devices] = min(nearest.get(cell.spec.devices, (far, at)), (far, at))
    return [
        _comparison(setting, group, usual, names, headline=nearest[group[0][0].spec.devices][1] == at)
        for at, group in enumerate(groups)
    ]


def _comparison(setting: str, group: Group, usual: Fields, names: Sequence[str], *, headline: bool) -> Comparison:
    base = next((cell for cell, one in group if one[setting] == usual.get(setting)), group[0][0])
    ordered = sorted((cell for cell, _ in group), key=lambda cell: cell is not base)
    return Comparison(
        setting=setting,
        devices=base.spec.devices,
        baseline=_value(setting, base.spec),
        held=_held(setting, group, usual, names),
        headline=headline,
        cells=tuple(
            Compared(run_id=cell.run_id, value=_value(setting, cell.spec), series=cell.series, sweep=cell.sweep)
            for cell in ordered
        ),
    )


def _held(setting: str, group: Group, usual: Fields, names: Sequence[str]) -> str:
    cell, one = group[0]
    # of synthetic batches, how nobody loads them says nothing
    said = [n for n in names if one[n] != usual.get(n) and not (cell.spec.synthetic and n in _LOADING)]
    told = [label(name, _of(cell.spec, name)) for name in said]
    return ", ".join(
        [*told, "evaluated"] if "evaluate_every" in _FOLLOWS[setting] and cell.spec.evaluate_every else told
    )


def _of(spec: Spec, name: str) -> Any:
    if name == "data":
        return spec.workload.data.name
    return spec.workload.image_size if name == "image_size" else getattr(spec, name)


def _fields(spec: Spec) -> Fields:
    return {name: _encoded(_of(spec, name)) for name in _NAMES}


def _encoded(value: Any) -> str:
    return canonical_json(value) if isinstance(value, dict) else _scalar(type(value).__name__, value)


@functools.cache
def _scalar(kind: str, value: Any) -> str:
    """``kind`` keeps apart 1, 1.0 and True, which are equal to Python."""
    return canonical_json(value)


def _value(setting: str, spec: Spec) -> str:
    """A value as tables show it: ``bf16``, ``true``, ``fsdp*tp (tp 2)``, ``hook fp16``."""
    value = _of(spec, setting)
    if setting == "strategy" and spec.degrees:
        return f"{value} ({_listed(spec.degrees)})"
    if isinstance(value, dict):
        return _listed(value) or "default"
    return value if isinstance(value, str) else canonical_json(value)


def _listed(values: Json) -> str:
    return " ".join(
        f"{name} {item if isinstance(item, str) else canonical_json(item)}" for name, item in sorted(values.items())
    )
