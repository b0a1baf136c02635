"""A round's results repository to the table of run facts.

``python -m breakeven.mlperf.extract ARCHIVE_OR_TREE --out workflow/breakeven/mlperf/facts/v4.1_runs.csv``
"""

import argparse
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from breakeven.mlperf.accelerators import family
from breakeven.mlperf.archive import ResultFile, SystemFile, repository_files
from breakeven.mlperf.benchmarks import BENCHMARKS
from breakeven.mlperf.logs import ENCODING, RunFacts, run_facts
from breakeven.mlperf.table import RunRow, facts_csv
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What a system description says that a table of runs needs."""

    name: str
    accelerator: str
    family: str
    nodes: int
    accelerators_per_node: int
    division: str
    status: str


@dataclass(slots=True)
class Submission:
    """One submitter's runs of one benchmark on one system."""

    submitter: str
    system: str
    benchmark: str
    scaling_factor: float = 1.0
    runs: dict[str, RunFacts] = field(default_factory=dict)
    """Path of the log inside the repository → facts."""

    @property
    def folder(self) -> str:
        return f"{self.submitter}/results/{self.system}/{self.benchmark}"


def extract(source: Path, round_name: str) -> list[RunRow]:
    """One row per submission and run of the benchmarks known, sorted by submitter, system, benchmark and run."""
    submissions: dict[tuple[str, str, str], Submission] = {}
    descriptions: dict[tuple[str, str], tuple[str, bytes]] = {}
    for file in repository_files(source):
        if isinstance(file, SystemFile):
            descriptions[file.submitter, file.system] = (file.path, file.read())
        elif file.benchmark in BENCHMARKS:
            key = (file.submitter, file.system, file.benchmark)
            _add(submissions.setdefault(key, Submission(*key)), file)
    if not submissions:
        raise UserError(
            f"{source}: holds no results of {', '.join(BENCHMARKS)}.\n"
            "Expected an MLPerf Training results repository: <submitter>/results/<system>/<benchmark>/result_*.txt."
        )
    ordered = [submissions[key] for key in sorted(submissions)]
    duplicates = _duplicates(ordered)
    rows: list[RunRow] = []
    for submission in ordered:
        place = (submission.submitter, submission.system)
        if place not in descriptions:
            raise UserError(
                f"{source}: {submission.folder} has no system description.\n"
                f"Expected {submission.submitter}/systems/{submission.system}.json."
            )
        rows += _rows(submission, _system(*descriptions[place]), duplicates.get(submission.folder, ""), round_name)
    return rows


def _add(submission: Submission, file: ResultFile) -> None:
    if file.name == "scaling.json":
        factor = _json(file.path, file.read()).get("scaling_factor")
        if not isinstance(factor, int | float) or isinstance(factor, bool) or factor <= 0:
            raise UserError(f"{file.path}: scaling_factor is {factor!r}; it must be a number above 0.")
        submission.scaling_factor = float(factor)
    elif re.fullmatch(r"result_.*\.txt", file.name):
        with io.TextIOWrapper(io.BytesIO(file.read()), encoding=ENCODING) as lines:
            submission.runs[file.path] = run_facts(lines, file.benchmark)


def _system(path: str, description: bytes) -> System:
    raw = _json(path, description)
    return System(
        name=_text(raw, "system_name", path),
        accelerator=_text(raw, "accelerator_model_name", path),
        family=family(_text(raw, "accelerator_model_name", path), path),
        nodes=_count(raw, "number_of_nodes", path),
        accelerators_per_node=_count(raw, "accelerators_per_node", path),
        division=_text(raw, "division", path),
        status=_text(raw, "status", path),
    )


def _json(path: str, content: bytes) -> dict[str, Any]:
    try:
        raw = json.loads(content)
    except ValueError as error:
        raise UserError(f"{path}: is not valid JSON ({error}).") from error
    if not isinstance(raw, dict):
        raise UserError(f"{path}: holds a JSON {type(raw).__name__}; expected an object.")
    return raw


def _text(raw: dict[str, Any], key: str, path: str) -> str:
    value = str(raw.get(key, "")).strip()
    if not value:
        raise UserError(f"{path}: {key} is missing or empty; a system description must give it.")
    return value


def _count(raw: dict[str, Any], key: str, path: str) -> int:
    text = _text(raw, key, path)
    if not text.isdecimal() or int(text) == 0:
        raise UserError(f"{path}: {key} is {text!r}; it must be a whole number above 0.")
    return int(text)


def _duplicates(submissions: Sequence[Submission]) -> dict[str, str]:
    """Folder of a submission → the system, earlier in order, whose runs it repeats to the millisecond."""
    seen: dict[tuple[Any, ...], str] = {}
    duplicates = {}
    for submission in submissions:
        times = tuple(sorted((run.run_start_ms or 0, run.run_stop_ms or 0) for run in submission.runs.values()))
        if times:
            original = seen.setdefault((submission.submitter, submission.benchmark, times), submission.system)
            if original != submission.system:
                duplicates[submission.folder] = original
    return duplicates


def _rows(submission: Submission, system: System, duplicate_of: str, round_name: str) -> list[RunRow]:
    blank = RunRow(
        round=round_name,
        benchmark=submission.benchmark,
        submitter=submission.submitter,
        system=submission.system,
        system_name=system.name,
        accelerator=system.accelerator,
        accelerator_family=system.family,
        nodes=system.nodes,
        accelerators_per_node=system.accelerators_per_node,
        devices=system.nodes * system.accelerators_per_node,
        division=system.division,
        system_status=system.status,
        global_batch=None,
        run=0,
        status=Status.NOT_MEASURED,
        run_time_min=None,
        samples_to_converge=None,
        scaling_factor=submission.scaling_factor,
        corrupted_lines=0,
        duplicate_of=duplicate_of,
        log_month="",
        source=submission.folder,
    )
    present = [
        replace(
            blank,
            global_batch=facts.global_batch,
            run=run,
            status=facts.status,
            run_time_min=None if facts.run_time_ms is None else facts.run_time_ms / 60_000,
            samples_to_converge=facts.samples_to_converge,
            corrupted_lines=facts.corrupted_lines,
            log_month=_month(facts),
            source=path,
        )
        for run, (path, facts) in enumerate(sorted(submission.runs.items(), key=lambda item: _natural(item[0])))
    ]
    required = BENCHMARKS[submission.benchmark].required_runs
    return present + [replace(blank, run=run) for run in range(len(present), required)]


def _month(facts: RunFacts) -> str:
    time_ms = facts.run_start_ms if facts.run_start_ms is not None else facts.first_ms
    return "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m")


def _natural(path: str) -> list[tuple[bool, int, str]]:
    """Sorts result_2 before result_10."""
    parts = re.split(r"(\d+)", path)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.mlperf.extract", description=__doc__)
    parser.add_argument("source", type=Path, help="tar archive or directory of an MLPerf Training results repository")
    parser.add_argument("--round", default="v4.1", help="the round, as it stands in the table (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="the CSV to write")
    args = parser.parse_args()
    write_text(args.out, facts_csv(extract(args.source, args.round)))


if __name__ == "__main__":
    main()
