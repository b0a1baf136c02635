"""``python -m breakeven.head.forecast``: what would be measured, how long at most, how long by records."""

import argparse
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakeven.schema.command import command
from breakeven.schema.spec import Spec
from breakeven.schema.status import Status
from breakeven.schema.support import unsupported


def recorded(folder: Path) -> Callable[[str], list[tuple[float, str]]]:
    """Wall seconds and status of every record of a run."""

    def of_run(run_id: str) -> list[tuple[float, str]]:
        found = []
        for path in sorted(folder.glob(f"{run_id}/r*/record.json")):
            try:
                record = json.loads(path.read_text())
                found.append((float(record["elapsed_s"]), str(record["status"])))
            except (ValueError, KeyError, TypeError):
                continue
        return found

    return of_run


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


@dataclass(slots=True)
class Sums:
    runs: int = 0
    unsupported: int = 0
    bound_h: float = 0.0
    bound_device_h: float = 0.0
    expected_s: float = 0.0
    unknown: int = 0


def forecast(plans: list[dict[str, Any]], folder: Path) -> list[str]:
    """One line per cell and a sum: runs to make, upper bounds from the timeout, estimates from records."""
    records = recorded(folder)
    lines: list[str] = []
    sums = Sums()
    seen: set[str] = set()
    for plan in plans:
        lines.append(f"{plan['study']}: {plan['title']}, {counted(plan['repeats'], 'repeat')} of each run")
        for cell in plan["cells"]:
            run_id, devices = cell["run_id"], cell["spec"]["devices"]
            found = records(run_id)
            known = [seconds for seconds, _ in found]
            again = _to_measure_again(folder / run_id, [status for _, status in found])
            done = sum((folder / run_id / f"r{k}" / "record.json").is_file() for k in range(1, plan["repeats"] + 1))
            left = 0 if run_id in seen else plan["repeats"] - done
            seen.add(run_id)
            word = plan["machine"]["device_word"] + ("s" if devices > 1 else "")
            line = f"  {cell['series']}, {devices} {word}: {done} recorded{again}, {left} to run"
            sums.runs += left
            if why := unsupported(Spec.from_dict(cell["spec"])):
                sums.unsupported += left
                lines.append(f"{line}, unsupported: {why} ({run_id})")
                continue
            hours = left * plan["settings"]["timeout_min"] / 60
            sums.bound_h, sums.bound_device_h = sums.bound_h + hours, sums.bound_device_h + hours * devices
            if known:
                sums.expected_s += left * sum(known) / len(known)
            else:
                sums.unknown += left
            about = f", about {sum(known) / len(known):.0f} s each by its records" if known else ""
            lines.append(f"{line}{about} ({run_id})")
    return [*lines, *_told(sums)]


def _to_measure_again(run: Path, statuses: list[str]) -> str:
    """`` (2 failed: to measure again, delete results/runs/x)``: what gave no time stands like any record. Empty where
    all did, or could not."""
    ended = Counter(status for status in statuses if status not in (Status.OK, Status.UNSUPPORTED))
    how = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in ended.items())
    return f" ({how}: to measure again, delete {run})" if how else ""


def _told(sums: Sums) -> list[str]:
    lines = [
        f"to run: {counted(sums.runs, 'run')}; at most {sums.bound_h:.2f} h and {sums.bound_device_h:.2f} device-hours "
        "(every run up to its timeout)"
    ]
    if sums.unsupported:
        lines.append(f"unsupported: {sums.unsupported} of them start no rank, and are recorded with the reason")
    known = sums.runs - sums.unsupported - sums.unknown
    if known:
        lines.append(f"by records: {sums.expected_s / 60:.1f} min for {known} of them; {sums.unknown} have no record")
    return lines


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("plans", type=Path, nargs="*")
    args = parser.parse_args()
    plans = [json.loads(path.read_text()) for path in args.plans]
    print("\n".join(forecast(plans, args.runs) if plans else ["no measured study in config 'studies'"]))


if __name__ == "__main__":
    main()
