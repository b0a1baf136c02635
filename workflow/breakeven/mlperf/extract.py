"""A round's results repository to the table of its runs and the list of what was not as it should be.

``python -m breakeven.mlperf.extract SOURCE --round v4.1 --runs runs.csv --anomalies anomalies.csv``

One pass over the source, logs read by several processes. What is written depends on the source and the rules alone: not
on the number of processes, nor on whether the source is a tree or an archive of it.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from breakeven.mlperf.anomalies import Anomaly, anomalies_csv
from breakeven.mlperf.layout import Place, Role, place_of
from breakeven.mlperf.logs import RunFacts
from breakeven.mlperf.pool import available_processes, spread
from breakeven.mlperf.reading import Outcome, Task, Unread, read_stream, read_tasks
from breakeven.mlperf.resultset import ResultSet, SmallFile, set_anomalies, set_rows
from breakeven.mlperf.rules import Benchmark, Round, load_round
from breakeven.mlperf.source import Source, SourceFile
from breakeven.mlperf.systems import Problem, System, read_system
from breakeven.mlperf.table import RunRow, facts_csv, printable
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text

#: JSON files are some kilobytes; a longer one is no description.
JSON_CAP_BYTES = 1 << 20

#: Larger files of an archive are read where they stand, as a stream; others are handed over whole.
HANDED_OVER_BYTES = 32 << 20

#: A batch is handed over when it has as much as this: little enough to keep all processes busy to the end.
BATCH_BYTES = 1 << 20
BATCH_FILES = 16


@dataclass(frozen=True, slots=True)
class Extraction:
    rows: list[RunRow]
    """Sorted by submitter, system, benchmark and run."""
    anomalies: list[Anomaly]


def extract(
    source: Path, rules: Round, *, repository: str = "", commit: str = "", processes: int | None = None
) -> Extraction:
    """The runs of every result set whose system is described and whose benchmark the round has.

    ``repository`` and ``commit`` are where the source comes from, as the rows shall say. Raises UserError for a source
    that cannot be read or holds no results.
    """
    found = _read(Source(source), rules, processes or available_processes())
    rows: list[RunRow] = []
    anomalies = [*found.anomalies]
    told: list[_Told] = []
    described: dict[tuple[str, str], System | None] = {}
    for one in (found.sets[key] for key in sorted(found.sets)):
        note = partial(_noted, rules, one)
        benchmark = rules.benchmark(one.benchmark)
        if benchmark is None:
            anomalies.append(note(kind="unknown_benchmark", count=len(one.logs)))
            continue
        place = (one.submitter, one.system)
        if place not in described:
            described[place], problems = _system(found, *place)
            anomalies += [
                note(kind=it.kind, detail=it.detail, benchmark="", file=_description(*place)) for it in problems
            ]
        system = described[place]
        if system is None:
            anomalies.append(note(kind="no_system_description", count=len(one.logs)))
            continue
        told.append(_Told(one, benchmark, system))
    kept = _one_folder_each(told)
    repeats = _repeats([it for it in told if kept[it.key] is it])
    for it in told:
        note = partial(_noted, rules, it.one)
        first = kept[it.key]
        if it is not first:
            count = len(it.one.logs)
            anomalies.append(note(kind="second_folder", count=count, detail=f"the results of {first.one.folder} hold"))
            continue
        repeated, is_marked = repeats.get(it.one.folder, ("", False))
        duplicate_of = repeated if is_marked else ""
        rows += set_rows(it.one, it.benchmark, rules, it.system, duplicate_of, repository, commit)
        anomalies += [note(**fields) for fields in set_anomalies(it.one, it.benchmark, rules, repeated)]
    if not rows:
        raise UserError(_why_nothing(source, rules, anomalies))
    return Extraction(rows, sorted(set(anomalies)))


def _why_nothing(source: Path, rules: Round, anomalies: list[Anomaly]) -> str:
    kinds = {anomaly.kind for anomaly in anomalies}
    why = f"holds no results that can be read as round {rules.name}'s"
    if "no_system_description" in kinds:
        broken = sorted(f"{it.file}: {it.detail}" for it in anomalies if it.kind in _UNREAD and _describes(it.file))
        if broken:
            more = f" (and {len(broken) - 3} more)" if len(broken) > 3 else ""
            return f"{source}: {why}: no description of a system can be read.\n" + "\n".join(broken[:3]) + more
        return (
            f"{source}: {why}: no system is described.\nExpected <submitter>/systems/<system>.json beside the results."
        )
    if "unknown_benchmark" in kinds:
        there = ", ".join(sorted({it.benchmark for it in anomalies if it.kind == "unknown_benchmark"})[:10])
        return f"{source}: {why}.\nBenchmarks there: {there}; the round's: {', '.join(rules.benchmarks)}."
    return f"{source}: {why}.\nExpected <submitter>/results/<system>/<benchmark>/result_*.txt."


#: Why a description that is there is of no use.
_UNREAD = ("bad_system_description", "link_not_followed", "unreadable_file", "unsafe_path")


def _describes(file: str) -> bool:
    parts = file.split("/")
    places = (place_of(parts), place_of(parts[1:]))
    return any(place is not None and place.role is Role.SYSTEM for place in places)


# Reading


@dataclass(slots=True)
class _Found:
    """Everything read of a source."""

    sets: dict[tuple[str, str, str], ResultSet] = field(default_factory=dict)
    systems: dict[tuple[str, str], SmallFile] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)


#: Which file: top, place, and its number in the order of the source. A name may come twice in an archive, and
#: the later one holds.
_Key = tuple[str, Place, int]
#: What was read of a file; None where nobody asked.
_Read = Outcome | SmallFile | None


def _read(source: Source, rules: Round, processes: int) -> _Found:
    read: list[tuple[_Key, _Read]] = []
    work = partial(read_tasks, rules=rules)
    with closing(spread(work, _batches(source, rules, read), processes)) as results:
        for outcomes in results:
            read += outcomes
    found = _Found()
    for (top, place, _), outcome in sorted(read, key=lambda item: item[0][2]):
        if top == source.top:
            _sort_in(found, place, outcome)
    for oddity in source.oddities:
        path = "/".join(oddity.parts)
        anomaly = Anomaly(round=rules.name, kind=oddity.kind, file=printable(path), detail=printable(oddity.detail))
        found.anomalies.append(anomaly)
    return found


def _batches(source: Source, rules: Round, here: list[tuple[_Key, _Read]]) -> Iterator[list[Task]]:
    """Logs to be read, some at a time. Small files, and what cannot be handed over, are read at once into ``here``."""
    batch: list[Task] = []
    size = 0
    for count, file in enumerate(source.files()):
        key = (file.top, file.place, count)
        role, benchmark = file.place.role, file.place.benchmark
        if role in (Role.SYSTEM, Role.SCALING):
            here.append((key, _small(file)))
        elif rules.benchmark(benchmark) is None:
            here.append((key, None))
        elif file.disk is None and file.size > HANDED_OVER_BYTES:
            with file.read() as stream:
                here.append((key, read_stream(stream, role, benchmark, rules)))
        else:
            content = None
            if file.disk is None:
                with file.read() as stream:
                    content = stream.read()
            batch.append(Task(key, role, benchmark, file.disk, content))
            size += file.size
        if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _small(file: SourceFile) -> SmallFile:
    try:
        with file.read() as stream:
            content = stream.read(JSON_CAP_BYTES + 1)
    except OSError as error:
        return SmallFile(None, error.strerror or str(error))
    if len(content) > JSON_CAP_BYTES:
        return SmallFile(None, f"longer than {JSON_CAP_BYTES} bytes")
    return SmallFile(content, "")


def _sort_in(found: _Found, place: Place, outcome: _Read) -> None:
    if place.role is Role.SYSTEM:
        assert isinstance(outcome, SmallFile)
        found.systems[place.submitter, place.system] = outcome
        return
    key = (place.submitter, place.system, place.benchmark)
    one = found.sets.setdefault(key, ResultSet(*key))
    if place.role is Role.SCALING:
        assert isinstance(outcome, SmallFile)
        one.scaling = outcome
    elif place.role is Role.LOG:
        assert outcome is None or isinstance(outcome, RunFacts | Unread)
        one.logs[place.parts[-1]] = outcome
    else:
        assert outcome is None or not isinstance(outcome, RunFacts | SmallFile)
        one.power.setdefault(place.result, {})[place.parts[-1]] = outcome


# Judging


def _noted(rules: Round, one: ResultSet, **fields: object) -> Anomaly:
    known = {"submitter": one.submitter, "system": one.system, "benchmark": one.benchmark, "file": one.folder}
    texts = {key: printable(str(value)) for key, value in {**known, **fields}.items() if key != "count"}
    return Anomaly(round=rules.name, count=int(str(fields.get("count", 1))), **texts)


def _description(submitter: str, system: str) -> str:
    return f"{submitter}/systems/{system}.json"


def _system(found: _Found, submitter: str, system: str) -> tuple[System | None, list[Problem]]:
    """The described system; None where its results are left out."""
    file = found.systems.get((submitter, system))
    if file is None:
        return None, []
    if file.content is None:
        return None, [Problem("unreadable_file", file.problem)]
    described, problems = read_system(file.content)
    return described, list(problems)


@dataclass(frozen=True, slots=True)
class _Told:
    """A result set of which is known what it is of and what it ran on."""

    one: ResultSet
    benchmark: Benchmark
    system: System

    @property
    def name(self) -> str:
        return f"{self.one.submitter}/{self.one.system}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What the table of runs knows the set by. Folders may differ and have it in common."""
        return printable(self.one.submitter), printable(self.one.system), self.benchmark.folder

    @property
    def kind(self) -> tuple[str, str]:
        return self.system.division.lower(), self.system.family


