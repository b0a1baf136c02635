"""What the efficiency of a size was lost to, as logarithms that add up: -ln E = Σ -ln of its factors."""

import math
from dataclasses import dataclass

import pandas as pd

from breakeven.figures.view import Curve
from breakeven.schema.errors import UserError

#: Factors of the efficiency (columns of efficiency.csv) and what each says in words, from the bottom of a bar up.
FACTORS = {
    "efficiency_stat": "more samples needed",
    "efficiency_step": "slower steps",
    "efficiency_overhead": "evaluation and start-up",
    "efficiency_residual": "unexplained",
}
#: All but the samples in one, where a log does not tell them apart.
UNSPLIT = "efficiency_sys"
UNSPLIT_WORDS = "throughput (not split)"
_NEEDED = [*FACTORS, UNSPLIT, "decomposition_note"]


@dataclass(frozen=True, slots=True)
class Bar:
    """One size: its efficiency and the factors whose product it is, by column."""

    devices: int
    batch: float | None
    efficiency: float
    factors: dict[str, float]
    note: str
    """Why it is not split further; empty where it is."""
    reference: bool

    @property
    def losses(self) -> dict[str, float]:
        """Natural logarithms; a gain is negative."""
        return {column: -math.log(factor) for column, factor in self.factors.items()}

    @property
    def loss(self) -> float:
        return -math.log(self.efficiency)


def bars(curve: Curve) -> list[Bar]:
    """One for each size whose efficiency is known by factors, the smallest first; none for times without a target.

    Raises UserError where the table has no such columns.
    """
    if missing := [c for c in _NEEDED if c not in curve.rows]:
        raise UserError(
            f"efficiency.csv has no column {', '.join(missing)}, so {curve.series!r} cannot be taken apart. "
            "Delete it and run snakemake to make it anew."
        )
    rows = curve.rows[(curve.rows[["efficiency", "efficiency_stat", UNSPLIT]] > 0).all(axis=1)]
    return [_bar(row, curve.reference_devices) for _, row in rows.iterrows()]


def _bar(row: "pd.Series[float]", reference_devices: int | None) -> Bar:
    split = all(row[column] > 0 for column in FACTORS)  # what is unknown is not
    devices = int(row["devices"])
    return Bar(
        devices=devices,
        batch=float(row["global_batch"]) if pd.notna(row["global_batch"]) else None,
        efficiency=float(row["efficiency"]),
        factors={c: float(row[c]) for c in (FACTORS if split else ("efficiency_stat", UNSPLIT))},
        note="" if split else str(row["decomposition_note"]),
        reference=devices == reference_devices,
    )
