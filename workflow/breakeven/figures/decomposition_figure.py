"""What the efficiency of each size of the headline series was lost to, stacked: the parts add up to the whole loss."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from breakeven.figures import layout, marks, words
from breakeven.figures.labels import ONE_SIZE, reference
from breakeven.figures.layout import Key
from breakeven.figures.losses import FACTORS, UNSPLIT, UNSPLIT_WORDS, Bar, bars
from breakeven.figures.published import Published
from breakeven.figures.theme import CONTEXT, INK, MUTED, PALETTE, SURFACE
from breakeven.figures.view import View

_COLORS = dict(zip(FACTORS, (PALETTE[0], PALETTE[1], PALETTE[4], CONTEXT), strict=True)) | {UNSPLIT: PALETTE[1]}
_INK_ON = {PALETTE[4]: INK, CONTEXT: INK}
_TICKS = (1.5, 1.25, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
_HEIGHT_IN = 3.7
_WIDTH, _LABEL_IN, _TICK_GAP_IN = 0.62, 0.155, 0.19
#: Losses below this are rounding: no bar is drawn for them.
_NOTHING = 1e-4
#: A part that is nowhere this high can hardly be seen: the legend leaves it out.
_SEEN_IN = 0.01
#: Gains larger than this set the efficiency visibly off from the end of the stack.
_GAIN = 0.025


def draw(view: View, note: str = "", _: Published | None = None) -> Figure:
    title = f"{view.workload}: what the efficiency was lost to"
    curve = next(iter(view.headlines), None)
    found = bars(curve) if curve else []
    if curve is None or not found:
        why = "Nothing to take apart: the samples that the target took are not known at any size of a headline series."
        return layout.without_data(title=title, subtitle=reference(view), why=why, note=note)
    if all(bar.reference for bar in found):
        why = ONE_SIZE if len(curve.rows) < 2 else "Nothing to take apart: the samples are known at the reference only."
        return layout.without_data(title=title, subtitle=reference(view), why=why, note=note)
    page = layout.page(
        width=8.4,
        panel_height=_HEIGHT_IN,
        rows=1,
        columns=1,
        right=0.72,
        above=0.12,
        title=title,
        subtitle=f"{curve.name} · against {words.count_of(curve.device, curve.reference_devices or 0)}",
        keys=_keys(found),
        note="\n".join(line for line in (_unsplit(found), note) if line),
    )
    axes = page.axes[0][0]
    inches = _scale(axes, found)
    axes.axhline(0, color=INK, linewidth=0.9, zorder=4)
    for at, bar in enumerate(found):
        _stack(axes, at, bar, inches)
    axes.set_xlim(-0.6, len(found) - 0.4)
    axes.set_xticks(range(len(found)), [_size(bar) for bar in found])
    axes.tick_params(axis="x", length=0)
    axes.grid(False, axis="x")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xlabel(words.devices_word([curve.device]))
    return page.figure


def _size(bar: Bar) -> str:
    return f"{bar.devices}\nbatch {bar.batch:,.0f}" if bar.batch else str(bar.devices)


def _limits(found: list[Bar]) -> tuple[float, float]:
    """Losses at the panel's foot and at its head."""
    low = min(_gains(bar) for bar in found)
    high = max(bar.loss - _gains(bar) for bar in found)
    room = max(high - low, 0.2)
    return low - (0.08 if low < -_GAIN else 0.03) * room, high + 0.13 * room


