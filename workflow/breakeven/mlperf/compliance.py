"""MLCommons' checks of a log (its ``compliance_checker``), in one pass over the lines and driven by a round's rules.

The checker reads a log once per layer of rules: those of every log, then the division's, the benchmark's and a
variant's, each named by a line of the log. What a layer finds wrong with a key is forgotten if a later layer has rules
for that key, save two things: a target never met, and none of several keys that could stand for each other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from breakeven.mlperf.requirements import Requirement, Requirements, Selects
from breakeven.mlperf.rules import Benchmark, Round
from breakeven.mlperf.target import UNCOMPARABLE

#: Length of the lines whose values a check holds: those that wait for layers yet to be named (logs name them among
#: their first), and evaluations to be taken together. Parsed they take up to 25 times the room. Past this it gives up.
#: Of v4.1 and v5.1 NVIDIA's gpt3 on 11,616 GPUs has most: 2.7 million, one line of each rank before the division's.
MAX_HELD_CHARACTERS = 8_000_000

#: A line so short is no matter where one of its kind is held.
_SHORT = 4000

#: Reasons given in a verdict; the rest are counted.
MAX_REASONS = 3

#: As the checker has it.
_NEVER_MS = 9e99

_Line = tuple[str, Any, Any, float]


class Checker:
    """Checks of one log. ``see`` every line in the file's order, then ask for the ``verdict``."""

    def __init__(self, round: Round) -> None:
        self._round = round
        self._waiting: list[_Line] | None = []
        self._held = 0
        self._passes = -1
        """So short a line is not held for sure."""
        self._long: set[str] = set()
        self._gathered: set[str] = set()
        self._keys = round.log_keys
        self._fatal: list[str] = []
        self._unreadable = 0
        self._division = ""
        self._benchmark: Benchmark | None = None
        self._chosen: set[Selects] = set()
        self._layers: list[_Layer] = []
        self._add(_Layer(round.log_common))
        self._anything = False

    def unreadable(self) -> None:
        """A line with the MLLOG mark that cannot be read: the checker refuses such a log whole."""
        self._unreadable += 1

    def see(self, key: str, value: Any, metadata: Any, time_ms: float, characters: int = 0) -> None:
        """One line of so many ``characters``. ``value`` and ``metadata`` may be any JSON."""
        self._anything = True
        if key not in self._keys:
            return
        line = (key, value, metadata, time_ms)
        if characters > self._passes:
            self._hold(key, characters)
        if self._waiting is not None:
            self._wait(line)
        for layer in self._layers:
            selection = layer.see(*line)
            if selection:
                self._select(selection, value)
                break  # every layer now there has seen all lines, this one included

    def _hold(self, key: str, characters: int) -> None:
        """Count a line that is kept, or that may be: of each key the first value is."""
        if self._waiting is None and key not in self._gathered:
            if characters <= _SHORT or key in self._long:
                return
            self._long.add(key)
        self._held += characters
        if self._held > MAX_HELD_CHARACTERS:
            self._fatal.append(f"more than {MAX_HELD_CHARACTERS} characters of lines to be checked together")
            self._waiting, self._layers, self._keys = None, [], frozenset()

    def _stop_waiting(self) -> None:
        self._waiting = None
        self._passes = -1 if self._gathered else _SHORT

    def _wait(self, line: _Line) -> None:
        assert self._waiting is not None
        if any(layer.awaits_selection for layer in self._layers):
            self._waiting.append(line)
        else:
            self._stop_waiting()

    def _select(self, selection: Selects, value: Any) -> None:
        if selection in self._chosen:
            return  # a layer that selects another of its own kind would do so without end
        self._chosen.add(selection)
        rules = self._selected(selection, value)
        if rules is None:
            within = f" in the {self._division} division" if selection == "benchmark" and self._benchmark else ""
            self._fatal.append(f"no rules for the {selection} {_shown(value)}{within}")
            return
        layer = _Layer(rules, self._division)
        self._add(layer)
        for line in self._waiting or ():
            further = layer.see(*line)
            if further:
                self._select(further, line[1])

    def _add(self, layer: "_Layer") -> None:
        self._layers.append(layer)
        self._gathered.update(rule.gathers.key for key in layer.gathered if (rule := layer.rules[key]).gathers)

    def _selected(self, selection: Selects, value: Any) -> Requirements | None:
        if not isinstance(value, str):
            return None
        if selection == "division":
            self._division = self._layers[0].division = value
            return self._round.log.get(value)
        if selection == "benchmark":
            self._benchmark = self._round.benchmarks.get(value)
            return self._benchmark.log.get(self._division) if self._benchmark else None
        return self._benchmark.log_variants.get(value) if self._benchmark else None

    def verdict(self) -> str:
        """ "" for a log that passes; else the first reasons why it does not."""
        reasons = list(self._fatal)
        if self._unreadable:
            reasons.append(f"unreadable lines: {self._unreadable}")
        if not self._anything:
            reasons.append("no lines")
        for layer in self._layers:
            layer.finish()
        for at, layer in enumerate(self._layers):
            later = [rules for other in self._layers[at + 1 :] for rules in other.rules]
            reasons += [why for key, why in layer.failed.items() if key not in later]
            reasons += layer.failed_for_good.values()
        # One thing wrong is often wrong in two layers.
        reasons = list(dict.fromkeys(reasons))
        more = [f"and {len(reasons) - MAX_REASONS} more"] if len(reasons) > MAX_REASONS else []
        return "; ".join(reasons[:MAX_REASONS] + more)


