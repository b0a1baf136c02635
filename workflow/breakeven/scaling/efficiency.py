"""Efficiency, speed-up, device-hours and cost of every series, against its smallest size that was measured.

With X work per second and N devices (0: the smallest size): S = X/X0 and E = (X/N)/(X0/N0). For runs to a target
X = 1/T, which makes E = T0 N0 / (T N), the modified efficiency of the published study; there E = E_stat E_sys exactly,
with E_stat = D0/D the samples that the target cost (reference-convergence scaling included) and E_sys the samples per
second and device, and E_sys = E_step E_overhead E_residual (``decomposition``).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from breakeven.scaling.decomposition import decompose, parts_of
from breakeven.scaling.resample import Aggregate, Array, Draws, Size, aggregate, resample, size_of
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
    "efficiency_stat_low",
    "efficiency_stat_high",
    "efficiency_sys",
    "efficiency_sys_low",
    "efficiency_sys_high",
    "efficiency_step",
    "efficiency_overhead",
    "efficiency_residual",
    "decomposition_note",
    "device_hours",
    "cost",
    "energy_kj",
    "samples",
    "time_reference_s",
    "efficiency_reference",
    "reference_devices",
    "reference_label",
]


def efficiency_table(points: pd.DataFrame) -> pd.DataFrame:
    """One row per series and device count, columns ``COLUMNS``; sizes without a usable run keep a row of blanks."""
    with np.errstate(all="ignore"):  # what overflows is blank
        rows = [row for _, series in points.groupby("series", sort=False) for row in _series_rows(series)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _series_rows(series: pd.DataFrame) -> list[dict[str, Any]]:
    groups = by_devices(series)
    measured = [one for n, rows in groups if (one := _measured(n, rows)) is not None]
    base = measured[0] if measured else None
    draws = _drawn(str(series["series"].iloc[0]), {one.devices: one.size for one in measured})
    rows = []
    for devices, group in groups:
        row = _identity(group, devices)
        if base is not None:
            row |= {"reference_devices": base.devices, "reference_label": base.rows["label"].iloc[0]}
        own = next((one for one in measured if one.devices == devices), None)
        if own is not None and base is not None:
            work = _work(series, base)
            row |= _numbers(own, base, work)
            row |= _intervals(draws[own.devices], draws[base.devices], own, base, work)
        rows.append(
            {name: math.nan if isinstance(cell, float) and math.isinf(cell) else cell for name, cell in row.items()}
        )
    return rows


@dataclass(frozen=True, slots=True)
class Measured:
    """One device count of a series that has a rate: its points, its runs and their aggregate."""

    devices: int
    rows: pd.DataFrame
    size: Size
    total: Aggregate

    @property
    def raw_time_s(self) -> float:
        """Seconds without the scaling factor."""
        return self.total.time_s / self.size.time_factor

    @property
    def time_reference_s(self) -> float:
        """Seconds to the work that the benchmark's reference needs with this batch, at the rate of these runs."""
        return _known(self.rows["reference_samples"]) * self.raw_time_s / self.total.samples


def _measured(devices: int, rows: pd.DataFrame) -> Measured | None:
    size = size_of(rows)
    total = None if size is None else aggregate(size)
    if size is None or total is None or not math.isfinite(total.rate):
        return None
    return Measured(devices, rows, size, total)


