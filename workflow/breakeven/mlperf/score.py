"""Runs to scores: the olympic mean of a result set's run times, scaled, by our reading and by the official one.

``python -m breakeven.mlperf.score --runs runs.csv --scores F --critical-batch F --reference F``

*Tolerant* (``time_to_train_min``): a run counts where it took some time, ended in success and reached its target (an
evaluation in its log met it, or lines that cannot be read may have held one that did), whatever else is wrong with the
log. *Strict* (``time_to_train_strict_min``): it counts where its log passes the official checks; the result is that of
mlperf-logging's result summarizer. Either way a run that does not count is among the slowest, and as many runs as the
rules say are left out at either end.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import pandas as pd

from breakeven.mlperf.critical_batch import critical_batches
from breakeven.mlperf.reference import reference_samples
from breakeven.mlperf.rulebook import Rulebook, Ruled, reference_table, rulebook_of
from breakeven.mlperf.rules import Benchmark
from breakeven.mlperf.score_notes import least_runs, notes, strict_notes
from breakeven.mlperf.table import read_facts
from breakeven.schema.command import command
from breakeven.schema.files import write_text
from breakeven.schema.status import Status
from breakeven.stats.olympic import olympic_kept

#: What tells one result set from another.
KEY = ["round", "benchmark", "submitter", "system"]

SCORE_COLUMNS = [
    "round", "benchmark", "workload", "submitter", "system", "system_name", "accelerator", "accelerator_family",
    "nodes", "accelerators_per_node", "devices", "division", "system_status", "global_batch", "runs", "runs_required",
    "runs_converged", "runs_compliant", "scaling_factor", "time_to_train_min", "time_to_train_strict_min",
    "time_raw_min", "time_min_min", "time_max_min", "samples_to_converge", "reference_samples", "time_reference_min",
    "throughput", "throughput_per_device", "step_throughput", "step_throughput_note", "evaluation_min", "startup_min",
    "device_hours", "energy_kj", "duplicate_of", "log_months", "old_logs", "result_id", "repository", "commit", "note",
    "strict_note",
]  # fmt: skip

#: The same in every run of a set.
IDENTITY = [*KEY, "workload", "system_name", "accelerator", "accelerator_family", "nodes", "accelerators_per_node",
            "devices", "division", "system_status", "scaling_factor", "duplicate_of", "result_id", "repository",
            "commit"]  # fmt: skip

#: What a score is the mean of.
_AVERAGED = ["run_time_min", "samples_to_converge", "step_throughput", "step_throughput_note", "evaluation_min",
             "startup_min", "energy_kj"]  # fmt: skip

#: Counts, of which a set may not tell some.
_COUNTS = ["nodes", "accelerators_per_node", "devices", "global_batch"]


def submissions(runs: pd.DataFrame, extra: Path | None = None) -> pd.DataFrame:
    """``scores`` by the packaged rules and those of the folder ``extra``."""
    return scores(runs, rulebook_of(runs, extra))


def scores(runs: pd.DataFrame, book: Rulebook) -> pd.DataFrame:
    """One row per result set, columns ``SCORE_COLUMNS``, in the order of the runs.

    A set without a score is kept, with its times empty and the reason in ``note``; one with fewer runs than required is
    scored by those it has, and ``note`` says so. Times are minutes, throughputs samples per second of the whole system
    (``throughput`` over the whole timed run), energy is that of one run, scaled as the time is.
    """
    with np.errstate(all="ignore"):  # what overflows is blank
        rows = [_score(of_set, book[str(key[0]), str(key[1])]) for key, of_set in runs.groupby(KEY, sort=False)]
    return pd.DataFrame(rows, columns=SCORE_COLUMNS).astype(dict.fromkeys(_COUNTS, "Int64"))


def _score(runs: pd.DataFrame, ruled: Ruled) -> dict[str, object]:
    benchmark = ruled.benchmark
    runs = runs.sort_values("run", kind="stable")
    identity = {name: runs[name].iloc[0] for name in IDENTITY}
    measured = runs[runs["status"] != Status.NOT_MEASURED]
    timed = measured["run_time_min"].notna()
    converged = (measured["run_time_min"] > 0) & (measured["status"] == Status.OK)
    compliant = timed & (measured["compliance"] == "")
    kept = _kept(measured, converged, benchmark)
    strictly_kept = _kept(measured, compliant, benchmark)

    scaling, devices = identity["scaling_factor"], identity["devices"]
    raw_min = _mean(kept["run_time_min"])
    batches = sorted({int(batch) for batch in measured["global_batch"].dropna()})
    needed = reference_samples(batches[0], ruled.reference) if len(batches) == 1 else None
    needed = np.nan if needed is None else needed
    samples = _mean(kept["samples_to_converge"])
    throughput = _over(samples, raw_min * 60)
    months = sorted(set(measured["log_month"]) - {""})
    row = {
        **identity,
        # Where runs differ in it, note says so: the set then has no one batch, and this is its largest.
        "global_batch": batches[-1] if batches else None,
        "runs": len(measured),
        "runs_required": benchmark.runs_required,
        "runs_converged": int(converged.sum()),
        "runs_compliant": int(compliant.sum()),
        "time_to_train_min": raw_min * scaling,
        "time_to_train_strict_min": _mean(strictly_kept["run_time_min"]) * scaling,
        "time_raw_min": raw_min,
        "time_min_min": measured["run_time_min"][converged].min(),
        "time_max_min": measured["run_time_min"][converged].max(),
        "samples_to_converge": samples,
        "reference_samples": needed,
        "time_reference_min": _over(needed, throughput) / 60,
        "throughput": throughput,
        "throughput_per_device": _over(throughput, devices),
        "step_throughput": _mean(kept["step_throughput"]),
        "step_throughput_note": "; ".join(dict.fromkeys(why for why in kept["step_throughput_note"] if why)),
        "evaluation_min": _mean(kept["evaluation_min"]),
        "startup_min": _mean(kept["startup_min"]),
        "device_hours": devices * raw_min * scaling / 60,
        "energy_kj": _mean(kept["energy_kj"]) * scaling,
        "log_months": "..".join(dict.fromkeys([*months[:1], *months[-1:]])),
        "old_logs": bool(months) and months[0] < ruled.round.logs_since,
        "note": "; ".join(notes(len(measured), int((~converged).sum()), batches, benchmark)),
        "strict_note": "; ".join(strict_notes(measured, converged, compliant, benchmark)),
    }
    return {name: np.nan if isinstance(cell, float) and math.isinf(cell) else cell for name, cell in row.items()}


def _kept(measured: pd.DataFrame, counts: "pd.Series[bool]", benchmark: Benchmark) -> pd.DataFrame:
    """The runs that a score is the mean of; none where there is no score."""
    averaged = measured[_AVERAGED]
    if int((~counts).sum()) > benchmark.runs_may_fail or len(measured) < least_runs(benchmark):
        return averaged.iloc[:0]
    times = [time if ok else None for time, ok in zip(measured["run_time_min"], counts, strict=True)]
    return averaged.iloc[olympic_kept(times, benchmark.runs_dropped)]


def _mean(values: "pd.Series[float]") -> float:
    """NaN where any value is unknown, so that every mean of a set is over the same runs."""
    return float(values.mean(skipna=False)) if len(values) else np.nan


def _over(amount: float, per: float) -> float:
    """NaN per nothing."""
    return amount / per if per else np.nan


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.mlperf.score", description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="the runs of one round or several")
    parser.add_argument("--rules", type=Path, help="a folder of further rule sets")
    parser.add_argument("--scores", type=Path, required=True, help="the CSV of scores to write")
    parser.add_argument("--critical-batch", type=Path, required=True, help="the CSV of critical batches to write")
    parser.add_argument("--reference", type=Path, required=True, help="the CSV of reference points to write")
    args = parser.parse_args()
    runs = read_facts(args.runs)
    book = rulebook_of(runs, args.rules)
    scored = scores(runs, book)
    write_text(args.scores, scored.to_csv(index=False))
    write_text(args.critical_batch, critical_batches(scored, book).to_csv(index=False))
    write_text(args.reference, reference_table(book).to_csv(index=False))


if __name__ == "__main__":
    main()
