"""Energy of a run from its power logs, as MLCommons' result summarizer has it.

A node's log holds readings in watts between a start and a stop of its own; its mean power counts for the run's time.
A switch's log holds one estimate in watts.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from breakeven.mlperf.table import shown

MARK = ":::MLLOG "

#: Two weeks of a reading per second. Readings wait in memory to be put in the order of time.
_MOST_READINGS = 1_209_600

#: More than any power plant gives; a greater number is a mistake.
_MOST_WATTS = 1e12


class PowerProblem(ValueError):
    """Why a power log gives no energy."""


@dataclass(frozen=True, slots=True)
class NodePower:
    """What a node's log measured."""

    conversion_eff: float
    """What is lost between the meter and what counts, 0 to 1."""
    watt_ms: float
    """Σ reading × time since the one before."""
    span_ms: float

    def energy_j(self, time_ms: float) -> float:
        return self.conversion_eff * self.watt_ms * time_ms / self.span_ms / 1000


@dataclass(frozen=True, slots=True)
class SwitchPower:
    """What a switch's log estimates."""

    conversion_eff: float
    watts: float

    def energy_j(self, time_ms: float) -> float:
        return self.conversion_eff * self.watts * time_ms / 1000


def node_power(lines: Iterable[str]) -> NodePower:
    """Raises PowerProblem where no start was logged, or no time passed."""
    # Sorted by time alone, so that what was logged at one time keeps its order.
    entries = sorted(_entries(lines, _NODE_KEYS), key=lambda entry: entry[0])
    start_ms = stop_ms = None
    before_ms = last_ms = watt_ms = 0.0
    conversion_eff = 1.0
    for time_ms, key, value in entries:
        if key == "power_measurement_start":
            start_ms = before_ms = time_ms
        elif key == "power_reading" and start_ms is not None and stop_ms is None:
            watt_ms += _watts(key, value) * (time_ms - before_ms)
            before_ms = last_ms = time_ms
        elif key == "power_measurement_stop":
            stop_ms = time_ms
        elif key == "conversion_eff":
            conversion_eff = _watts(key, value)
    if start_ms is None:
        raise PowerProblem("power_measurement_start is missing")
    span_ms = (last_ms if stop_ms is None else stop_ms) - start_ms
    if span_ms <= 0:
        raise PowerProblem("no time between the start and the stop of the measurement")
    if not math.isfinite(span_ms) or not math.isfinite(watt_ms):
        raise PowerProblem("times of the measurement are too large")
    return NodePower(conversion_eff, watt_ms, span_ms)


def switch_power(lines: Iterable[str]) -> SwitchPower:
    """The first estimate; none is 0 W, as a log of readings alone is to the official tool."""
    conversion_eff, watts = 1.0, 0.0
    for _, key, value in _entries(lines, ("conversion_eff", "interconnect_power_est")):
        if key == "conversion_eff":
            conversion_eff = _watts(key, value)
        else:
            watts = _watts(key, value)
            break
    return SwitchPower(conversion_eff, watts)


_NODE_KEYS = ("power_measurement_start", "power_reading", "power_measurement_stop", "conversion_eff")


def _entries(lines: Iterable[str], keys: tuple[str, ...]) -> Iterable[tuple[float, str, object]]:
    """(time_ms, key, value) of the readable lines with one of the keys."""
    read = 0
    for line in lines:
        _, mark, text = line.rpartition(MARK)
        if not mark:
            continue
        try:
            entry = json.loads(text)
            time_ms, key, value, _ = float(entry["time_ms"]), entry["key"], entry["value"], entry["metadata"]
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            continue
        if key in keys and math.isfinite(time_ms):
            read += 1
            if read > _MOST_READINGS:
                raise PowerProblem(f"more than {_MOST_READINGS} lines")
            yield time_ms, key, value


def _watts(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST_WATTS:
        raise PowerProblem(f"{key} is {shown(value)}, not a number of a sane size")
    return float(value)
