"""Where files lie in a results repository, by their place alone:

``<submitter>/results/<system>/<benchmark>/{result_*.txt, scaling.json, power/<result>/{node,sw}_*.txt}`` and
``<submitter>/systems/<system>.json``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Role(Enum):
    LOG = auto()
    SCALING = auto()
    NODE_POWER = auto()
    SWITCH_POWER = auto()
    SYSTEM = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """A file that an analysis of results reads."""

    parts: tuple[str, ...]
    """The names from the submitter's folder down to the file's."""
    role: Role

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    @property
    def submitter(self) -> str:
        return self.parts[0]

    @property
    def system(self) -> str:
        return self.parts[2].removesuffix(".json") if self.role is Role.SYSTEM else self.parts[2]

    @property
    def benchmark(self) -> str:
        """The benchmark's folder; empty for a system description."""
        return "" if self.role is Role.SYSTEM else self.parts[3]

    @property
    def result(self) -> str:
        """For a log and its power logs, what they have in common: ``result_0``."""
        return self.parts[5] if len(self.parts) == 7 else self.parts[-1].removesuffix(".txt")


_LOG = re.compile(r"result_.*\.txt", re.DOTALL)
_NODE = re.compile(r"node_.*\.txt", re.DOTALL)
_SWITCH = re.compile(r"sw_.*\.txt", re.DOTALL)


def place_of(parts: Sequence[str]) -> Place | None:
    """What the file at ``parts`` is to an analysis; None if nothing."""
    role = None
    match parts:
        case (_, "results", _, _, name) if _LOG.fullmatch(name):
            role = Role.LOG
        case (_, "results", _, _, "scaling.json"):
            role = Role.SCALING
        case (_, "results", _, _, "power", _, name) if _NODE.fullmatch(name):
            role = Role.NODE_POWER
        case (_, "results", _, _, "power", _, name) if _SWITCH.fullmatch(name):
            role = Role.SWITCH_POWER
        case (_, "systems", name) if name.endswith(".json"):
            role = Role.SYSTEM
    return None if role is None else Place(tuple(parts), role)


def leads_to_files(parts: Sequence[str]) -> bool:
    """Whether a folder at ``parts`` may hold, at any depth, a file that has a place. Everything else is never entered:
    ``<submitter>/benchmarks`` is huge, and a depth that is fixed ends every circle of links."""
    match parts:
        case () | (_,) | (_, "results" | "systems") | (_, "results", _) | (_, "results", _, _):
            return True
        case (_, "results", _, _, "power") | (_, "results", _, _, "power", _):
            return True
    return False
