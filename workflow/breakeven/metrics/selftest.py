"""What a self-test found, as text that ends in a block to paste: on which machine which version was verified.

``python -m breakeven.metrics.selftest write`` makes the text, whatever was found; ``show`` prints it, and fails where
something went wrong.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from breakeven.metrics.equivalence import read_table, summary, violations
from breakeven.records.load import Run, load_run
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.status import Status

MIB, GIB = 2**20, 2**30

#: Columns of the block, and of the table in docs/verified.md.
COLUMNS = (
    "date", "devices", "driver", "torch", "collectives", "checks", "out of memory", "hang", "all-reduce", "Breakeven",
)  # fmt: skip
VERIFIED = "Verified on"
NOT_VERIFIED = "NOT verified"


@dataclass(frozen=True, slots=True)
class Found:
    """``about``: the machine, the version, and how many rows were chosen, as ``head.selftest`` says it."""

    about: Mapping[str, Any]
    table: pd.DataFrame
    """Every cell a text."""
    oom: Run
    hang: Run
    allreduce: Mapping[str, Any]


def text(found: Found) -> str:
    wrong = [
        *violations(found.table),
        *filter(None, (_oom_wrong(found.oom), _hang_wrong(found.hang))),
    ]
    about = found.about
    lines = [
        f"Self-test of Breakeven {about['version']} on {devices(about)}",
        "",
        f"equivalence    {summary(found.table)}; {about['rows']} of the {about['rows_of']} rows of "
        "`snakemake equivalence`: each strategy, product,",
        "               workload, option and setting once, as far as five minutes allow",
        f"out of memory  {_ended(found.oom)}",
        f"hang           {_ended(found.hang)}",
        *_bandwidths(found.allreduce, about),
        "",
    ]
    if wrong:
        return "\n".join([*lines, f"{NOT_VERIFIED}:", *wrong]) + "\n"
    return "\n".join([*lines, f"{VERIFIED}:", "", *block(found)]) + "\n"


def devices(about: Mapping[str, Any]) -> str:
    """``2 CPU cores (Some CPU)``, ``8 x Some GPU``: a core is never called anything else."""
    count, model = about["devices"], about["device_model"]
    if about["device_kind"] == "cpu":
        return f"{count} CPU core{'' if count == 1 else 's'} ({model})"
    return f"{count} x {model}"


def block(found: Found) -> list[str]:
    """A Markdown table of one row."""
    environment = found.hang.record.environment
    verdicts = found.table["verdict"].value_counts()
    cells = {
        "date": found.hang.record.started_at[:10],
        "devices": devices(found.about),
        "driver": (environment.driver if environment else None) or "none",
        "torch": found.allreduce["torch"],
        "collectives": found.allreduce["backend"],
        "checks": f"{verdicts.get('pass', 0)} of {verdicts.get('pass', 0) + verdicts.get('fail', 0)}",
        "out of memory": "recorded",
        "hang": f"ended after {found.hang.record.elapsed_s:.0f} s",
        "all-reduce": _largest(found.allreduce),
        "Breakeven": found.about["version"],
    }
    return [
        f"| {' | '.join(COLUMNS)} |",
        f"|{' --- |' * len(COLUMNS)}",
        f"| {' | '.join(str(cells[name]) for name in COLUMNS)} |",
    ]


def bus_factor(ranks: int) -> float:
    """What of each byte crosses a link in a ring: bus bandwidth is the algorithm's times 2 (n - 1) / n."""
    return 2 * (ranks - 1) / ranks


def _bandwidths(allreduce: Mapping[str, Any], about: Mapping[str, Any]) -> list[str]:
    ranks = allreduce["devices"]
    over = "core" if about["device_kind"] == "cpu" else "device"
    head = f"all-reduce     {allreduce['backend']}, fp32, over {ranks} {over}{'' if ranks == 1 else 's'}"
    if ranks == 1:
        return [f"{head}: nothing to exchange"]
    lines = [head, "               size          time    algbw GB/s    busbw GB/s"]
    for one in allreduce["sizes"]:
        algorithm = one["bytes"] / one["time_s"] / 1e9
        lines.append(
            f"               {_size(one['bytes']):<8} {1e3 * one['time_s']:>6.3f} ms {algorithm:>12.3f} "
            f"{algorithm * bus_factor(ranks):>13.3f}"
        )
    return lines


def _largest(allreduce: Mapping[str, Any]) -> str:
    ranks = allreduce["devices"]
    if ranks == 1:
        return "one device"
    last = allreduce["sizes"][-1]
    return f"{last['bytes'] / last['time_s'] / 1e9 * bus_factor(ranks):.2f} GB/s busbw at {_size(last['bytes'])}"


def _size(count: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB")):
        if count >= unit:
            return f"{count // unit} {name}"
    return f"{count} B"


def _ended(run: Run) -> str:
    record = run.record
    # A device's memory where it has one of its own: that is what runs out.
    peak = max(record.peak_reserved_gib or record.peak_rss_gib, default=None)
    known = f"last known peak {peak:.2f} GiB: " if peak is not None else ""
    return f"recorded as {record.status}; {known}{record.error.message if record.error else 'no error'}"


def _oom_wrong(run: Run) -> str:
    return "" if run.record.status is Status.OOM else f"  memory that ran out was {_ended(run)}"


def _hang_wrong(run: Run) -> str:
    error = run.record.error
    ended = run.record.status is Status.TIMEOUT and error is not None and error.message.startswith("no progress")
    return "" if ended else f"  a run that hangs was {_ended(run)}"


def _read_allreduce(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable ({error}). Delete it: snakemake makes it again.") from None
    return found


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.metrics.selftest", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    write = verbs.add_parser("write", help="what was found, as text")
    write.add_argument("--about", type=json.loads, required=True)
    write.add_argument("--table", type=Path, required=True)
    for name in ("oom", "hang"):
        write.add_argument(f"--{name}", type=Path, required=True, help="the folder of its record")
    write.add_argument("--allreduce", type=Path, required=True)
    write.add_argument("--output", type=Path, required=True)
    show = verbs.add_parser("show", help="prints it; fails where something went wrong")
    show.add_argument("text", type=Path)
    args = parser.parse_args()
    if args.verb == "show":
        said = args.text.read_text()
        print(said, end="")
        sys.exit(f"breakeven: {args.text}: the self-test failed." if f"\n{NOT_VERIFIED}:" in said else 0)
    allreduce = _read_allreduce(args.allreduce)
    found = Found(args.about, read_table(args.table), load_run(args.oom), load_run(args.hang), allreduce)
    write_text(args.output, text(found))


if __name__ == "__main__":
    main()
