"""Where and with what a study was measured, and what a reader must know of it before trusting the numbers."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from breakeven.figures import words
from breakeven.report.caveats import busy_sentence
from breakeven.report.cells import distinct, yes

_FROM_RUNS = {
    "host": "host",
    "device_model": "device model",
    "driver": "driver",
    "power_limit_w": "power limit (W)",
    "torch_version": "torch version",
    "measure_version": "measure version",
    "measure_sources": "measured code, digest",
}


def facts(told: Mapping[str, Any], runs: pd.DataFrame | None) -> list[tuple[str, str]]:
    """Name and value; what the runs' records say comes first, then what the study's platform says."""
    found: dict[str, str] = {}
    if runs is not None:
        for column, name in _FROM_RUNS.items():
            if values := distinct(runs, column):
                found[name] = ", ".join(values)
        if idle := idle_check(runs):
            found["idle check"] = idle
    for name, value in told.items():
        shown = _show(value)
        if shown:
            found.setdefault(name.replace("_", " "), shown)
    return list(found.items())


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_show(v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list | tuple):
        return ", ".join(_show(v) for v in value)
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def idle_check(runs: pd.DataFrame) -> str:
    """Whether others used the machine just before the runs started."""
    if "idle" not in runs or runs["idle"].dropna().empty:
        return ""
    idle = runs["idle"].dropna().map(yes)
    busiest = runs["busy_cores"].max() if "busy_cores" in runs else float("nan")
    most = f"; busiest moment {words.significant(float(busiest), 2)} cores used by others" if pd.notna(busiest) else ""
    return f"{int(idle.sum())} of {len(idle)} runs started on an idle machine{most}"


def warnings(runs: pd.DataFrame | None) -> list[str]:
    """What makes the study's numbers less comparable than they look."""
    if runs is None:
        return []
    found = []
    for column, what in (("measure_version", "measure versions"), ("measure_sources", "versions of the measured code")):
        values = distinct(runs, column)
        if len(values) > 1:
            found.append(
                f"Mixed {what}: {words.listing(values)}. Compare across them with care, or measure all runs anew."
            )
    for column, what in (("device_model", "device models"), ("torch_version", "torch versions"), ("host", "hosts")):
        values = distinct(runs, column)
        if len(values) > 1:
            found.append(f"More than one of {what}: {words.listing(values)}.")
    if busy := busy_sentence(runs):
        found.append(busy)
    return found
