"""Published MLPerf runs as points: one row per run of the submissions that a scaling curve is drawn through.

``python -m breakeven.points.mlperf --plan plan.json --facts CSV --output points.csv``
"""

import argparse
import dataclasses
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from breakeven.mlperf.rulebook import Rulebook, rulebook_of
from breakeven.mlperf.rules import Benchmark
from breakeven.mlperf.score import KEY, scores
from breakeven.mlperf.table import read_facts
from breakeven.points.table import write_points
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.plan import read_plan
from breakeven.schema.point import POINT_COLUMNS, Point
from breakeven.schema.status import Status

#: What a result log does not tell: a point's own defaults, with NaN for an unknown number.
_DEFAULTS = {
    f.name: math.nan if f.default is None else f.default
    for f in dataclasses.fields(Point)
    if f.default is not dataclasses.MISSING
}

#: Of a study's ``submitter``: whoever spans most sizes.
AUTO = "auto"


def mlperf_points(
    runs: pd.DataFrame,
    study: str,
    workloads: Mapping[str, str],
    family: str = "H100-SXM",
    submitter: str = AUTO,
    price_per_device_hour: float | None = None,
    rules: Path | None = None,
) -> pd.DataFrame:
    """Points of one accelerator family, columns ``POINT_COLUMNS``, one row per run (``repeat`` is the run's index).

    ``workloads`` maps a benchmark, by any of its names, to the title it is shown by. Per workload one headline series,
    that of ``submitter``; ``auto`` takes the submitter whose sizes span most. For context the best submission of all
    at each device count, and every other submitter with two sizes or more. Left out: a set that repeats another's runs,
    one without a full score, and the open division, which may change the model. ``rules``: a folder of further rules.

    A workload that nobody of the family has a score of has no points (``nothing_of`` says why): results may be a part
    of a round. Raises UserError naming a submitter that is not there.
    """
    book = rulebook_of(runs, rules)
    chosen = []
    for benchmark, title in workloads.items():
        of_workload = _comparable(runs[runs["benchmark"].isin(_folders(book, benchmark))], book, family)
        for series in series_of(of_workload, title, family, submitter):
            sets = series.sets[[*KEY, "reference_samples", "runs_dropped"]]
            logged = sets.merge(runs, on=KEY, how="left", validate="one_to_many")
            chosen.append(_points(logged, study, title, series, price_per_device_hour))
    return pd.concat(chosen, ignore_index=True) if chosen else pd.DataFrame(columns=POINT_COLUMNS)


def _folders(book: Rulebook, benchmark: str) -> set[str]:
    """What the rounds at hand call a benchmark, which may be given by any of its names."""
    return {folder for (_, folder), ruled in book.items() if benchmark in _names(ruled.benchmark)}


def _names(benchmark: Benchmark) -> tuple[str, ...]:
    return (benchmark.folder, benchmark.workload, *benchmark.aliases)


def _comparable(runs: pd.DataFrame, book: Rulebook, family: str) -> pd.DataFrame:
    """Scores of the result sets that may share a curve."""
    scored = scores(runs[(runs["accelerator_family"] == family) & (runs["duplicate_of"] == "")], book)
    keys = zip(scored["round"], scored["benchmark"], strict=True)
    scored["runs_dropped"] = [book[key].benchmark.runs_dropped for key in keys]
    closed = scored[(scored["division"].str.lower() == "closed") & (scored["note"] == "")]
    return closed.dropna(subset=["time_to_train_min", "devices"])


@dataclass(frozen=True, slots=True)
class Series:
    """A name, whether the answer is drawn from it, and one result set per device count."""

    name: str
    headline: bool
    sets: pd.DataFrame


def series_of(scored: pd.DataFrame, title: str, family: str, submitter: str = AUTO) -> list[Series]:
    """The series of one workload, the headline first; none where nothing is scored.

    Whoever tested one size only has no curve: where that is everybody, the best per size is the headline.
    """
    if scored.empty:
        return []
    own = {str(name): _best_per_size(sets) for name, sets in scored.groupby("submitter")}
    best = _best_per_size(scored)
    if submitter != AUTO and submitter not in own:
        raise UserError(
            f"No scored submission of {title} on {family} by {submitter!r}. "
            f"Submitters with one: {', '.join(sorted(own))}; or 'auto'."
        )
    first = submitter if submitter != AUTO else _widest(own)
    found = [Series(f"{title}, {first} {family}", True, own[first])] if first else []
    if not found or not best[KEY].equals(own[first][KEY]):
        found.append(Series(f"{title}, best {family} submission per size", not found, best))
    others = [name for name in sorted(own) if name != first and len(own[name]) >= 2]
    return found + [Series(f"{title}, {name} {family}", False, own[name]) for name in others]


