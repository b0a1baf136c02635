"""The runs of the equivalence table on this machine. No study owns them; any rule that asks for one finds it here."""

import functools
from dataclasses import dataclass
from pathlib import Path

from breakeven.config.load import load_platform
from breakeven.config.machine import Machine, resolve
from breakeven.schema.checks import Row, rows
from breakeven.schema.spec import Spec, data_id, run_id

#: Minutes a run may take. On two busy cores the slowest takes half of one.
TIMEOUT_MIN = 5


@dataclass(frozen=True, slots=True)
class Checks:
    machine: Machine
    rows: list[Row]
    specs: dict[str, Spec]
    """By run id, references included."""

    def run_of_data(self, name: str) -> str:
        """A run that reads these prepared data. Raises KeyError."""
        return {data_id(spec.workload): run for run, spec in self.specs.items()}[name]


@functools.cache
def checks(platform: str = "this-machine", folder: Path = Path("config/platforms")) -> Checks:
    """Not made before it is asked for: most invocations never do."""
    machine = resolve(load_platform(platform, folder))
    found = rows(machine.device_kind, machine.device_model, machine.devices_per_node)
    return Checks(machine, found, {run_id(spec): spec for row in found for spec in row.specs})
