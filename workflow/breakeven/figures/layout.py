"""A page of panels laid out in inches: header, panels, legend, note. Nothing moves by itself."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from breakeven.figures.theme import INK, MUTED

_LEFT, _TITLE, _XLABEL, _LEGEND_ROW, _NOTE_ROW = 0.78, 0.58, 0.74, 0.21, 0.145
_LABEL_CHAR_IN, _LEGEND_KEY_IN = 0.078, 0.6


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of the legend."""

    handle: Artist
    label: str


@dataclass(frozen=True, slots=True)
class Page:
    figure: Figure
    axes: list[list[Axes]]
    """By row and column."""
    panel_in: tuple[float, float]
    """Width and height, of the first row where they differ."""


def page(
    *,
    width: float,
    panel_height: float | Sequence[float],
    rows: int,
    columns: int,
    right: float,
    above: float,
    title: str,
    subtitle: str,
    keys: Sequence[Key],
    note: str = "",
    left: float = _LEFT,
    below: float = _XLABEL,
) -> Page:
    """``panel_height``: of all panels, or of those of each row; ``left``, ``right``: room beside each panel for what
    stands there; ``above``, ``below``: over each panel for its title and marks, under it for its axis; ``note``: lines
    at the foot, each broken where it is too long."""
    heights = [panel_height] * rows if isinstance(panel_height, float | int) else list(panel_height)
    per_row = _columns(keys, width - 0.3)
    legend_height = math.ceil(len(keys) / per_row) * _LEGEND_ROW + 0.12 if keys else 0.0
    note_lines = [line for one in note.split("\n") for line in even_lines(one, int((width - 0.4) / 0.058))]
    note_height = len(note_lines) * _NOTE_ROW + 0.06 if note_lines else 0.0
    height = _TITLE + sum(heights) + rows * (above + below) + legend_height + note_height
    figure = Figure(figsize=(width, height))
    panel_width = (width - columns * (left + right)) / columns

    def panel(row: int, column: int) -> Axes:
        edge = left + column * (left + right + panel_width)
        bottom = height - _TITLE - sum(heights[: row + 1]) - (row + 1) * above - row * below
        return figure.add_axes((edge / width, bottom / height, panel_width / width, heights[row] / height))

    figure.text(0.16 / width, 1 - 0.1 / height, title, fontsize=13, fontweight="bold", color=INK, va="top")
    figure.text(0.16 / width, 1 - 0.38 / height, subtitle, fontsize=9, color=MUTED, va="top")
    axes = [[panel(row, column) for column in range(columns)] for row in range(rows)]
    if keys:
        figure.legend(
            [k.handle for k in keys],
            [k.label for k in keys],
            loc="upper left",
            bbox_to_anchor=(0.16 / width, (legend_height + note_height) / height),
            ncols=per_row,
            frameon=False,
            borderpad=0,
            borderaxespad=0,
            handlelength=2.2,
            columnspacing=1.6,
            labelspacing=0.45,
        )
    for index, line in enumerate(note_lines):
        y = (note_height - 0.02 - index * _NOTE_ROW) / height
        figure.text(0.16 / width, y, line, fontsize=7.5, color=MUTED, va="top")
    return Page(figure, axes, (panel_width, heights[0]))


def even_lines(text: str, most: int) -> list[str]:
    """Broken into as few lines of ``most`` characters as it takes, none of them much shorter than another."""
    lines = textwrap.wrap(text, most)
    narrowest = next((n for n in range(-(-len(text) // max(len(lines), 1)), most) if _fits(text, n, len(lines))), most)
    return textwrap.wrap(text, narrowest)


def _fits(text: str, width: int, lines: int) -> bool:
    return width > 0 and len(textwrap.wrap(text, width)) <= lines


def without_data(*, title: str, subtitle: str, why: str, note: str) -> Figure:
    """Where there is nothing to draw, a figure that says why: a gap in published results must not end a whole build."""
    found = page(
        width=8.4,
        panel_height=0.7,
        rows=1,
        columns=1,
        right=0.2,
        above=0.0,
        title=title,
        subtitle=subtitle,
        keys=(),
        note=note,
    )
    axes = found.axes[0][0]
    axes.set_axis_off()
    axes.annotate("\n".join(textwrap.wrap(why, 100)), (0, 0.5), color=INK, fontsize=9.5, va="center")
    return found.figure


def _columns(keys: Sequence[Key], width: float) -> int:
    """As many as fit, each as wide as its longest label."""
    return next((n for n in range(len(keys), 1, -1) if _legend_in(keys, n) <= width), 1)


def _legend_in(keys: Sequence[Key], columns: int) -> float:
    """Matplotlib fills columns from the top down, the first ones with one key more where they do not come out even."""
    rows, longer = divmod(len(keys), columns)
    starts = [n * rows + min(n, longer) for n in range(columns + 1)]
    longest = [max(len(key.label) for key in keys[start:end]) for start, end in pairwise(starts)]
    return sum(longest) * _LABEL_CHAR_IN + columns * _LEGEND_KEY_IN
