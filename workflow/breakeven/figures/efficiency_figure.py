"""Efficiency against devices, with the threshold, and the break-even where the curve keeps it last."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from breakeven.figures import layout, marks, words
from breakeven.figures.labels import ONE_SIZE, reference, scaling_title
from breakeven.figures.published import Published
from breakeven.figures.theme import MUTED, SURFACE, Style, styles
from breakeven.figures.view import BreakEven, Curve, View

_LINE_PT = 13.0
_BEND_POINTS = 25


def draw(view: View, note: str = "", _: Published | None = None) -> Figure:
    title = f"{view.workload}: efficiency"
    view = view.legible()
    look = styles(view.curves)
    if why := _nothing(view, look):
        return layout.without_data(title=title, subtitle=reference(view), why=why, note=note)
    facets = view.scalings
    stack = max((len(_marked(view, s)) for s in facets), default=0)
    title_pt = _LINE_PT + 4 if len(facets) > 1 else 0.0
    page = layout.page(
        width=8.4 if len(facets) == 1 else 9.6,
        panel_height=3.5,
        rows=1,
        columns=len(facets),
        right=0.82,
        above=(title_pt + stack * _LINE_PT + 10) / 72,
        title=title,
        subtitle=reference(view),
        keys=marks.keys(view.curves, look),
        note=note,
    )
    top = _top(view)
    for axes, scaling in zip(page.axes[0], facets, strict=True):
        curves = [c for c in view.curves if c.scaling == scaling]
        marks.device_axis(axes, curves, page.panel_in[0])
        axes.set_ylim(0, top)
        axes.set_ylabel("efficiency (work per device-time, reference = 1)")
        _ideal(axes)
        for c in curves:
            style = look[c.series]
            x = c.rows["devices"]
            marks.curve(axes, x, c.rows["efficiency"], style, points=_BEND_POINTS)
            marks.interval(axes, x, c.rows["efficiency_low"], c.rows["efficiency_high"], style)
            marks.single_runs(axes, c.repeats, "efficiency", style)
        for threshold in sorted({b.threshold for _, b in _marked(view, scaling) if b.threshold is not None}):
            _threshold(axes, threshold)
        for level, (c, found) in enumerate(_marked(view, scaling)):
            named = len(_marked(view, scaling)) > 1
            _break_even(axes, c, found, look[c.series], 5 + level * _LINE_PT, named)
        if len(facets) > 1:
            marks.panel_title(axes, scaling_title(scaling), lift=6 + len(_marked(view, scaling)) * _LINE_PT)
        marks.failures(axes, curves, look)
    return page.figure


def _nothing(view: View, look: dict[str, Style]) -> str:
    """Why there is neither a curve nor a failure to draw; "" where there is."""
    if any(len(c.rows) > 1 or (c.failures and look[c.series].strong) for c in view.curves):
        return ""
    sizes = {n for c in view.curves for n in c.sizes}
    return ONE_SIZE if len(sizes) == 1 else "No series has a time at more than one size: nothing to compare."


def _marked(view: View, scaling: str) -> list[tuple[Curve, BreakEven]]:
    """The headline series of a panel that have a curve and a break-even to mark on it."""
    pairs = [(c, view.break_even(c.series)) for c in view.headlines if c.scaling == scaling and len(c.rows) > 1]
    return [(c, found) for c, found in pairs if found is not None]


def _top(view: View) -> float:
    highest: list[float] = [
        v
        for c in view.curves
        for v in [*c.rows["efficiency"], *c.rows["efficiency_high"].dropna(), *c.repeats["efficiency"].dropna()]
    ]
    return max([1.1, *(1.06 * v for v in highest)])


def _ideal(axes: Axes) -> None:
    marks.ideal_line(axes, list(axes.get_xlim()), [1.0, 1.0])


def _break_even(axes: Axes, curve: Curve, found: BreakEven, style: Style, lift: float, named: bool) -> None:
    """``lift``: points above the panel for the line of text, so that no curve ever runs through it."""
    at = found.devices
    if found.threshold is not None and found.crossing is not None:
        axes.plot(
            [found.crossing],
            [found.threshold],
            marker="D",
            markersize=6,
            markerfacecolor=SURFACE,
            markeredgecolor=style.color,
            markeredgewidth=1.4,
            linestyle="none",
            zorder=7,
        )
    reached = at is not None and at < max(curve.sizes)
    if at is not None and reached:
        if found.low is not None and found.high is not None and found.has_interval:
            axes.axvspan(found.low, found.high, color=style.color, alpha=0.09, linewidth=0, zorder=1)
        axes.axvline(at, color=style.color, linewidth=1.3, zorder=2.5)
        _ring(axes, curve, at, style)
    _caption(axes, f"{curve.name}: " if named else "", curve, found, style, lift, reached)


def _threshold(axes: Axes, threshold: float) -> None:
    axes.axhline(threshold, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)), zorder=2)
    axes.annotate(
        f"threshold\n{words.efficiency(threshold)}",
        (1, threshold),
        xycoords=axes.get_yaxis_transform(),
        xytext=(5, 0),
        textcoords="offset points",
        fontsize=8.5,
        color=MUTED,
        va="center",
    )


def _ring(axes: Axes, curve: Curve, at: float, style: Style) -> None:
    here = curve.rows[curve.rows["devices"] == at]
    axes.plot(
        here["devices"].to_numpy(float),
        here["efficiency"].to_numpy(float),
        marker="o",
        markersize=14,
        markerfacecolor="none",
        markeredgecolor=style.color,
        markeredgewidth=1.6,
        linestyle="none",
        zorder=8,
    )


def _caption(axes: Axes, name: str, curve: Curve, found: BreakEven, style: Style, lift: float, reached: bool) -> None:
    text = f"{name}{caption(curve, found)}"
    x = found.devices if reached and found.devices is not None else float(max(curve.sizes))
    where = marks.place(axes, x)
    side = "center" if 0.3 < where < 0.62 else "left" if where <= 0.3 else "right"
    axes.annotate(
        text,
        (x if reached else axes.get_xlim()[1], 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(0, lift),
        textcoords="offset points",
        ha=side,
        va="bottom",
        fontsize=9,
        fontweight="bold",
        color=style.color,
    )


def caption(curve: Curve, found: BreakEven) -> str:
    """The break-even in one line of a figure."""
    if found.devices is None:
        return "no break-even"
    if found.devices >= max(curve.sizes):
        return f"break-even not reached up to {max(curve.sizes)}"
    text = f"break-even {words.size(found.devices)}"
    if found.has_interval and found.low is not None and found.high is not None:
        text += f" ({words.size(found.low)} to {words.size(found.high)})"
    if found.crossing is not None and found.threshold is not None:
        text += f", crosses {words.efficiency(found.threshold)} near {words.size(found.crossing)}"
    return text
