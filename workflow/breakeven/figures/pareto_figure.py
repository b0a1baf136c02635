"""Device-hours against time to train of every submission, and the front that none of its accelerator beats in both."""

from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from breakeven.figures import layout, marks, words
from breakeven.figures.layout import Key
from breakeven.figures.published import Published, front, of_family
from breakeven.figures.theme import CONTEXT, MUTED, PALETTE, RULE, SURFACE
from breakeven.figures.ticks import log_ticks

_SERIES, _FRONT = PALETTE[0], PALETTE[1]
#: Other accelerators are shown up to this factor beyond the family's own times and device-hours.
_REACH = 3.0


def draw(what: Published, note: str = "") -> Figure:
    own = what.own.dropna(subset=["device_hours"])
    mine = of_family(own, what.family)
    hours = words.hours_word(what.family)
    title = f"{what.workload}: {hours} against time to train"
    if mine.empty:
        known = words.listing(sorted(set(own["accelerator_family"]))) or "none"
        why = f"No submission on {what.family} has a score. Accelerators that have: {known}."
        return layout.without_data(title=title, subtitle=what.in_round, why=why, note=note)
    others, beyond = _near(own[own["accelerator_family"] != what.family], mine)
    best = front(mine)
    page = layout.page(
        width=8.4,
        panel_height=4.3,
        rows=1,
        columns=1,
        right=0.45,
        above=0.3,
        title=title,
        subtitle=f"{what.in_round} · {_sentence(best, what.family, hours)}",
        keys=_keys(what, others, beyond),
        note=note,
    )
    axes = page.axes[0][0]
    _axes(axes, pd.concat([mine, others]), hours)
    _same_size(axes, pd.concat([mine, others]))
    marks.submissions(axes, others["time_to_train_min"], others["device_hours"], CONTEXT, 2)
    marks.submissions(axes, mine["time_to_train_min"], mine["device_hours"], _SERIES, 3)
    _staircase(axes, best)
    _series(axes, what)
    _sizes(axes, best, what)
    return page.figure


