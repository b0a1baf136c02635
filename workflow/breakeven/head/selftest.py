"""What `snakemake selftest` runs on the user's own devices, chosen so that all of it takes at most five minutes."""

import functools
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from breakeven import __version__
from breakeven.config.machine import Machine, driver_version
from breakeven.head.equivalence import Checks, Suite, SuiteName, checks, equivalence
from breakeven.head.hooks import guarded
from breakeven.schema.checks import Row, reference_of
from breakeven.schema.spec import DeviceKind, Json, Spec, canonical_json, data_id, run_id
from breakeven.schema.support import unsupported

FOLDER = "results/selftest"

#: Runs of the table. From a fork server one takes two seconds, under torchrun (GPUs) about twelve; a hang that is
#: waited for, memory that runs out and the all-reduce take another minute and a half.
RUNS: dict[DeviceKind, int] = {"cpu": 50, "cuda": 16}

#: More processes than this tell nothing new of an all-reduce over cores, and each imports torch.
MAX_CORES = 8

FaultName = Literal["oom", "hang"]

#: What is injected, into the last rank. The hang comes once the run is warmed up, else no watchdog would look.
FAULTS: dict[FaultName, Json] = {
    "oom": {"fill_at": 5},
    "hang": {"sleep_s": 600.0, "from_update": 20},
}
#: GiB of host memory that the run which fills it may take: enough for torch, little for a machine in use.
OOM_MEMORY_GIB = 4


def chosen(rows: Sequence[Row], runs: int) -> list[Row]:
    """Rows that need at most so many runs, references included. Each next one is the row with most that is new: first a
    strategy or product, then a workload, options and settings; of equals, that on fewest devices.

    Runs that are wrong on purpose stand first: without them no other row tells anything.
    """
    left = [row for row in rows if not row.not_run and not unsupported(row.spec)]
    found: list[Row] = []
    seen: set[str] = set()
    planned: set[str] = set()

    def news(row: Row) -> tuple[Any, ...]:
        new = _features(row) - seen
        return (
            bool(row.spec.control) and row.spec.control in new,
            row.spec.strategy in new,
            len(new),
            -row.spec.devices,
        )

    while left:
        best = max(left, key=news)
        left.remove(best)
        needed = planned | {run_id(spec) for spec in best.specs}
        if len(needed) > runs or not _features(best) - seen:
            continue
        planned = needed
        seen |= _features(best)
        found.append(best)
    return sorted(found, key=rows.index)


def _features(row: Row) -> set[str]:
    spec = row.spec
    settings = {f"{name}={value}" for part in (row.check.options, row.check.settings) for name, value in part.items()}
    return {spec.strategy, row.workload, spec.control, *settings}


@dataclass(frozen=True, slots=True)
class Selftest:
    checks: Checks
    suite: Suite

    @property
    def machine(self) -> Machine:
        return self.checks.machine

    @property
    def devices(self) -> int:
        """Of the all-reduce."""
        present = self.machine.devices_per_node
        return min(present, MAX_CORES) if self.machine.device_kind == "cpu" else present

    def spec(self) -> Spec:
        """Of the runs that go wrong: two devices if there are as many, long enough to be warmed up."""
        plain = next(row for row in self.checks.rows if row.spec.strategy == "ddp" and not row.check.settings)
        of = plain.spec if self.machine.devices_per_node > 1 else reference_of(plain.spec)
        return replace(of, updates=40, min_warmup=5)

    def spec_json(self) -> str:
        return self.spec().to_json()

    def data_path(self) -> str:
        return f"results/data/{data_id(self.spec().workload)}.npz"

    def fault(self, name: FaultName) -> str:
        return canonical_json({**FAULTS[name], "rank": self.spec().devices - 1})

    def gpus(self, devices: int) -> int | None:
        """To ask a batch system for; None (no such resource) for CPU cores."""
        return devices if self.machine.device_kind == "cuda" else None

    def files(self) -> dict[str, str]:
        """What the text is made of, the table apart."""
        records = {name: f"{folder}/record.json" for name, folder in self._folders().items()}
        return {**records, "allreduce": f"{FOLDER}/allreduce.json"}

    def folders(self) -> list[str]:
        """Arguments: where the runs that go wrong lie."""
        return [f"--{name}={folder}" for name, folder in self._folders().items()]

    def _folders(self) -> dict[str, str]:
        return {name: f"{FOLDER}/{name}/{run_id(self.spec())}/r1" for name in FAULTS}

    def document(self) -> str:
        """The machine and the rule by which the rows were chosen, for the text."""
        machine = self.machine
        every = [row for row in self.checks.rows if not row.not_run]
        return canonical_json(
            {
                "device_kind": machine.device_kind,
                "device_model": machine.device_model,
                "devices": machine.devices_per_node,
                "rows": len(self.suite.rows),
                "rows_of": len(every),
                "version": __version__,
            }
        )

    def identity(self) -> str:
        """What a self-test is of: where any of it changes, the old results say nothing."""
        return canonical_json(
            {
                "driver": driver_version(),
                "torch": importlib.metadata.version("torch") if _installed("torch") else "",
                "version": __version__,
                "measured_sources": _sources(),
                "machine": [self.machine.device_model, self.machine.devices_per_node],
            }
        )


@functools.cache
def selftest(platform: str) -> Selftest:
    found = checks(platform)
    rows = chosen(found.rows, RUNS[found.machine.device_kind])
    return Selftest(found, Suite("selftest", rows, f"{FOLDER}/runs"))


@dataclass(frozen=True, slots=True)
class Suites:
    """What rules look up, on the platform that the config names. A mistake there ends the head with its message."""

    platform: str

    def of(self, name: SuiteName) -> Suite:
        found: Suite = self.selftest().suite if name == "selftest" else guarded(lambda: equivalence(self.platform))
        return found

    def selftest(self) -> Selftest:
        found: Selftest = guarded(lambda: selftest(self.platform))
        return found


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _sources() -> str:
    """The digest of the measured rooms as last noted: the rooms themselves are not the head's to read."""
    ledger = Path(__file__).parents[1] / "measure" / "sources.txt"
    return ledger.read_text().splitlines()[-1].split()[0]