def by_devices(series: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    """Each device count of a series and its rows, smallest first."""
    return [(n, series[series["devices"] == n]) for n in sorted({int(n) for n in series["devices"]})]


def _drawn(name: str, sizes: dict[int, Size]) -> dict[int, Draws | None]:
    """Resamples of every size of a series; the seed is the series' name and size."""
    return {n: resample(size, generator(f"{name}/{n}")) for n, size in sizes.items()}


def _identity(group: pd.DataFrame, devices: int) -> dict[str, Any]:
    first = group.iloc[0]
    keep = ("study", "workload", "series", "scaling", "headline", "device", "nodes", "global_batch", "label", "unit")
    return {key: first[key] for key in keep} | {
        "devices": devices,
        "repeats": int((group["status"] == Status.OK).sum()),
        "runs_not_ok": int((group["status"] != Status.OK).sum()),
    }


def _known(values: "pd.Series[float]") -> float:
    """What all rows of a size agree on; NaN where none tells."""
    known = values.dropna()
    return math.nan if known.empty else float(known.iloc[0])


def _work(series: pd.DataFrame, base: Measured) -> float:
    """Work that times are quoted for: what the points ask for, else the smallest size's mean work."""
    asked = series["target_work"].dropna()
    if not base.size.olympic and not asked.empty:
        return float(asked.iloc[0])
    return base.total.samples


def _numbers(own: Measured, base: Measured, work: float) -> dict[str, Any]:
    size, total = own.size, own.total
    time_s = total.time_s if size.olympic else work / total.rate
    raw_rate = total.samples / own.raw_time_s if size.olympic else total.rate
    speedup = total.rate / base.total.rate
    efficiency = speedup * base.devices / own.devices
    device_hours = own.devices * time_s / 3600
    row = {
        "time_s": time_s,
        "work": total.samples if size.olympic else work,
        "rate_per_device": raw_rate / own.devices,
        "speedup": speedup,
        "efficiency": efficiency,
        "device_hours": device_hours,
        "cost": device_hours * _known(own.rows["price_per_device_hour"]),
        "energy_kj": _energy_kj(own, work),
        "samples": total.samples,
    }
    return row | _to_a_target(own, base, efficiency) if size.olympic else row


def _energy_kj(own: Measured, work: float) -> float:
    """Of the runs that count, scaled as the time is; of a rate, for the quoted work. NaN where one run tells none."""
    energy, counted = own.size.energy_kj, own.total.counted
    if own.size.olympic:
        return float(energy[counted].mean()) * own.size.time_factor
    return float((energy / own.size.samples).mean()) * work


def _to_a_target(own: Measured, base: Measured, efficiency: float) -> dict[str, Any]:
    """What only runs to a target have: the factors of E, and times at the reference's convergence."""
    stat = (base.total.samples * base.size.time_factor) / (own.total.samples * own.size.time_factor)
    time_s, time0_s = own.time_reference_s, base.time_reference_s
    parts, parts0 = (parts_of(one.size, one.total, one.rows) for one in (own, base))
    return {
        "efficiency_stat": stat,
        "efficiency_sys": efficiency / stat,
        **decompose(efficiency / stat, parts, own.devices, parts0, base.devices),
        "time_reference_s": time_s,
        "efficiency_reference": time0_s * base.devices / (time_s * own.devices),
    }


def _intervals(own: Draws | None, base: Draws | None, one: Measured, zero: Measured, work: float) -> dict[str, float]:
    """95 % of the resamples. The reference has one of its time alone: against itself it is 1."""
    if own is None:
        return {}
    row = _between("time_s", (1.0 if one.size.olympic else work) / own.rate)
    if base is None or one.devices == zero.devices:
        return row
    speedup = own.rate / base.rate
    efficiency = speedup * zero.devices / one.devices
    row |= _between("speedup", speedup) | _between("efficiency", efficiency)
    if one.size.olympic:
        stat = base.samples / own.samples
        row |= _between("efficiency_stat", stat) | _between("efficiency_sys", efficiency / stat)
    return row


def _between(name: str, draws: Array) -> dict[str, float]:
    low, high = interval(draws)
    return {f"{name}_low": low, f"{name}_high": high}


def efficiency_draws(series: pd.DataFrame) -> tuple[list[int], Array] | None:
    """Device counts and bootstrap efficiencies, shape (resamples, sizes); None where any size has no interval."""
    measured = [one for n, rows in by_devices(series) if (one := _measured(n, rows)) is not None]
    draws = _drawn(str(series["series"].iloc[0]), {one.devices: one.size for one in measured})
    known = {n: draw.rate for n, draw in draws.items() if draw is not None}
    if not measured or len(known) < len(measured):
        return None
    counts = sorted(known)
    rates = np.column_stack([known[n] for n in counts])
    return counts, rates / rates[:, :1] * counts[0] / np.array(counts)
