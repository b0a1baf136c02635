"""Into how many parts each axis splits a run's ranks, and the check that their product is the device count."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

Axis = Literal["pp", "replicate", "shard", "cp", "tp"]

#: Outermost first: neighbours in rank order share the axis that talks most.
AXES: tuple[Axis, ...] = get_args(Axis)

#: The axis that is left to follow from the device count where all are given: data axes grow, the others are chosen.
_FREE = ("replicate", "shard", "cp", "pp", "tp")


def resolve(axes: Sequence[str], devices: int, given: Mapping[str, int]) -> dict[str, int]:
    """Every axis of a strategy with its degree, outermost first; one that is not given follows from ``devices``.

    Raises ValueError, in a user's words and without a full stop, where the product cannot be ``devices``.
    """
    for name in given:
        if name not in axes:
            known = ", ".join(axes) if axes else "none"
            raise ValueError(f"degrees: this strategy has no axis '{name}'. It has: {known}")
    missing = [name for name in axes if name not in given]
    if len(missing) > 1:
        raise ValueError(f"degrees: give {' or '.join(missing)}: both cannot follow from {devices} devices")
    product = math.prod(given.values())
    names = [name for name in AXES if name in given]
    told = " x ".join(f"{name} {given[name]}" for name in names)
    if missing:
        if devices % product:
            able = [str(n) for n in range(1, devices + 1) if devices % n == 0]
            raise ValueError(
                f"degrees: {told} does not divide {devices} devices. Use {' x '.join(names)} = {' or '.join(able)}"
            )
        given = {**given, missing[0]: devices // product}
    elif product != devices and axes:
        raise ValueError(
            f"degrees: {told} = {product} needs {product} devices, but the run has {devices}. "
            f"Use {' x '.join(names)} = {devices}, or devices {product}"
        )
    elif product != devices:
        raise ValueError(f"degrees: a strategy without axes runs on one device, not on {devices}")
    return {name: given[name] for name in AXES if name in given}


def normal(axes: Sequence[str], devices: int, given: Mapping[str, int]) -> dict[str, int]:
    """What of the degrees a spec holds: all but one, which follows from the device count. Equal splits are equal text.

    Raises ValueError as ``resolve`` does.
    """
    resolved = resolve(axes, devices, given)
    free = next((name for name in _FREE if name in resolved), None)
    return {name: degree for name, degree in resolved.items() if name != free}
