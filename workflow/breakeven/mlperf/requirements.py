"""What MLCommons' log checker asks of a log, as data: per key how often it must stand and what must hold of its lines.

The words a rule file may use are the fields of ``Requirement`` and the names in ``CONDITIONS``. A log's line passes a
condition that is true of it; one that cannot be evaluated (text where a number should be) fails, as it does there.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Selects = Literal["", "division", "benchmark", "variant"]


class RuleProblem(Exception):
    """Something is wrong at ``place``, the keys leading to it in a rule file; ``str()`` says what and what is right."""

    def __init__(self, message: str, *place: str) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that must hold of a line's value, such as ``at_least: 0``."""

    word: str
    argument: Any

    def holds(self, value: Any, memory: Mapping[str, Any]) -> bool:
        """May raise whatever comparing such a value raises. ``memory``: what ``remember`` kept of earlier lines."""
        return bool(CONDITIONS[self.word].holds(value, self.argument, memory))

    def __str__(self) -> str:
        return f"{self.word.replace('_', ' ')} {self.argument}"


@dataclass(frozen=True, slots=True)
class MinutesSinceFirst:
    """A line must come less than so many minutes after the earliest line of ``key``: initialization is not timed, so
    it is limited. None may come before the division, which sets the limit, is stated."""

    key: str
    minutes: Mapping[str, float]
    """division → minutes."""


@dataclass(frozen=True, slots=True)
class Gathers:
    """The key is made up: one line per value of metadata ``by`` over the lines of ``key`` that name a ``metric`` there,
    its value the metrics of those lines and ``by``. stable_diffusion logs the two metrics of a checkpoint apart."""

    key: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What is asked of the lines of one key."""

    at_least: int = 0
    """So many lines."""
    exactly_one: bool = False
    """One line, or several of one value: each rank may state it."""
    or_key: str = ""
    """At least one line of this key or of that one."""
    after: tuple[str, ...] = ()
    """Keys of which a line must stand before this one in the file."""
    before: tuple[str, ...] = ()
    """Keys of which none may stand before this one in the file."""
    minutes_since_first: MinutesSinceFirst | None = None
    metadata: tuple[tuple[str, ...], ...] = ()
    """Of each group, the line's metadata must have at least one."""
    where_metadata: Mapping[str, tuple[str, tuple[Condition, ...]]] = field(default_factory=dict)
    """An entry of the metadata → another that must then be there ("" none) and what must hold of its value."""
    conditions: tuple[Condition, ...] = ()
    """What must hold of the value of every line."""
    target: Mapping[str, tuple[Condition, ...]] = field(default_factory=dict)
    """What must hold of the value of at least one line, by entry of the value ("" the value itself)."""
    selects: Selects = ""
    """The value names what else applies: the division, its rules for a benchmark, or a variant of that benchmark. The
    first such line of a layer does; one that names what has no rules fails."""
    remember: tuple[float, float] | Literal["", "value"] = ""
    """What later conditions can use under this key: the value, or (steps, at batch) scaled to the log's batch."""
    gathers: Gathers | None = None


Requirements = Mapping[str, Requirement]


#: Where a key may select what else applies: each layer of rules selects the next one, and none of those before.
_SELECTS_IN = {
    "division": "in a round's log.common",
    "benchmark": "in a round's log.closed and log.open",
    "variant": "in a benchmark's log.closed and log.open",
}


def parse_requirements(raw: Any, *place: str, selects: Selects = "") -> dict[str, Requirement]:
    """Key → requirement, from a mapping of a rule file. ``selects``: what its keys may select."""
    rules = {key: _requirement(rule, *place, key) for key, rule in as_mapping(raw, *place).items()}
    for key, rule in rules.items():
        if rule.selects not in ("", selects):
            where = _SELECTS_IN[rule.selects]
            raise RuleProblem(f"is {rule.selects}, which belongs {where} only.", *place, key, "selects")
    return rules


def found(raw: Any) -> str:
    """What stands in a file where something else should, as a message begins to say it."""
    return "is missing or empty" if raw is None else f"is {raw!r:.60}"


def as_mapping(raw: Any, *place: str) -> dict[str, Any]:
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise RuleProblem(f"{found(raw)}; expected keys with values.", *place)
    return raw


def as_text(raw: Any, *place: str) -> str:
    if not isinstance(raw, str) or not raw:
        raise RuleProblem(f"{found(raw)}; expected text.", *place)
    return raw


def as_texts(raw: Any, *place: str) -> tuple[str, ...]:
    """One text, or a list of them."""
    return tuple(as_text(one, *place) for one in (raw if isinstance(raw, list) else [raw]))


