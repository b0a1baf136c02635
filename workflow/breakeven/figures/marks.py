"""What is drawn on a panel, one mark a function: a curve, its single runs, runs without a time, the device axis."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from breakeven.figures import words
from breakeven.figures.labels import ENVELOPE
from breakeven.figures.layout import Key
from breakeven.figures.theme import CONTEXT, FAILED, INK, MUTED, SURFACE, Style
from breakeven.figures.ticks import doublings, labelled_sizes, log_ticks, size_limits
from breakeven.figures.view import Curve

#: Between two tested sizes further apart than this factor a line is dotted: nobody knows the curve there.
GAP = 4
_DOTTED = (0, (1, 1.6))
_ASIDE_PT = 7.5


def curve(axes: Axes, x: "pd.Series[float]", y: "pd.Series[float]", style: Style, *, points: int = 2) -> None:
    """A line with markers, dotted over gaps; a lone size is a marker alone.

    Between two sizes the line is straight in log x and log y, as the break-even's crossing is computed; where an axis
    is linear it bends and needs more than two ``points``.
    """
    for (x0, y0), (x1, y1) in pairwise(zip(x, y, strict=True)):
        line = between(x0, x1)
        steps = np.geomspace(x0, x1, points)
        slope = np.log(y1 / y0) / np.log(x1 / x0)
        axes.plot(
            steps,
            y0 * (steps / x0) ** slope,
            color=style.color,
            linewidth=style.width,
            linestyle=line,
            zorder=style.order,
        )
    axes.plot(
        x.to_numpy(float),
        y.to_numpy(float),
        color=style.color,
        linestyle="none",
        marker=style.marker,
        markersize=style.size,
        markerfacecolor=style.color if style.strong else SURFACE,
        markeredgecolor=SURFACE if style.strong else style.color,
        markeredgewidth=1.0,
        zorder=style.order,
    )


def between(devices: float, next_devices: float) -> Any:
    """The line from one size to the next."""
    return _DOTTED if next_devices > GAP * devices else "solid"


def gap_key() -> Key:
    return Key(line_sample(INK, 1.4, _DOTTED), "no size tested between")


def interval(
    axes: Axes,
    x: "pd.Series[float]",
    low: "pd.Series[float]",
    high: "pd.Series[float]",
    style: Style,
) -> None:
    """A thin bar from low to high at each size that has both."""
    known = low.notna() & high.notna()
    if style.strong and known.any():
        axes.vlines(
            x[known].to_numpy(float),
            low[known].to_numpy(float),
            high[known].to_numpy(float),
            color=style.color,
            linewidth=1.3,
            zorder=style.order - 0.5,
        )


def single_runs(axes: Axes, repeats: pd.DataFrame, column: str, style: Style) -> None:
    """Each repeat as a small point, set a little aside so that it does not hide behind the curve's marker."""
    if style.strong and len(repeats):
        axes.scatter(
            repeats["devices"].to_numpy(float),
            repeats[column].to_numpy(float),
            s=13,
            color=style.color,
            alpha=0.45,
            linewidths=0,
            transform=axes.transData + ScaledTranslation(_ASIDE_PT / 72, 0, axes.figure.dpi_scale_trans),
            zorder=style.order - 1,
        )


def failures(axes: Axes, curves: Sequence[Curve], styles: dict[str, Style]) -> None:
    """Runs without a time: a cross on the device axis with the status beside it, one line a series.

    Small where other runs of that size gave one. Series in grey are left out: their runs are in the report's tables.
    """
    strong = [one for one in curves if styles[one.series].strong]
    named = len(strong) > 1
    stacked: dict[int, int] = {}
    for one in strong:
        for failure in one.failures:
            level = stacked.get(failure.devices, 0)
            stacked[failure.devices] = level + 1
            if level == 0:
                axes.plot(
                    [failure.devices],
                    [0],
                    transform=axes.get_xaxis_transform(),
                    marker="X",
                    markersize=9 if failure.runs == failure.of else 6,
                    color=FAILED,
                    markeredgecolor=SURFACE,
                    linestyle="none",
                    clip_on=False,
                    zorder=9,
                )
            beside, side = _beside(axes, failure.devices)
            axes.annotate(
                f"{one.name}: {failure.text}" if named else failure.text,
                (failure.devices, 0),
                xycoords=axes.get_xaxis_transform(),
                xytext=(beside, 5 + 11 * level),
                textcoords="offset points",
                ha=side,
                fontsize=8,
                color=FAILED,
                zorder=9,
            )


def place(axes: Axes, x: float) -> float:
    """Where on the device axis a size lies: 0 its left end, 1 its right end."""
    low, high = np.log(axes.get_xlim())
    return float((np.log(x) - low) / (high - low))


def _beside(axes: Axes, x: float) -> tuple[float, str]:
    """On the side with more room, clear of a vertical line through the size."""
    return (-8.0, "right") if place(axes, x) > 0.7 else (8.0, "left")


