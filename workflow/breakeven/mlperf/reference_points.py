"""MLCommons' reference convergence points, from the packaged files of mlperf-logging, as one table.

``python -m breakeven.mlperf.reference_points SITE_PACKAGES/mlperf_logging --out FILE`` makes the committed one,
``rules/reference_convergence.csv``.
"""

import argparse
import csv
import dataclasses
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text

#: The rounds of the committed table.
ROUNDS = ("v3.0", "v3.1", "v4.0", "v4.1", "v5.0", "v5.1")

#: Lists of runs go by either name, whatever the unit.
_RUNS_KEYS = ("Epochs to converge", "samples to converge")

#: Fastest and slowest runs left out of a point's mean, so many of each; of every other benchmark one.
_DROPPED = {"unet3d": 4}

_SAMPLES = ("bert", "flux1", "llama2_70b_lora", "llama31_405b", "llama31_8b", "stable_diffusion", "unet3d")

#: Where a round counts otherwise than the rounds after it.
_EARLIER_UNITS = {("v3.0", "unet3d"): "epochs", ("v3.1", "stable_diffusion"): "steps"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePoint:
    """What the reference implementation needs at one global batch: a row of the table."""

    round: str
    benchmark: str
    global_batch: int
    runs: int
    mean: float
    """Olympic: the fastest and the slowest run left out (unet3d: four each)."""
    sd: float
    """Of all runs, population form, as the official checker takes it."""
    unit: str
    """What ``mean`` and ``sd`` count: samples, epochs, tokens or steps."""


COLUMNS = [field.name for field in dataclasses.fields(ReferencePoint)]


def packaged_points(package: Path, rounds: Sequence[str] = ROUNDS) -> list[ReferencePoint]:
    """The points of ``rounds``, by round, benchmark and batch. ``package`` is the folder of ``mlperf_logging``."""
    points: list[ReferencePoint] = []
    for round_name in rounds:
        folder = package / "rcp_checker" / f"training_{round_name.removeprefix('v')}.0"
        files = sorted(folder.glob("rcps_*.json"))
        if not files:
            raise UserError(
                f"{folder}: holds no reference points of round {round_name} (rcps_*.json).\n"
                "Expected the installed package of mlperf-logging: .../site-packages/mlperf_logging."
            )
        for path in files:
            points += _benchmark_points(path, round_name)
    return points


def _benchmark_points(path: Path, round_name: str) -> list[ReferencePoint]:
    # The file's name says the benchmark: v3.1's stable_diffusion calls itself "sd" inside.
    benchmark = path.stem.removeprefix("rcps_")
    try:
        records = json.loads(path.read_bytes())
        points = [_point(record, benchmark, round_name) for record in records.values()]
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not a file of reference points ({type(error).__name__}: {error}).\n"
            "Expected records with BS and a list of runs under one of: " + ", ".join(_RUNS_KEYS)
        ) from error
    return sorted(points, key=lambda point: point.global_batch)


def _point(record: dict[str, Any], benchmark: str, round_name: str) -> ReferencePoint:
    runs = sorted(float(run) for key in _RUNS_KEYS for run in record.get(key, ()))
    dropped = _DROPPED.get(benchmark, 1)
    if len(runs) < 2 * dropped + 1:
        raise ValueError(f"{len(runs)} runs; an olympic mean needs at least {2 * dropped + 1}")
    return ReferencePoint(
        round=round_name,
        benchmark=benchmark,
        global_batch=int(record["BS"]),
        runs=len(runs),
        mean=float(np.mean(runs[dropped : len(runs) - dropped])),
        sd=float(np.std(runs)),
        unit=unit(round_name, benchmark),
    )


def unit(round_name: str, benchmark: str) -> str:
    """What a round's points of a benchmark count, as its logs do. Epochs may be fractions."""
    if benchmark == "gpt3":
        return "tokens"
    later = "samples" if benchmark in _SAMPLES else "epochs"
    return _EARLIER_UNITS.get((round_name, benchmark), later)


def points_csv(points: Iterable[ReferencePoint]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(dataclasses.astuple(point) for point in points)
    return text.getvalue()


def read_points(path: Path) -> list[ReferencePoint]:
    """The rows of a table of reference points, in its order. Raises UserError naming the file and the line."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a table of reference points ({error}).\n{_EXPECTED}") from error
    return [_read_row(row, path, line) for line, row in enumerate(rows, start=2)]


def _read_row(row: dict[str, str], path: Path, line: int) -> ReferencePoint:
    try:
        point = ReferencePoint(
            round=row["round"],
            benchmark=row["benchmark"],
            global_batch=int(row["global_batch"]),
            runs=int(row["runs"]),
            mean=float(row["mean"]),
            sd=float(row["sd"]),
            unit=row["unit"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}, line {line}: {type(error).__name__}: {error}.\n{_EXPECTED}") from error
    if not re.fullmatch("samples|epochs|tokens|steps", point.unit):
        raise UserError(f"{path}, line {line}: unit is {point.unit!r}; it must be samples, epochs, tokens or steps.")
    if point.global_batch < 1 or not 0 < point.mean < float("inf"):
        raise UserError(f"{path}, line {line}: global_batch and mean must be above 0.")
    return point


_EXPECTED = f"Expected the columns {', '.join(COLUMNS)}."


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.mlperf.reference_points", description=__doc__)
    parser.add_argument("package", type=Path, help="the folder of the installed package mlperf_logging")
    parser.add_argument("--rounds", nargs="+", default=ROUNDS, help="rounds to take (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="the CSV to write")
    args = parser.parse_args()
    write_text(args.out, points_csv(packaged_points(args.package, args.rounds)))


if __name__ == "__main__":
    main()
