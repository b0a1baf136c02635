"""What a results repository holds that is not as the rules have it: listed beside the numbers, never hidden in them."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from breakeven.mlperf.table import csv_text

#: Kind → what it means, in the words that a reader of the table gets.
KINDS: dict[str, str] = {
    "absent_file": "logs that the rules require are not there; count says how many",
    "bad_power": "power logs that give no energy",
    "bad_scaling": "scaling.json that gives no factor; 1 is used",
    "bad_system_description": "a system description that is not as it should be; what it does not give is left empty",
    "batch_differs": "the runs of one set have different global batch sizes",
    "corrupted_lines": "MLLOG lines that cannot be read; the run counts all the same, save in the strict score",
    "duplicate_submission": "the runs of another set, to the millisecond; it counts all the same where the other is of "
    "another division or accelerator family",
    "empty_file": "a log without a single MLLOG line",
    "extra_runs": "more logs than the rules require; count says how many more",
    "fails_official_check": "a log that MLCommons' checker rejects; the strict score counts it as a failed run",
    "link_not_followed": "a link that leads out of the repository, to nothing, in a circle, or to where very many lead",
    "no_accelerators": "a system without accelerators: its processors are the devices",
    "no_run_start": "a log without run_start",
    "no_run_stop": "a log without run_stop",
    "no_system_description": "results without a description of their system; left out, as the official tool does",
    "non_utf8": "a log with bytes that are not UTF-8",
    "not_converged": "a run that was aborted or did not reach the target",
    "old_logs": "runs logged before the round's time, reused from an earlier one; count says how many",
    "overlong_line": "a line too long to be read whole",
    "prefixed_lines": "MLLOG lines with something before the mark; count says how many",
    "second_folder": "a second folder of results of one benchmark on one system; left out",
    "several_ranks": "a log that several ranks wrote; count says how many",
    "unknown_accelerator": "an accelerator name that belongs to no family known here; its name is its family",
    "unknown_benchmark": "results of a benchmark that the round's rules do not have; left out",
    "unreadable_file": "a file that cannot be read; taken as absent",
    "unsafe_path": "an archive's entry with a name, type or size that no results repository needs; not read",
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Anomaly:
    """The columns of ``anomalies.csv``, in order."""

    round: str
    kind: str
    """One of ``KINDS``."""
    submitter: str = ""
    system: str = ""
    benchmark: str = ""
    """The benchmark's folder, as it is called in the repository."""
    file: str = ""
    """Path inside the repository: the file, or the folder where the matter is one of a whole set."""
    count: int = 1
    """How many: lines of a log, logs of a set. What is counted is the kind's to say."""
    detail: str = ""


ANOMALY_COLUMNS = [field.name for field in dataclasses.fields(Anomaly)]


def anomalies_csv(anomalies: Iterable[Anomaly]) -> str:
    """The anomalies as CSV, sorted, each once."""
    return csv_text(ANOMALY_COLUMNS, map(attrgetter(*ANOMALY_COLUMNS), sorted(set(anomalies))))
