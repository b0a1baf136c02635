"""Which cells are one curve: those that differ in nothing but the device count and what follows from it."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from breakeven.schema.point import Scaling
from breakeven.schema.spec import Json, Spec, canonical_json

#: Fields of a spec that name a curve already, are one for the whole study, or follow from the device count. Any other
#: field, one that comes later too, tells curves apart.
_OTHER = frozenset({
    "workload", "strategy", "device_kind", "device_model", "devices", "devices_per_node", "global_batch", "timed",
    "measure_version",
})  # fmt: skip


def held_equal(spec: Spec, scaling: Scaling) -> Json:
    """All that must be equal along a curve, by the user's names, in the order of a series' name."""
    batch = {"global_batch": spec.global_batch} if scaling == "strong" else {"batch_per_device": spec.local_batch}
    names = [field.name for field in dataclasses.fields(spec) if field.name not in _OTHER]
    return batch | {name: getattr(spec, name) for name in names}


def series_names(title: str, placed: Sequence[tuple[Spec, Scaling]]) -> list[str]:
    """``title, strategy, scaling`` of each cell, with every setting that differs among cells of that kind between.

    Cells that are not timed are on no curve, so they lengthen no curve's name.
    """
    values: dict[tuple[str, Scaling, bool, str], set[str]] = defaultdict(set)
    for spec, scaling in placed:
        for key, value in held_equal(spec, scaling).items():
            values[spec.strategy, scaling, spec.timed, key].add(canonical_json(value))
    return [
        ", ".join([
            title,
            spec.strategy,
            *(
                label(key, value)
                for key, value in held_equal(spec, scaling).items()
                if len(values[spec.strategy, scaling, spec.timed, key]) > 1
            ),
            scaling,
        ])
        for spec, scaling in placed
    ]  # fmt: skip


def label(key: str, value: Any) -> str:
    """``bf16`` speaks for itself, a number needs its key."""
    if isinstance(value, dict):
        return " ".join(f"{name} {item}" for name, item in sorted(value.items())) or f"no {key}"
    return value if isinstance(value, str) else f"{key} {value}"


def differing(a: Json, b: Json) -> Iterable[str]:
    return (key for key in a if canonical_json(a[key]) != canonical_json(b[key]))
