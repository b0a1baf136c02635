"""``python -m breakeven.figures``: one figure of one workload."""

import argparse
from pathlib import Path

from breakeven.figures import efficiency_figure, time_figure
from breakeven.figures.labels import NOTES, presumed_source
from breakeven.figures.svg import to_svg
from breakeven.figures.theme import theme
from breakeven.figures.view import View, read_table, view
from breakeven.schema.command import command
from breakeven.schema.files import write_text
from breakeven.schema.spec import slug

DRAW = {"time": time_figure.draw, "efficiency": efficiency_figure.draw}


def render(kind: str, what: View, source: str | None = None) -> str:
    """The SVG of one figure; the same view gives the same text."""
    with theme():
        return to_svg(
            DRAW[kind](what, NOTES[source or presumed_source(what.study)]),
            f"{slug(what.study)}-{slug(what.workload)}-{kind}",
        )


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.figures", description=__doc__)
    parser.add_argument("--kind", required=True, choices=sorted(DRAW))
    parser.add_argument("--workload", required=True, help="its title, as in the tables")
    parser.add_argument("--points", required=True, type=Path, help="points.csv")
    parser.add_argument("--efficiency", required=True, type=Path, help="efficiency.csv")
    parser.add_argument("--breakeven", required=True, type=Path, help="breakeven.csv")
    parser.add_argument("--source", choices=sorted(NOTES), help="mlperf puts its notice on the figure")
    parser.add_argument("--output", required=True, type=Path, help="the SVG to write")
    options = parser.parse_args()
    tables = (read_table(path) for path in (options.points, options.efficiency, options.breakeven))
    write_text(options.output, render(options.kind, view(options.workload, *tables), options.source))


if __name__ == "__main__":
    main()