def _near(others: pd.DataFrame, mine: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Those not far outside of what ``mine`` spans, so that it keeps its room; and how many are further out."""
    near = pd.Series(True, index=others.index)
    for column in ("time_to_train_min", "device_hours"):
        near &= others[column].between(mine[column].min() / _REACH, mine[column].max() * _REACH)
    return others[near], int((~near).sum())


def _sentence(best: pd.DataFrame, family: str, hours: str) -> str:
    if len(best) == 1:
        only = best.iloc[0]
        return f"{words.count_of(family, only['devices'])} are the fastest and take the fewest {hours}"
    first, last = best.iloc[0], best.iloc[-1]
    faster, dearer = (
        last["time_to_train_min"] / first["time_to_train_min"],
        first["device_hours"] / last["device_hours"],
    )
    return (
        f"{words.count_of(family, first['devices'])} are {words.ratio(faster)} times as fast as "
        f"{words.size(last['devices'])}, for {words.ratio(dearer)} times the {hours}"
    )


def _axes(axes: Axes, own: pd.DataFrame, hours: str) -> None:
    times = own["time_to_train_min"]
    low, high = times.min() / 1.3, times.max() * 1.3
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    marks.plain_ticks(axes.xaxis, log_ticks(low, high, at_most=9))
    marks.log_value_axis(axes, list(own["device_hours"]))
    axes.set_xlabel("time to train (min)")
    axes.set_ylabel(hours)
    axes.grid(False)
    axes.spines[["top", "right"]].set_visible(False)


def _same_size(axes: Axes, own: pd.DataFrame) -> None:
    """Faint lines of one number of devices, named where they leave the panel: device-hours are devices times hours."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    smallest, largest = own["devices"].min(), own["devices"].max()
    sizes = [2**k for k in range(int(np.log2(smallest)), int(np.ceil(np.log2(largest))) + 1)]
    step = -(-len(sizes) // 7)
    for n in sizes[::step]:
        ends = np.array([left, right])
        axes.plot(ends, n * ends / 60, color=RULE, linewidth=0.9, zorder=1)
        x, y = (top * 60 / n, top) if n * right / 60 > top else (right, n * right / 60)
        if x > left and y > bottom:
            above = y >= top
            axes.annotate(
                f"{n}",
                (x, y),
                xytext=(0, 4) if above else (4, 0),
                textcoords="offset points",
                ha="center" if above else "left",
                va="bottom" if above else "center",
                fontsize=8,
                color=MUTED,
                annotation_clip=False,
            )


def _staircase(axes: Axes, best: pd.DataFrame) -> None:
    """From each submission of the front, to the right at its cost until the next one is as fast."""
    (_, right), (_, top) = axes.get_xlim(), axes.get_ylim()
    x = [*best["time_to_train_min"], right]
    y = [*best["device_hours"], best["device_hours"].iloc[-1]]
    axes.plot([x[0], *x], [top, *y], color=_FRONT, linewidth=1.5, drawstyle="steps-post", zorder=2.5)


def _series(axes: Axes, what: Published) -> None:
    if what.headline is None:
        return
    rows = what.headline.rows
    x, y = rows["time_s"] / 60, rows["device_hours"]
    places = list(zip(x, y, rows["devices"], strict=True))
    for (x0, y0, n0), (x1, y1, n1) in pairwise(places):
        axes.plot([x0, x1], [y0, y1], color=_SERIES, linewidth=2.4, linestyle=marks.between(n0, n1), zorder=4)
    axes.plot(
        x.to_numpy(float),
        y.to_numpy(float),
        linestyle="none",
        marker="o",
        markersize=7,
        markerfacecolor=_SERIES,
        markeredgecolor=SURFACE,
        zorder=5,
    )


def _sizes(axes: Axes, best: pd.DataFrame, what: Published) -> None:
    """Numbers of devices beside the series and the front; where both have one place, once."""
    series = what.headline.rows if what.headline is not None else pd.DataFrame()
    points = [(row["time_s"] / 60, row["device_hours"], int(row["devices"]), True) for _, row in series.iterrows()]
    points += [
        (row["time_to_train_min"], row["device_hours"], int(row["devices"]), False) for _, row in best.iterrows()
    ]
    placed: list[tuple[float, float]] = []
    for x, y, n, strong in points:
        at = axes.transData.transform((x, y))
        if any(np.hypot(at[0] - px, at[1] - py) < 0.16 * axes.figure.dpi for px, py in placed):
            continue
        placed.append((float(at[0]), float(at[1])))
        axes.annotate(
            f"{n}",
            (x, y),
            xytext=(-5, -5) if not strong else (5, 5),
            textcoords="offset points",
            ha="right" if not strong else "left",
            va="top" if not strong else "bottom",
            fontsize=9,
            fontweight="bold" if strong else "normal",
            color=_SERIES if strong else _FRONT,
            bbox={"boxstyle": "round,pad=0.08", "facecolor": SURFACE, "edgecolor": "none", "alpha": 0.7},
            zorder=6,
        )


def _keys(what: Published, others: pd.DataFrame, beyond: int) -> list[Key]:
    keys = []
    if what.headline is not None:
        line = marks.line_sample(_SERIES, 2.4)
        line.set(marker="o", markersize=7, markerfacecolor=_SERIES, markeredgecolor=SURFACE)
        keys.append(Key(line, f"{what.headline.name}, with its devices"))
    keys.append(marks.submissions_key(f"{what.family} submission", _SERIES))
    if len(others) or beyond:
        keys.append(marks.submissions_key(f"other accelerators{f' ({beyond} beyond the axes)' if beyond else ''}"))
    keys.append(Key(marks.line_sample(_FRONT, 1.5), f"front: no {what.family} submission beats it in both"))
    keys.append(Key(marks.line_sample(RULE, 0.9), "one number of devices, named at the end"))
    if what.headline is not None and any(marks.between(a, b) != "solid" for a, b in pairwise(what.headline.sizes)):
        keys.append(marks.gap_key())
    return keys
