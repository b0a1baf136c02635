"""What only published results have to tell: where the efficiency went, how the two scores differ, which logs are old,
and how many oddities they hold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from breakeven.figures import words
from breakeven.figures.view import Curve, View
from breakeven.report.cells import Cell, Column, Table, known, number, significant, table, text, whole, yes

#: Factors of the efficiency in the order they are told, and what each is the loss of.
_FACTORS = {
    "efficiency_stat": "more samples needed",
    "efficiency_step": "slower steps",
    "efficiency_overhead": "evaluation and start-up",
    "efficiency_residual": "unexplained",
}
_UNSPLIT = {"efficiency_stat": _FACTORS["efficiency_stat"], "efficiency_sys": "less throughput per device"}
#: Below this loss of log-efficiency its shares would be noise.
_WORTH_TELLING = 0.05


@dataclass(frozen=True, slots=True)
class Round:
    """A round's tables as the report reads them, under ``results/mlperf/<round>/``."""

    name: str
    scores: pd.DataFrame
    anomalies: pd.DataFrame
    critical_batch: pd.DataFrame


def lost_to(curve: Curve) -> str:
    """``At 1024 the loss is 69 % more samples needed, 6 % slower steps, 25 % evaluation and start-up.``

    Shares of ln(1/E) at the series' largest size; a factor that gains has a negative share. Empty where nothing is
    lost.
    """
    rows = curve.rows.dropna(subset=["efficiency"])
    if len(rows) < 2:
        return ""
    row = rows.iloc[-1]
    loss = -math.log(float(row["efficiency"]))
    if loss < _WORTH_TELLING:
        return ""
    factors = _FACTORS if all(known(row, name) for name in _FACTORS) else _UNSPLIT
    if not all(known(row, name) for name in factors):
        return ""
    shares = [(-math.log(number(row, name)) / loss, what) for name, what in factors.items()]
    told = [f"{share:.0%}".replace("%", " %") + f" {what}" for share, what in shares if abs(share) >= 0.005]
    return f"At {row['devices']:.0f} the loss is {words.listing(told)} (shares of ln(1/E))."


def not_split(curve: Curve) -> list[str]:
    """Why the throughput of some sizes is not split into its parts, each reason once."""
    notes = curve.rows.get("decomposition_note", pd.Series(dtype=str))
    return list(dict.fromkeys(reason for note in notes if note for reason in str(note).split("; ")))


def beside_the_envelope(view: View, curve: Curve) -> str:
    """What the best submission of anybody at each size would say, and why that is not the answer."""
    envelope = next((c for c in view.curves if not c.headline and c.name.startswith("best")), None)
    if envelope is None or envelope.series == curve.series:
        return ""
    found = view.break_even(envelope.series)
    own = view.break_even(curve.series)
    if found is None or own is None or found.devices is None:
        return ""
    same = "also" if found.devices == own.devices else "instead"
    return (
        f"The best of all submitters at each size, flattered wherever more of them submitted, would {same} say "
        f"{words.size(found.devices)}."
    )


def old_logs(curve: Curve, scores: pd.DataFrame) -> str:
    """``Logs of 3472 (2023-10) are from an earlier round: older software.``"""
    if "old_logs" not in scores:
        return ""
    old = scores[scores["old_logs"].map(yes)]
    labels = dict(zip(old["submitter"] + ": " + old["system"], old["log_months"], strict=True))
    told = [
        f"{row['devices']:.0f} ({labels[row['label']]})" for _, row in curve.rows.iterrows() if row["label"] in labels
    ]
    return f"Logs of {words.listing(told)} are from before this round: older software." if told else ""


def modes_sentence(scores: pd.DataFrame) -> str:
    """How many result sets the strict and the tolerant score agree on."""
    both = scores.dropna(subset=["time_to_train_min", "time_to_train_strict_min"])
    if scores.empty:
        return ""
    differ = len(_differing(scores))
    unscored = int(scores["time_to_train_strict_min"].isna().sum())
    none = f"; {unscored} of {len(scores)} have no official score" if unscored else ""
    return (
        "Scores here are tolerant: a damaged line in a log is passed over. "
        "Strict scores, those of MLCommons' own tool, reject the whole log. "
        f"The two agree on {len(both) - differ} of {len(both)} result sets that have both{none}."
    )


