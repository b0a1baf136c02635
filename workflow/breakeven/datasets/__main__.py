"""``python -m breakeven.datasets --workload JSON --output FILE.npz``: prepare the data one workload reads."""

import argparse
import json
import sys
from pathlib import Path

from breakeven.datasets.prepare import prepare
from breakeven.datasets.store import write_arrays
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m breakeven.datasets", description=__doc__)
    parser.add_argument("--workload", required=True, help="the workload as JSON, as it stands in a spec")
    parser.add_argument("--output", required=True, type=Path, help="the .npz file to write")
    parser.add_argument("--file", type=Path, help="a JSONL file or a folder of images")
    parser.add_argument("--model-dir", type=Path, help="folder of a model that brings its own tokenizer")
    options = parser.parse_args(arguments)
    try:
        workload = Workload.from_dict(json.loads(options.workload))
        arrays = prepare(workload, file=options.file, model_dir=options.model_dir)
        write_arrays(options.output, arrays)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
