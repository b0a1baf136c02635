"""Published results of one workload as the figures need them: which submissions, the best of them, how far apart.

No drawing here, and no file: tables in, numbers out.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from breakeven.figures.view import Curve
from breakeven.schema.errors import UserError

#: The size at which accelerators are compared, where anybody has it: one node of most makers.
COMPARED_DEVICES = 8


@dataclass(frozen=True, slots=True)
class Published:
    """The scored submissions of one workload, of one round or more."""

    workload: str
    """Its title."""
    family: str
    """The accelerator family in the foreground; empty: none."""
    rounds: tuple[str, ...]
    """The study's own round first, then as given."""
    scores: pd.DataFrame
    """Rows of scores.csv with a score that may be compared, and devices, of every round; duplicates among them."""
    reference: pd.DataFrame
    """Rows of reference.csv, by batch; empty where not given."""
    critical: pd.DataFrame
    """Rows of critical_batch.csv; empty where not given."""
    headline: Curve | None = None
    """The study's series, to be shown among the submissions."""

    @property
    def own_round(self) -> str:
        return self.rounds[0]

    @property
    def in_round(self) -> str:
        return f"MLPerf Training {self.own_round}"

    @property
    def own(self) -> pd.DataFrame:
        """The submissions of the study's round, without those that repeat another's runs."""
        return distinct(self.scores[self.scores["round"] == self.own_round])


def published(
    workload: str,
    benchmark: str,
    scores: Sequence[pd.DataFrame],
    *,
    family: str = "",
    reference: pd.DataFrame | None = None,
    critical: pd.DataFrame | None = None,
    headline: Curve | None = None,
) -> Published:
    """``scores``: tables of one round each, the study's own first. ``benchmark``: its folder or its workload's name.

    Raises UserError where no table has the benchmark.
    """
    every = pd.concat(list(scores), ignore_index=True)
    name = workload_name(every, benchmark)
    mine = every[(every["workload"] == name) & every["time_to_train_min"].notna() & (every["devices"] >= 1)]
    # Results of the open division may change the model; a note tells of too few runs, or of runs not alike. Neither
    # stands in a comparison, as neither is in a series.
    mine = mine[(mine["division"].str.lower() == "closed") & (mine["note"] == "")].reset_index(drop=True)
    rounds = tuple(dict.fromkeys(round_ for table in scores for round_ in table["round"]))
    return Published(workload, family, rounds, mine, _of(reference, name), _of(critical, name), headline)


def workload_name(scores: pd.DataFrame, benchmark: str) -> str:
    """The name a benchmark goes by in every round: RetinaNet's folder was ``ssd`` in some."""
    found = scores.loc[_is(scores, benchmark), "workload"]
    if found.empty:
        known = ", ".join(sorted(set(scores["workload"]))) or "none"
        raise UserError(f"No benchmark {benchmark!r} in the scores. They have: {known}.")
    return str(found.iloc[0])


def has_benchmark(scores: pd.DataFrame, benchmark: str) -> bool:
    return bool(_is(scores, benchmark).any())


def _is(scores: pd.DataFrame, benchmark: str) -> "pd.Series[bool]":
    return (scores["benchmark"] == benchmark) | (scores["workload"] == benchmark)


def _of(table: pd.DataFrame | None, workload: str) -> pd.DataFrame:
    return pd.DataFrame() if table is None else table[table["workload"] == workload].reset_index(drop=True)


def distinct(scores: pd.DataFrame) -> pd.DataFrame:
    """Without submissions that repeat another's runs."""
    return scores[scores["duplicate_of"] == ""]


def of_family(scores: pd.DataFrame, family: str) -> pd.DataFrame:
    return scores[scores["accelerator_family"] == family]


def front(scores: pd.DataFrame) -> pd.DataFrame:
    """The submissions that none beats in both time and device-hours, the fastest first."""
    best: list[int] = []
    least = math.inf
    for index, row in scores.sort_values(["time_to_train_min", "device_hours"]).iterrows():
        if row["device_hours"] < least:
            least = float(row["device_hours"])
            best.append(index)  # type: ignore[arg-type]
    return scores.loc[best]


