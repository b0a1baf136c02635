"""Numbers and devices in words, the same in figures, sentences and tables."""

import math
from collections.abc import Iterable, Sequence

#: The word for one device where nobody said what it is.
DEVICE = "device"
_COUNTED = ("core", DEVICE)


def devices_word(devices: Iterable[str], n: float = 2) -> str:
    """What is counted: ``H100-SXM devices``, ``CPU cores``; plain ``devices`` where several kinds stand together."""
    kinds = list(dict.fromkeys(d for d in devices if d))
    device = kinds[0] if len(kinds) == 1 else DEVICE
    plural = "s" if n != 1 else ""
    return f"{device}{plural}" if device.endswith(_COUNTED) else f"{device} {DEVICE}{plural}"


def count_of(device: str, n: float) -> str:
    """``4 H100-SXM``, ``1 CPU core``, ``2 CPU cores``, ``4 devices``."""
    plural = "s" if device.endswith(_COUNTED) and n != 1 else ""
    return f"{size(n)} {device}{plural}".rstrip()


def hours_word(device: str) -> str:
    return "core-hours" if device.endswith("core") else "device-hours"


def size(n: float) -> str:
    """A number of devices: whole where it is one, never with an exponent."""
    return f"{n:.0f}" if n >= 10 or n == round(n) else f"{n:.1f}"


def significant(value: float, digits: int = 3) -> str:
    """At least ``digits`` significant digits, no exponent: 0.0988, 5.39, 85.4, 6130."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(places, 0)}f}"


def count(value: float) -> str:
    """About as many, for people: two significant digits below ten, three above, thousands apart: 5.4, 41.2, 11,900."""
    if value < 1000:
        text = significant(value, 2 if value < 10 else 3)
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{float(f'{value:.3g}'):,.0f}"


_LARGE = ((1e9, "billion"), (1e6, "million"))


def large(value: float) -> str:
    """``2.22 million``, ``3.15 billion``, ``3,120``."""
    for unit, name in _LARGE:
        if value >= unit:
            return f"{significant(value / unit)} {name}"
    return count(value)


def large_unit(values: Sequence[float]) -> tuple[float, str]:
    """The unit in which an axis' values are short numbers: 1e6 and ``million``; 1 and nothing."""
    if max(values) < 1e5:
        return 1.0, ""
    return next((unit for unit in (*_LARGE, (1e3, "thousand")) if min(values) >= unit[0] / 2), (1.0, ""))


def tick(value: float) -> str:
    """A tick of an axis: 0.03, 200, 10,000."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:g}"


def work(amount: float, unit: str) -> str:
    """``60,597 tokens``, ``0.5 work units``."""
    return f"{amount:,.0f} {unit}" if amount >= 100 or amount == round(amount) else f"{amount:.3g} {unit}"


def ratio(value: float) -> str:
    """Two significant digits, three from 10 on: 1.3, 5.7, 12.8, 0.94; a whole 100 has no decimals."""
    return significant(value, 3 if 10 <= value < 100 else 2)


def efficiency(value: float, threshold: float | None = None) -> str:
    """Two decimals; more where two would hide on which side of the threshold the value lies, or show a bare zero."""
    places = 2
    while places < 6 and (_misleads(value, threshold, places) or (value > 0 and round(value, places) == 0)):
        places += 1
    return f"{value:.{places}f}"


def _misleads(value: float, threshold: float | None, places: int) -> bool:
    return threshold is not None and value < threshold <= round(value, places)


def listing(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


#: (seconds in one, short name), the coarsest first.
_TIME_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


def time_unit(seconds: Iterable[float]) -> tuple[float, str]:
    """The unit in which a typical (geometric mean) of the times is a plain number: seconds in one, and its name."""
    logs = [math.log(s) for s in seconds if s > 0 and math.isfinite(s)]
    typical = math.exp(sum(logs) / len(logs)) if logs else 1.0
    return next((unit for unit in _TIME_UNITS if typical >= 1.5 * unit[0]), _TIME_UNITS[-1])
