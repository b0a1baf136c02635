"""What a strategy itself costs: its smallest size beside training on one device without any strategy."""

from typing import Any

import pandas as pd

from breakeven.figures import words
from breakeven.figures.view import Curve, View


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


def _single(view: View, curve: Curve, runs: pd.DataFrame, first: "pd.Series[Any]") -> "pd.Series[Any] | None":
    names = set(runs.loc[runs["strategy"] == "single", "series"])
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
