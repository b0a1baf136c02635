"""Run facts to official scores: the olympic mean of a submission's run times, scaled."""

import numpy as np
import pandas as pd

from breakeven.mlperf.benchmarks import BENCHMARKS
from breakeven.schema.errors import UserError
from breakeven.schema.status import Status
from breakeven.stats.olympic import olympic_kept

#: What tells one submission of a benchmark from another.
KEY = ["round", "benchmark", "submitter", "system"]

IDENTITY = [
    *KEY,
    "system_name",
    "accelerator",
    "accelerator_family",
    "nodes",
    "accelerators_per_node",
    "devices",
    "division",
    "system_status",
    "global_batch",
    "scaling_factor",
    "duplicate_of",
]

SCORES = ["runs", "runs_converged", "time_to_train_min", "time_raw_min", "samples_to_converge", "note"]


def submissions(facts: pd.DataFrame) -> pd.DataFrame:
    """One row per submission and benchmark, in the order of the facts.

    ``time_to_train_min`` is the official score: the mean of the runs that count, in minutes, times the scaling factor;
    ``time_raw_min`` leaves the factor out; ``samples_to_converge`` is the mean of the runs that count. A set without a
    score is kept, with these three empty and the reason in ``note``.
    """
    rows = [_submission(runs) for _, runs in facts.groupby(KEY, sort=False)]
    return pd.DataFrame(rows, columns=[*IDENTITY, *SCORES])


def _submission(runs: pd.DataFrame) -> dict[str, object]:
    runs = runs.sort_values("run", kind="stable")
    measured = runs[runs["status"] != Status.NOT_MEASURED]
    converged = measured["status"] == Status.OK
    identity = {name: runs[name].iloc[0] for name in IDENTITY}
    # The batch is the log's to tell, and a log may break off before it does.
    identity["global_batch"] = measured["global_batch"].max()
    row: dict[str, object] = {
        **identity,
        "runs": len(measured),
        "runs_converged": int(converged.sum()),
        "time_to_train_min": np.nan,
        "time_raw_min": np.nan,
        "samples_to_converge": np.nan,
        "note": _why_unscored(identity["benchmark"], len(measured), int((~converged).sum())),
    }
    if not row["note"]:
        times = [time if ok else None for time, ok in zip(measured["run_time_min"], converged, strict=True)]
        kept = measured.iloc[olympic_kept(times)]
        raw_min = kept["run_time_min"].mean()
        row["time_raw_min"] = raw_min
        row["time_to_train_min"] = raw_min * identity["scaling_factor"]
        row["samples_to_converge"] = kept["samples_to_converge"].mean()
    return row


def _why_unscored(benchmark: str, runs: int, failed: int) -> str:
    """The reason in words; empty for a set that has a score."""
    if benchmark not in BENCHMARKS:
        raise UserError(
            f"Benchmark {benchmark!r} in the run facts has no rules here.\n"
            f"Known: {', '.join(BENCHMARKS)} (workflow/breakeven/mlperf/benchmarks.py)."
        )
    required = BENCHMARKS[benchmark].required_runs
    if runs == 0:
        return f"no logs in the archive ({required} runs required)"
    if runs < required:
        return f"{runs} of {required} required runs"
    if failed > 1:
        return f"{failed} of {runs} runs did not reach the target; at most one may fail"
    return ""
