"""One log to facts, in whatever process: this module and what it imports is all that a reading process needs."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from breakeven.mlperf.layout import Role
from breakeven.mlperf.loglines import ByteStream, read_lines
from breakeven.mlperf.logs import RunFacts, run_facts
from breakeven.mlperf.power import NodePower, PowerProblem, SwitchPower, node_power, switch_power
from breakeven.mlperf.rules import Round


@dataclass(frozen=True, slots=True)
class Task:
    """A log or power log to be read: by ``disk``, its path, or from ``content``."""

    key: Any
    """Whatever tells the asker which one it is."""
    role: Role
    benchmark: str
    """Its folder, which the round's rules have."""
    disk: str | None
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Unread:
    """Why a file gives nothing."""

    kind: str
    detail: str


Outcome = RunFacts | NodePower | SwitchPower | Unread


def read_tasks(tasks: Sequence[Task], rules: Round) -> list[tuple[Any, Outcome]]:
    return [(task.key, _read(task, rules)) for task in tasks]


def _read(task: Task, rules: Round) -> Outcome:
    if task.content is not None:
        return read_stream(io.BytesIO(task.content), task.role, task.benchmark, rules)
    assert task.disk is not None
    try:
        with open(task.disk, "rb", buffering=0) as stream:
            return read_stream(stream, task.role, task.benchmark, rules)
    except OSError as error:
        return Unread("unreadable_file", error.strerror or str(error))


def read_stream(stream: ByteStream, role: Role, benchmark: str, rules: Round) -> Outcome:
    """The facts that a stream holds. Memory does not grow with its length. OSError is the stream's own."""
    lines = read_lines(stream)
    try:
        if role is Role.NODE_POWER:
            return node_power(lines)
        if role is Role.SWITCH_POWER:
            return switch_power(lines)
    except PowerProblem as problem:
        return Unread("bad_power", str(problem))
    named = rules.benchmark(benchmark)
    assert named is not None
    return run_facts(lines, named, rules)