def device_axis(axes: Axes, curves: Sequence[Curve], width_in: float, also: Iterable[float] = ()) -> None:
    """Log2 axis with the tested sizes as ticks, plain numbers, and the word for one device.

    ``also``: sizes that no curve has but something else on the panel; they get a tick without a number.
    """
    sizes = [*(n for one in curves for n in one.tried), *(int(n) for n in also)]
    main = [n for one in curves if one.headline for n in one.tried] or sizes
    low, high = size_limits(sizes)
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    upper = labelled_sizes(main, width_in, low, high)
    upper = labelled_sizes(sizes, width_in, low, high, upper)  # of context, what the headline leaves room for
    # what has no room in the first line of labels goes to a second
    lower = labelled_sizes(sorted(set(main) - set(upper)), width_in, low, high)
    axes.xaxis.set_major_locator(FixedLocator(sorted(upper + lower)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{'' if round(n) in upper else chr(10)}{words.size(n)}"))
    axes.xaxis.set_minor_locator(FixedLocator(sorted(set(sizes) - set(upper) - set(lower))))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(False, axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(words.devices_word(one.device for one in curves))


def log_value_axis(axes: Axes, values: Sequence[float], *, doubling: bool = False, unit: float = 1.0) -> None:
    """Log axis around the values with ticks at plain numbers of ``unit``; ``doubling``: at powers of two where they
    fit."""
    known = [v for v in values if v > 0 and np.isfinite(v)]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    pad = max((high / low) ** 0.07, 1.15)
    low, high = low / pad, high * pad
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    plain_ticks(axes.yaxis, doublings(low, high) if doubling else log_ticks(low, high), unit)


def plain_ticks(axis: Axis, ticks: Sequence[float], unit: float = 1.0) -> None:
    """These ticks and no others, as plain numbers of ``unit``; thousands apart from ten thousand on."""
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: words.tick(v / unit)))
    axis.set_minor_locator(NullLocator())


def submissions(
    axes: Axes,
    x: "pd.Series[float]",
    y: "pd.Series[float]",
    color: str = CONTEXT,
    order: int = 2,
    *,
    aside: bool = False,
) -> None:
    """Published results behind what a figure is about: faint dots, darker where several lie on one another.

    ``aside``: a little to the left, where the marker of a curve at the same size does not hide them.
    """
    shift = ScaledTranslation(-_ASIDE_PT / 72 if aside else 0.0, 0, axes.figure.dpi_scale_trans)
    axes.scatter(
        x.to_numpy(float),
        y.to_numpy(float),
        s=22,
        color=color,
        alpha=0.55,
        linewidths=0,
        transform=axes.transData + shift,
        zorder=order,
    )


def submissions_key(label: str, color: str = CONTEXT) -> Key:
    dot = Line2D([], [], color=color, alpha=0.55, marker="o", linestyle="none")
    dot.set(markersize=4.7, markeredgewidth=0)
    return Key(dot, label)


def ideal_line(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    axes.plot(x, y, color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)), zorder=2)


def panel_title(axes: Axes, text: str, lift: float = 6.0, aside: float = 0.0) -> None:
    """``lift``, ``aside``: points above the panel's upper left corner and to its right."""
    axes.annotate(
        text,
        (0, 1),
        xycoords="axes fraction",
        xytext=(aside, lift),
        textcoords="offset points",
        fontsize=9.5,
        fontweight="bold",
        color=INK,
        va="bottom",
    )


def keys(curves: Sequence[Curve], styles: dict[str, Style]) -> list[Key]:
    """The legend: every series, then what the small marks mean."""
    by_name = {c.name: Key(_sample(styles[c.series]), ENVELOPE if c.envelope else c.name) for c in reversed(curves)}
    found = [by_name[name] for name in dict.fromkeys(c.name for c in curves)]
    strong = [c for c in curves if styles[c.series].strong]
    if any(len(c.repeats) for c in strong):
        dot = Line2D([], [], color=styles[strong[0].series].color, alpha=0.45, marker="o")
        dot.set(markersize=4, linestyle="none", markeredgewidth=0)
        found.append(Key(dot, "single runs"))
    found.append(Key(Line2D([], [], color=MUTED, linewidth=1.1, linestyle=(0, (4, 3))), "ideal"))
    if any(b > GAP * a for c in curves for a, b in pairwise(c.sizes)):
        found.append(gap_key())
    if any(c.failures for c in strong):
        cross = Line2D([], [], color=FAILED, marker="X", linestyle="none", markersize=8, markeredgecolor=SURFACE)
        found.append(Key(cross, "run without a time"))
    return found


def line_sample(color: str, width: float, linestyle: Any = "solid") -> Line2D:
    return Line2D([], [], color=color, linewidth=width, linestyle=linestyle)


def _sample(style: Style) -> Line2D:
    return Line2D(
        [],
        [],
        color=style.color,
        linewidth=style.width,
        marker=style.marker,
        markersize=style.size,
        markerfacecolor=style.color if style.strong else SURFACE,
        markeredgecolor=SURFACE if style.strong else style.color,
    )
