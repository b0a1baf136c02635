"""Whether every strategy does the work of one device: planned rows and their runs' records to a table of verdicts.

``python -m breakeven.metrics.equivalence table`` writes it, whatever it says; ``judge`` fails where a row violates.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from breakeven.records.load import Run, load_run
from breakeven.schema.command import command
from breakeven.schema.degrees import AXES
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.plan import read_plan
from breakeven.schema.record import Record
from breakeven.schema.status import Status

#: What tells a row from all others.
KEY = ("strategy", "workload", "devices", "degrees", "options", "settings")
COLUMNS = [
    *KEY, "updates", "max_abs_loss_difference", "tolerance", "bytes", "verdict", "note", "run_id", "reference_run_id",
]  # fmt: skip

Verdict = Literal["pass", "fail", "unsupported", "not_run"]
Row = Mapping[str, Any]
"""As ``head.equivalence`` plans it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    verdict: Verdict
    note: str = ""
    updates: int | None = None
    difference: float | None = None
    """The largest absolute difference of a loss."""
    tolerance: float | None = None
    bytes: str = ""


def judge(row: Row, runs: Mapping[str, Run]) -> Judgement:
    """``runs`` by run id: every one that the row needs, which the workflow sees to."""
    if row["not_run"]:
        return Judgement(verdict="not_run", note=row["not_run"])
    run, reference = runs[row["run_id"]], runs[row["reference_run_id"]]
    if run.record.status is Status.UNSUPPORTED:
        return Judgement(verdict="unsupported", note=_message(run.record))
    for found, whose in ((run, ""), (reference, "of the reference: ")):
        if wrong := _unusable(found):
            return Judgement(verdict="fail", note=whose + wrong)
    difference = _difference(run, reference)
    if isinstance(difference, str):
        return Judgement(verdict="fail", note=difference)
    tolerance = float(row["tolerance"])
    if row["band_run_id"]:
        band = _difference(runs[row["band_run_id"]], reference)
        tolerance = max(tolerance, row["band_factor"] * band if isinstance(band, float) else 0.0)
    held = _held_bytes(run.record)
    wrong = _violation(row, difference, tolerance, held)
    return Judgement(
        verdict="fail" if wrong else "pass",
        note="; ".join(filter(None, (wrong, row["note"]))),
        updates=len(run.steps["loss"]),
        difference=difference,
        tolerance=tolerance,
        bytes="" if row["control"] else "mismatch" if held else "ok",
    )


def _violation(row: Row, difference: float, tolerance: float, held: str) -> str:
    """What of the row is not as it must be; empty where all is."""
    if row["control"]:
        caught = difference >= tolerance
        return "" if caught else f"wrong on purpose, yet losses differ by {difference:.1e} alone, not {tolerance:.0e}"
    equal = difference <= tolerance  # not so of NaN
    return "; ".join(
        filter(None, ("" if equal else f"losses differ by {difference:.1e}, more than {tolerance:.1e}", held))
    )


def _unusable(run: Run) -> str:
    if run.record.faults:
        return "a fault was injected (BREAKEVEN_FAULT)"
    return "" if run.record.status is Status.OK else f"{run.record.status}: {_message(run.record)}"


def _message(record: Record) -> str:
    return record.error.message if record.error else ""


def _difference(run: Run, reference: Run) -> float | str:
    """The largest absolute difference of a loss; as text, why the losses cannot be compared."""
    mine, its = run.steps["loss"], reference.steps["loss"]
    if len(mine) != len(its) or not len(mine):
        return f"{len(mine)} losses against {len(its)}"
    for work in ("samples", "tokens"):
        if not np.array_equal(run.steps[work], reference.steps[work]):
            return f"other {work} than one device's: {run.steps[work].tolist()}, not {reference.steps[work].tolist()}"
    return float(np.abs(mine - its).max())


