"""The break-even N*: the device count past which more devices stop paying, under a stated criterion.

Two criteria, both over the sizes that were tested, so neither extrapolates:

* ``efficiency >= t``: the largest tested size whose efficiency is at least t, and where the curve crosses t
  (straight line between neighbours in log N and log E).
* ``max speedup x efficiency``: the size with the most S E, which is the least N T^2: time saved weighed equally against
  device-hours spent.
"""

from typing import Any

import numpy as np
import pandas as pd

from breakeven.scaling.efficiency import efficiency_draws
from breakeven.scaling.resample import Array
from breakeven.stats.bootstrap import interval

COLUMNS = [
    "study",
    "workload",
    "series",
    "headline",
    "criterion",
    "threshold",
    "devices",
    "devices_low",
    "devices_high",
    "crossing",
    "primary",
    "note",
]


def breakeven_table(points: pd.DataFrame, efficiency: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """One row per series and criterion, columns ``COLUMNS``; ``devices`` is empty where no tested size qualifies."""
    rows = []
    for name, table in efficiency.groupby("series", sort=False):
        measured = table.dropna(subset=["efficiency"]).sort_values("devices")
        draws = efficiency_draws(points[points["series"] == name])
        first = table.iloc[0]
        identity = {key: first[key] for key in ("study", "workload", "series", "headline")}
        rows.append(identity | _keeps(measured, draws, threshold))
        rows.append(identity | _best_product(measured, draws))
    return pd.DataFrame(rows, columns=COLUMNS)


def _keeps(table: pd.DataFrame, draws: tuple[list[int], Array] | None, threshold: float) -> dict[str, Any]:
    counts = table["devices"].to_numpy(dtype=int)
    values = table["efficiency"].to_numpy(dtype=float)
    row: dict[str, Any] = {
        "criterion": f"efficiency >= {threshold:g}",
        "threshold": threshold,
        "primary": True,
        "crossing": crossing(counts, values, threshold),
        "note": _note(counts, values, threshold),
    }
    if (chosen := last_keeping(counts, values, threshold)) is not None:
        row["devices"] = chosen
    if draws is not None and len(counts) > 1:
        found = [last_keeping(np.array(draws[0]), draw, threshold) for draw in draws[1] if np.isfinite(draw).all()]
        row |= _range([n for n in found if n is not None])
    return row


def _best_product(table: pd.DataFrame, draws: tuple[list[int], Array] | None) -> dict[str, Any]:
    row: dict[str, Any] = {"criterion": "max speedup x efficiency", "primary": False, "note": ""}
    if len(table) < 2:
        return row | {"note": "one size: no curve"}
    product = (table["speedup"] * table["efficiency"]).to_numpy(dtype=float)
    row["devices"] = int(table["devices"].iloc[int(np.argmax(product))])
    if row["devices"] == int(table["devices"].iloc[-1]):
        row["note"] = "the largest size tested: the best may lie beyond it"
    if draws is not None:
        counts, efficiency = draws
        drawn = efficiency[np.isfinite(efficiency).all(axis=1)]
        # S = E N / N0, and N0 does not move the maximum
        row |= _range([counts[i] for i in np.argmax(drawn**2 * np.array(counts), axis=1)])
    return row


def _range(found: list[int]) -> dict[str, int]:
    if not found:
        return {}
    low, high = interval(np.array(found, dtype=float))
    # a tested size, not a mean of two of them
    near = sorted(set(found))
    return {
        "devices_low": min(near, key=lambda n: abs(n - low)),
        "devices_high": min(near, key=lambda n: abs(n - high)),
    }


def last_keeping(counts: Any, efficiency: Any, threshold: float) -> int | None:
    """The largest tested size with efficiency at least ``threshold``, even behind a size that falls short."""
    kept = [int(n) for n, e in zip(counts, efficiency, strict=True) if e >= threshold]
    return max(kept, default=None)


def crossing(counts: Any, efficiency: Any, threshold: float) -> float | None:
    """Where the curve first falls below ``threshold``, log-log between neighbours; None where it never does."""
    for i in range(1, len(counts)):
        if efficiency[i] < threshold <= efficiency[i - 1]:
            share = np.log(efficiency[i - 1] / threshold) / np.log(efficiency[i - 1] / efficiency[i])
            return float(counts[i - 1] * (counts[i] / counts[i - 1]) ** share)
    return None


def _note(counts: Any, efficiency: Any, threshold: float) -> str:
    if len(counts) < 2:
        return "one size: no curve"
    kept = [e >= threshold for e in efficiency]
    if all(kept):
        return f"not reached up to {counts[-1]}, the largest size tested"
    last = max((i for i, keeps in enumerate(kept) if keeps), default=0)
    dips = [str(n) for n, keeps in zip(counts[:last], kept[:last], strict=True) if not keeps]
    return f"below the threshold at {', '.join(dips)}" if dips else ""
