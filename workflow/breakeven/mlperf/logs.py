"""One MLPerf result log to the facts of its run.

A log has ``:::MLLOG {json}`` lines among whatever else its job printed: prefixed with ranks, in mixed encodings, out of
order in time, now and then damaged. A line that cannot be read is counted, not fatal: ``status`` says whether the run
reached its target, ``compliance`` what MLCommons' own checker says of the log.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.mlperf.compliance import Checker
from breakeven.mlperf.loglines import ENCODING, MARK, LogLines, read_lines
from breakeven.mlperf.rules import Benchmark, Round
from breakeven.mlperf.target import Target
from breakeven.mlperf.training import Training
from breakeven.schema.errors import UserError
from breakeven.schema.status import Status

__all__ = ["ENCODING", "MARK", "LogLines", "RunFacts", "read_lines", "read_log", "run_facts"]

_Handler = Callable[[Any, dict[str, Any], float], None]

#: As MLCommons' parser has it: without the space after it the mark is only text.
_TOKEN = MARK + " "


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What one result log says of its run. Times of day are milliseconds since 1970, UTC, as logged."""

    benchmark: str
    """Folder of the benchmark in its round."""
    status: Status
    """ok: the timed part took some time and ended in success, and an evaluation met the benchmark's target, that of the
    division that the log names (unless lines of the log that cannot be read may have held it). Else failed."""
    compliance: str
    """"" where MLCommons' log checker accepts the log; else why it does not."""
    run_start_ms: float | None
    """None also where the log gives a time that is none, such as Infinity; so for the stop."""
    run_stop_ms: float | None
    first_ms: float | None
    """Of the first MLLOG line with a time of day."""
    global_batch: int | None
    """Samples per optimiser update."""
    samples_to_converge: float | None
    """Training samples until the target was reached, above 0; None where it was not, or where no evaluation says."""
    evaluation_every_samples: float | None
    """Samples from one evaluation to the next: convergence is only known to this. None below two evaluations."""
    step_throughput: float | None
    """Samples per second of the whole system while it trained, as the run itself reported; None unknown."""
    step_throughput_note: str
    """Why it is unknown."""
    evaluation_s: float | None
    """Seconds inside the clock that training stood still for evaluation, or was of no use; None unknown."""
    startup_s: float | None
    """Seconds inside the clock before training began; None unknown."""
    mllog_lines: int
    """Lines that could be read."""
    corrupted_lines: int
    """Lines with the MLLOG mark that could not be read."""
    prefixed_lines: int
    """MLLOG lines with something before the mark."""
    ranks: int
    """Different ranks named by what stands before the mark; 1 where none is named."""
    overlong_lines: int
    """Lines too long to be read, MLLOG or not."""
    non_utf8: bool
    """The log holds bytes that are not UTF-8."""

    @property
    def run_time_ms(self) -> float | None:
        """The timed part, start-up of the run excluded: run_stop - run_start. None where either is missing."""
        if self.run_start_ms is None or self.run_stop_ms is None:
            return None
        return self.run_stop_ms - self.run_start_ms


def run_facts(lines: Iterable[str], benchmark: Benchmark, round: Round, *, devices: int | None = None) -> RunFacts:
    """The facts of a run from the lines of its log.

    ``lines`` are text in latin-1, with or without their ends: ``read_lines(stream)``, which also counts what was odd.
    ``devices``: accelerators of the system, where throughput is logged per accelerator and the log does not count them.
    """
    reader = _Reader(Checker(round), Training(benchmark), Target(benchmark, round))
    reader.read(lines)
    training, timed = reader.training, reader.training.time_ms
    overlong = lines.overlong_lines if isinstance(lines, LogLines) else 0
    reached = reader.target.reached or reader.corrupted > 0 or overlong > 0
    ok = timed is not None and timed > 0 and training.succeeded and reached
    throughput, why_not = training.step_throughput(devices)
    return RunFacts(
        benchmark=benchmark.folder,
        status=Status.OK if ok else Status.FAILED,
        compliance=reader.checker.verdict(),
        run_start_ms=_known(training.start_ms),
        run_stop_ms=_known(training.stop_ms),
        first_ms=reader.first_ms,
        global_batch=training.global_batch,
        samples_to_converge=training.samples_to_converge() if ok else None,
        evaluation_every_samples=training.evaluation_every_samples(),
        step_throughput=throughput,
        step_throughput_note=why_not,
        evaluation_s=training.evaluation_s(),
        startup_s=training.startup_s(),
        mllog_lines=reader.readable,
        corrupted_lines=reader.corrupted,
        prefixed_lines=reader.prefixed,
        ranks=_ranks(reader.prefixes),
        overlong_lines=overlong,
        non_utf8=lines.non_utf8 if isinstance(lines, LogLines) else False,
    )


