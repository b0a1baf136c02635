"""The best times to train from round to round: at one size, and with as many devices as anybody used."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from breakeven.figures import layout, marks, words
from breakeven.figures.layout import Key
from breakeven.figures.published import Best, Published, best_by_round, compared_size, round_order
from breakeven.figures.theme import PALETTE, SURFACE, Style
from breakeven.schema.errors import UserError

_LABEL_IN = 0.5
#: From this factor on a change is told as one; below this percentage it is none.
_FACTOR, _SAME_PERCENT = 1.5, 0.05
_AT_SIZE = Style(PALETTE[0], "o", 2.4, 7.0, 5, True)
_OVERALL = Style(PALETTE[1], "s", 2.4, 6.5, 4, True)


def draw(what: Published, note: str = "") -> Figure:
    title = f"{what.workload}: the best time to train, round by round"
    overall = best_by_round(what.scores)
    if len(what.rounds) < 2:
        raise UserError(
            f"A figure over rounds needs two or more, and the scores are of {what.own_round} alone. "
            "Give --scores the tables of rounds that may be compared."
        )
    if len(overall) < 2:
        rounds = sorted(what.rounds, key=round_order)
        has = words.listing([b.round for b in overall]) or "none"
        why = f"Nothing to compare: of {words.listing(rounds)}, rounds with a scored submission: {has}."
        return layout.without_data(title=title, subtitle="", why=why, note=note)
    devices = _size(what)
    at_size = best_by_round(what.scores, devices)
    names = [b.round for b in overall]
    page = layout.page(
        width=8.4,
        panel_height=3.7,
        rows=1,
        columns=1,
        right=0.2,
        above=0.12,
        title=title,
        subtitle=_sentence(at_size, overall, devices),
        keys=[
            Key(_sample(_AT_SIZE), f"best with {devices} devices"),
            Key(_sample(_OVERALL), "fastest with any number of devices"),
        ],
        note=note,
    )
    axes = page.axes[0][0]
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(range(len(names)), names)
    axes.grid(False, axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    marks.log_value_axis(axes, _with_room([b.time_min for b in (*at_size, *overall)], page.panel_in[1]))
    axes.set_ylabel("time to train (min)")
    axes.set_xlabel("round of MLPerf Training")
    _line(axes, at_size, names, _AT_SIZE, above=True, devices=False)
    _line(axes, overall, names, _OVERALL, above=False, devices=True)
    return page.figure


def _size(what: Published) -> int:
    """The size that most rounds have, so that as many as possible are compared; eight where it is as common."""
    rounds = what.scores.groupby("devices")["round"].nunique()
    common = what.scores[what.scores["devices"].isin(rounds[rounds == rounds.max()].index)]
    return compared_size(common)


def _sentence(at_size: Sequence[Best], overall: Sequence[Best], devices: int) -> str:
    told = []
    for found, what in ((at_size, f"with {devices} devices"), (overall, "with any number")):
        if len(found) > 1:
            first, last = found[0], found[-1]
            times = f"{words.significant(first.time_min)} to {words.significant(last.time_min)} min"
            told.append(f"{times} {what} ({_change(first.time_min, last.time_min)})")
    return f"from {overall[0].round} to {overall[-1].round}: {', '.join(told)}"


def _change(first_min: float, last_min: float) -> str:
    """A factor where it is large, else the percentage."""
    faster, percent = first_min / last_min, abs(last_min / first_min - 1) * 100
    if max(faster, 1 / faster) >= _FACTOR:
        return f"{words.ratio(faster)} times as fast" if faster > 1 else f"{words.ratio(1 / faster)} times as slow"
    if percent < _SAME_PERCENT:
        return "no faster"
    return f"{words.significant(percent, 2)} % {'less' if faster > 1 else 'more'} time"


def _with_room(times: list[float], height_in: float) -> list[float]:
    """The ends of an axis that has room for a label over the slowest and under the fastest."""
    low, high = min(times), max(times)
    pad = max(float((high / low) ** (_LABEL_IN / (height_in - 2 * _LABEL_IN))), 1.5)
    return [low / pad, high * pad]


def _line(axes: Axes, found: Sequence[Best], names: list[str], style: Style, *, above: bool, devices: bool) -> None:
    x = [names.index(b.round) for b in found]
    axes.plot(
        x,
        [b.time_min for b in found],
        color=style.color,
        linewidth=style.width,
        marker=style.marker,
        markersize=style.size,
        markeredgecolor=SURFACE,
        zorder=style.order,
    )
    for at, best in zip(x, found, strict=True):
        preview = " (preview)" if best.preview else ""
        who = f"{best.devices} × {best.family}" if devices else best.family
        axes.annotate(
            f"{words.significant(best.time_min)} min\n{who}{preview}\n{best.submitter}",
            (at, best.time_min),
            xytext=(0, 8 if above else -8),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=8.5,
            color=style.color,
            zorder=6,
        )


def _sample(style: Style) -> Line2D:
    line = marks.line_sample(style.color, style.width)
    line.set(marker=style.marker, markersize=style.size, markeredgecolor=SURFACE)
    return line
