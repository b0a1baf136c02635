"""``python -m breakeven.report``: one self-contained page of all studies."""

import argparse
from pathlib import Path

from breakeven.report.meta import read_meta
from breakeven.report.page import render
from breakeven.report.study import named_folder, read_studies
from breakeven.schema.command import command
from breakeven.schema.files import write_text


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.report", description=__doc__)
    parser.add_argument(
        "--study",
        required=True,
        action="append",
        type=named_folder,
        metavar="NAME=DIR",
        help="DIR holds tables/, figures/",
    )
    parser.add_argument("--meta", type=Path, help="titles, sources, platforms and notes of the studies, a JSON file")
    parser.add_argument("--output", required=True, type=Path, help="the HTML file to write")
    options = parser.parse_args()
    write_text(options.output, render(read_studies(options.study, read_meta(options.meta))))


if __name__ == "__main__":
    main()