def _differing(scores: pd.DataFrame) -> pd.DataFrame:
    both = scores.dropna(subset=["time_to_train_min", "time_to_train_strict_min"])
    gap = (both["time_to_train_min"] / both["time_to_train_strict_min"] - 1).abs()
    return both[gap > 1e-12]


def modes_table(scores: pd.DataFrame) -> Table:
    """The result sets whose two scores differ, and those that have only one or none."""
    differ = pd.concat([_differing(scores), scores[_one_only(scores)]])
    differ = differ.assign(
        gap=(differ["time_to_train_min"] / differ["time_to_train_strict_min"] - 1) * 100,
        why=[_why(row) for _, row in differ.iterrows()],
    )
    columns = [
        (Column("Benchmark", number=False), text("benchmark")),
        (Column("Submitter", number=False), text("submitter")),
        (Column("System", number=False, wrap=True), text("system")),
        (Column("Devices"), whole("devices")),
        (Column("Strict", "min"), significant("time_to_train_strict_min", 5)),
        (Column("Tolerant", "min"), significant("time_to_train_min", 5)),
        (Column("Difference", "%"), lambda row: Cell(f"{number(row, 'gap'):+.2f}") if known(row, "gap") else Cell("")),
        (Column("Why", number=False, wrap=True), text("why")),
    ]
    return table("", differ, columns)


def _one_only(scores: pd.DataFrame) -> "pd.Series[bool]":
    return scores["time_to_train_min"].isna() | scores["time_to_train_strict_min"].isna()


def _why(row: "pd.Series[Any]") -> str:
    return "; ".join(str(row[name]) for name in ("strict_note", "note") if known(row, name))


def anomalies_summary(anomalies: pd.DataFrame) -> Table:
    """How many files each kind of oddity was found in, the most frequent first."""
    counts = anomalies.groupby("kind", sort=False).agg(places=("kind", "size"), example=("detail", "first"))
    counts = counts.reset_index().sort_values(["places", "kind"], ascending=[False, True])
    columns = [
        (Column("What", number=False), lambda row: Cell(str(row["kind"]).replace("_", " "))),
        (Column("Places"), whole("places")),
        (Column("For example", number=False, wrap=True), text("example")),
    ]
    return table("", counts, columns)


def critical_batch_sentence(critical: pd.DataFrame, workload: str) -> str:
    """``By the reference, samples needed double at a batch of 41 (95 % interval 35 to 48): D = 2,766 (1 + B/41).``"""
    rows = critical[(critical["workload"] == workload) | (critical["benchmark"] == workload)]
    rows = rows[rows["of"] == "reference"]
    if rows.empty or not known(rows.iloc[0], "critical_batch"):
        return ""
    row = rows.iloc[0]
    batch, least = number(row, "critical_batch"), number(row, "samples_min")
    interval = ""
    if known(row, "critical_batch_low") and known(row, "critical_batch_high"):
        low, high = number(row, "critical_batch_low"), number(row, "critical_batch_high")
        interval = f" (95 % interval {_count(low)} to {_count(high)})" if math.isfinite(high) else ""
    note = f" {row['note']}." if known(row, "note") else ""
    return (
        f"By MLPerf's reference runs, the samples needed double at a global batch of {_count(batch)}{interval}: "
        f"D = {_count(least)} (1 + B / {_count(batch)}), within {number(row, 'rmse_percent'):.1f} %.{note}"
    )


def _count(value: float) -> str:
    """Three significant digits, thousands apart: 41, 1,290, 11,900."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded == round(rounded) else f"{rounded:g}"


def sentences(view: View, curve: Curve, published: Sequence[Round]) -> list[str]:
    """What to know of a published series before trusting its numbers."""
    told = [beside_the_envelope(view, curve), *(old_logs(curve, found.scores) for found in published)]
    return [sentence for sentence in told if sentence]