@dataclass(frozen=True, slots=True)
class Submission:
    """One of several that are compared."""

    name: str
    """Its submitter, and its system where the submitter has more of them."""
    time_min: float
    fastest_run_min: float
    slowest_run_min: float
    """Of the runs that reached the target, scaled as the score is; the score itself where the runs are not known."""
    duplicate: bool
    """Whether it repeats another's runs."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The submissions of one accelerator family at one size, the fastest first."""

    family: str
    lines: tuple[Submission, ...]
    """With duplicates, which nothing else counts."""
    submissions: int
    previews: int
    """Of those, how many were not yet on sale."""
    fastest_min: float
    slowest_min: float

    @property
    def percent(self) -> float:
        """How much longer the slowest took than the fastest."""
        return (self.slowest_min / self.fastest_min - 1) * 100


def compared_size(scores: pd.DataFrame) -> int:
    """Eight devices where anybody has them, else the size with the most submissions, of equals the smallest."""
    sizes = distinct(scores)["devices"].astype(int)
    if (sizes == COMPARED_DEVICES).any():
        return COMPARED_DEVICES
    counts = sizes.value_counts()
    return int(min(counts[counts == counts.max()].index))


def spreads(scores: pd.DataFrame, devices: int) -> list[Spread]:
    """By family, the one with the fastest submission first."""
    at_size = scores[scores["devices"] == devices].sort_values(["time_to_train_min", "submitter", "system"])
    found = []
    for family, rows in at_size.groupby("accelerator_family", sort=False):
        counted = distinct(rows)
        if len(counted):
            times = counted["time_to_train_min"]
            previews = int(counted["system_status"].map(is_preview).sum())
            ends = float(times.min()), float(times.max())
            found.append(Spread(str(family), tuple(_lines(rows)), len(counted), previews, *ends))
    return sorted(found, key=lambda s: s.fastest_min)


def _lines(rows: pd.DataFrame) -> Iterator[Submission]:
    several = set(rows.loc[rows["submitter"].duplicated(keep=False), "submitter"])
    for _, row in rows.iterrows():
        submitter, time = str(row["submitter"]), float(row["time_to_train_min"])
        scaling = 1.0 if pd.isna(row["scaling_factor"]) else float(row["scaling_factor"])
        runs = [float(row[c]) * scaling for c in ("time_min_min", "time_max_min") if pd.notna(row[c])]
        name = submitter.replace("_", " ")
        yield Submission(
            name=f"{name}, {row['system']}" if submitter in several else name,
            time_min=time,
            fastest_run_min=min([time, *runs]),
            slowest_run_min=max([time, *runs]),
            duplicate=row["duplicate_of"] != "",
        )


def is_preview(system_status: str) -> bool:
    return system_status.strip().lower() == "preview"


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest submission of one round."""

    round: str
    time_min: float
    devices: int
    family: str
    submitter: str
    preview: bool


def best_by_round(scores: pd.DataFrame, devices: int | None = None) -> list[Best]:
    """Oldest round first; ``devices``: of that size only, so that rounds without it are missing."""
    rows = distinct(scores) if devices is None else distinct(scores[scores["devices"] == devices])
    order = ["time_to_train_min", "devices", "submitter", "system"]
    firsts = rows.sort_values(order).drop_duplicates("round")
    found = [
        Best(
            str(row["round"]),
            float(row["time_to_train_min"]),
            int(row["devices"]),
            str(row["accelerator_family"]),
            str(row["submitter"]),
            is_preview(str(row["system_status"])),
        )
        for _, row in firsts.iterrows()
    ]
    return sorted(found, key=lambda b: round_order(b.round))


def round_order(name: str) -> tuple[tuple[int, ...], str]:
    """``v0.7`` before ``v4.1`` before ``v10.0``."""
    return tuple(int(digits) for digits in re.findall(r"\d+", name)), name
