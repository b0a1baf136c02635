"""What a strategy itself costs: its smallest size beside training on one device without any strategy."""

from typing import Any

import pandas as pd

from breakeven.figures import words
from breakeven.figures.view import Curve, View
from breakeven.metrics.table import SETTINGS

#: Settings that come with the strategy.
_STRATEGYS = ("strategy_options", "degrees", "batch_per_device")


def compared(view: View, curve: Curve, runs: pd.DataFrame, threshold: float | None) -> str:
    """``On 1 CPU core, single does 1015 tokens/s and ddp 858; against single, ddp keeps 0.75 at 2.``

    Empty where the study has no ``single`` of the same batch at the curve's smallest size.
    """
    if not curve.sizes or "strategy" not in runs:
        return ""
    first, last = curve.rows.iloc[0], curve.rows.iloc[-1]
    other = _single(view, curve, runs, first)
    if other is None:
        return ""
    n = float(first["devices"])
    pace = [words.significant(float(row["rate_per_device"]) * n) for row in (other, first)]
    said = f"On {words.count_of(curve.device, n)}, single does {pace[0]} {first['unit']}/s and {curve.name} {pace[1]}"
    kept = float(last["rate_per_device"]) / float(other["rate_per_device"])
    against = f"; against single, {curve.name} keeps {words.efficiency(kept, threshold)} at {last['devices']:.0f}"
    return f"{said}{against if len(curve.sizes) > 1 else ''}."


def _singles(curve: Curve, runs: pd.DataFrame) -> set[str]:
    """Series of ``single`` whose settings are the curve's own, as far as the runs tell."""
    own = runs[runs["series"] == curve.series]
    told = [name for name in SETTINGS if name in runs and name not in _STRATEGYS]
    singles = runs[runs["strategy"] == "single"]
    if own.empty:
        return set(singles["series"])
    first = own.sort_values("devices").iloc[0]
    alike = [all(_same(row[name], first[name]) for name in told) for _, row in singles.iterrows()]
    return set(singles.loc[alike, "series"])


def _same(a: object, b: object) -> bool:
    return bool(a == b or (pd.isna(a) and pd.isna(b)))  # type: ignore[call-overload]


def _single(view: View, curve: Curve, runs: pd.DataFrame, first: "pd.Series[Any]") -> "pd.Series[Any] | None":
    names = _singles(curve, runs)
    if curve.series in names:
        return None
    alike = sorted(
        (c for c in view.curves if c.series in names and c.device == curve.device),
        key=lambda c: c.scaling != curve.scaling,
    )
    for other in alike:
        rows = other.rows
        same = rows[
            (rows["devices"] == first["devices"])
            & (rows["unit"] == first["unit"])
            & (rows["global_batch"] == first["global_batch"])
        ]
        for _, row in same.iterrows():
            found: pd.Series[Any] = row
            return found
    return None
