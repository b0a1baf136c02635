"""An SVG file made fit to stand inside the page: no XML head, no metadata, colours that follow the page's."""

import re

from markupsafe import Markup

from breakeven.figures import theme

_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_SIZE = re.compile(r'(<svg\b[^>]*?) width="[^"]*" height="[^"]*"')
#: Colours of the theme that the page sets for itself, so that figures can be read on a dark page too.
_FOLLOW = {
    theme.INK: "ink",
    theme.MUTED: "muted",
    theme.RULE: "rule",
    theme.SURFACE: "surface",
    theme.PALETTE[0]: "blue",
    theme.FAILED: "bad",
}


def inline_svg(svg: str, title: str) -> Markup:
    """``title`` is what a screen reader says in place of the drawing."""
    start = svg.find("<svg")
    if start < 0:
        raise ValueError(f"{title}: not an SVG")
    svg = _METADATA.sub("", svg[start:])
    for color, name in _FOLLOW.items():
        svg = svg.replace(f": {color}", f": var(--{name}, {color})")
    label = Markup(' role="img" aria-label="{}"').format(title)
    svg = _SIZE.sub(r"\1", svg, count=1)
    return Markup(svg.replace("<svg", f"<svg{label}", 1).strip())  # noqa: S704 - our own figure
