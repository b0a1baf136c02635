"""What a log says of the training itself: when it was timed, how far it got, how fast, what else the clock ran for."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from breakeven.mlperf.rules import Benchmark, ThroughputSource
from breakeven.mlperf.target import MAX_CHECKPOINTS

_NO_MEMORY: dict[str, Any] = {}


def number(value: Any) -> float | None:
    """A finite JSON number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 2**63 else None


@dataclass(slots=True)
class _Pace:
    """Time per work, averaged over work: rates may not be averaged."""

    time: float = 0.0
    work: float = 0.0

    def add(self, time_per_work: float, work: float) -> None:
        self.time += time_per_work * work
        self.work += work


@dataclass(slots=True)
class Training:
    """Hand every line to its key's handler, in the file's order; then ask. Milliseconds are NaN where a line's time is
    no time of day: then it tells no duration."""

    benchmark: Benchmark
    start_ms: float | None = None
    stop_ms: float | None = None
    succeeded: bool = False
    """run_stop says so."""
    global_batch: int | None = None
    _local_batch: int | None = None
    _began_ms: float | None = None
    """First sign of training after run_start."""
    _block: tuple[float, float] | None = None
    """Units and milliseconds at the start of the block of training that is under way."""
    _evaluating_since_ms: float | None = None
    _evaluated_ms: float = 0.0
    _evaluations_ended: int = 0
    _last_evaluation_ms: float | None = None
    """Start of the last evaluation."""
    _last_stall_ms: float = 0.0
    """How long training stood still for it."""
    _evaluated_at: set[float] = field(default_factory=set)
    """Units trained on at each evaluation."""
    _last_units: float | None = None
    _checkpoints: dict[float, dict[str, float | None]] = field(default_factory=dict)
    """Units → metric → value."""
    _reported: list[_Pace] = field(default_factory=list)
    """By throughput source."""

    def __post_init__(self) -> None:
        self._reported = [_Pace() for _ in self.benchmark.throughput]

    @property
    def time_ms(self) -> float | None:
        """The timed part; None where its start or stop is missing."""
        return None if self.start_ms is None or self.stop_ms is None else self.stop_ms - self.start_ms

    def handlers(self) -> dict[str, Callable[[Any, dict[str, Any], float], None]]:
        """Key → what takes (value, metadata, milliseconds) of its lines."""
        return {
            "run_start": self._run_start,
            "run_stop": self._run_stop,
            "global_batch_size": self._global_batch,
            "local_batch_size": self._local_batch_size,
            "epoch_start": self._training_begins,
            "block_start": self._block_begins,
            "block_stop": self._block_ends,
            "eval_start": self._evaluation_begins,
            "eval_stop": self._evaluation_ends,
            "eval_accuracy": self._evaluation,
            "tracked_stats": self._stats,
        }

    # As MLCommons pairs them: the latest start and the latest stop seen by the time that both are known.
    def _run_start(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        if self.time_ms is None:
            self.start_ms = time_ms

    def _run_stop(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        if self.time_ms is None:
            self.stop_ms = time_ms
            self._await_last_evaluation(time_ms)
            self.succeeded = metadata.get("status") == "success"

    def _global_batch(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        self.global_batch = _count(value) or self.global_batch

    def _local_batch_size(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        self._local_batch = _count(value) or self._local_batch

    def _training_begins(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        if self._began_ms is None and self.start_ms is not None and time_ms >= self.start_ms:
            self._began_ms = time_ms
        if self.benchmark.evaluation == "overlapped":
            self._evaluation_ends(value, metadata, time_ms)

    def _block_begins(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        self._training_begins(value, metadata, time_ms)
        units = number(metadata.get(self.benchmark.convergence.key))
        self._block = None if units is None or self.start_ms is None else (units, time_ms)

    def _block_ends(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        units, begun, self._block = number(metadata.get(self.benchmark.convergence.key)), self._block, None
        if units is None or begun is None or self.stop_ms is not None or units <= begun[0] or not time_ms > begun[1]:
            return
        for source, pace in zip(self.benchmark.throughput, self._reported, strict=True):
            if source.blocks and value == source.blocks:
                done = units - begun[0]
                pace.add((time_ms - begun[1]) / 1000 / done, done)

    def _evaluation_begins(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        # Ranks may all log it: an evaluation lasts from the first that begins to the first that ends.
        if self._evaluating_since_ms is None and self.start_ms is not None and self.stop_ms is None:
            self._evaluating_since_ms = self._last_evaluation_ms = time_ms
            self._last_stall_ms = 0.0

    def _evaluation_ends(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        if self._evaluating_since_ms is not None and self.stop_ms is None:
            self._last_stall_ms = max(0.0, time_ms - self._evaluating_since_ms)
            self._evaluated_ms += self._last_stall_ms
            self._evaluating_since_ms = None
            self._evaluations_ended += 1

    def _await_last_evaluation(self, time_ms: float) -> None:
        """Training beside the last evaluation is not needed: what the clock waits for is the evaluation's end."""
        if self.benchmark.evaluation == "overlapped" and self._last_evaluation_ms is not None:
            self._evaluated_ms += max(0.0, time_ms - self._last_evaluation_ms - self._last_stall_ms)
            self._evaluating_since_ms = None

    def _evaluation(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        units = number(metadata.get(self.benchmark.convergence.key))
        if self.benchmark.convergence.reading == "last_evaluation":
            if self.stop_ms is not None:  # still running when the target was reached: says nothing of reaching it
                return
            self._last_units = units
        elif (
            units is not None
            and metadata.get("metric") in list(self.benchmark.convergence.target)
            and (units in self._checkpoints or len(self._checkpoints) < MAX_CHECKPOINTS)
        ):
            self._checkpoints.setdefault(units, {})[metadata["metric"]] = number(value)
        if units is not None and len(self._evaluated_at) < 1_000_000:
            self._evaluated_at.add(units)

    def _stats(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        if not isinstance(value, dict):
            return
        timed, over = self.start_ms is not None and self.stop_ms is None, self.stop_ms is not None
        for source, pace in zip(self.benchmark.throughput, self._reported, strict=True):
            reported = number(value.get(source.stat)) if source.stat else None
            if reported is None or reported <= 0 or (source.without and source.without in value):
                continue
            if over if source.after_run else timed:
                work = number(metadata.get(source.weight)) if source.weight else None
                pace.add(reported if source.is_seconds_per_step else 1 / reported, work if work and work > 0 else 1.0)

    def _samples_per_unit(self) -> float | None:
        per_unit = self.benchmark.convergence.samples_per_unit
        return self.global_batch if per_unit is None else per_unit

    def samples_to_converge(self) -> float | None:
        """Samples until the target, of a run that reached it; None where it is said to have trained on none."""
        units = self._last_units
        if self.benchmark.convergence.reading == "first_passing_checkpoint":
            units = min(
                (at for at, metrics in self._checkpoints.items() if at > 0 and self._passes(metrics)), default=None
            )
        per_unit = self._samples_per_unit()
        return None if units is None or units <= 0 or per_unit is None else units * per_unit

    def _passes(self, metrics: dict[str, float | None]) -> bool:
        return all(
            metrics.get(metric) is not None
            and all(condition.holds(metrics[metric], _NO_MEMORY) for condition in conditions)
            for metric, conditions in self.benchmark.convergence.target.items()
        )

    def evaluation_every_samples(self) -> float | None:
        """The usual distance between evaluations: a median, because some skip the first ones."""
        at, per_unit = sorted(self._evaluated_at), self._samples_per_unit()
        if len(at) < 2 or per_unit is None:
            return None
        return median(later - earlier for earlier, later in pairwise(at)) * per_unit

    def evaluation_s(self) -> float | None:
        """Seconds inside the clock that training stood still, or was of no use."""
        if self.benchmark.evaluation == "untimed":
            return 0.0
        return self._evaluated_ms / 1000 if self._evaluations_ended else None

    def startup_s(self) -> float | None:
        """Seconds from run_start to the first epoch or block."""
        if self.start_ms is None or self._began_ms is None or math.isnan(self.start_ms):
            return None
        return (self._began_ms - self.start_ms) / 1000

    def step_throughput(self, devices: int | None) -> tuple[float | None, str]:
        """Samples per second of the system while training, and why not."""
        for source, pace in zip(self.benchmark.throughput, self._reported, strict=True):
            if pace.time > 0:
                rate, why_not = self._throughput(source, pace.work / pace.time, devices)
                if rate is not None and not 0 < rate < 2**63:
                    return None, "the log tracks a throughput that is not finite"
                return rate, why_not
        return None, "the log tracks no throughput"

    def _throughput(self, source: ThroughputSource, rate: float, devices: int | None) -> tuple[float | None, str]:
        if source.is_seconds_per_step:
            if self.global_batch is None:
                return None, "the log tracks seconds per step but not the global batch"
            rate *= self.global_batch
        if source.blocks:
            per_unit = self._samples_per_unit()
            return (
                (None, "the log counts in steps but not the global batch")
                if per_unit is None
                else (rate * per_unit, "")
            )
        rate *= source.samples_per_unit
        if source.per_accelerator:
            # The batch of one accelerator is a surer count than a system description, which may list spare ones.
            accelerators = devices
            if self.global_batch is not None and self._local_batch is not None:
                accelerators = self.global_batch // self._local_batch
            if not accelerators:
                return None, "the log tracks throughput per accelerator but not how many there are"
            rate *= accelerators
        if source.whole_batches_of is not None:
            if self.global_batch is None:
                return None, "the log tracks throughput in whole batches but not the batch"
            batches = math.ceil(source.whole_batches_of / self.global_batch)
            rate *= source.whole_batches_of / (batches * self.global_batch)
        if source.includes_evaluation:
            evaluated_s = self.evaluation_s()
            spent_s = (self.time_ms or 0) / 1000 - (self.startup_s() or 0)
            if evaluated_s is None or not evaluated_s < spent_s:
                return None, "the log tracks throughput with evaluations but not how long these took"
            rate *= spent_s / (spent_s - evaluated_s)
        return rate, ""


def _count(value: Any) -> int | None:
    """A whole number above 0, of those that a float tells apart."""
    count = number(value)
    return int(count) if count is not None and 0 < count < 2**53 and count == int(count) else None