def _held_bytes(record: Record) -> str:
    """Which bytes are not what the strategy's formula says, on the first such rank; empty where all are."""
    for name in ("parameters", "gradients", "optimizer"):
        found: list[int] = getattr(record.state_bytes, name)
        expected: list[int] = getattr(record.expected_state_bytes, name)
        if len(found) != record.spec.ranks or len(expected) != record.spec.ranks:
            return f"{name}: bytes of {len(found)} of {record.spec.ranks} ranks are known"
        for rank, (one, other) in enumerate(zip(found, expected, strict=True)):
            if one != other:
                return f"{name}: rank {rank} holds {one} bytes, its formula says {other}"
    return ""


def table(rows: list[Row], runs: Mapping[str, Run]) -> pd.DataFrame:
    found = []
    for row in rows:
        judged = judge(row, runs)
        found.append(
            {
                **dict(zip(KEY, key(row), strict=True)),
                "updates": judged.updates,
                "max_abs_loss_difference": judged.difference,
                "tolerance": judged.tolerance,
                "bytes": judged.bytes,
                "verdict": judged.verdict,
                "note": judged.note,
                "run_id": row["run_id"],
                "reference_run_id": row["reference_run_id"],
            }
        )
    return pd.DataFrame(found, columns=COLUMNS).astype({"updates": "Int64"})


def key(row: Row) -> tuple[str, ...]:
    """What tells a row from all others, as people read it: ``KEY``."""
    degrees = " x ".join(f"{axis} {row['degrees'][axis]}" for axis in AXES if axis in row["degrees"])
    named = (row["strategy"], row["workload"], str(row["devices"]))
    return (*named, degrees, listed(row["options"]), listed(row["settings"]))


def listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def summary(found: pd.DataFrame) -> str:
    """``41 of 41 checks pass (3 not run, 2 unsupported)``."""
    verdicts = found["verdict"].value_counts()
    passed, failed = int(verdicts.get("pass", 0)), int(verdicts.get("fail", 0))
    others = [f"{verdicts[name]} {name.replace('_', ' ')}" for name in ("not_run", "unsupported") if name in verdicts]
    return f"{passed} of {passed + failed} checks pass" + (f" ({', '.join(others)})" if others else "")


def violations(found: pd.DataFrame) -> list[str]:
    """A line for each row that fails: which, and why. ``found``: as read, every cell a text."""
    lines = []
    for row in found[found["verdict"] == "fail"].to_dict("records"):
        devices = f"{row['devices']} device{'' if row['devices'] == '1' else 's'}"
        what = ", ".join(filter(None, (row["workload"], devices, row["options"], row["settings"])))
        lines.append(f"  {row['strategy']} ({what}): {row['note']} [{row['run_id']}]")
    return lines


def _write(plan: Path, runs: Path, output: Path) -> None:
    rows = read_plan(plan, "rows")["rows"]
    asked = [row[name] for row in rows for name in ("run_id", "reference_run_id", "band_run_id") if not row["not_run"]]
    loaded = {run: load_run(runs / run / "r1") for run in dict.fromkeys(filter(None, asked))}
    write_text(output, table(rows, loaded).to_csv(index=False))


def read_table(path: Path) -> pd.DataFrame:
    """Every cell as text. Raises UserError."""
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable table ({error}). Delete it to make it again.") from None


def _judge(path: Path) -> None:
    found = read_table(path)
    print(f"{summary(found)}: {path}", file=sys.stderr)
    if lines := violations(found):
        sys.exit("\n".join([f"breakeven: {path}: {len(lines)} of {len(found)} rows violate.", *lines]))


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.metrics.equivalence", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    write = verbs.add_parser("table", help="records to the table")
    write.add_argument("--plan", type=Path, required=True)
    write.add_argument("--runs", type=Path, required=True, help="folder of <run_id>/r1/record.json")
    write.add_argument("--output", type=Path, required=True)
    look = verbs.add_parser("judge", help="fails where a row of the table does")
    look.add_argument("table", type=Path)
    args = parser.parse_args()
    if args.verb == "table":
        _write(args.plan, args.runs, args.output)
    else:
        _judge(args.table)


if __name__ == "__main__":
    main()