def read_log(path: Path, benchmark: Benchmark, round: Round, *, devices: int | None = None) -> RunFacts:
    """The facts of a run from its log file."""
    try:
        with path.open("rb") as stream:
            return run_facts(read_lines(stream), benchmark, round, devices=devices)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}).\nExpected an MLPerf result log (result_*.txt)."
        ) from error


@dataclass(slots=True)
class _Reader:
    """Takes a log's lines apart: each MLLOG line to the checker and to what is known of training and its target."""

    checker: Checker
    training: Training
    target: Target
    first_ms: float | None = None
    readable: int = 0
    corrupted: int = 0
    prefixed: int = 0
    prefixes: set[str] = field(default_factory=set)
    """Of those that may name a rank."""

    def read(self, lines: Iterable[str]) -> None:
        # Whole rounds pass through here, a million lines: hence the local names.
        decode, see, note = json.JSONDecoder().raw_decode, self.checker.see, self._handlers().get
        for line in lines:
            # The last mark of a line, as the checker has it: of two ranks' lines run together one is lost.
            at = line.rfind(_TOKEN)
            if at < 0:
                self.corrupted += MARK in line
                continue
            if at:
                self.prefixed += 1
                self._note_prefix(line[:at])
            try:
                entry, end = decode(line, at + len(_TOKEN))
                if end != len(line):
                    entry = json.loads(line[at + len(_TOKEN) :].rstrip())
            except (ValueError, RecursionError):
                entry = _whole_line(line[at + len(_TOKEN) :])
            if type(entry) is not dict:
                self._corrupted()
                continue
            key, time_ms = entry.get("key"), entry.get("time_ms")
            of_day_ms: Any = time_ms
            if type(time_ms) is not int or not -_END_OF_TIME_MS < time_ms < _END_OF_TIME_MS:
                time_ms = _time(time_ms)
                of_day_ms = time_ms if time_ms is not None and abs(time_ms) < _END_OF_TIME_MS else math.nan
            if type(key) is not str or time_ms is None:
                self.corrupted += 1
                # The checker passes over a key that is no text, as over any that it has no rules for.
                if time_ms is None or not entry.keys() >= _CHECKED:
                    self.checker.unreadable()
                continue
            self.readable += 1
            if self.first_ms is None:
                self.first_ms = _known(of_day_ms)
            value, metadata = entry.get("value"), entry.get("metadata")
            if "value" in entry and "metadata" in entry:
                see(key, value, metadata, time_ms, len(line))
            else:
                self.checker.unreadable()
            handler: _Handler | None = note(key)
            if handler is not None:
                handler(value, metadata if type(metadata) is dict else {}, of_day_ms)

    def _handlers(self) -> dict[str, _Handler]:
        handlers = self.training.handlers()
        for key, of_target in self.target.handlers():
            handlers[key] = _both(handlers[key], of_target) if key in handlers else of_target
        return handlers

    def _corrupted(self) -> None:
        self.corrupted += 1
        self.checker.unreadable()

    def _note_prefix(self, prefix: str) -> None:
        if len(prefix) <= _MAX_PREFIX_LENGTH and len(self.prefixes) < _MAX_PREFIXES:
            self.prefixes.add(prefix)


def _whole_line(text: str) -> Any:
    """A line's JSON where it does not begin at once; None if it is none."""
    try:
        return json.loads(text.rstrip())
    except (ValueError, RecursionError):
        return None


def _time(raw: Any) -> float | None:
    """Whatever the checker's parser takes for milliseconds, NaN and Infinity too; None for anything else."""
    try:
        return float(raw)
    except (TypeError, ValueError, OverflowError):
        return None


def _known(time_ms: float | None) -> float | None:
    return None if time_ms is None or math.isnan(time_ms) else time_ms


def _both(one: _Handler, other: _Handler) -> _Handler:
    def handle(value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        one(value, metadata, time_ms)
        other(value, metadata, time_ms)

    return handle


#: No time of day is beyond; a line that says so is a line all the same.
_END_OF_TIME_MS = 2**63

#: Kept to count ranks, of which v5.1's logs name 5,120 at the most, in a dozen characters.
_MAX_PREFIXES, _MAX_PREFIX_LENGTH = 100_000, 100

#: What the checker's parser asks of every line.
_CHECKED = {"time_ms", "key", "value", "metadata"}

#: "3: ", " 12: ", "[1,3]<stdout>:", "rank3: "
_RANK = re.compile(r"\s*(?:\[\d+,(\d+)\]|\[?(?:rank)?\s?(\d+)\]?)\s*(?:<\w+>)?\s*:\s*")


def _ranks(prefixes: set[str]) -> int:
    found = {match[1] or match[2] for match in map(_RANK.fullmatch, prefixes) if match}
    return max(1, len(found))
