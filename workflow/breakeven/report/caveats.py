"""What a reader must know before trusting a workload's numbers, in sentences that stand beside its answer."""

import pandas as pd

from breakeven.figures import words
from breakeven.points.table import each_run_once
from breakeven.report.cells import yes
from breakeven.schema.status import Status


def caveats(workload: str, points: pd.DataFrame, runs: pd.DataFrame | None) -> list[str]:
    """``runs``: the records, where the study was measured here."""
    mine = points[points["workload"] == workload]
    found = []
    if runs is not None and (busy := busy_sentence(runs[runs["workload"] == workload])):
        found.append(busy)
    ok = mine[(mine["status"] == Status.OK) & mine["time_s"].notna()]
    if len(ok) and ok.groupby(["series", "devices"]).size().max() == 1:
        found.append("One repeat: no interval between repeats.")
    if gone := _without_a_time(mine):
        found.append(gone)
    return found


def busy_sentence(runs: pd.DataFrame) -> str:
    """``8 of 9 runs began while others used the machine.``"""
    if "idle" not in runs:
        return ""
    known = runs["idle"].dropna()
    busy = sum(not yes(idle) for idle in known)
    return f"{busy} of {len(known)} runs began while others used the machine." if busy else ""


def _without_a_time(points: pd.DataFrame) -> str:
    """``2 of 9 runs gave no time (oom, not measured).``"""
    runs = each_run_once(points)
    gone = runs[(runs["status"] != Status.OK) | runs["time_s"].isna()]
    if gone.empty:
        return ""
    why = [str(s).replace("_", " ") for s in dict.fromkeys(gone["status"]) if s != Status.OK]
    reasons = f" ({words.listing(why)})" if why else ""
    return f"{len(gone)} of {len(runs)} runs gave no time{reasons}."