@dataclass(slots=True)
class _Reported:
    """The lines of one key so far."""

    count: int = 0
    first: Any = None
    differ: bool = False
    met_target: bool = False

    def add(self, value: Any) -> None:
        if not self.count:
            self.first = value
        elif value is not self.first and not self.differ:
            self.differ = _differ(value, self.first)
        self.count += 1


@dataclass(slots=True)
class _Layer:
    """One layer of rules at work."""

    rules: Requirements
    division: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    """Key → why; forgotten where a later layer has rules for the key."""
    failed_for_good: dict[tuple[str, str], str] = field(default_factory=dict)
    """Key and what is wrong with it → why, of the first such line: a log may hold millions."""
    reported: dict[str, _Reported] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    first_ms: dict[str, float] = field(default_factory=dict)
    gathered: dict[str, dict[Any, dict[Any, Any]]] = field(default_factory=dict)
    awaits_selection: bool = False

    def __post_init__(self) -> None:
        self.awaits_selection = any(rule.selects for rule in self.rules.values())
        self.gathered = {key: {} for key, rule in self.rules.items() if rule.gathers}

    def see(self, key: str, value: Any, metadata: Any, time_ms: float) -> Selects:
        """Check a line. What its value selects, if it is the first to select anything here."""
        if self.gathered:
            self._gather(key, value, metadata)
        rule = self.rules.get(key)
        if rule is None:
            return ""
        reported = self.reported.setdefault(key, _Reported())
        reported.add(value)
        selection: Selects = ""
        # Of the submission's own facts the checker looks at the first line alone.
        if reported.count == 1 or "submission_" not in key:
            self._check(key, rule, value, metadata, time_ms)
            self.first_ms[key] = min(self.first_ms.get(key, _NEVER_MS), time_ms)  # NaN is no first
            self._remember(key, rule, value)
            if rule.selects and self.awaits_selection:
                selection, self.awaits_selection = rule.selects, False
        if rule.target and self._meets_target(key, rule, value):
            reported.met_target = True
        return selection

    def _check(self, key: str, rule: Requirement, value: Any, metadata: Any, time_ms: float) -> None:
        for other in rule.after:
            if other not in self.first_ms:
                self.failed[key] = f"{key} before {other}"
        for other in rule.before:
            if other in self.first_ms:
                self.failed[key] = f"{key} after {other}"
        if rule.minutes_since_first:
            self._check_minutes(key, rule, time_ms)
        try:
            for group in rule.metadata:
                if not any(name in metadata for name in group):
                    self.failed[key] = f"{key} without {' or '.join(group)} in metadata"
            for name, (also, conditions) in rule.where_metadata.items():
                if name in metadata:
                    if also and also not in metadata:
                        self.failed[key] = f"{key} without {also} in metadata"
                    for condition in conditions:
                        if not condition.holds(metadata[name], self.memory):
                            self.failed[key] = f"{key} {name} {_shown(metadata[name])}: not {condition}"
        except UNCOMPARABLE:
            self.failed[key] = f"{key} with metadata {_shown(metadata)}"
        for condition in rule.conditions:
            try:
                holds = condition.holds(value, self.memory)
            except UNCOMPARABLE:
                holds = False
            if not holds:
                self.failed[key] = f"{key} {_shown(value)}: not {condition}"

    def _check_minutes(self, key: str, rule: Requirement, time_ms: float) -> None:
        assert rule.minutes_since_first is not None
        first, limits = rule.minutes_since_first.key, rule.minutes_since_first.minutes
        limit = limits.get(self.division, 0 if not self.division else min(limits.values(), default=0))
        if not time_ms - self.first_ms.get(first, _NEVER_MS) < limit * 60_000:
            spent = (time_ms - self.first_ms.get(first, time_ms)) / 60_000
            self.failed[key] = f"{key} {spent:.0f} min after {first}, limit {limit:g} min"

    def _remember(self, key: str, rule: Requirement, value: Any) -> None:
        if rule.remember == "value":
            self.memory[key] = value
        elif rule.remember:
            steps, at_batch = rule.remember
            try:
                self.memory[key] = math.ceil(steps * at_batch / self.memory["global_batch_size"])
            except UNCOMPARABLE:
                self.failed[key] = f"{key} before a usable global_batch_size"

    def _meets_target(self, key: str, rule: Requirement, value: Any) -> bool:
        try:
            return all(
                condition.holds(value[entry] if entry else value, self.memory)
                for entry, conditions in rule.target.items()
                for condition in conditions
            )
        except UNCOMPARABLE:
            # The checker itself breaks off here, and a log without a verdict does not count.
            self._fail_for_good(key, "value", f"{key} {_shown(value)} cannot be compared with its target")
            return False

    def _gather(self, key: str, value: Any, metadata: Any) -> None:
        for name, lines in self.gathered.items():
            gathers = self.rules[name].gathers
            if gathers is not None and gathers.key == key:
                try:
                    if "metric" in metadata:
                        by = metadata[gathers.by]
                        lines.setdefault(by, {gathers.by: by})[metadata["metric"]] = value
                except UNCOMPARABLE:
                    self._fail_for_good(key, "metadata", f"{key} with metadata {_shown(metadata)}")

    def _fail_for_good(self, key: str, what: str, why: str) -> None:
        self.failed_for_good.setdefault((key, what), why)

    def finish(self) -> None:
        """What only the whole log can show."""
        gathered, self.gathered = self.gathered, {}
        for name, lines in gathered.items():
            for value in lines.values():
                self.see(name, value, {}, 0.0)
        for key, rule in self.rules.items():
            self._check_count(key, rule, self.reported.get(key) or _Reported())

    def _check_count(self, key: str, rule: Requirement, reported: _Reported) -> None:
        if rule.exactly_one and not reported.count:
            self.failed[key] = f"no {key}"
        elif rule.exactly_one and reported.differ:
            self.failed[key] = f"{reported.count} {key} lines that differ"
        elif reported.count < rule.at_least:
            few = f"only {reported.count} of {rule.at_least}" if reported.count else "no"
            self.failed[key] = f"{few} {key}"
        if rule.or_key and not reported.count and not self._count(rule.or_key):
            self._fail_for_good(key, "alternatives", f"neither {' nor '.join(sorted((key, rule.or_key)))}")
        if rule.target and reported.count and not reported.met_target:
            self._fail_for_good(key, "target", f"{key} never {_described(rule.target)}")

    def _count(self, key: str) -> int:
        return self.reported[key].count if key in self.reported else 0


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.40}"
    except RecursionError:
        return "nested too deeply to be shown"


def _differ(value: Any, other: Any) -> bool:
    try:
        return bool(value != other)
    except RecursionError:
        return True  # the checker breaks off here


def _described(target: Mapping[str, Any]) -> str:
    bounds = {entry: " and ".join(map(str, conditions)) for entry, conditions in target.items()}
    return ", ".join(f"{entry} {bound}".strip() for entry, bound in bounds.items())
