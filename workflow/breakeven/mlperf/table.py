"""The table of run facts: one row per submission and run, as committed under ``facts/``."""

import csv
import dataclasses
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from breakeven.schema.errors import UserError
from breakeven.schema.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The columns of ``facts/<round>_runs.csv``, in order. Empty cells are unknown, never zero."""

    round: str
    benchmark: str
    submitter: str
    """The submitter's folder; a system description may spell it otherwise."""
    system: str
    """The system's id: its folder under results/ and its file under systems/."""
    system_name: str
    accelerator: str
    """Exactly as the system description has it."""
    accelerator_family: str
    nodes: int
    accelerators_per_node: int
    devices: int
    """nodes × accelerators per node, never taken from a name."""
    division: str
    system_status: str
    """Available on-premise, Available cloud, Preview: the system description's, where logs disagree."""
    global_batch: int | None
    run: int
    """From 0, in the natural order of the logs' names."""
    status: Status
    """ok, failed, or not_measured for a log that the archive lacks."""
    run_time_min: float | None
    """run_stop - run_start, also of a run that failed; unscaled."""
    samples_to_converge: int | None
    scaling_factor: float
    """Multiplies the olympic mean: the reference's convergence over the submission's, where that was faster."""
    corrupted_lines: int
    """MLLOG lines of the log that could not be read."""
    duplicate_of: str
    """The submitter's system of which these are the same runs, submitted again."""
    log_month: str
    """YYYY-MM, UTC, of the run's start."""
    source: str
    """Path of the log (of its folder, where the log is missing) inside the repository."""


FACT_COLUMNS = [f.name for f in dataclasses.fields(RunRow)]

_TEXT = [name for name in FACT_COLUMNS if RunRow.__annotations__[name] in (str, Status)]


def facts_csv(rows: Iterable[RunRow]) -> str:
    """The rows as CSV. Floats by ``repr``, the shortest text that gives the same number back."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FACT_COLUMNS)
    for row in rows:
        writer.writerow(dataclasses.astuple(row))
    return text.getvalue()


def read_facts(path: Path) -> pd.DataFrame:
    """The table of run facts, empty text as "" and unknown numbers as NaN."""
    try:
        facts = pd.read_csv(path, dtype=dict.fromkeys(_TEXT, str))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a table of MLPerf run facts ({error}).\n{_EXPECTED}") from error
    missing = [name for name in FACT_COLUMNS if name not in facts.columns]
    if missing:
        raise UserError(f"{path}: lacks the columns {', '.join(missing)}.\n{_EXPECTED}")
    facts[_TEXT] = facts[_TEXT].fillna("")
    return facts


_EXPECTED = "Expected what `python -m breakeven.mlperf.extract ARCHIVE --out FILE` writes."
