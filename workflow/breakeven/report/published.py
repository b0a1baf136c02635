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

#: Factors of the efficiency in the order they are told, and what a loss or a gain by each is due to.
_FACTORS = {
    "efficiency_stat": "samples",
    "efficiency_step": "step speed",
    "efficiency_overhead": "evaluation and start-up",
    "efficiency_residual": "what the logs do not explain",
}
_UNSPLIT = {"efficiency_stat": _FACTORS["efficiency_stat"], "efficiency_sys": "throughput per device"}
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
    """``Of the loss at 1024, 74 % is due to samples (3.5 times as many), 10 % to step speed (× 0.84), ...``

    Shares of ln(1/E) at the series' largest size, each with its factor; factors that gain are told apart, and the
    shares are then of all that was lost. Empty where nothing is lost.
    """
    rows = curve.rows.dropna(subset=["efficiency"])
    if len(rows) < 2:
        return ""
    row = rows.iloc[-1]
    if -math.log(float(row["efficiency"])) < _WORTH_TELLING:
        return ""
    factors = _FACTORS if all(known(row, name) for name in _FACTORS) else _UNSPLIT
    if not all(known(row, name) for name in factors):
        return ""
    values = {name: number(row, name) for name in factors}
    lost = {name: -math.log(value) for name, value in values.items() if value < 1}
    told = [
        f"{share:.0f} % {'is due ' if not at else ''}to {factors[name]} ({_factor(name, values[name])})"
        for at, (name, share) in enumerate((name, 100 * loss / sum(lost.values())) for name, loss in lost.items())
        if share >= 0.5
    ]
    gained = [f"{factors[name]} (× {value:.2f})" for name, value in values.items() if value >= 1.005]
    gain = f"; gained by {words.listing(gained)}" if gained else ""
    return f"Of the loss at {row['devices']:.0f} (as ln(1/E)), {words.listing(told)}{gain}."


def _factor(name: str, value: float) -> str:
    return f"{words.ratio(1 / value)} times as many" if name == "efficiency_stat" else f"× {value:.2f}"


def not_split(curve: Curve) -> list[str]:
    """Why the throughput of some sizes is not split into its parts, each reason once."""
    notes = curve.rows.get("decomposition_note", pd.Series(dtype=str))
    return list(dict.fromkeys(reason for note in notes if note for reason in str(note).split("; ")))


def beside_the_envelope(view: View, curve: Curve) -> str:
    """What the best submission of anybody at each size would say, and why that is not the answer."""
    if curve.envelope:
        return _only_an_envelope(curve)
    envelope = next((c for c in view.curves if c.envelope), None)
    if envelope is None or len(curve.sizes) < 2:
        return ""
    found = view.break_even(envelope.series)
    own = view.break_even(curve.series)
    if found is None or own is None or found.devices is None:
        return ""
    if own.devices is not None and own.devices >= max(curve.sizes):
        said = "not be at its break-even either" if found.devices >= own.devices else f"say {words.size(found.devices)}"
    else:
        said = f"{'also' if found.devices == own.devices else 'instead'} say {words.size(found.devices)}"
    return f"The best of all submitters at each size, flattered wherever more of them submitted, would {said}."


def _only_an_envelope(curve: Curve) -> str:
    """Where nobody tested two sizes, the envelope is all there is."""
    whose = [f"{row['devices']:.0f}: {row['label']}" for _, row in curve.rows.iterrows()]
    several = "no one experiment, and flattered wherever more of them submitted" if len(whose) > 1 else ""
    no_series = "No submitter tested two sizes here, so this is the best of all at each"
    return f"{no_series} ({'; '.join(whose)}){f': {several}' if several else ''}."


def left_out(scores: pd.DataFrame, benchmark: str, family: str) -> str:
    """``Left out: Acme x1_n1 (8 devices: 4 of 5 required runs).`` Result sets that no curve is drawn through."""
    mine = scores[(scores["benchmark"] == benchmark) | (scores["workload"] == benchmark)]
    mine = mine[(mine["accelerator_family"] == family) & (mine["note"] != "") & (mine["duplicate_of"] == "")]
    told = [
        f"{row['submitter']} {row['system']} ({row['devices']:.0f} devices: {row['note']})"
        for _, row in mine.dropna(subset=["devices"]).iterrows()
    ]
    return f"Left out: {'; '.join(told)}." if told else ""


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
    has = "has" if unscored == 1 else "have"
    none = f"; {unscored} of {len(scores)} {has} no official score" if unscored else ""
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


def sentences(view: View, curve: Curve, published: Sequence[Round], benchmark: str = "") -> list[str]:
    """What to know of a published series before trusting its numbers."""
    told = [beside_the_envelope(view, curve)]
    for found in published:
        told += [old_logs(curve, found.scores), left_out(found.scores, benchmark, curve.device)]
    return [sentence for sentence in told if sentence]
