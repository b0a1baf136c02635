"""Whether a run reached its target: whether one of its evaluations meets it, whatever else is wrong with the log."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from breakeven.mlperf.requirements import Requirement
from breakeven.mlperf.rules import Benchmark, Round

#: Checkpoints of a log whose metrics are kept; published logs have some twenty.
MAX_CHECKPOINTS = 100_000

#: What evaluating a condition on any JSON value can raise; the checker counts that as a failed check.
UNCOMPARABLE = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError)

_NO_MEMORY: dict[str, Any] = {}


@dataclass(slots=True)
class Goal:
    """One key that has a target in the rules, and how far the log's lines of it got."""

    key: str
    """Of the lines that tell of it."""
    rule: Requirement
    _met: bool = False
    _metrics: dict[Any, dict[str, Any]] = field(default_factory=dict)
    """Of a target over several lines: what they are gathered by → metric → value."""

    def see(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        if self.rule.gathers is None:
            self._met = self._met or self._holds(value)
            return
        metric, by = metadata.get("metric"), metadata.get(self.rule.gathers.by)
        if not isinstance(metric, str) or metric not in self.rule.target or not _is_scalar(by) or not _is_scalar(value):
            return
        if by in self._metrics or len(self._metrics) < MAX_CHECKPOINTS:
            self._metrics.setdefault(by, {})[metric] = value

    @property
    def met(self) -> bool:
        return self._met or any(map(self._holds, self._metrics.values()))

    def _holds(self, value: Any) -> bool:
        try:
            return all(
                condition.holds(value[entry] if entry else value, _NO_MEMORY)
                for entry, conditions in self.rule.target.items()
                for condition in conditions
            )
        except UNCOMPARABLE:
            return False


class Target:
    """The benchmark's target in every division: which one holds is known once the log has named its own."""

    def __init__(self, benchmark: Benchmark, round: Round) -> None:
        self._division: str | None = None
        self._names_division = [key for key, rule in round.log_common.items() if rule.selects == "division"]
        self._goals = {
            division: [
                Goal(key if rule.gathers is None else rule.gathers.key, rule)
                for rules in (round.log_common, round.log.get(division, {}), own)
                for key, rule in rules.items()
                if rule.target
            ]
            for division, own in benchmark.log.items()
        }

    def handlers(self) -> list[tuple[str, Callable[[Any, dict[str, Any], float], None]]]:
        """Keys, and what takes (value, metadata, milliseconds) of their lines."""
        of_goals = [(goal.key, goal.see) for goals in self._goals.values() for goal in goals]
        return [*((key, self._division_named) for key in self._names_division), *of_goals]

    def _division_named(self, value: Any, metadata: dict[str, Any], time_ms: float) -> None:
        if self._division is None and isinstance(value, str):
            self._division = value

    @property
    def reached(self) -> bool:
        """An evaluation met the target of the log's division; of the closed one where the rules know no other. Where
        the rules have no target there is none to miss."""
        return all(goal.met for goal in self._goals.get(self._division or "", self._goals.get("closed", [])))


def _is_scalar(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 100)
