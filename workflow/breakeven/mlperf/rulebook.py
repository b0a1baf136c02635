"""The rules and the reference points that a table of runs is scored by."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from breakeven.mlperf.reference import BatchSamples, all_reference_points, in_samples, pruned
from breakeven.mlperf.rules import Benchmark, Round, load_round
from breakeven.schema.errors import UserError

REFERENCE_COLUMNS = ["round", "benchmark", "workload", "global_batch", "runs", "samples_mean", "samples_sd",
                     "kept"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ruled:
    """What one benchmark of one round is scored by."""

    round: Round
    benchmark: Benchmark
    reference: tuple[BatchSamples, ...]
    """Every reference point, smallest batch first; empty where the round has none."""


#: Round and benchmark, as the runs name them → their rules, in the order of the runs.
Rulebook = dict[tuple[str, str], Ruled]


def rulebook_of(runs: pd.DataFrame, extra: Path | None = None) -> Rulebook:
    """The rules of every round and benchmark in ``runs``. Raises UserError for one that has none.

    ``extra`` is a folder of further rule sets; a ``reference_convergence.csv`` in it adds reference points.
    """
    rounds = {name: load_round(name, extra) for name in runs["round"].unique()}
    points = all_reference_points(extra)
    book: Rulebook = {}
    for round_name, folder in runs[["round", "benchmark"]].drop_duplicates().itertuples(index=False):
        benchmark = rounds[round_name].benchmark(folder)
        if benchmark is None:
            raise UserError(
                f"Benchmark {folder!r} in the runs is none of round {round_name}.\n"
                f"Known there: {', '.join(sorted(rounds[round_name].benchmarks))}. "
                "Add it to the round's rules, or take its rows out."
            )
        of_benchmark = [p for p in points if p.round == round_name and p.benchmark == benchmark.folder]
        book[round_name, folder] = Ruled(rounds[round_name], benchmark, in_samples(of_benchmark, benchmark))
    return book


def reference_table(book: Rulebook) -> pd.DataFrame:
    """The reference points in samples, columns ``REFERENCE_COLUMNS``. ``kept``: the official checker keeps it."""
    rows = []
    for (round_name, folder), ruled in book.items():
        kept = pruned(ruled.reference)
        for point in ruled.reference:
            rows.append(
                {
                    "round": round_name,
                    "benchmark": folder,
                    "workload": ruled.benchmark.workload,
                    "global_batch": point.global_batch,
                    "runs": point.runs,
                    "samples_mean": point.samples_mean,
                    "samples_sd": point.samples_sd,
                    "kept": point in kept,
                }
            )
    return pd.DataFrame(rows, columns=REFERENCE_COLUMNS)
