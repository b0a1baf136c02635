"""Efficiency, speed-up and device-hours of every series, against its smallest size that was measured.

With X work per second and N devices (0: the smallest size): S = X/X0 and E = (X/N)/(X0/N0). For runs to a target
X = 1/T, which makes E = T0 N0 / (T N), the modified efficiency of the published study; there E = E_stat E_sys exactly,
with E_stat = D0/D the samples that the target cost (reference-convergence scaling included) and E_sys the samples per
second and device.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from breakeven.scaling.resample import Aggregate, Array, Size, aggregate, resampled_rates, size_of
from breakeven.schema.status import Status
from breakeven.stats.bootstrap import generator, interval

COLUMNS = [
    "study",
    "workload",
    "series",
    "scaling",
    "headline",
    "device",
    "devices",
    "nodes",
    "global_batch",
    "label",
    "repeats",
    "runs_not_ok",
    "time_s",
    "time_s_low",
    "time_s_high",
    "work",
    "unit",
    "rate_per_device",
    "speedup",
    "speedup_low",
    "speedup_high",
    "efficiency",
    "efficiency_low",
    "efficiency_high",
    "efficiency_stat",
    "efficiency_sys",
    "device_hours",
    "samples",
    "reference_devices",
    "reference_label",
]


def efficiency_table(points: pd.DataFrame) -> pd.DataFrame:
    """One row per series and device count, columns ``COLUMNS``; sizes without a usable run keep a row of blanks."""
    rows = [row for _, series in points.groupby("series", sort=False) for row in _series_rows(series)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _series_rows(series: pd.DataFrame) -> list[dict[str, Any]]:
    groups = by_devices(series)
    sizes = {n: size for n, group in groups if (size := size_of(group)) is not None}
    totals = {n: total for n, size in sizes.items() if math.isfinite((total := aggregate(size)).rate)}
    reference = min(totals, default=None)
    draws = rates_drawn(str(series["series"].iloc[0]), sizes)
    rows = []
    for devices, group in groups:
        row = _identity(group, devices)
        if reference is not None:
            row |= {"reference_devices": reference, "reference_label": _first(series, reference, "label")}
        if devices in totals and reference is not None:
            work = _work(series, sizes[reference], totals[reference])
            row |= _numbers(
                sizes[devices], totals[devices], devices, sizes[reference], totals[reference], reference, work
            )
            row |= _intervals(draws, devices, reference, work if sizes[devices].aggregate == "rate" else 1.0)
        rows.append(row)
    return rows


def by_devices(series: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    """Each device count of a series and its rows, smallest first."""
    return [(n, series[series["devices"] == n]) for n in sorted({int(n) for n in series["devices"]})]


def rates_drawn(name: str, sizes: dict[int, Size]) -> dict[int, Array | None]:
    """Bootstrap rates of every size of a series; the seed is the series' name and size."""
    return {n: resampled_rates(size, generator(f"{name}/{n}")) for n, size in sizes.items()}


def _identity(group: pd.DataFrame, devices: int) -> dict[str, Any]:
    first = group.iloc[0]
    keep = ("study", "workload", "series", "scaling", "headline", "device", "nodes", "global_batch", "label", "unit")
    return {key: first[key] for key in keep} | {
        "devices": devices,
        "repeats": int((group["status"] == Status.OK).sum()),
        "runs_not_ok": int((group["status"] != Status.OK).sum()),
    }


def _first(series: pd.DataFrame, devices: int, column: str) -> Any:
    return series.loc[series["devices"] == devices, column].iloc[0]


def _work(series: pd.DataFrame, reference: Size, total: Aggregate) -> float:
    """Work that times are quoted for: what the points ask for, else the smallest size's mean work."""
    asked = series["target_work"].dropna()
    if reference.aggregate == "rate" and not asked.empty:
        return float(asked.iloc[0])
    return total.samples


def _numbers(
    size: Size, total: Aggregate, devices: int, size0: Size, total0: Aggregate, devices0: int, work: float
) -> dict[str, Any]:
    olympic = size.aggregate == "olympic"
    time_s = total.time_s if olympic else work / total.rate
    raw_rate = total.samples / (total.time_s / size.time_factor) if olympic else total.rate
    speedup = total.rate / total0.rate
    efficiency = speedup * devices0 / devices
    row = {
        "time_s": time_s,
        "work": total.samples if olympic else work,
        "rate_per_device": raw_rate / devices,
        "speedup": speedup,
        "efficiency": efficiency,
        "device_hours": devices * time_s / 3600,
        "samples": total.samples,
    }
    if olympic:
        stat = (total0.samples * size0.time_factor) / (total.samples * size.time_factor)
        row |= {"efficiency_stat": stat, "efficiency_sys": efficiency / stat}
    return row


def _intervals(draws: dict[int, Array | None], devices: int, reference: int, work: float) -> dict[str, float]:
    own, base = draws[devices], draws[reference]
    result: dict[str, float] = {}
    if own is not None:
        low, high = interval(work / own)
        result |= {"time_s_low": low, "time_s_high": high}
    if own is not None and base is not None and devices != reference:
        low, high = interval(own / base)
        result |= {"speedup_low": low, "speedup_high": high}
        result |= {"efficiency_low": low * reference / devices, "efficiency_high": high * reference / devices}
    return result


def efficiency_draws(series: pd.DataFrame) -> tuple[list[int], Array] | None:
    """Device counts and bootstrap efficiencies, shape (resamples, sizes); None where any size has no interval."""
    found = {n: size_of(group) for n, group in by_devices(series)}
    sizes = {n: size for n, size in found.items() if size is not None and math.isfinite(aggregate(size).rate)}
    draws = rates_drawn(str(series["series"].iloc[0]), sizes)
    known = {n: draw for n, draw in draws.items() if draw is not None}
    if not sizes or len(known) < len(sizes):
        return None
    counts = sorted(known)
    rates = np.column_stack([known[n] for n in counts])
    return counts, rates / rates[:, :1] * counts[0] / np.array(counts)
