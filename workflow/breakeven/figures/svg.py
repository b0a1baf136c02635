"""A figure as SVG bytes that are the same for the same input, and that several of which share one page in peace."""

import io
import re

import matplotlib as mpl
from matplotlib.figure import Figure

#: Faces no wider than DejaVu Sans, with which the text was laid out.
FONTS = "'Inter', 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

_FAMILY = re.compile(r"'DejaVu Sans'(?:, '[^']*')*(?:, sans-serif)?")
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(href="#|url\(#)([^")]+)')


def to_svg(figure: Figure, name: str) -> str:
    """``name`` salts and prefixes every element id, so it must be unique among figures that meet on one page."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return scoped(buffer.getvalue().decode("utf-8"), name)


def scoped(svg: str, name: str) -> str:
    """Prefix the ids and what refers to them, keep the style sheet to this figure, name the web's typefaces."""
    svg = _ID.sub(rf'id="{name}-\1"', svg)
    svg = _REFERENCE.sub(rf"\1{name}-\2", svg)
    svg = svg.replace('<style type="text/css">*{', f'<style type="text/css">#{name}-figure_1 *{{')
    return _FAMILY.sub(FONTS, svg)
