"""Which cells are one curve: those that differ in nothing but the device count and what follows from it."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from breakeven.schema.point import Scaling
from breakeven.schema.spec import Json, Spec, canonical_json
from breakeven.schema.strategies import find_strategy

#: Fields of a spec that name a curve already, are one for the whole study, or follow from the device count. Any other
#: field, one that comes later too, tells curves apart.
_OTHER = frozenset({
    "workload", "strategy", "device_kind", "device_model", "devices", "devices_per_node", "global_batch", "timed",
    "measure_version",
})  # fmt: skip
_HELD = tuple(field.name for field in dataclasses.fields(Spec) if field.name not in _OTHER)
#: Keys whose values, all of them words, name no other key's.
_SPEAKING = frozenset({"data", "precision", "optimizer", "sampling", "memory_format"})


def held_equal(spec: Spec, scaling: Scaling, instead: Mapping[str, tuple[str, Any]]) -> Json:
    """All that must be equal along a curve, by the user's names, in the order of a series' name. ``instead``: for
    fields of the spec that follow from the device count, the key and the value that do not."""
    held: Json = {"global_batch": spec.global_batch} if scaling == "strong" else {"batch_per_device": spec.local_batch}
    held["data"] = spec.workload.data.name
    if spec.workload.image_size is not None:
        held["image_size"] = spec.workload.image_size
    for name in _HELD:
        if name == "strategy_options":
            options = find_strategy(spec.strategy).options
            # the prefix keeps an option apart from a setting of the same name
            held |= {f"{name}.{key}": spec.strategy_options.get(key, options[key].default) for key in options}
        elif name in instead:
            key, value = instead[name]
            held[key] = value
        else:
            held[name] = getattr(spec, name)
    return held


def series_names(title: str, placed: Sequence[tuple[Spec, Scaling, Json]], usual: Json) -> list[str]:
    """``title, strategy, scaling`` of each cell, with every setting between that differs among cells of that kind and
    is not the study's default (``usual``): the curve of the defaults alone has the shortest name.

    Cells that are not timed are on no curve, so they lengthen no curve's name.
    """
    first: dict[tuple[str, Scaling, bool], Json] = {}
    differ: dict[tuple[str, Scaling, bool], set[str]] = defaultdict(set)
    for spec, scaling, held in placed:
        kind = (spec.strategy, scaling, spec.timed)
        other = first.setdefault(kind, held)
        if held is not other:
            differ[kind].update(differing(held, other))
    return [
        ", ".join([
            title,
            spec.strategy,
            *(
                label(key, value)
                for key, value in held.items()
                if key in differ[spec.strategy, scaling, spec.timed] and not _is_usual(spec.strategy, key, value, usual)
            ),
            scaling,
        ])
        for spec, scaling, held in placed
    ]  # fmt: skip


def _is_usual(strategy: str, key: str, value: Any, usual: Json) -> bool:
    option = key.removeprefix("strategy_options.")
    if option == key:
        return key in usual and canonical_json(usual[key]) == canonical_json(value)
    default = usual.get("strategy_options", {}).get(option, find_strategy(strategy).options[option].default)
    return canonical_json(default) == canonical_json(value)


def label(key: str, value: Any) -> str:
    """``bf16`` speaks for itself, a number or a switch needs its key."""
    key = key.rsplit(".", 1)[-1]
    if isinstance(value, dict):
        return " ".join(f"{name} {item}" for name, item in sorted(value.items())) or f"no {key}"
    if key in _SPEAKING:
        return str(value)
    if isinstance(value, bool):
        return f"{key} {'on' if value else 'off'}"
    if isinstance(value, float):
        return f"{key} {value!r}".removesuffix(".0")
    return f"no {key}" if value is None else f"{key} {value}"


def differing(a: Json, b: Json) -> Iterable[str]:
    """Keys whose values are not the same JSON, and those that one of the two lacks."""
    for key in dict.fromkeys((*a, *b)):
        mine, its = a.get(key), b.get(key)
        # 1, 1.0 and True are equal to Python
        if (mine is not its and canonical_json(mine) != canonical_json(its)) or (key in a) != (key in b):
            yield key
