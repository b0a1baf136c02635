"""``python -m breakeven.metrics``: the records a plan names to runs.csv and equivalence.csv."""

import argparse
from pathlib import Path

from breakeven.metrics.same_work import equivalence_table
from breakeven.metrics.table import runs_table
from breakeven.records.load import load_run
from breakeven.schema.command import command
from breakeven.schema.files import write_text
from breakeven.schema.plan import read_plan


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="folder of <run_id>/r<repeat>/record.json")
    parser.add_argument("--table", type=Path, required=True, help="output: one row per run")
    parser.add_argument("--equivalence", type=Path, required=True, help="output: losses against one device")
    args = parser.parse_args()
    plan = read_plan(args.plan, "study", "workloads", "cells", "repeats")
    series: dict[str, str] = {}
    for cell in plan["cells"]:
        series.setdefault(cell["run_id"], cell["series"])
    runs = [
        load_run(folder)
        for run_id in series
        for repeat in range(1, plan["repeats"] + 1)
        if (folder := args.runs / run_id / f"r{repeat}").is_dir()
    ]
    target = (plan.get("settings") or {}).get("target_accuracy")
    table = runs_table(plan["study"], plan["workloads"][0], series, runs, target)
    write_text(args.table, table.to_csv(index=False))
    write_text(args.equivalence, equivalence_table(plan["study"], runs).to_csv(index=False))


if __name__ == "__main__":
    main()
