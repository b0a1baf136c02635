"""The report's tables, each a pure function of the study's tables."""

from typing import Any

import pandas as pd

from breakeven.figures import words
from breakeven.figures.view import Curve, View
from breakeven.points.table import each_run_once
from breakeven.report.cells import (
    Cell,
    Column,
    Table,
    between,
    distinct,
    known,
    number,
    significant,
    table,
    text,
    whole,
)
from breakeven.schema.status import Status


def efficiency_tables(efficiency: pd.DataFrame, view: View) -> list[Table]:
    """One per headline series."""
    mine = efficiency[efficiency["workload"] == view.workload]
    tables = []
    for curve in view.headlines:
        found = view.break_even(curve.series)
        key = found.devices if found else None
        rows = mine[mine["series"] == curve.series]
        tables.append(_efficiency(curve.short, rows, key, _time_of(view, [curve]), minutes=view.to_target))
    return tables


def _time_of(view: View, curves: list[Curve]) -> str:
    """What the times of a table are times of."""
    if view.to_target:
        return "Time to target"
    work = {(w, u, c.one_pass) for c in curves for w, u in zip(c.rows["work"], c.rows["unit"], strict=True)}
    if len(work) != 1:
        return "Time for each series' work" if work else "Time"
    amount, unit, one_pass = work.pop()
    amount = words.work(amount, unit)
    return f"Time for one pass over the data ({amount})" if one_pass else f"Time for {amount}"


def context_table(efficiency: pd.DataFrame, view: View) -> Table | None:
    """The other series in one table, each against its own reference."""
    mine = efficiency[(efficiency["workload"] == view.workload) & ~efficiency["headline"]]
    names = {c.series: c.short for c in view.curves}
    if mine.empty:
        return None
    time_of = _time_of(view, [c for c in view.curves if not c.headline])
    rows = mine.assign(series=mine["series"].map(names))
    return _efficiency("", rows, None, time_of, series=True, minutes=view.to_target)


def _efficiency(
    caption: str, rows: pd.DataFrame, key: float | None, time_of: str, *, series: bool = False, minutes: bool = False
) -> Table:
    """``minutes``: published times are official in minutes, however short."""
    unit_s, unit = (60.0, "min") if minutes else words.time_unit(rows["time_s"].dropna())
    work = distinct(rows, "unit")
    device = str(rows["device"].iloc[0])
    times = [name for name in ("time_s", "time_s_low", "time_s_high", "time_reference_s") if name in rows]
    in_unit = rows.assign(**{name: rows[name] / unit_s for name in times})

    def devices(row: "pd.Series[Any]") -> Cell:
        return Cell(f"{number(row, 'devices'):.0f}", mark="key" if row["devices"] == key else "")

    def runs(row: "pd.Series[Any]") -> Cell:
        bad = int(number(row, "runs_not_ok")) if known(row, "runs_not_ok") else 0
        return Cell(f"{number(row, 'repeats'):.0f}", f"{bad} not ok" if bad else "", "bad" if bad else "")

    columns = [
        *([(Column("Series", number=False), text("series"))] if series else []),
        (Column(words.devices_word([device])), devices),
        (Column("Nodes"), whole("nodes")),
        (Column("Global batch", "samples"), whole("global_batch")),
        (Column("Runs"), runs),
        (Column(time_of, unit), between("time_s", words.significant)),
        (Column("Speed-up", "×"), between("speedup", words.significant)),
        (Column("Efficiency"), between("efficiency", words.efficiency)),
        (Column("Efficiency", "samples needed"), between("efficiency_stat", words.efficiency)),
        (Column("Efficiency", "throughput"), between("efficiency_sys", words.efficiency)),
        (Column("Of which", "step speed"), between("efficiency_step", words.efficiency)),
        (Column("Of which", "evaluation, start-up"), between("efficiency_overhead", words.efficiency)),
        (Column("Of which", "residual"), between("efficiency_residual", words.efficiency)),
        (Column("Time at reference convergence", unit), significant("time_reference_s")),
        (Column("Throughput", f"{work[0] if len(work) == 1 else 'work'}/s per device"), significant("rate_per_device")),
        (Column(words.hours_word(device).capitalize()), significant("device_hours")),
        (Column("Cost", "price × device-hours"), significant("cost")),
        (Column("Energy", "MJ, logged"), significant("energy_kj", per=1000)),
        (Column("Configuration", number=False, wrap=True), text("label")),
    ]
    return table(caption, in_unit, columns)


