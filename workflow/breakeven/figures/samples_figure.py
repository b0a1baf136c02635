"""Samples to converge against the global batch: submissions, the reference, the fitted curve, the critical batch."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from breakeven.figures import layout, marks, words
from breakeven.figures.layout import Key
from breakeven.figures.published import Published
from breakeven.figures.theme import CONTEXT, INK, MUTED, PALETTE, SURFACE
from breakeven.figures.ticks import log_ticks

_FOREGROUND = PALETTE[0]
#: The part of a standard deviation, in means, that the axis makes room for.
_BAR_SHARE = 0.3
_FITTED = (0, (1, 1.6))


def draw(what: Published, note: str = "") -> Figure:
    own = what.own.dropna(subset=["samples_to_converge", "global_batch"])
    reference = what.reference[what.reference["round"] == what.own_round] if len(what.reference) else what.reference
    title = f"{what.workload}: samples to converge against the batch"
    if own.empty and reference.empty:
        why = "Neither a submission's samples to converge nor reference runs are known."
        return layout.without_data(title=title, subtitle=what.in_round, why=why, note=note)
    fit = _fit(what)
    page = layout.page(
        width=8.4,
        panel_height=3.9,
        rows=1,
        columns=1,
        right=0.3,
        above=0.34,
        title=title,
        subtitle=f"{what.in_round} · {_sentence(fit)}",
        keys=_keys(what, own, reference, fit),
        note=note,
    )
    axes = page.axes[0][0]
    batches = [*own["global_batch"], *(reference["global_batch"] if len(reference) else [])]
    low, high = min(batches) / 1.35, max(batches) * 1.35
    marked = _number(fit, "critical_batch")
    if marked is not None and marked < max(batches) * 4:
        high = max(high, marked * 1.35)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    marks.plain_ticks(axes.xaxis, log_ticks(low, high, at_most=9))
    axes.set_xlabel("global batch (samples)")
    axes.spines[["top", "right"]].set_visible(False)
    values = _dots(axes, what, own) + _reference(axes, reference) + _curve(axes, fit, low, high)
    unit, name = words.large_unit(values)
    marks.log_value_axis(axes, values, unit=unit)
    axes.set_ylabel(f"samples to converge{f' ({name})' if name else ''}")
    _critical(axes, fit, low, high)
    return page.figure


def _fit(what: Published) -> "pd.Series[Any] | None":
    """The reference's fit, else that of the submissions; a fit that failed still says why."""
    if what.critical.empty:
        return None
    rows = what.critical[what.critical["round"] == what.own_round]
    for of in ("reference", "submissions"):
        found = rows[rows["of"] == of]
        if len(found) and (pd.notna(found.iloc[0]["critical_batch"]) or of == "submissions"):
            return found.iloc[0]
    return rows.iloc[0] if len(rows) else None


def _number(fit: "pd.Series[Any] | None", column: str) -> float | None:
    if fit is None or pd.isna(fit[column]) or not math.isfinite(float(fit[column])):
        return None
    return float(fit[column])


def _sentence(fit: "pd.Series[Any] | None") -> str:
    critical, least = _number(fit, "critical_batch"), _number(fit, "samples_min")
    if fit is None:
        return "no fit"
    if critical is None or least is None:
        return f"critical batch {fit['note'] or 'not identifiable'}"
    by = "reference runs" if fit["of"] == "reference" else "submissions"
    error = _number(fit, "rmse_percent")
    within = f", within {error:.1f} %" if error is not None else ""
    return f"{by} follow {words.large(least)} × (1 + batch / {words.count(critical)}){within}"


def _dots(axes: Axes, what: Published, own: pd.DataFrame) -> list[float]:
    mine = own["accelerator_family"] == what.family
    for rows, color, order in ((own[~mine], CONTEXT, 3), (own[mine], _FOREGROUND, 4)):
        marks.submissions(axes, rows["global_batch"], rows["samples_to_converge"], color, order, aside=True)
    return list(own["samples_to_converge"])


