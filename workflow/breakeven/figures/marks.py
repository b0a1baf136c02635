"""What is drawn on a panel, one mark a function: a curve, its single runs, runs without a time, the device axis."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from breakeven.figures import words
from breakeven.figures.layout import Key
from breakeven.figures.theme import FAILED, INK, MUTED, SURFACE, Style
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
        line = _DOTTED if x1 > GAP * x0 else "solid"
        between = np.geomspace(x0, x1, points)
        slope = np.log(y1 / y0) / np.log(x1 / x0)
        axes.plot(
            between,
            y0 * (between / x0) ** slope,
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


def device_axis(axes: Axes, curves: Sequence[Curve], width_in: float) -> None:
    """Log2 axis with the tested sizes as ticks, plain numbers, and the word for one device."""
    sizes = [n for one in curves for n in one.tried]
    main = [n for one in curves if one.headline for n in one.tried] or sizes
    low, high = size_limits(sizes)
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    upper = labelled_sizes(main, width_in, low, high)
    # what has no room in the first line of labels goes to a second
    lower = labelled_sizes(sorted(set(main) - set(upper)), width_in, low, high)
    axes.xaxis.set_major_locator(FixedLocator(sorted(upper + lower)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{'' if round(n) in upper else chr(10)}{words.size(n)}"))
    axes.xaxis.set_minor_locator(FixedLocator(sorted(set(sizes) - set(upper) - set(lower))))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(False, axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(words.devices_word(one.device for one in curves))


def log_value_axis(axes: Axes, values: Sequence[float], *, doubling: bool = False) -> None:
    """Log axis around the values with ticks at plain numbers; ``doubling``: at powers of two where they fit."""
    known = [v for v in values if v > 0 and np.isfinite(v)]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    pad = max((high / low) ** 0.07, 1.15)
    low, high = low / pad, high * pad
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator(doublings(low, high) if doubling else log_ticks(low, high)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def ideal_line(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    axes.plot(x, y, color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)), zorder=2)


def panel_title(axes: Axes, text: str, lift: float = 6.0) -> None:
    axes.annotate(
        text,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, lift),
        textcoords="offset points",
        fontsize=9.5,
        fontweight="bold",
        color=INK,
        va="bottom",
    )


def keys(curves: Sequence[Curve], styles: dict[str, Style]) -> list[Key]:
    """The legend: every series, then what the small marks mean."""
    by_name = {c.name: Key(_sample(styles[c.series]), c.name) for c in reversed(curves)}
    found = [by_name[name] for name in dict.fromkeys(c.name for c in curves)]
    strong = [c for c in curves if styles[c.series].strong]
    if any(len(c.repeats) for c in strong):
        dot = Line2D([], [], color=styles[strong[0].series].color, alpha=0.45, marker="o")
        dot.set(markersize=4, linestyle="none", markeredgewidth=0)
        found.append(Key(dot, "single runs"))
    found.append(Key(Line2D([], [], color=MUTED, linewidth=1.1, linestyle=(0, (4, 3))), "ideal"))
    if any(b > GAP * a for c in curves for a, b in pairwise(c.sizes)):
        found.append(Key(Line2D([], [], color=INK, linewidth=1.4, linestyle=_DOTTED), "no size tested between"))
    if any(c.failures for c in strong):
        cross = Line2D([], [], color=FAILED, marker="X", linestyle="none", markersize=8, markeredgecolor=SURFACE)
        found.append(Key(cross, "run without a time"))
    return found


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
