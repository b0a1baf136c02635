"""What one setting changes, all else equal: ``comparison.csv``. ``python -m breakeven.scaling.comparison``.

The plan says which runs differ in one setting alone, and which value of it the others are held against
(``config.comparison``). A speed-up is the ratio of two rates, work per second, each of all repeats; its interval
resamples both sides as ``scaling.efficiency`` does.
"""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from breakeven.metrics.table import RUN_COLUMNS
from breakeven.points.records import TEXT, unusable
from breakeven.points.table import read_table
from breakeven.scaling.resample import Aggregate, Array, Draws, Size, aggregate, resample
from breakeven.schema.command import command
from breakeven.schema.files import write_text
from breakeven.schema.plan import read_plan
from breakeven.schema.status import Status
from breakeven.stats.bootstrap import generator, interval

COLUMNS = [
    "study", "workload", "sweep", "series", "strategy", "devices", "setting", "value", "baseline", "held", "headline",
    "step_time_ms", "step_time_ms_low", "step_time_ms_high", "speedup", "speedup_low", "speedup_high", "throughput",
    "unit", "data_bound_share", "data_bound_share_low", "data_bound_share_high", "peak_memory_gib", "memory_of",
    "accuracy", "epochs_to_target", "repeats", "runs_not_ok", "status", "note", "run_id",
]  # fmt: skip


def comparison_table(plan: Mapping[str, Any], runs: pd.DataFrame) -> pd.DataFrame:
    """A row per setting, value and device count, whatever the status of its runs; columns ``COLUMNS``."""
    sides = {str(name): Side(str(name), rows) for name, rows in runs.groupby("run_id", sort=False)}
    strategies = {cell["run_id"]: cell["spec"]["strategy"] for cell in plan["cells"]}
    rows = []
    for comparison in plan["comparisons"]:
        base = sides.get(comparison["cells"][0]["run_id"])
        for cell in comparison["cells"]:
            own = sides.get(cell["run_id"])
            rows.append(
                {"study": plan["study"], "workload": plan["workloads"][0], "strategy": strategies[cell["run_id"]]}
                | {name: comparison[name] for name in ("devices", "setting", "baseline", "held", "headline")}
                | cell
                | _ended(own, base, comparison["baseline"])
                | (_numbers(own) if own else {})
                | (_against(own, base, comparison["setting"], cell["value"]) if own and base else {})
            )
    return pd.DataFrame(rows, columns=COLUMNS)


class Side:
    """The repeats of one run: what they have in common, and their rate with its resamples."""

    def __init__(self, run_id: str, rows: pd.DataFrame) -> None:
        self.rows = rows
        self.ok = rows[[not unusable(row) and Status(row["status"]) is Status.OK for row in rows.to_dict("records")]]
        self.size = _size(self.ok) if len(self.ok) else None
        self.total: Aggregate | None = aggregate(self.size) if self.size else None
        self.draws: Draws | None = resample(self.size, generator(run_id)) if self.size else None

    @property
    def not_ok(self) -> pd.DataFrame:
        return self.rows.drop(self.ok.index)


def _size(ok: pd.DataFrame) -> Size:
    unknown = np.full(len(ok), math.nan)
    return Size(
        time_s=ok["window_s"].to_numpy(dtype=float),
        samples=ok["window_work"].to_numpy(dtype=float),
        time_s_se=ok["window_s_se"].fillna(0.0).to_numpy(dtype=float),
        quantum_s=np.zeros(len(ok)),
        step_rate=unknown,
        training_share=unknown,
        energy_kj=unknown,
        aggregate="rate",
        time_factor=1.0,
        runs_dropped=0,
    )


def _ended(own: Side | None, base: Side | None, baseline: str) -> dict[str, Any]:
    """How the runs ended, and in words why a number is missing."""
    if own is None:
        return {"status": Status.NOT_MEASURED, "repeats": 0, "runs_not_ok": 0, "note": "no record"}
    bad = own.not_ok
    statuses = [Status.NOT_MEASURED if unusable(row) else Status(row["status"]) for row in bad.to_dict("records")]
    most = max(statuses, key=statuses.count, default=Status.OK)
    reasons = [unusable(row) or str(row["error"] or "") for row in bad.to_dict("records")]
    said = next((reason for reason in reasons if reason), "")
    if len(own.ok) and len(bad):
        said = f"{len(bad)} of {len(own.rows)} runs: {most}{f' ({said})' if said else ''}"
    if len(own.ok) and (base is None or base.total is None):
        said = "; ".join(filter(None, [said, f"{baseline}, to compare with, has no time"]))
    return {
        "status": Status.OK if len(own.ok) else most,
        "repeats": len(own.ok),
        "runs_not_ok": len(bad),
        "note": said,
    }


def _numbers(own: Side) -> dict[str, Any]:
    memory, of = _memory(own.rows)
    row: dict[str, Any] = {"unit": own.rows["unit"].iloc[0], "peak_memory_gib": memory, "memory_of": of}
    if own.size is None or own.total is None:
        return row
    # every repeat's mean step, whatever the work in it: exactly the batch over the rate where all steps are alike
    work = float(own.size.samples.sum()) / float(own.ok["window_steps"].sum())
    row |= {"throughput": own.total.rate, "step_time_ms": 1e3 * work / own.total.rate}
    if own.draws is not None:
        row |= _between("step_time_ms", 1e3 * work / own.draws.rate)
    reached = own.ok["epochs_to_target"]
    return row | {
        "accuracy": own.ok["accuracy"].mean(),
        "epochs_to_target": reached.mean() if reached.notna().all() else math.nan,
    }


def _memory(rows: pd.DataFrame) -> tuple[float, str]:
    """The largest of any rank of any repeat, also of runs that did not end well: what the device's allocator held, or
    on CPU the host's."""
    if rows["peak_reserved_gib"].notna().any():
        return float(rows["peak_reserved_gib"].max()), "device"
    return float(rows["peak_rss_gib"].max()), "host"


def _against(own: Side, base: Side, setting: str, value: str) -> dict[str, float]:
    if own.total is None or base.total is None:
        return {}
    speedup = own.total.rate / base.total.rate
    row = {"speedup": speedup}
    twin = setting == "synthetic" and value == "true"
    if twin:
        row["data_bound_share"] = 1 - 1 / speedup
    # the same run on both sides is drawn alike: against itself it is 1
    if own.draws is not None and base.draws is not None:
        draws = own.draws.rate / base.draws.rate
        row |= _between("speedup", draws) | (_between("data_bound_share", 1 - 1 / draws) if twin else {})
    return row


def _between(name: str, draws: Array) -> dict[str, float]:
    low, high = interval(draws)
    return {f"{name}_low": low, f"{name}_high": high}


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.scaling.comparison", description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="runs.csv of the study")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    plan = read_plan(args.plan, "study", "workloads", "cells", "comparisons")
    table = comparison_table(plan, read_table(args.runs, RUN_COLUMNS, TEXT))
    write_text(args.output, table.to_csv(index=False))


if __name__ == "__main__":
    main()
