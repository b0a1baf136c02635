"""The look of every figure: colours that a colour-blind reader tells apart, sizes in inches, one typeface.

Text is laid out with DejaVu Sans, which matplotlib brings along, so the same tables give the same bytes on any machine;
the SVG then names narrower faces first (``svg.FONTS``), which never overflow the room that DejaVu was given.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib as mpl
import seaborn as sns

from breakeven.figures.view import Curve

INK = "#1b2733"
MUTED = "#66737f"
RULE = "#d8dee4"
SURFACE = "#ffffff"
FAILED = "#c2410c"
CONTEXT = "#a3adb7"
#: Okabe and Ito's palette without yellow and black, the most legible on white first.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")

RC = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.titlesize": 9.5,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.size": 4,
    "ytick.major.size": 0,
    "xtick.bottom": True,
    "legend.fontsize": 8.5,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "svg.fonttype": "none",
    "text.usetex": False,
    "text.parse_math": False,
    "axes.unicode_minus": True,
}


@dataclass(frozen=True, slots=True)
class Style:
    """How one curve is drawn."""

    color: str
    marker: str
    width: float
    size: float
    order: int
    strong: bool


@contextmanager
def theme() -> Iterator[None]:
    """The theme alone, whatever matplotlibrc the user has."""
    with mpl.rc_context():
        mpl.rcdefaults()
        sns.set_theme(style="ticks", rc=RC)
        yield


def styles(curves: Sequence[Curve]) -> dict[str, Style]:
    """By series. Headlines strong and in colour; strategies (fixed batch) in colour; other submitters thin and grey,
    and the envelope over all of them a darker grey.

    The same name has the same colour and marker in every panel.
    """
    names = list(dict.fromkeys(c.name for c in curves))
    colored = list(dict.fromkeys(c.name for c in curves if c.headline or c.scaling != "free"))
    found: dict[str, Style] = {}
    for curve in curves:
        marker = MARKERS[names.index(curve.name) % len(MARKERS)]
        if curve.name not in colored:
            envelope = Style(MUTED, marker, 1.5, 5.5, 4, False)
            found[curve.series] = envelope if curve.envelope else Style(CONTEXT, marker, 1.0, 4.5, 3, False)
            continue
        color = PALETTE[colored.index(curve.name) % len(PALETTE)]
        width, size, order = (2.4, 7.0, 5) if curve.headline else (1.4, 6.0, 4)
        found[curve.series] = Style(color, marker, width, size, order, True)
    return found
