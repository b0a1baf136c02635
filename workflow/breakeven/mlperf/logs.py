"""One MLPerf result log to the facts of its run.

A log is whatever a job printed, with ``:::MLLOG {json}`` lines among it: prefixed with ranks, in mixed encodings, out
of order in time, now and then damaged. Only MLLOG lines are read, and one that cannot be read is counted, not fatal.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.mlperf.benchmarks import BENCHMARKS, CLIP_AT_LEAST, FID_AT_MOST, Benchmark
from breakeven.schema.errors import UserError
from breakeven.schema.status import Status

MARK = ":::MLLOG"

#: Every byte is a latin-1 character: seven ssd logs of v4.1 are not UTF-8, and nothing read here needs more than ASCII.
ENCODING = "latin-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What one result log says of its run. Times are milliseconds since 1970, UTC, as logged."""

    benchmark: str
    status: Status
    """ok: reached the target; failed: aborted, or ended without a word."""
    run_start_ms: int | None
    run_stop_ms: int | None
    first_ms: int | None
    """Of the first MLLOG line."""
    global_batch: int | None
    """Samples per optimiser update."""
    samples_to_converge: int | None
    """Training samples until the target was reached; None where it was not, or where no evaluation says."""
    mllog_lines: int
    """Lines that could be read."""
    corrupted_lines: int
    """Lines with the MLLOG mark that could not be read."""

    @property
    def run_time_ms(self) -> int | None:
        """The timed part, start-up of the run excluded: run_stop - run_start. None where either is missing."""
        if self.run_start_ms is None or self.run_stop_ms is None:
            return None
        return self.run_stop_ms - self.run_start_ms


@dataclass(frozen=True, slots=True)
class Entry:
    """One readable MLLOG line."""

    time_ms: int
    key: str
    value: Any
    metadata: dict[str, Any]


@dataclass(slots=True)
class _Counts:
    read: int = 0
    corrupted: int = 0


@dataclass(slots=True)
class _Evaluations:
    """Evaluations seen so far, in the file's order."""

    last: Entry | None = None
    by_samples: dict[int, dict[str, float]] = field(default_factory=dict)
    """samples → metric → value: stable_diffusion logs its two metrics of a checkpoint on separate lines."""


def run_facts(lines: Iterable[str], benchmark: str) -> RunFacts:
    """The facts of a run from the lines of its log. ``benchmark`` is a name in ``BENCHMARKS``."""
    rules = BENCHMARKS[benchmark]
    counts = _Counts()
    evaluations = _Evaluations()
    first_ms = global_batch = None
    start = stop = None
    for entry in _entries(lines, counts):
        first_ms = entry.time_ms if first_ms is None else first_ms
        if entry.key == "run_start" and start is None:
            start = entry
        elif entry.key == "run_stop" and stop is None:
            stop = entry
        elif entry.key == "global_batch_size" and global_batch is None:
            global_batch = _whole(entry.value)
        elif entry.key == "eval_accuracy":
            _note_evaluation(entry, evaluations, rules, after_stop=stop is not None)

    # By time, never by place in the file: stable_diffusion writes run_stop last, dated back to the passing checkpoint.
    ran = start is not None and stop is not None and stop.time_ms >= start.time_ms
    ok = ran and stop is not None and stop.metadata.get("status") == "success"
    return RunFacts(
        benchmark=benchmark,
        status=Status.OK if ok else Status.FAILED,
        run_start_ms=start.time_ms if start else None,
        run_stop_ms=stop.time_ms if stop else None,
        first_ms=first_ms,
        global_batch=global_batch,
        samples_to_converge=_samples(evaluations, rules) if ok else None,
        mllog_lines=counts.read,
        corrupted_lines=counts.corrupted,
    )


def read_log(path: Path, benchmark: str) -> RunFacts:
    """The facts of a run from its log file."""
    try:
        with path.open(encoding=ENCODING) as lines:
            return run_facts(lines, benchmark)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}).\nExpected an MLPerf result log (result_*.txt)."
        ) from error


def _entries(lines: Iterable[str], counts: _Counts) -> Iterator[Entry]:
    for line in lines:
        # Anywhere in the line: launchers prefix ranks ("0: ") in four logs of ten.
        _, mark, text = line.rpartition(MARK)
        if not mark:
            continue
        entry = _entry(text)
        if entry is None:
            counts.corrupted += 1
        else:
            counts.read += 1
            yield entry


def _entry(text: str) -> Entry | None:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    time_ms, key, metadata = _whole(raw.get("time_ms")), raw.get("key"), raw.get("metadata") or {}
    if time_ms is None or not isinstance(key, str) or not isinstance(metadata, dict):
        return None
    return Entry(time_ms=time_ms, key=key, value=raw.get("value"), metadata=metadata)


def _whole(value: Any) -> int | None:
    """A count or a time as an integer; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value and abs(value) < 2**63 and int(value) == value else None


def _note_evaluation(entry: Entry, evaluations: _Evaluations, rules: Benchmark, after_stop: bool) -> None:
    if rules.converged == "last evaluation":
        if not after_stop:  # an evaluation still running when the target was reached says nothing of reaching it
            evaluations.last = entry
        return
    samples, metric = _whole(entry.metadata.get(rules.samples_key)), entry.metadata.get("metric")
    if samples is not None and isinstance(metric, str) and isinstance(entry.value, int | float):
        evaluations.by_samples.setdefault(samples, {})[metric] = float(entry.value)


def _samples(evaluations: _Evaluations, rules: Benchmark) -> int | None:
    """Samples until the target, for a run that reached it."""
    if rules.converged == "first passing checkpoint":
        passing = (samples for samples, metrics in evaluations.by_samples.items() if _passes(metrics))
        return min(passing, default=None)
    units = _whole(evaluations.last.metadata.get(rules.samples_key)) if evaluations.last else None
    return None if units is None else units * rules.samples_per_unit


def _passes(metrics: dict[str, float]) -> bool:
    return metrics.get("FID", float("inf")) <= FID_AT_MOST and metrics.get("CLIP", 0.0) >= CLIP_AT_LEAST
