"""The runs of the equivalence table on this machine. No study owns them; any rule that asks for one finds it here."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from breakeven.config.load import load_platform
from breakeven.config.machine import Machine, resolve
from breakeven.schema.checks import BAND_FACTOR, Row, rows
from breakeven.schema.spec import Spec, data_id, run_id

#: Minutes a run may take. On two busy cores the slowest takes half of one.
TIMEOUT_MIN = 5

SuiteName = Literal["equivalence", "selftest"]


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
def checks(platform: str, folder: Path = Path("config/platforms")) -> Checks:
    """On a platform, by name. Not made before it is asked for: most invocations never do."""
    machine = resolve(load_platform(platform, folder))
    found = rows(machine.device_kind, machine.device_model, machine.devices_per_node)
    return Checks(machine, found, {run_id(spec): spec for row in found for spec in row.specs})


@dataclass(frozen=True, slots=True)
class Suite:
    """Rows that become one table, ``results/<name>/table.csv``."""

    name: SuiteName
    rows: list[Row]
    runs: str
    """The folder of their records."""

    def records(self) -> list[str]:
        runs = dict.fromkeys(run_id(spec) for row in self.rows for spec in row.specs)
        return [f"{self.runs}/{run}/r1/record.json" for run in runs]

    def steps(self) -> list[str]:
        return [record.replace("record.json", "steps.npz") for record in self.records()]

    def document(self) -> str:
        """The text of the suite's plan.json."""
        return json.dumps({"rows": [planned(row) for row in self.rows]}, indent=1, sort_keys=True) + "\n"


def equivalence(platform: str) -> Suite:
    return Suite("equivalence", checks(platform).rows, "results/runs")


def planned(row: Row) -> dict[str, Any]:
    """What ``metrics.equivalence`` reads of a row."""
    return {
        "strategy": row.spec.strategy,
        "workload": row.workload,
        "devices": row.spec.devices,
        "degrees": row.spec.resolved_degrees,
        "options": row.check.options,
        "settings": row.check.settings,
        "control": row.spec.control,
        "tolerance": row.check.tolerance,
        "band_factor": BAND_FACTOR,
        "note": row.check.note,
        "not_run": row.not_run,
        "run_id": "" if row.not_run else run_id(row.spec),
        "reference_run_id": "" if row.not_run else run_id(row.reference),
        "band_run_id": run_id(row.band) if row.band and not row.not_run else "",
    }
