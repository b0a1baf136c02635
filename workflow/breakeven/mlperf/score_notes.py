"""Why a result set has no score or one of fewer runs, and where the official checks say otherwise, in words."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from breakeven.mlperf.rules import Benchmark

#: Named of many logs, reasons or batches; the rest are counted. A set may have thousands, a cell of a CSV not.
MOST_NAMED = 5


def least_runs(benchmark: Benchmark) -> int:
    """With fewer, none is left once the fastest and the slowest are."""
    return 2 * benchmark.runs_dropped + 1


def notes(runs: int, failed: int, batches: Sequence[int], benchmark: Benchmark) -> Iterator[str]:
    """Of the tolerant score: ``runs`` logs there are, ``failed`` of them without reaching the target."""
    required = benchmark.runs_required
    if runs == 0:
        yield f"no logs in the archive ({required} runs required)"
    elif runs < required:
        least = least_runs(benchmark)
        yield f"{runs} of {required} required runs" + (f"; a score needs at least {least}" if runs < least else "")
    if failed > benchmark.runs_may_fail:
        yield f"{failed} of {runs} runs did not reach the target; at most {_count(benchmark.runs_may_fail)} may fail"
    if len(batches) > 1:
        yield f"runs of different global batches ({_named(list(map(str, batches)))})"


def strict_notes(
    measured: pd.DataFrame, converged: "pd.Series[bool]", compliant: "pd.Series[bool]", benchmark: Benchmark
) -> Iterator[str]:
    """Which logs the official checks reject and why, and which they pass although the run did not reach its target."""
    failed = int((~compliant).sum())
    if failed > benchmark.runs_may_fail:
        may = _count(benchmark.runs_may_fail)
        yield f"no strict score: {failed} of {len(measured)} logs fail the official checks; at most {may} may"
    logs: dict[str, list[str]] = {}
    for log, why, passes, reached in zip(measured["source"], measured["compliance"], compliant, converged, strict=True):
        if not passes:
            logs.setdefault(why or "no run time", []).append(Path(log).name)
        elif not reached:
            told = "passes the official checks, though the run did not reach its target"
            logs.setdefault(told, []).append(Path(log).name)
    for why, of_it in list(logs.items())[:MOST_NAMED]:
        yield f"{_named(of_it)}: {why}"
    rest = sum(len(of_it) for of_it in list(logs.values())[MOST_NAMED:])
    if rest:
        yield f"and {rest:,} more for other reasons"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _count(number: int) -> str:
    return "one" if number == 1 else str(number)