def _scale(axes: Axes, found: list[Bar]) -> float:
    """Efficiency on the left, its logarithm on the right; returns the inches that a loss of one takes."""
    low, high = _limits(found)
    axes.set_ylim(low, high)
    inches = _HEIGHT_IN / (high - low)
    axes.yaxis.set_major_locator(FixedLocator([-math.log(e) for e in _efficiencies(low, high, inches)]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda loss, _: f"{math.exp(-loss):.3g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("efficiency left (log scale, less upwards)")
    other = axes.twinx()
    other.set_ylim(low, high)
    other.grid(False)
    other.spines[["top", "right", "left", "bottom"]].set_visible(False)
    other.tick_params(axis="y", labelcolor=MUTED, length=0)
    other.set_ylabel("loss, −ln of the efficiency", color=MUTED)
    return inches


def _gains(bar: Bar) -> float:
    """The losses below zero together."""
    return sum(loss for loss in bar.losses.values() if loss < 0)


def _efficiencies(low: float, high: float, inches: float) -> list[float]:
    """Plain efficiencies, those that matter first, as many as have room."""
    chosen: list[float] = []
    for e in sorted(_TICKS, key=lambda e: (e not in (1.0, 0.5, 0.1, 0.2, 0.8), -e)):
        loss = -math.log(e)
        apart = all(abs(loss + math.log(other)) * inches >= _TICK_GAP_IN for other in chosen)
        if low <= loss <= high and apart:
            chosen.append(e)
    return sorted(chosen)


def _stack(axes: Axes, at: int, bar: Bar, inches: float) -> None:
    up, down = 0.0, 0.0
    for column, loss in bar.losses.items():
        if abs(loss) < _NOTHING:
            continue
        base = up if loss > 0 else down
        color = _COLORS[column]
        axes.bar(
            [at],
            [loss],
            width=_WIDTH,
            bottom=[base],
            color=color if column != UNSPLIT else SURFACE,
            edgecolor=SURFACE if column != UNSPLIT else color,
            hatch="////" if column == UNSPLIT else None,
            linewidth=0.8,
            zorder=3,
        )
        if abs(loss) * inches >= _LABEL_IN:
            _factor(axes, at, base + loss / 2, bar.factors[column], column)
        up, down = (up + loss, down) if loss > 0 else (up, down + loss)
    _whole(axes, at, bar, up, gains=down < -_GAIN)


def _whole(axes: Axes, at: int, bar: Bar, top: float, *, gains: bool) -> None:
    """The efficiency: over the stack, or beside a line across it where a gain leaves the sum lower than the stack."""
    if bar.reference and abs(bar.loss) < _NOTHING:
        axes.annotate(
            "reference", (at, 0), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=8.5, color=MUTED
        )
        return
    if gains:
        axes.plot([at - 0.36, at + 0.36], [bar.loss, bar.loss], color=INK, linewidth=1.6, zorder=6)
    axes.annotate(
        words.efficiency(bar.efficiency),
        (at + 0.36, bar.loss) if gains else (at, top),
        xytext=(2, 0) if gains else (0, 4),
        textcoords="offset points",
        ha="left" if gains else "center",
        va="center" if gains else "bottom",
        fontsize=9.5,
        fontweight="bold",
        color=INK,
        zorder=6,
    )


def _factor(axes: Axes, x: float, y: float, factor: float, column: str) -> None:
    color = _COLORS[column]
    box = {"boxstyle": "round,pad=0.2", "facecolor": SURFACE, "edgecolor": "none"} if column == UNSPLIT else None
    ink = INK if column == UNSPLIT else _INK_ON.get(color, SURFACE)
    text = f"× {words.efficiency(factor)}"
    axes.annotate(text, (x, y), ha="center", va="center", fontsize=8.5, color=ink, bbox=box, zorder=5)


def _keys(found: list[Bar]) -> list[Key]:
    low, high = _limits(found)
    least = _SEEN_IN / _HEIGHT_IN * (high - low)
    used = {column for bar in found for column, loss in bar.losses.items() if abs(loss) >= max(least, _NOTHING)}
    keys = [Key(Patch(facecolor=_COLORS[c], edgecolor=SURFACE), text) for c, text in FACTORS.items() if c in used]
    if UNSPLIT in used:
        patch = Patch(facecolor=SURFACE, edgecolor=_COLORS[UNSPLIT], hatch="////", linewidth=0.8)
        keys.append(Key(patch, UNSPLIT_WORDS))
    if any(_gains(bar) < -_GAIN for bar in found):
        keys.append(Key(marks.line_sample(INK, 1.6), "efficiency: losses less gains"))
    return keys


def _unsplit(found: list[Bar]) -> str:
    """``Throughput not split at 16 and 64: no step rate in the logs.``, each reason once."""
    unsplit = [bar for bar in found if UNSPLIT in bar.factors and not bar.reference]
    reasons = [reason for bar in unsplit for reason in (bar.note or "the logs do not tell").split("; ")]
    sizes = words.listing([str(bar.devices) for bar in unsplit])
    return f"Throughput not split at {sizes}: {'; '.join(dict.fromkeys(reasons))}." if unsplit else ""