def _reference(axes: Axes, reference: pd.DataFrame) -> list[float]:
    if reference.empty:
        return []
    sd = reference["samples_sd"].fillna(0.0)
    low, high = reference["samples_mean"] - sd, reference["samples_mean"] + sd
    x = reference["global_batch"].to_numpy(float)
    axes.vlines(x, low.clip(lower=1).to_numpy(float), high.to_numpy(float), color=INK, linewidth=1.1, zorder=5)
    for kept in (True, False):
        rows = reference[reference["kept"] == kept]
        axes.plot(
            rows["global_batch"].to_numpy(float),
            rows["samples_mean"].to_numpy(float),
            linestyle="none",
            marker="s",
            markersize=6,
            markerfacecolor=INK if kept else SURFACE,
            markeredgecolor=INK,
            markeredgewidth=1.1,
            zorder=6,
        )
    # one run written down wrongly makes a bar without bounds: the axis follows the means, a long bar leaves the panel
    share = (sd / reference["samples_mean"]).clip(upper=_BAR_SHARE)
    return [*(reference["samples_mean"] * (1 - share)), *(reference["samples_mean"] * (1 + share))]


def _curve(axes: Axes, fit: "pd.Series[Any] | None", low: float, high: float) -> list[float]:
    critical, least = _number(fit, "critical_batch"), _number(fit, "samples_min")
    if fit is None or critical is None or least is None:
        return []
    start, end = _number(fit, "batch_min") or low, _number(fit, "batch_max") or high
    for a, b, line in ((low, start, _FITTED), (start, end, "solid"), (end, high, _FITTED)):
        if b > a:
            x = np.geomspace(a, b, 60)
            axes.plot(x, least * (1 + x / critical), color=MUTED, linewidth=1.6, linestyle=line, zorder=2.5)
    return [least * (1 + low / critical), least * (1 + high / critical)]


def _critical(axes: Axes, fit: "pd.Series[Any] | None", low: float, high: float) -> None:
    """A line at the critical batch with its interval, its words above the panel, where no dot can lie under them."""
    critical = _number(fit, "critical_batch")
    if fit is None or critical is None:
        return
    ends = _number(fit, "critical_batch_low"), _number(fit, "critical_batch_high")
    if ends != (None, None):
        axes.axvspan(max(ends[0] or low, low), min(ends[1] or high, high), color=PALETTE[1], alpha=0.09, linewidth=0)
    inside = low <= critical <= high
    if inside:
        axes.axvline(critical, color=PALETTE[1], linewidth=1.3, zorder=2.4)
    where = math.log(critical / low) / math.log(high / low) if inside else 1.0
    axes.annotate(
        f"critical batch {words.count(critical)}{_interval(*ends)}: twice the fewest samples"
        + ("" if inside else ", beyond this axis"),
        (where, 1),
        xycoords="axes fraction",
        xytext=(0, 5),
        textcoords="offset points",
        ha="left" if where < 0.3 else "center" if where < 0.62 else "right",
        fontsize=9,
        fontweight="bold",
        color=PALETTE[1],
    )


def _interval(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" ({words.count(low)} to {words.count(high)})"
    if low is not None:
        return f" (at least {words.count(low)})"
    return f" (at most {words.count(high)})" if high is not None else ""


def _keys(what: Published, own: pd.DataFrame, reference: pd.DataFrame, fit: "pd.Series[Any] | None") -> list[Key]:
    mine = own["accelerator_family"] == what.family
    keys = []
    if mine.any():
        keys.append(marks.submissions_key(f"{what.family} submission", _FOREGROUND))
    if (~mine).any():
        keys.append(marks.submissions_key("other submission" if mine.any() else "submission"))
    for kept, text in (
        (True, "reference runs, ± one standard deviation"),
        (False, "reference, not used by the checker"),
    ):
        if len(reference) and (reference["kept"] == kept).any():
            square = Line2D([], [], color=INK, marker="s", markersize=6, linewidth=1.1, linestyle="none")
            square.set(markerfacecolor=INK if kept else SURFACE, markeredgecolor=INK)
            keys.append(Key(square, text))
    if _number(fit, "critical_batch") is not None:
        keys.append(Key(marks.line_sample(MUTED, 1.6), "fit; dotted beyond its batches"))
    return keys