def as_number(raw: Any, *place: str) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        hint = " (YAML reads 2e-5 as text; write 2.0e-05)" if isinstance(raw, str) else ""
        raise RuleProblem(f"{found(raw)}; expected a number{hint}.", *place)
    return raw


def as_count(raw: Any, *place: str, least: int = 0) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < least:
        raise RuleProblem(f"{found(raw)}; expected a whole number, {least} or more.", *place)
    return raw


def only(raw: Mapping[str, Any], words: tuple[str, ...], *place: str) -> None:
    """Refuse keys that are none of ``words``."""
    for key in raw:
        if key not in words:
            raise RuleProblem(f"is not known; known here: {', '.join(words)}.", *place, key)


_PLAIN = ("needs", "after", "before", "minutes_since_first", "metadata", "where_metadata", "target", "selects")
_WORDS = (*_PLAIN, "remember", "gathers")


def _requirement(raw: Any, *place: str) -> Requirement:
    if isinstance(raw, str):
        return Requirement(**_needs(raw, *place))
    raw = as_mapping(raw, *place)
    only(raw, (*_WORDS, *CONDITIONS), *place)
    needs = _needs(raw["needs"], *place, "needs") if "needs" in raw else {}
    return Requirement(
        **needs,
        after=as_texts(raw.get("after", []), *place, "after"),
        before=as_texts(raw.get("before", []), *place, "before"),
        minutes_since_first=_minutes(raw["minutes_since_first"], *place, "minutes_since_first")
        if "minutes_since_first" in raw
        else None,
        metadata=tuple(tuple(group.split(" or ")) for group in as_texts(raw.get("metadata", []), *place, "metadata")),
        where_metadata={
            key: _where(then, *place, "where_metadata", key)
            for key, then in as_mapping(raw.get("where_metadata", {}), *place, "where_metadata").items()
        },
        conditions=parse_conditions({key: value for key, value in raw.items() if key in CONDITIONS}, *place),
        target=_target(as_mapping(raw.get("target", {}), *place, "target"), *place, "target"),
        selects=_one_of(raw.get("selects", ""), ("", "division", "benchmark", "variant"), *place, "selects"),
        remember=_remember(raw.get("remember", ""), *place, "remember"),
        gathers=_gathers(raw["gathers"], *place, "gathers") if "gathers" in raw else None,
    )


def _one_of(raw: Any, choices: tuple[str, ...], *place: str) -> Any:
    if raw not in choices:
        raise RuleProblem(f"is {raw!r:.60}; expected one of {', '.join(filter(None, choices))}.", *place)
    return raw


def _needs(raw: Any, *place: str) -> dict[str, Any]:
    if raw == "exactly_one":
        return {"exactly_one": True}
    if raw == "at_least_one":
        return {"at_least": 1}
    if isinstance(raw, dict) and list(raw) == ["at_least"]:
        return {"at_least": as_count(raw["at_least"], *place, "at_least")}
    if isinstance(raw, dict) and list(raw) == ["at_least_one_or"]:
        return {"or_key": as_text(raw["at_least_one_or"], *place, "at_least_one_or")}
    raise RuleProblem(
        f"is {raw!r:.60}; expected exactly_one, at_least_one, {{at_least: N}} or {{at_least_one_or: KEY}}.", *place
    )


def _target(raw: dict[str, Any], *place: str) -> dict[str, tuple[Condition, ...]]:
    if raw and not any(isinstance(bounds, dict) for key, bounds in raw.items() if key not in CONDITIONS):
        return {"": parse_conditions(raw, *place)}
    return parse_parts(raw, *place)


def parse_parts(raw: dict[str, Any], *place: str) -> dict[str, tuple[Condition, ...]]:
    """Part of a value → what must hold of it."""
    for part, bounds in raw.items():
        if not isinstance(bounds, dict):
            right = f"'part: {{word: ...}}', such as FID: {{at_most: 90.0}}; known words: {', '.join(CONDITIONS)}"
            raise RuleProblem(f"{found(bounds)}; expected {right}.", *place, part)
    return {part: parse_conditions(as_mapping(bounds, *place, part), *place, part) for part, bounds in raw.items()}


def _minutes(raw: Any, *place: str) -> MinutesSinceFirst:
    raw = dict(as_mapping(raw, *place))
    key = as_text(raw.pop("key", None), *place, "key")
    return MinutesSinceFirst(key, {division: as_number(limit, *place, division) for division, limit in raw.items()})


def _where(raw: Any, *place: str) -> tuple[str, tuple[Condition, ...]]:
    raw = dict(as_mapping(raw, *place))
    also = as_text(raw.pop("also"), *place, "also") if "also" in raw else ""
    return also, parse_conditions(raw, *place)


