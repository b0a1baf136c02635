"""``python -m breakeven.measure``: execute one run and leave its record."""

import argparse
import sys
from pathlib import Path

from breakeven.measure.launch import LAUNCHERS, Request, measure
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m breakeven.measure", description=__doc__)
    parser.add_argument("--spec", required=True, help="the run's spec as JSON")
    parser.add_argument("--repeat", required=True, type=int)
    parser.add_argument("--data", required=True, type=Path, help="prepared data (.npz)")
    parser.add_argument("--record", required=True, type=Path, help="the record to write (.json)")
    parser.add_argument("--steps", required=True, type=Path, help="the per-step arrays to write (.npz)")
    parser.add_argument("--log", required=True, type=Path, help="what the ranks say")
    parser.add_argument("--timeout-s", required=True, type=float, help="from the start of the ranks to their end")
    parser.add_argument(
        "--launcher",
        choices=LAUNCHERS,
        default="torchrun",
        help="what starts the ranks; auto: a fork server for CPU cores outside Slurm, torchrun otherwise",
    )
    parser.add_argument("--model-dir", type=Path, help="folder of a model with weights")
    parser.add_argument(
        "--progress", type=Path, help='{"records": [paths], "started_at": unix time}, for the line it says'
    )
    options = vars(parser.parse_args(arguments))
    try:
        return measure(Request(spec=Spec.from_json(options.pop("spec")), **options))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