def _one_folder_each(told: list[_Told]) -> dict[tuple[str, str, str], _Told]:
    """The set that holds of those with one key: the one whose folder is called as the round calls the benchmark, else
    the first. Together they would be scored as one set of more runs."""
    kept: dict[tuple[str, str, str], _Told] = {}
    for it in sorted(told, key=lambda it: it.one.benchmark != it.benchmark.folder):
        kept.setdefault(it.key, it)
    return kept


def _repeats(told: list[_Told]) -> dict[str, tuple[str, bool]]:
    """Folder of a set → submitter/system of an earlier one whose runs it repeats to the millisecond, and whether it is
    marked as a duplicate of that: only of one in the same division and on the same accelerators, else a copy that
    says it is something else would take the results of others out of the curves."""
    same: dict[object, list[_Told]] = {}
    for it in told:
        if times := it.one.run_times():
            same.setdefault((it.benchmark.workload, times), []).append(it)
    repeats = {}
    for sets in same.values():
        originals: dict[tuple[str, str], _Told] = {}
        for it in sets:
            original = originals.setdefault(it.kind, it)
            if original is not it:
                repeats[it.one.folder] = original.name, True
        # Whoever is the first of its kind repeats the first of another: of the closed division, if there is one.
        first = min(originals.values(), key=lambda it: it.kind[0] != "closed")
        for it in originals.values():
            if it is not first:
                repeats[it.one.folder] = first.name, False
    return repeats


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.mlperf.extract", description=__doc__.split("\n\n")[0])
    parser.add_argument("source", type=Path, help="folder or tar archive of an MLPerf Training results repository")
    parser.add_argument("--round", required=True, help="the round whose rules hold, e.g. v4.1")
    parser.add_argument("--runs", type=Path, required=True, help="the table of runs to write")
    parser.add_argument("--anomalies", type=Path, required=True, help="the table of anomalies to write")
    parser.add_argument(
        "--repository", type=_text, default="", help="where the source comes from, as the table shall say"
    )
    parser.add_argument("--commit", type=_text, default="", help="the commit of it")
    parser.add_argument("--rules", type=Path, help="a folder of rules besides the packaged ones")
    parser.add_argument("--processes", type=_positive, help="how many read logs (default: the cores there are)")
    args = parser.parse_args()
    if os.path.realpath(args.runs) == os.path.realpath(args.anomalies):
        raise UserError(f"{args.runs}: is to be the table of runs and of anomalies. Name a file for each.")
    rules = load_round(args.round, args.rules)
    try:
        extraction = extract(
            args.source, rules, repository=args.repository, commit=args.commit, processes=args.processes
        )
    except KeyboardInterrupt:
        print("breakeven: interrupted; nothing was written.", file=sys.stderr)
        raise SystemExit(130) from None
    write_text(args.runs, facts_csv(extraction.rows))
    write_text(args.anomalies, anomalies_csv(extraction.anomalies))


def _text(text: str) -> str:
    if not text.isprintable():  # stray bytes of a command line, which no table can hold
        raise argparse.ArgumentTypeError(f"{text!r}; expected characters that can be printed")
    return text


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a whole number above 0")
    return int(text)


if __name__ == "__main__":
    main()
