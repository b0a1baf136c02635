"""What each setting changes, all else equal: a small panel a setting, a line a value, a dot a device count."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from breakeven.figures import layout, marks, words
from breakeven.figures.layout import Key
from breakeven.figures.theme import CONTEXT, FAILED, MARKERS, MUTED, PALETTE, RULE, SURFACE
from breakeven.figures.ticks import log_ticks

_COLUMNS, _LEFT_IN, _RIGHT_IN, _ABOVE_IN, _BELOW_IN = 3, 1.4, 0.16, 0.5, 0.42
#: Inches of one device count's dot, of the air between two values, and the least that a panel's axis spans.
_SLOT_IN, _AIR_IN, _LEAST_SPAN = 0.135, 0.13, 1.25
_VALUE_CHARS, _SUBTITLE_CHARS = 20, 47
_WORDS = {
    "true": "on", "false": "off", "contiguous": "NCHW (contiguous)", "channels_last": "NHWC (channels last)",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panel:
    """One setting: its headline comparisons, one per device count, and all others of it behind them."""

    setting: str
    rows: pd.DataFrame
    others: pd.DataFrame

    @property
    def values(self) -> list[str]:
        """But for the baseline, which is the line at 1."""
        return list(dict.fromkeys(self.rows.loc[self.rows["value"] != self.rows["baseline"], "value"]))

    @property
    def line_in(self) -> float:
        """Inches of one value: a dot of every device count under another."""
        return _AIR_IN + _SLOT_IN * self.rows["devices"].nunique()

    @property
    def height_in(self) -> float:
        return len(self.values) * self.line_in

    @property
    def against(self) -> str:
        """``against fp32; ddp, image_size 300``: the baseline, and what is held equal, of each device count."""
        strategies = [] if self.setting == "strategy" else _distinct(self.rows, "strategy")
        held = " · ".join([", ".join(strategies), *_distinct(self.rows, "held")]).strip(" ·")
        return f"against {_by_devices(self.rows, 'baseline')}{f'; {held}' if held else ''}"


def draw(workload: str, comparison: pd.DataFrame, device: str = words.DEVICE, note: str = "") -> Figure:
    """``comparison``: the table of a study; ``device``: the word for one."""
    title = f"{workload}: what each setting changes"
    subtitle = "speed-up (×): work per time against the value named, all else equal"
    mine = comparison[comparison["workload"] == workload]
    found = panels(mine)
    if not found:
        why = "No two runs of the study differ in one setting alone."
        return layout.without_data(title=title, subtitle="", why=why, note=note)
    counts = sorted({int(n) for n in mine["devices"]})
    columns = min(_COLUMNS, len(found))
    rows = [found[at : at + columns] for at in range(0, len(found), columns)]
    page = layout.page(
        width=9.6 if columns == _COLUMNS else 3.4 * columns + 1.6,
        panel_height=[max(panel.height_in for panel in row) for row in rows],
        rows=len(rows),
        columns=columns,
        left=_LEFT_IN,
        right=_RIGHT_IN,
        above=_ABOVE_IN,
        below=_BELOW_IN,
        title=title,
        subtitle=subtitle,
        keys=_keys(found, counts, device),
        note=note,
    )
    for row, line in zip(rows, page.axes, strict=True):
        for panel, axes in zip(row, line, strict=False):
            _panel(axes, panel, counts)
        for axes in line[len(row) :]:
            axes.set_axis_off()
    return page.figure


def panels(comparison: pd.DataFrame) -> list[Panel]:
    """The tallest first, so that neighbours are of a height; of equals in the table's order."""
    found = []
    for setting in dict.fromkeys(comparison["setting"]):
        mine = comparison[comparison["setting"] == setting]
        found.append(Panel(str(setting), mine[mine["headline"]], mine[~mine["headline"]]))
    return sorted((panel for panel in found if panel.values), key=lambda panel: -panel.height_in)


def shown(value: str) -> str:
    """A value in words: ``on`` for ``true``."""
    return _WORDS.get(value, value)


