"""Measured runs as points. ``python -m breakeven.points.records``: plan.json and runs.csv to points.csv."""

import argparse
import json
from pathlib import Path
from typing import Any

import pandas as pd

from breakeven.points.table import points_frame, write_points
from breakeven.schema.command import command
from breakeven.schema.point import Point
from breakeven.schema.status import Status


def record_points(plan: dict[str, Any], runs: pd.DataFrame) -> pd.DataFrame:
    """One point per cell and repeat of the plan; runs that must not be on a curve (not timed) are left out.

    ``runs``: the table that ``breakeven.metrics`` writes. A run without a record is a point ``not_measured``.
    """
    by_run = {(str(row["run_id"]), int(row["repeat"])): row for row in runs.to_dict("records")}
    sizes: dict[str, set[int]] = {}
    timed = [cell for cell in plan["cells"] if cell["spec"]["timed"]]
    for cell in timed:
        sizes.setdefault(cell["series"], set()).add(cell["spec"]["devices"])
    points = [
        _point(plan, cell, repeat, by_run.get((cell["run_id"], repeat)), headline=_is_headline(cell["series"], sizes))
        for cell in timed
        for repeat in range(1, plan["repeats"] + 1)
    ]
    return points_frame(points)


def _is_headline(series: str, sizes: dict[str, set[int]]) -> bool:
    """The answer is drawn from curves; a lone size (the baseline) is context, unless it is all there is."""
    return len(sizes[series]) > 1 or all(len(counts) == 1 for counts in sizes.values())


def _point(plan: dict[str, Any], cell: dict[str, Any], repeat: int, run: Any, *, headline: bool) -> Point:
    spec = cell["spec"]
    text = cell["spec"]["workload"]["sequence_length"] is not None
    status = Status(run["status"]) if run is not None else Status.NOT_MEASURED
    ok = run is not None and status is Status.OK
    return Point(
        study=plan["study"],
        workload=plan["workloads"][0],
        series=cell["series"],
        scaling=cell["scaling"],
        headline=headline,
        device=plan["machine"]["device_word"],
        devices=spec["devices"],
        nodes=-(-spec["devices"] // spec["devices_per_node"]),
        repeat=repeat,
        status=status,
        time_s=run["window_s"] if ok else None,
        samples=run["window_work"] if ok else None,
        time_s_se=run["window_s_se"] if ok else None,
        unit="tokens" if text else "samples",
        target_work=run["epoch_work"] if ok else None,
        global_batch=spec["global_batch"],
        label=cell["run_id"],
        device_model=_text(run, "device_model"),
        driver=_text(run, "driver"),
        torch_version=_text(run, "torch_version"),
        power_limit_w=run["power_limit_w"] if run is not None else None,
        source=f"results/runs/{cell['run_id']}/r{repeat}/record.json",
    )


def _text(run: Any, column: str) -> str:
    return "" if run is None or pd.isna(run[column]) else str(run[column])


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    write_points(record_points(json.loads(args.plan.read_text()), pd.read_csv(args.runs)), args.output)


if __name__ == "__main__":
    main()