def _remember(raw: Any, *place: str) -> Any:
    if isinstance(raw, dict):
        only(raw, ("steps", "at_batch"), *place)
        return as_number(raw.get("steps"), *place, "steps"), as_number(raw.get("at_batch"), *place, "at_batch")
    return _one_of(raw, ("", "value"), *place)


def _gathers(raw: Any, *place: str) -> Gathers:
    raw = as_mapping(raw, *place)
    only(raw, ("key", "by"), *place)
    return Gathers(as_text(raw.get("key"), *place, "key"), as_text(raw.get("by"), *place, "by"))


def parse_conditions(raw: Mapping[str, Any], *place: str) -> tuple[Condition, ...]:
    only(raw, tuple(CONDITIONS), *place)
    return tuple(Condition(word, CONDITIONS[word].argument(value, *place, word)) for word, value in raw.items())


@dataclass(frozen=True, slots=True)
class _Word:
    """A word for conditions: whether it holds of (value, argument, memory), and how its argument is read."""

    holds: Callable[[Any, Any, Mapping[str, Any]], Any]
    argument: Callable[..., Any]


def _anything(raw: Any, *place: str) -> Any:
    return raw


def _list(raw: Any, *place: str) -> list[Any]:
    if not isinstance(raw, list) or not raw:
        raise RuleProblem(f"is {raw!r:.60}; expected a list ([a, b]).", *place)
    return raw


def _true(raw: Any, *place: str) -> bool:
    if raw is not True:
        raise RuleProblem(f"is {raw!r:.60}; expected true (leave the word out for no condition).", *place)
    return True


def _numbers(required: tuple[str, ...], optional: tuple[str, ...] = (), texts: tuple[str, ...] = ()) -> Any:
    def read(raw: Any, *place: str) -> dict[str, Any]:
        raw = as_mapping(raw, *place)
        only(raw, (*required, *optional, *texts), *place)
        for word in (*required, *texts):
            if word not in raw:
                raise RuleProblem(f"lacks {word}.", *place)
        return {key: (as_text if key in texts else as_number)(value, *place, key) for key, value in raw.items()}

    return read


def _is_whole(value: float) -> bool:
    """Within the checker's tolerance of 0.00001."""
    return bool(abs(round(value) - value) < 0.00001)


def _multiple_or_fraction(value: Any, rule: Mapping[str, float], memory: Mapping[str, Any]) -> bool:
    if _is_whole(value / rule["unit"]):
        return True
    return bool(memory["global_batch_size"] < rule["fraction_below_batch"]) and _is_whole(rule["unit"] / value)


def _remaining_steps(value: Any, rule: Mapping[str, Any], memory: Mapping[str, Any]) -> bool:
    steps = rule["of"]
    if "at_batch" in rule:
        steps = math.ceil(steps * rule["at_batch"] / memory["global_batch_size"])
    return bool(value == steps - memory[rule["less"]])


CONDITIONS: dict[str, _Word] = {
    "equals": _Word(lambda value, right, memory: value == right, _anything),
    "one_of": _Word(lambda value, right, memory: value in right, _list),
    "not_empty": _Word(lambda value, right, memory: value != "", _true),
    "integer": _Word(lambda value, right, memory: isinstance(value, int), _true),
    "length": _Word(lambda value, right, memory: len(value) == right, as_count),
    #: text that holds text, a list an entry, a mapping a key
    "holds": _Word(lambda value, right, memory: all(part in value for part in right), as_texts),
    "at_least": _Word(lambda value, right, memory: operator.ge(value, right), as_number),
    "above": _Word(lambda value, right, memory: operator.gt(value, right), as_number),
    "at_most": _Word(lambda value, right, memory: operator.le(value, right), as_number),
    "below": _Word(lambda value, right, memory: operator.lt(value, right), as_number),
    "multiple_of": _Word(lambda value, right, memory: _is_whole(value / right), as_number),
    "power_of_two_times": _Word(lambda value, right, memory: _is_whole(math.log2(value / right)), as_number),
    #: a multiple of a unit; for batches below a limit also the unit over a whole number
    "multiple_or_fraction_of": _Word(_multiple_or_fraction, _numbers(("unit", "fraction_below_batch"))),
    #: as at one batch, so at the log's: value / batch is one number
    "proportional_to_batch": _Word(
        lambda value, right, memory: value * right["at_batch"] == memory["global_batch_size"] * right["value"],
        _numbers(("value", "at_batch")),
    ),
    #: steps in all (stated for one batch, where at_batch is given), less those that another key said
    "remaining_steps": _Word(_remaining_steps, _numbers(("of",), ("at_batch",), ("less",))),
}
