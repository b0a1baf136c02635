"""Measured runs as points. ``python -m breakeven.points.records``: plan.json and runs.csv to points.csv."""

import argparse
import math
from pathlib import Path
from typing import Any

import pandas as pd

from breakeven.metrics.table import RUN_COLUMNS
from breakeven.points.table import points_frame, read_table, write_points
from breakeven.schema.command import command
from breakeven.schema.plan import read_plan
from breakeven.schema.point import Point
from breakeven.schema.status import Status

#: Text that may look like a number: the driver 535.10 is not 535.1.
TEXT = (
    "run_id", "device_model", "driver", "torch_version", "faults", "error", "strategy_options", "degrees",
)  # fmt: skip


def record_points(plan: dict[str, Any], runs: pd.DataFrame) -> pd.DataFrame:
    """One point per cell and repeat of the plan; runs that must not be on a curve (not timed) are left out.

    ``runs``: the table that ``breakeven.metrics`` writes. A run without a record, or with one that
    holds no usable time, is a point ``not_measured``.
    """
    by_run = {(str(row["run_id"]), int(row["repeat"])): row for row in runs.to_dict("records")}
    timed = [cell for cell in plan["cells"] if cell["spec"]["timed"]]
    headlines = _headlines(plan, timed)
    points = [
        _point(plan, cell, repeat, by_run.get((cell["run_id"], repeat)), headline=cell["series"] in headlines)
        for cell in timed
        for repeat in range(1, plan["repeats"] + 1)
    ]
    return points_frame(points)


def _headlines(plan: dict[str, Any], timed: list[dict[str, Any]]) -> set[str]:
    """Series of the sweeps that the study names for its answer, of all where it names none. The answer is drawn from
    curves; a lone size (the baseline) is context, unless it is all there is."""
    named = (plan.get("settings") or {}).get("headline") or []
    chosen = {cell["series"] for cell in timed if not named or cell["sweep"] in named}
    sizes: dict[str, set[int]] = {series: set() for series in chosen}
    for cell in timed:
        if cell["series"] in chosen:
            sizes[cell["series"]].add(cell["spec"]["devices"])
    curves = {series for series, counts in sizes.items() if len(counts) > 1}
    return curves or set(sizes)


def _point(plan: dict[str, Any], cell: dict[str, Any], repeat: int, run: Any, *, headline: bool) -> Point:
    spec = cell["spec"]
    text = cell["spec"]["workload"]["sequence_length"] is not None
    why = unusable(run) if run is not None else ""
    status = Status.NOT_MEASURED if run is None or why else Status(run["status"])
    ok = status is Status.OK
    source = f"results/runs/{cell['run_id']}/r{repeat}/record.json"
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
        price_per_device_hour=plan["machine"].get("price_per_device_hour"),
        label=cell["run_id"],
        device_model=_text(run, "device_model"),
        driver=_text(run, "driver"),
        torch_version=_text(run, "torch_version"),
        power_limit_w=run["power_limit_w"] if run is not None else None,
        source=f"{source}: {why}" if why else source,
    )


def unusable(run: Any) -> str:
    """Why an ``ok`` run has no time for a curve; empty where it has one, or ended otherwise."""
    if Status(run["status"]) is not Status.OK:
        return ""
    if _text(run, "faults"):
        return "an injected fault"
    if not all(math.isfinite(run[name]) and run[name] > 0 for name in ("window_s", "window_work")):
        return "no finite step times past its warm-up"
    return ""


def _text(run: Any, column: str) -> str:
    return "" if run is None or pd.isna(run[column]) else str(run[column])


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    plan = read_plan(args.plan, "study", "workloads", "machine", "cells", "repeats")
    write_points(record_points(plan, read_table(args.runs, RUN_COLUMNS, TEXT)), args.output)


if __name__ == "__main__":
    main()
