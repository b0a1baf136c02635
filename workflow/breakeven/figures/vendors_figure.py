"""Every submission of one size by accelerator: how far the submitters of one accelerator lie apart."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from breakeven.figures import layout, marks, words
from breakeven.figures.layout import Key
from breakeven.figures.published import Published, Spread, Submission, compared_size, distinct, spreads
from breakeven.figures.theme import INK, MUTED, PALETTE, RULE, SURFACE
from breakeven.figures.ticks import log_ticks

#: Inches of a submission's line, of a family's heading, and the air under a family.
_LINE_IN, _HEADING_IN, _AIR_IN = 0.165, 0.24, 0.13
#: Left of the fastest run, as a factor.
_LEAST_AIR, _MOST_AIR = 1.005, 1.05
_NAME_CHARS = 38
_NAME_CHAR_IN, _NAME_GAP_IN = 0.067, 0.12


def draw(what: Published, note: str = "") -> Figure:
    scores = what.scores[what.scores["round"] == what.own_round]
    if distinct(scores).empty:
        title = f"{what.workload}: by accelerator and submitter"
        return layout.without_data(title=title, subtitle=what.in_round, why="No submission has a score.", note=note)
    devices = compared_size(scores)
    found = spreads(scores, devices)
    height = sum(_HEADING_IN + _LINE_IN * len(s.lines) + _AIR_IN for s in found)
    page = layout.page(
        width=8.4,
        panel_height=height,
        rows=1,
        columns=1,
        right=0.2,
        above=0.1,
        title=f"{what.workload}: {devices} devices, by accelerator and submitter",
        subtitle=f"{what.in_round} · {_sentence(found)}",
        keys=_keys(found),
        note=note,
        left=0.2,
    )
    axes = page.axes[0][0]
    _axes(axes, found, *page.panel_in)
    y = height
    for index, spread in enumerate(found):
        if index:
            axes.axhline(y, color=RULE, linewidth=0.8, zorder=1)
        y = _family(axes, spread, y, spread.family == what.family)
    return page.figure


def _sentence(found: list[Spread]) -> str:
    """The two numbers a buyer asks for: between accelerators, and between submitters of one."""
    widest = max(found, key=lambda s: s.percent)
    within = f"submitters of one accelerator lie up to {words.significant(widest.percent, 2)} % apart"
    if widest.submissions < 2:
        within = "one submission of each"
    if len(found) == 1:
        return within
    between = words.ratio(found[-1].fastest_min / found[0].fastest_min)
    return f"the fastest of each accelerator lie a factor {between} apart, {within}"


def _axes(axes: Axes, found: list[Spread], width_in: float, height: float) -> None:
    every = [line for s in found for line in s.lines]
    fastest, slowest = min(line.fastest_run_min for line in every), max(line.slowest_run_min for line in every)
    low = fastest / min(max((slowest / fastest) ** 0.25, _LEAST_AIR), _MOST_AIR)
    # every name must end inside of the panel, and it starts where its runs end
    spans = [(math.log(line.slowest_run_min / low), width_in - _name_in(line.name)) for line in every]
    high = low * math.exp(max(span * width_in / room for span, room in spans) * 1.01)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    marks.plain_ticks(axes.xaxis, log_ticks(low, high, at_most=11))
    axes.set_ylim(0, height)
    axes.set_yticks([])
    axes.grid(False, axis="y")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("time to train (min, log scale: equal lengths are equal percentages)")


def _family(axes: Axes, spread: Spread, top: float, foreground: bool) -> float:
    """One family's heading and lines, from ``top`` down; returns where it ends."""
    color = PALETTE[0] if foreground else MUTED
    axes.annotate(
        spread.family,
        (0, top - _HEADING_IN / 2),
        xycoords=axes.get_yaxis_transform(),
        xytext=(2, -2),
        textcoords="offset points",
        va="center",
        fontsize=9.5,
        fontweight="bold",
        color=color if foreground else INK,
    )
    axes.annotate(
        _words(spread),
        (1, top - _HEADING_IN / 2),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, -2),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=8.5,
        color=MUTED,
    )
    bottom = top - _HEADING_IN - _LINE_IN * len(spread.lines)
    if spread.submissions > 1:
        axes.fill_betweenx(
            [bottom, top - _HEADING_IN], spread.fastest_min, spread.slowest_min, color=color, alpha=0.13, linewidth=0
        )
    for place, line in enumerate(spread.lines):
        _line(axes, line, top - _HEADING_IN - (place + 0.5) * _LINE_IN, color)
    return bottom - _AIR_IN


def _name_in(name: str) -> float:
    """Inches that a name takes at the most, and its distance from the line."""
    return _NAME_GAP_IN + len(_short(name)) * _NAME_CHAR_IN


def _line(axes: Axes, line: Submission, y: float, color: str) -> None:
    runs = [line.fastest_run_min, line.slowest_run_min]
    axes.plot(runs, [y, y], color=color, linewidth=0.9, alpha=0.7, zorder=2)
    axes.plot(
        [line.time_min],
        [y],
        marker="o",
        markersize=5.5,
        markerfacecolor=SURFACE if line.duplicate else color,
        markeredgecolor=color,
        markeredgewidth=1.1,
        zorder=3,
    )
    axes.annotate(
        _short(line.name),
        (line.slowest_run_min, y),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=INK,
    )


def _short(name: str) -> str:
    """Long names lose their middle: systems of one submitter often differ at the end only."""
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 15]}…{name[-14:]}"


def _words(spread: Spread) -> str:
    """``7 submissions, 1 preview · 5.39 to 5.74 min · spread 6.4 %``"""
    plural = "s" if spread.submissions != 1 else ""
    preview = f", {spread.previews} preview" if 0 < spread.previews < spread.submissions else ""
    if spread.previews == spread.submissions:
        preview = ", preview"
    count = f"{spread.submissions} submission{plural}{preview}"
    fastest, slowest = (words.significant(v) for v in (spread.fastest_min, spread.slowest_min))
    if spread.submissions == 1:
        return f"{count} · {fastest} min"
    return f"{count} · {fastest} to {slowest} min · spread {words.significant(spread.percent, 2)} %"


def _keys(found: list[Spread]) -> list[Key]:
    every = [line for s in found for line in s.lines]
    dot = Line2D([], [], color=MUTED, marker="o", markersize=5.5, linestyle="none")
    keys = [Key(dot, "submission")]
    if any(line.slowest_run_min > line.fastest_run_min for line in every):
        keys.append(Key(marks.line_sample(MUTED, 0.9), "its fastest to its slowest run"))
    if any(line.duplicate for line in every):
        hollow = Line2D([], [], color=MUTED, marker="o", markersize=5.5, linestyle="none", markerfacecolor=SURFACE)
        keys.append(Key(hollow, "repeats another's runs"))
    return keys if len(keys) > 1 else []
