"""``python -m breakeven.head.forecast``: what would be measured, how long at most, how long by records."""

import argparse
import json
from pathlib import Path
from typing import Any

from breakeven.schema.command import command


def recorded_seconds(folder: Path) -> dict[str, list[float]]:
    """Wall seconds of every record, by run id."""
    found: dict[str, list[float]] = {}
    for path in sorted(folder.glob("*/r*/record.json")):
        try:
            elapsed = float(json.loads(path.read_text())["elapsed_s"])
        except (ValueError, KeyError, TypeError):
            continue
        found.setdefault(path.parent.parent.name, []).append(elapsed)
    return found


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def forecast(plans: list[dict[str, Any]], folder: Path) -> list[str]:
    """One line per cell and a sum: runs to make, upper bounds from the timeout, estimates from records."""
    seconds = recorded_seconds(folder)
    lines: list[str] = []
    runs_left, bound_h, bound_device_h, expected_s, unknown = 0, 0.0, 0.0, 0.0, 0
    seen: set[str] = set()
    for plan in plans:
        lines.append(f"{plan['study']}: {plan['title']}, {counted(plan['repeats'], 'repeat')} of each run")
        for cell in plan["cells"]:
            run_id, devices = cell["run_id"], cell["spec"]["devices"]
            done = sum((folder / run_id / f"r{k}" / "record.json").is_file() for k in range(1, plan["repeats"] + 1))
            left = 0 if run_id in seen else plan["repeats"] - done
            seen.add(run_id)
            hours = left * plan["settings"]["timeout_min"] / 60
            runs_left, bound_h, bound_device_h = runs_left + left, bound_h + hours, bound_device_h + hours * devices
            known = seconds.get(run_id)
            if known:
                expected_s += left * sum(known) / len(known)
            else:
                unknown += left
            about = f", about {sum(known) / len(known):.0f} s each by its records" if known else ""
            word = plan["machine"]["device_word"] + ("s" if devices > 1 else "")
            lines.append(f"  {cell['series']}, {devices} {word}: {done} recorded, {left} to run{about} ({run_id})")
    lines.append(
        f"to run: {counted(runs_left, 'run')}; at most {bound_h:.2f} h and {bound_device_h:.2f} device-hours "
        "(every run up to its timeout)"
    )
    if runs_left > unknown:
        lines.append(
            f"by records: {expected_s / 60:.1f} min for {runs_left - unknown} of them; {unknown} have no record"
        )
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
