"""Time against devices, and speed-up with the line it would follow if every device paid in full."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from breakeven.figures import layout, marks, words
from breakeven.figures.labels import reference, scaling_title
from breakeven.figures.published import Published, of_family
from breakeven.figures.theme import Style, styles
from breakeven.figures.view import Curve, View


def draw(view: View, note: str = "", results: Published | None = None) -> Figure:
    """``results``: every submission of the family is then a faint dot behind the series."""
    view = view.legible()
    look = styles(view.curves)
    behind = of_family(results.own, results.family) if results else None
    keys = marks.keys(view.curves, look)
    if results is not None and behind is not None and len(behind):
        keys.append(marks.submissions_key(f"every {results.family} submission"))
    facets = view.scalings
    page = layout.page(
        width=9.6,
        panel_height=3.1,
        rows=len(facets),
        columns=2,
        right=0.2,
        above=0.3,
        title=f"{view.workload}: time and speed-up",
        subtitle=reference(view, on_one_line=True),
        keys=keys,
        note=note,
    )
    for (left, right), scaling in zip(page.axes, facets, strict=True):
        curves = [c for c in view.curves if c.scaling == scaling]
        prefix = f"{scaling_title(scaling)} · " if len(facets) > 1 else ""
        for axes in (left, right):
            marks.device_axis(axes, curves, page.panel_in[0], [] if behind is None else behind["devices"])
        _times(left, view, curves, look, behind)
        marks.panel_title(left, f"{prefix}time")
        _speedups(right, curves, look)
        marks.panel_title(right, f"{prefix}speed-up")
    return page.figure


def _times(
    axes: Axes, view: View, curves: Sequence[Curve], look: dict[str, Style], behind: pd.DataFrame | None
) -> None:
    every = [t for c in curves for t in [*c.rows["time_s"], *c.repeats["time_s"]]]
    unit_s, unit = words.time_unit(every)
    if behind is not None:
        unit_s, unit = 60.0, "min"  # as published
        every += list(behind["time_to_train_min"] * unit_s)
        marks.submissions(axes, behind["devices"], behind["time_to_train_min"], aside=True)
    ideals = []
    for c in curves:
        style = look[c.series]
        x, y = c.rows["devices"], c.rows["time_s"] / unit_s
        marks.curve(axes, x, y, style)
        marks.interval(axes, x, c.rows["time_s_low"] / unit_s, c.rows["time_s_high"] / unit_s, style)
        marks.single_runs(axes, c.repeats.assign(time=c.repeats["time_s"] / unit_s), "time", style)
        if c.headline and len(c.rows) > 1:
            ends = [float(x.iloc[0]), float(x.iloc[-1])]
            ideals.append((ends, [float(y.iloc[0]), float(y.iloc[0]) * ends[0] / ends[1]]))
    for ends, line in ideals:
        marks.ideal_line(axes, ends, line)
    marks.log_value_axis(axes, [t / unit_s for t in every] + [v for _, line in ideals for v in line])
    axes.set_ylabel(f"{_time_of(view, curves)} ({unit})")
    marks.failures(axes, curves, look)


def _time_of(view: View, curves: Sequence[Curve]) -> str:
    """What the time is for, where every size of the panel is quoted for the same work."""
    if view.to_target:
        return "time to target"
    work = {(w, u) for c in curves for w, u in zip(c.rows["work"], c.rows["unit"], strict=True)}
    if len(work) == 1:
        amount, unit = work.pop()
        return f"time for {words.work(amount, unit)}"
    return "time for each series' work" if work else "time"


def _speedups(axes: Axes, curves: Sequence[Curve], look: dict[str, Style]) -> None:
    """Each series against its own reference, set on the one ideal line: below the line is what was lost."""
    base = float(next((c.reference_devices for c in curves if c.reference_devices), 1))
    largest = max((n for c in curves for n in c.sizes), default=int(base))
    smallest = min((n for c in curves for n in c.sizes), default=int(base))
    every: list[float] = []
    for c in curves:
        style = look[c.series]
        lift = (c.reference_devices or base) / base
        x, y = c.rows["devices"], c.rows["speedup"] * lift
        marks.curve(axes, x, y, style)
        marks.interval(axes, x, c.rows["speedup_low"] * lift, c.rows["speedup_high"] * lift, style)
        runs = c.repeats.assign(speedup=c.repeats["speedup"] * lift)
        marks.single_runs(axes, runs, "speedup", style)
        every += [*y, *runs["speedup"]]
    ideal = [smallest / base, largest / base]
    if largest > smallest:
        marks.ideal_line(axes, [smallest, largest], ideal)
    marks.log_value_axis(axes, every + ideal, doubling=True)
    devices = {c.device for c in curves}
    device = devices.pop() if len(devices) == 1 else words.DEVICE
    axes.set_ylabel(f"speed-up (×, against {words.count_of(device, base)})")