def break_even_table(breakeven: pd.DataFrame, view: View) -> Table:
    """Every criterion of every headline series; the primary one is marked."""
    mine = breakeven[(breakeven["workload"] == view.workload) & breakeven["headline"]]
    names = {c.series: c.short for c in view.curves}

    def criterion(row: "pd.Series[Any]") -> Cell:
        return Cell(
            str(row["criterion"]).replace(">=", "≥").replace(" x ", " × "), mark="key" if row["primary"] else ""
        )

    columns = [
        (Column("Series", number=False), text("series")),
        (Column("Criterion", number=False), criterion),
        (Column("Break-even", words.devices_word(c.device for c in view.headlines)), between("devices", words.size)),
        (
            Column("Curve crosses near"),
            lambda r: Cell(words.size(number(r, "crossing"))) if known(r, "crossing") else Cell(""),
        ),
        (Column("Remark", number=False, wrap=True), text("note")),
    ]
    return table("", mine.assign(series=mine["series"].map(names)), columns)


def failures_table(points: pd.DataFrame, runs: pd.DataFrame | None) -> Table:
    """Every run that gave no time, or was made to fail: who, where, why, and where to read on. Those that the machine
    does not support are told by reason (``unsupported_table``)."""
    columns = [
        (Column("Run", number=False), text("run_id")),
        (Column("Series", number=False), text("series")),
        (Column("Devices"), whole("devices")),
        (Column("Repeat"), whole("repeat")),
        (Column("Status", number=False), _status),
        (Column("Rank"), whole("error_rank")),
        (Column("Error", number=False, wrap=True), text("error")),
        (Column("Log", number=False, wrap=True), text("log")),
    ]
    gone = points[(points["status"] != Status.OK) | points["time_s"].isna()]
    if runs is None:
        once = each_run_once(gone)
        return table("", once.assign(run_id=once["label"], log=once["source"]), columns)
    faults = runs["faults"] if "faults" in runs else pd.Series("", index=runs.index)
    failed = ~runs["status"].isin([Status.OK, Status.UNSUPPORTED])
    bad = runs[failed | (faults != "")].copy()
    bad["error"] = [_why(row) for _, row in bad.iterrows()]
    told = set(zip(bad["run_id"], bad["repeat"], strict=True))
    silent = gone[gone["status"].isin([Status.NOT_MEASURED, Status.OK])]
    known_why = [pair in told for pair in zip(silent["label"], silent["repeat"], strict=True)]
    silent = silent[~pd.Series(known_why, index=silent.index, dtype=bool)]
    return table("", pd.concat([bad, _silent(silent)], ignore_index=True), columns)


def unsupported_table(runs: pd.DataFrame | None) -> Table:
    """Runs that the machine or a library cannot do, one row a reason."""
    columns = [
        (Column("Reason", number=False, wrap=True), text("error")),
        (Column("Runs"), whole("runs")),
        (Column("Series", number=False, wrap=True), text("series")),
    ]
    if runs is None or "error" not in runs:
        return table("", pd.DataFrame(), columns)
    cannot = runs[runs["status"] == Status.UNSUPPORTED]
    rows = [
        {"error": reason, "runs": len(group), "series": _some(list(dict.fromkeys(group["series"])))}
        for reason, group in cannot.groupby("error", sort=False)
    ]
    return table("", pd.DataFrame(rows), columns)


