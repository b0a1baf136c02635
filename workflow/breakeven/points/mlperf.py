"""Published MLPerf runs as points: one row per run of the submissions that a scaling curve is drawn through.

``python -m breakeven.points.mlperf --study NAME --facts CSV --workloads '{"bert": "BERT"}' --output points.csv``
"""

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from breakeven.mlperf.score import KEY, submissions
from breakeven.mlperf.table import read_facts
from breakeven.points.table import write_points
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.plan import read_plan
from breakeven.schema.point import POINT_COLUMNS, Point
from breakeven.schema.status import Status

#: What a result log does not tell: a point's own defaults, with NaN for an unknown number.
_DEFAULTS = {
    f.name: float("nan") if f.default is None else f.default
    for f in dataclasses.fields(Point)
    if f.default is not dataclasses.MISSING
}


def mlperf_points(
    facts: pd.DataFrame, study: str, workloads: Mapping[str, str], family: str = "H100-SXM"
) -> pd.DataFrame:
    """Points of one accelerator family, columns ``POINT_COLUMNS``, one row per run (``repeat`` is the run's index).

    ``workloads`` maps a benchmark to the title it is shown by. Per workload one headline series, the best-scored
    submission at each device count, and for context one series per submitter with two sizes or more. A submission that
    repeats another's runs is left out, and one without a score is nobody's best.
    """
    scored = submissions(facts[(facts["accelerator_family"] == family) & (facts["duplicate_of"] == "")])
    scored = scored.dropna(subset=["time_to_train_min"])
    chosen = []
    for benchmark, title in workloads.items():
        of_workload = scored[scored["benchmark"] == benchmark]
        if of_workload.empty:
            raise UserError(_nothing_of(benchmark, family, facts))
        for name, headline, best in _series(of_workload, title, family):
            runs = best[KEY].merge(facts, on=KEY, how="left", validate="one_to_many")
            chosen.append(_points(runs, study=study, workload=title, series=name, headline=headline))
    return pd.concat(chosen, ignore_index=True) if chosen else pd.DataFrame(columns=POINT_COLUMNS)


def _series(scored: pd.DataFrame, title: str, family: str) -> Iterator[tuple[str, bool, pd.DataFrame]]:
    """Name, headline or not, and submissions by device count, of each series of one workload."""
    yield f"{title}, best {family} submission per size", True, _best_per_size(scored)
    for submitter, own in scored.groupby("submitter"):
        best = _best_per_size(own)
        if len(best) >= 2:
            yield f"{title}, {submitter} {family}", False, best


def _best_per_size(scored: pd.DataFrame) -> pd.DataFrame:
    """The submission of the shortest score at each device count; of equals the first by name."""
    order = ["devices", "time_to_train_min", "submitter", "system"]
    return scored.sort_values(order).drop_duplicates("devices")


def _points(runs: pd.DataFrame, *, study: str, workload: str, series: str, headline: bool) -> pd.DataFrame:
    reached = runs["status"] == Status.OK  # the time to an abort is no time to the target
    known = {
        "study": study,
        "workload": workload,
        "series": series,
        "scaling": "free",
        "device": runs["accelerator_family"],
        "devices": runs["devices"],
        "nodes": runs["nodes"],
        "repeat": runs["run"],
        "status": runs["status"],
        # Logs tell milliseconds: this undoes the division that made minutes of them.
        "time_s": (runs["run_time_min"] * 60).round(3).where(reached),
        "samples": runs["samples_to_converge"].where(reached),
        "aggregate": "olympic",
        "time_factor": runs["scaling_factor"],
        "global_batch": runs["global_batch"],
        "headline": headline,
        "label": runs["submitter"] + ": " + runs["system"],
        # The family, not the exact name: submitters spell one board in several ways.
        "device_model": runs["accelerator_family"],
        "source": runs["source"],
    }
    return pd.DataFrame({**_DEFAULTS, **known}, index=runs.index)[POINT_COLUMNS]


def _nothing_of(benchmark: str, family: str, facts: pd.DataFrame) -> str:
    of_benchmark = facts[facts["benchmark"] == benchmark]
    if of_benchmark.empty:
        known = ", ".join(sorted(facts["benchmark"].unique()))
        return f"Workload {benchmark!r} is not among the MLPerf results. Benchmarks there: {known}."
    known = ", ".join(sorted(of_benchmark["accelerator_family"].unique()))
    return f"No scored submission of {benchmark} on {family!r}. Accelerator families with {benchmark}: {known}."


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.points.mlperf", description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="the study's plan.json")
    parser.add_argument("--facts", type=Path, required=True, help="table of run facts (breakeven.mlperf.extract)")
    parser.add_argument("--output", type=Path, required=True, help="the points.csv to write")
    args = parser.parse_args()
    plan = read_plan(args.plan, "study", "settings")
    settings = plan["settings"]
    points = mlperf_points(read_facts(args.facts), plan["study"], settings["workloads"], settings["family"])
    write_points(points, args.output)


if __name__ == "__main__":
    main()
