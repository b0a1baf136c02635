"""``python -m breakeven.report``: one self-contained page of all studies."""

import argparse
from pathlib import Path

from breakeven.report.page import render
from breakeven.report.study import add_arguments, studies_of
from breakeven.schema.command import command
from breakeven.schema.files import write_text


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.report", description=__doc__)
    add_arguments(parser)
    parser.add_argument("--output", required=True, type=Path, help="the HTML file to write")
    options = parser.parse_args()
    write_text(options.output, render(studies_of(options)))


if __name__ == "__main__":
    main()