def _some(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{'; '.join(names[:most])}{more}"


def _why(run: "pd.Series[Any]") -> str:
    said = [f"faults injected on purpose: {run['faults']}"] if known(run, "faults") else []
    return "; ".join([*said, str(run["error"])] if known(run, "error") else said)


def _silent(points: pd.DataFrame) -> pd.DataFrame:
    """Points without a time that no failed record explains; ``source`` is a record's path, or the reason itself."""
    path = points["source"].str.endswith(".json")
    missing = points["status"] == Status.NOT_MEASURED
    reason = points["source"].mask(path & missing, "no record").mask(path & ~missing, "no step past the warm-up")
    return points.assign(run_id=points["label"], error=reason, log=points["source"].where(path, ""))


def _status(row: "pd.Series[Any]") -> Cell:
    return Cell(str(row["status"]).replace("_", " "), mark="bad")


def runs_table(runs: pd.DataFrame) -> Table:
    columns = [
        (Column("Run", number=False), text("run_id")),
        (Column("Repeat"), whole("repeat")),
        (
            Column("Status", number=False),
            lambda row: Cell(str(row["status"]), mark="" if row["status"] == "ok" else "bad"),
        ),
        (Column("Step time", "ms, median (p10–p90)"), _step_time),
        (Column("Throughput"), _throughput),
        (Column("Data wait", "% of step"), significant("data_wait_share", 2, per=0.01)),
        (Column("Gradient wait", "% of step"), significant("sync_wait_share", 2, per=0.01)),
        (Column("Host-bound", "% of step"), significant("host_bound_share", 2, per=0.01)),
        (Column("Peak host memory", "GiB per rank"), significant("peak_rss_gib")),
        (Column("Peak device memory", "GiB reserved"), significant("peak_reserved_gib")),
        (Column("Loss", "first"), significant("loss_first", 4)),
        (Column("Loss", "last"), significant("loss_last", 4)),
        (Column("Accuracy", "%, last"), significant("accuracy", 3, per=0.01)),
        (Column("Epochs to target"), significant("epochs_to_target")),
        (Column("Warm-up dropped", "steps"), whole("warmup_dropped")),
        (Column("Elapsed", "s"), significant("elapsed_s")),
    ]
    return table("", runs, columns)


def _step_time(row: "pd.Series[Any]") -> Cell:
    if not known(row, "step_time_ms"):
        return Cell("")
    ends = [
        words.significant(number(row, f"step_time_ms_{p}")) for p in ("p10", "p90") if known(row, f"step_time_ms_{p}")
    ]
    return Cell(words.significant(number(row, "step_time_ms")), "–".join(ends) if len(ends) == 2 else "")


def _throughput(row: "pd.Series[Any]") -> Cell:
    if not known(row, "throughput"):
        return Cell("")
    return Cell(words.significant(number(row, "throughput"), 4), str(row["unit"]) if known(row, "unit") else "")


def equivalence_table(equivalence: pd.DataFrame) -> Table:
    columns = [
        (Column("Run", number=False), text("run_id")),
        (Column("Strategy", number=False), text("strategy")),
        (Column("Devices"), whole("devices")),
        (Column("Compared with", number=False), text("reference_run_id")),
        (Column("Updates compared"), whole("updates")),
        (Column("Largest loss difference", "absolute"), _difference),
        (Column("Remark", number=False, wrap=True), text("note")),
    ]
    return table("", equivalence, columns)


def same_work_sentence(equivalence: pd.DataFrame) -> str:
    """``17 runs are compared; the largest difference that is not by design is 2.4e-07.``"""
    if "max_abs_loss_difference" not in equivalence:
        return ""
    compared = equivalence[equivalence["max_abs_loss_difference"].notna()]
    if compared.empty:
        return ""
    plain = compared[~compared["note"].str.contains("by design")]
    largest = f"the largest difference that is not by design is {plain['max_abs_loss_difference'].max():.1e}"
    told = largest if len(plain) else "all may differ by design"
    return f"{len(compared)} {'run is' if len(compared) == 1 else 'runs are'} compared; {told}."


def accuracy_table(runs: pd.DataFrame | None) -> Table:
    """Of every series whose runs measured their accuracy: how far it came, and when it reached the target."""
    columns = [
        (Column("Series", number=False, wrap=True), text("series")),
        (Column("Devices"), whole("devices")),
        (Column("Runs"), whole("runs")),
        (Column("Accuracy", "%, last"), significant("accuracy", 3, per=0.01)),
        (Column("Accuracy", "%, best"), significant("accuracy_best", 3, per=0.01)),
        (Column("Reached the target", "runs"), whole("reached")),
        (Column("Epochs to target"), significant("epochs_to_target")),
        (Column("Time to target", "s, without evaluation"), significant("time_to_target_s")),
    ]
    names = ("accuracy", "accuracy_best", "epochs_to_target", "time_to_target_s")
    if runs is None or not set(names) <= set(runs.columns):
        return table("", pd.DataFrame(), columns)
    known_runs = runs[runs["accuracy"].notna()]
    rows = [
        {"series": series, "devices": devices, "runs": len(group), "reached": group["epochs_to_target"].notna().sum()}
        | {name: group[name].mean() for name in names}
        for (series, devices), group in known_runs.groupby(["series", "devices"], sort=False)
    ]
    return table("", pd.DataFrame(rows), columns)


def _difference(row: "pd.Series[Any]") -> Cell:
    return Cell(f"{number(row, 'max_abs_loss_difference'):.1e}") if known(row, "max_abs_loss_difference") else Cell("")