def _widest(own: Mapping[str, pd.DataFrame]) -> str:
    """Who spans the widest range of device counts, largest over smallest; of equals who has more sizes, then by name.

    "" where nobody has two.
    """
    spans = {
        name: (sets["devices"].max() / sets["devices"].min(), len(sets)) for name, sets in own.items() if len(sets) >= 2
    }
    return min(spans, key=lambda name: (-spans[name][0], -spans[name][1], name), default="")


def _best_per_size(scored: pd.DataFrame) -> pd.DataFrame:
    """The submission of the shortest score at each device count; of equals the first by name."""
    order = ["devices", "time_to_train_min", "submitter", "system"]
    return scored.sort_values(order).drop_duplicates("devices")


def _points(
    runs: pd.DataFrame, study: str, workload: str, series: Series, price_per_device_hour: float | None
) -> pd.DataFrame:
    # The time to an abort is no time to the target, and no time at all is none.
    reached = (runs["status"] == Status.OK) & (runs["run_time_min"] > 0)
    # Logs tell milliseconds: this undoes the division that made minutes of them.
    time_s = (runs["run_time_min"] * 60).round(3).where(reached)
    samples = runs["samples_to_converge"].where(reached)
    known = {
        "study": study,
        "workload": workload,
        "series": series.name,
        "scaling": "free",
        "device": runs["accelerator_family"],
        "devices": runs["devices"].astype(int),
        "nodes": runs["nodes"].astype(int),
        "repeat": runs["run"],
        "status": runs["status"],
        "time_s": time_s,
        "samples": samples,
        "aggregate": "olympic",
        "runs_dropped": runs["runs_dropped"],
        "time_factor": runs["scaling_factor"],
        "global_batch": runs["global_batch"],
        "step_rate": runs["step_throughput"].where(reached),
        "step_rate_note": runs["step_throughput_note"],
        "training_share": 1 - (runs["evaluation_min"] + runs["startup_min"]) * 60 / time_s,
        "time_quantum_s": runs["evaluation_every_samples"] * time_s / samples,
        "reference_samples": runs["reference_samples"],
        "energy_kj": runs["energy_kj"],
        "price_per_device_hour": math.nan if price_per_device_hour is None else price_per_device_hour,
        "headline": series.headline,
        "label": runs["submitter"] + ": " + runs["system"],
        # The family, not the exact name: submitters spell one board in several ways.
        "device_model": runs["accelerator_family"],
        "source": runs["source"],
    }
    return pd.DataFrame({**_DEFAULTS, **known}, index=runs.index)[POINT_COLUMNS]


def nothing_of(benchmark: str, family: str, runs: pd.DataFrame, rules: Path | None = None) -> str:
    """Why a workload has no points."""
    folders = _folders(rulebook_of(runs, rules), benchmark)
    if not folders:
        known = ", ".join(sorted(runs["benchmark"].unique()))
        return f"Workload {benchmark!r} is not among the MLPerf results. Benchmarks there: {known}."
    known = ", ".join(sorted(runs.loc[runs["benchmark"].isin(folders), "accelerator_family"].unique()))
    return f"No scored submission of {benchmark} on {family!r}. Accelerator families with {benchmark}: {known}."


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.points.mlperf", description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="the study's plan.json")
    parser.add_argument("--facts", type=Path, required=True, help="the round's runs.csv (breakeven.mlperf.extract)")
    parser.add_argument("--rules", type=Path, help="a folder of further rule sets")
    parser.add_argument("--output", type=Path, required=True, help="the points.csv to write")
    args = parser.parse_args()
    plan = read_plan(args.plan, "study", "settings")
    settings = plan["settings"]
    config, facts = plan.get("config", args.plan), read_facts(args.facts)
    try:
        points = mlperf_points(
            facts,
            plan["study"],
            settings["workloads"],
            settings["family"],
            # a plan of an earlier version has neither
            settings.get("submitter") or AUTO,
            settings.get("price_per_device_hour"),
            args.rules,
        )
    except UserError as error:
        raise UserError(f"{config}: {error} That is what {args.facts} holds.") from None
    for benchmark, title in settings["workloads"].items():
        if title not in set(points["workload"]):
            why = nothing_of(benchmark, settings["family"], facts, args.rules)
            print(f"breakeven: {config}: {why} That is what {args.facts} holds; {title} is left out.", file=sys.stderr)
    write_points(points, args.output)


if __name__ == "__main__":
    main()
