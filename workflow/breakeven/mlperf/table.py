"""The table of run facts: one row per submission and run, as committed under ``facts/``."""

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakeven.schema.errors import UserError
from breakeven.schema.status import Status

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The columns of ``runs.csv``, in order. Empty cells are unknown, never zero."""

    round: str
    benchmark: str
    """The benchmark's folder in the round's repository."""
    workload: str
    """The same benchmark's name in every round."""
    submitter: str
    """The submitter's folder; a system description may spell it otherwise."""
    system: str
    """The system's id: its folder under results/ and its file under systems/."""
    system_name: str
    accelerator: str
    """Exactly as the system description has it; the processor's name where there are no accelerators."""
    accelerator_family: str
    nodes: int | None
    accelerators_per_node: int | None
    devices: int | None
    """nodes × accelerators per node, never taken from a name; without accelerators nodes × processors per node."""
    division: str
    system_status: str
    """Available on-premise, Available cloud, Preview: the system description's, where logs disagree."""
    global_batch: int | None = None
    run: int
    """From 0, in the natural order of the logs' names."""
    status: Status
    """ok, failed, or not_measured for a log that the archive lacks or that cannot be read."""
    compliance: str = ""
    """Empty for a log that passes MLCommons' checks; else which it fails."""
    run_time_min: float | None = None
    """run_stop - run_start, also of a run that failed; unscaled."""
    samples_to_converge: float | None = None
    evaluation_every_samples: float | None = None
    """Samples between two evaluations: the target's crossing is known to this."""
    step_throughput: float | None = None
    """Samples per second of the whole system while it trains, as the run logs it."""
    step_throughput_note: str = ""
    """Why ``step_throughput`` is unknown."""
    evaluation_min: float | None = None
    """Evaluation inside the clock that training waits for."""
    startup_min: float | None = None
    """From run_start to the first training."""
    energy_kj: float | None = None
    """Of the whole system over the run's time, by its power logs."""
    scaling_factor: float
    """Multiplies the olympic mean: the reference's convergence over the submission's, where that was faster."""
    corrupted_lines: int = 0
    """MLLOG lines of the log that could not be read."""
    duplicate_of: str
    """<submitter>/<system> of which these are the same runs, submitted again."""
    log_month: str = ""
    """YYYY-MM, UTC, of the run's start."""
    result_id: str
    """<round>/<submitter>/<system>/<benchmark>: one result set of a round."""
    repository: str
    commit: str
    """Where the logs come from: the repository's address and commit, as given to the extraction."""
    source: str
    """Path of the log (of its folder, where the log is missing) inside the repository."""


FACT_COLUMNS = [f.name for f in dataclasses.fields(RunRow)]

_TEXT = [name for name in FACT_COLUMNS if RunRow.__annotations__[name] in (str, Status)]
_NUMBERS = [name for name in FACT_COLUMNS if name not in _TEXT]

#: The least of a count. Runs of no or negative time are read: they failed.
_LEAST_COUNT = {"nodes": 1, "accelerators_per_node": 0, "devices": 1, "global_batch": 1, "run": 0, "corrupted_lines": 0}
_ABOVE_0 = ("samples_to_converge", "evaluation_every_samples", "step_throughput", "scaling_factor")


def printable(text: str) -> str:
    """One line that any reader of UTF-8 can show: file names and descriptions may hold line breaks and stray bytes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shown(value: object) -> str:
    """A value out of somebody's file as a message quotes it: short, on one line, whatever it is."""
    try:
        return repr(printable(str(value)[:50]))
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list a thousand deep
        return f"a {type(value).__name__} too large to show"


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV. Floats by ``repr``, the shortest text that gives the same number back; None is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def facts_csv(rows: Iterable[RunRow]) -> str:
    # attrgetter: astuple copies every value deeply, which costs a tenth of reading a round
    return csv_text(FACT_COLUMNS, map(attrgetter(*FACT_COLUMNS), rows))


def read_facts(path: Path) -> "pd.DataFrame":
    """The table of run facts, empty text as "" and unknown numbers as NaN."""
    import numpy as np
    import pandas as pd  # only readers need it: the extraction writes rows from processes that should stay small

    # Only an empty cell is unknown: a system may well be called "NA".
    header, rows, lines = _cells(path)
    facts = pd.DataFrame(rows, columns=header, dtype=str)
    for column in _NUMBERS:
        is_there = facts[column] != ""
        numbers = pd.to_numeric(facts[column].where(is_there), errors="coerce").replace([np.inf, -np.inf], np.nan)
        wrong, right = numbers.isna(), "a number"
        if column in _LEAST_COUNT:
            wrong |= (numbers < _LEAST_COUNT[column]) | (numbers >= 2**53) | (numbers % 1 != 0)
            right = f"a whole number, {_LEAST_COUNT[column]} or more,"
        elif column in _ABOVE_0:
            wrong |= numbers <= 0
            right = "a number above 0"
        bad = np.flatnonzero(wrong & is_there)
        if len(bad):
            found = facts[column].iloc[bad[0]]
            raise UserError(
                f"{path}: line {lines[bad[0]]}: {column} is {shown(found)}; expected {right} or nothing.\n{_EXPECTED}"
            )
        facts[column] = numbers
    unknown = np.flatnonzero(~facts["status"].isin([str(status) for status in Status]))
    if len(unknown):
        found = facts["status"].iloc[unknown[0]]
        raise UserError(f"{path}: line {lines[unknown[0]]}: status {shown(found)} is unknown.\n{_EXPECTED}")
    return facts


def _cells(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """The header, the rows, and the line of each, of a table whose rows are all as long as its header."""
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header, begins = next(reader, []), reader.line_num + 1
            for row in reader:
                if row:
                    rows.append(row)
                    lines.append(begins)
                begins = reader.line_num + 1
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a table of MLPerf run facts ({error}).\n{_EXPECTED}") from error
    missing = [name for name in FACT_COLUMNS if name not in header]
    if missing:
        raise UserError(f"{path}: lacks the columns {', '.join(missing)}.\n{_EXPECTED}")
    twice = [name for name, count in Counter(header).items() if count > 1 and name in FACT_COLUMNS]
    if twice:
        raise UserError(f"{path}: has more than one column {twice[0]}.\n{_EXPECTED}")
    odd = next((at for at, row in enumerate(rows) if len(row) != len(header)), None)
    if odd is not None:
        raise UserError(
            f"{path}: line {lines[odd]}: {len(rows[odd])} cells, but {len(header)} columns, the last {header[-1]}.\n"
            f"{_EXPECTED}"
        )
    return header, rows, lines


_EXPECTED = "Expected what `python -m breakeven.mlperf.extract SOURCE --round ROUND --runs FILE` writes."