def _panel(axes: Axes, panel: Panel, counts: list[int]) -> None:
    line, height = panel.line_in, panel.height_in
    box = axes.get_position()
    high = height / float(axes.figure.get_figheight())  # type: ignore[union-attr]
    axes.set_position((box.x0, box.y1 - high, box.width, high))
    own = [n for n in counts if n in set(panel.rows["devices"])]
    tops = {value: height - at * line for at, value in enumerate(panel.values)}
    axes.set_ylim(0, height)
    axes.set_yticks([top - line / 2 for top in tops.values()], [_label(value) for value in tops])
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.grid(False, axis="y")
    axes.spines[["top", "right", "left"]].set_visible(False)
    _value_axis(axes, panel)
    axes.axvline(1, color=MUTED, linewidth=1.1, linestyle=(0, (4, 3)), zorder=2)
    for top in list(tops.values())[1:]:
        axes.axhline(top, color=RULE, linewidth=0.6, zorder=1)

    def y(row: "pd.Series[Any]") -> float:
        return tops[str(row["value"])] - _AIR_IN / 2 - (own.index(int(str(row["devices"]))) + 0.5) * _SLOT_IN

    behind = panel.others[panel.others["value"].isin(tops) & panel.others["devices"].isin(own)]
    behind = behind[behind["speedup"].notna() & (behind["value"] != behind["baseline"])]
    for _, row in behind.iterrows():
        axes.plot([row["speedup"]], [y(row)], marker="o", markersize=4, color=CONTEXT, alpha=0.7, markeredgewidth=0)
    for _, row in panel.rows[panel.rows["value"].isin(tops)].iterrows():
        _dot(axes, row, y(row), counts.index(int(row["devices"])))
    _without_a_time(axes, panel, tops, y)
    marks.panel_title(axes, panel.setting.replace("_", " "), lift=17, aside=-(_LEFT_IN - 0.16) * 72)
    axes.annotate(
        _cut(panel.against, _SUBTITLE_CHARS),
        (0, 1),
        xycoords="axes fraction",
        xytext=(-(_LEFT_IN - 0.16) * 72, 6),
        textcoords="offset points",
        fontsize=8,
        color=MUTED,
        va="bottom",
    )


def _value_axis(axes: Axes, panel: Panel) -> None:
    every = pd.concat([panel.rows, panel.others])
    numbers = every[["speedup", "speedup_low", "speedup_high"]].to_numpy(dtype=float)
    known = numbers[np.isfinite(numbers) & (numbers > 0)]
    low, high = min([1 / _LEAST_SPAN, *known]), max([_LEAST_SPAN, *known])
    pad = (high / low) ** 0.06
    low, high = low / pad, high * pad
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    marks.plain_ticks(axes.xaxis, log_ticks(low, high, at_most=4))
    axes.tick_params(axis="x", labelsize=8.5)


def _dot(axes: Axes, row: "pd.Series[Any]", y: float, at: int) -> None:
    speedup, low, high = (float(str(row[name])) for name in ("speedup", "speedup_low", "speedup_high"))
    if not math.isfinite(speedup):
        return
    color, marker = _look(at)
    if math.isfinite(low) and math.isfinite(high):
        axes.hlines([y], [low], [high], color=color, linewidth=1.3, zorder=4)
    axes.plot([speedup], [y], marker=marker, markersize=6, color=color, markeredgecolor=SURFACE, zorder=5)


def _without_a_time(axes: Axes, panel: Panel, tops: dict[str, float], y: Callable[["pd.Series[Any]"], float]) -> None:
    """The status at the value's own line: once where it is the same on every number of devices."""
    for value, rows in panel.rows[panel.rows["value"].isin(tops)].groupby("value", sort=False):
        gone = rows[rows["speedup"].isna()]
        statuses = {_status(row) for _, row in gone.iterrows()}
        alike = len(gone) == len(rows) and len(statuses) == 1
        for _, row in gone.head(1).iterrows() if alike else gone.iterrows():
            at = tops[str(value)] - panel.line_in / 2 if alike else y(row)
            axes.annotate(
                _status(row),
                (0.02, at),
                xycoords=axes.get_yaxis_transform(),
                fontsize=8,
                color=FAILED,
                va="center",
                bbox={"boxstyle": "round,pad=0.1", "facecolor": SURFACE, "edgecolor": "none"},
                zorder=6,
            )


def _status(row: "pd.Series[Any]") -> str:
    """Of a run with a time but nothing to compare it with, that."""
    status = str(row["status"])
    return f"no time of {shown(str(row['baseline']))}" if status == "ok" else status.replace("_", " ")


def _look(at: int) -> tuple[str, str]:
    return PALETTE[at % len(PALETTE)], MARKERS[at % len(MARKERS)]


def _keys(found: list[Panel], counts: list[int], device: str) -> list[Key]:
    keys = []
    for at, n in enumerate(counts):
        color, marker = _look(at)
        dot = Line2D([], [], color=color, marker=marker, markersize=6, linewidth=1.3, markeredgecolor=SURFACE)
        keys.append(Key(dot, words.count_of(device, n)))
    keys.append(Key(Line2D([], [], color=MUTED, linewidth=1.1, linestyle=(0, (4, 3))), "the value compared with"))
    if any(len(panel.others) for panel in found):
        keys.append(marks.submissions_key("the same with other settings"))
    return keys


def _by_devices(rows: pd.DataFrame, column: str) -> str:
    """``fp32``, or ``single at 1, ddp at 2`` where it is another on other numbers of devices."""
    each = rows.drop_duplicates("devices")
    if each[column].nunique() == 1:
        return shown(str(each[column].iloc[0]))
    return ", ".join(f"{shown(str(v))} at {n:.0f}" for v, n in zip(each[column], each["devices"], strict=True))


def _distinct(rows: pd.DataFrame, column: str) -> list[str]:
    return [text for text in dict.fromkeys(str(v) for v in rows[column]) if text]


def _label(value: str) -> str:
    return _cut(shown(value), _VALUE_CHARS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
