"""``python -m breakeven.scaling``: points.csv to efficiency.csv and breakeven.csv."""

import argparse
from pathlib import Path

from breakeven.points.table import read_points
from breakeven.scaling.breakeven import breakeven_table
from breakeven.scaling.efficiency import efficiency_table
from breakeven.schema.command import command
from breakeven.schema.files import write_text


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--threshold", type=float, required=True, help="efficiency that a size must keep")
    parser.add_argument("--efficiency", type=Path, required=True, help="output")
    parser.add_argument("--breakeven", type=Path, required=True, help="output")
    args = parser.parse_args()
    points = read_points(args.points)
    efficiency = efficiency_table(points)
    breakeven = breakeven_table(points, efficiency, args.threshold)
    write_text(args.efficiency, efficiency.to_csv(index=False))
    write_text(args.breakeven, breakeven.to_csv(index=False))


if __name__ == "__main__":
    main()
