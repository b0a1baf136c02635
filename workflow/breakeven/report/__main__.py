"""``python -m breakeven.report``: one self-contained page of all studies, and its answer alone as text."""

import argparse
from pathlib import Path

from breakeven.report.answer import plain_text
from breakeven.report.meta import from_plan
from breakeven.report.page import render
from breakeven.report.study import read_studies
from breakeven.schema.command import command
from breakeven.schema.files import write_text


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.report", description=__doc__)
    parser.add_argument("--plan", nargs="+", required=True, type=Path, help="plan.json of studies, each in its folder")
    parser.add_argument("--page", required=True, type=Path, help="the HTML file to write")
    parser.add_argument("--answer", required=True, type=Path, help="the text file to write")
    options = parser.parse_args()
    planned = {path: from_plan(path) for path in options.plan}
    studies = read_studies([(name, path.parent) for path, (name, _) in planned.items()], dict(planned.values()))
    write_text(options.page, render(studies))
    write_text(options.answer, plain_text(studies))


if __name__ == "__main__":
    main()
