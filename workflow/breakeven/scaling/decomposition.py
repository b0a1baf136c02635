"""Where the samples per second and device went: E_sys = E_step · E_overhead · E_residual, exact by definition.

E_step compares the rate of the steps alone, as the runs log it; E_overhead the share of the clock spent training, not
evaluating or starting up; E_residual is what the two leave: restarts, a clock that saw what the logs do not tell.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from breakeven.scaling.resample import Aggregate, Array, Size


@dataclass(frozen=True, slots=True)
class Parts:
    """What a decomposition needs of one size; NaN where its runs do not tell."""

    step_rate: float
    """Work per second of all devices while they train: the runs' work over the seconds it takes at their rates."""
    training_share: float
    missing: str
    """Whose logs lack what; empty where both are known."""


def parts_of(size: Size, total: Aggregate, rows: pd.DataFrame) -> Parts:
    """Of the runs that count: the rate of all, unknown where one is silent (as in scores.csv), the share of those that
    tell. ``rows``: the size's points, for names and reasons."""
    rate, share, time_s = (a[total.counted] for a in (size.step_rate, size.training_share, size.time_s))
    silent, possible = int((~(rate > 0)).sum()), (share > 0) & (share <= 1)  # NaN is neither
    step_rate = math.nan if silent else _mean_rate(rate, size.samples[total.counted])
    # Training seconds over seconds, not a mean of shares: E_sys too is work over seconds of the same runs.
    training_share = float((share * time_s)[possible].sum() / time_s[possible].sum()) if possible.any() else math.nan
    reasons = []
    if math.isnan(step_rate):
        notes = sorted(set(rows["step_rate_note"].dropna()) - {""})
        some = f" in {silent} of {len(rate)} logs" if silent < len(rate) else "" if notes else " in the logs"
        reasons.append(f"no step rate{some}" + (f" ({'; '.join(notes)})" if notes else ""))
    if math.isnan(training_share):
        why = "longer than the run" if np.isfinite(share).any() else "not in the logs"
        reasons.append(f"evaluation and start-up {why}")
    return Parts(step_rate, training_share, f"{_place(rows)}: {' and '.join(reasons)}" if reasons else "")


def _mean_rate(rate: Array, work: Array) -> float:
    """Work over time. Where the work of a run is unknown, all are taken to have done the same."""
    work = work if (work > 0).all() else np.ones_like(rate)
    return float(work.sum() / (work / rate).sum())


def _place(rows: pd.DataFrame) -> str:
    label, devices, device = rows[["label", "devices", "device"]].iloc[0]
    return f"{label}, {devices} x {device}" if label else f"{devices} x {device}"


def decompose(sys: float, own: Parts, devices: int, base: Parts, base_devices: int) -> dict[str, float | str]:
    """The factors of E_sys against the reference (``base``); what is unknown is NaN, and the note says whose it is."""
    step = (own.step_rate / devices) / (base.step_rate / base_devices)
    overhead = own.training_share / base.training_share
    return {
        "efficiency_step": step,
        "efficiency_overhead": overhead,
        "efficiency_residual": sys / (step * overhead),
        "decomposition_note": "; ".join(dict.fromkeys(part.missing for part in (own, base) if part.missing)),
    }
