"""What each setting changes, in a table a setting, and what the synthetic twin says of the data."""

from typing import Any

import pandas as pd

from breakeven.figures import words
from breakeven.figures.settings_figure import shown
from breakeven.report.cells import Cell, Column, Table, between, known, number, significant, table, text, whole


def setting_tables(comparison: pd.DataFrame, workload: str, device: str) -> list[Table]:
    """One per setting, in the study's order: every value on every number of devices, whatever became of its runs."""
    mine = comparison[comparison["workload"] == workload]
    return [_table(mine[mine["setting"] == setting], device) for setting in dict.fromkeys(mine["setting"])]


def _table(rows: pd.DataFrame, device: str) -> Table:
    setting = str(rows["setting"].iloc[0])
    columns = [
        (Column(words.devices_word([device])), whole("devices")),
        *([] if setting == "strategy" else [(Column("Strategy", number=False), text("strategy"))]),
        (Column("Held equal", number=False, wrap=True), text("held")),
        (Column(setting.replace("_", " "), number=False), _value),
        (Column("Speed-up", "×, work per time"), between("speedup", words.significant)),
        (
            Column("Due to data", "% of step"),
            between("data_bound_share", lambda share: words.significant(100 * share, 2)),
        ),
        (Column("Step time", "ms"), between("step_time_ms", words.significant)),
        (Column("Peak memory", f"GiB per rank, {_memory(rows)}"), significant("peak_memory_gib")),
        (Column("Accuracy", "%"), significant("accuracy", 3, per=0.01)),
        (Column("Epochs to target"), significant("epochs_to_target")),
        (Column("Runs"), _runs),
        (Column("Status", number=False), _status),
        (Column("Remark", number=False, wrap=True), text("note")),
    ]
    return table(setting.replace("_", " "), rows, columns)


def _value(row: "pd.Series[Any]") -> Cell:
    baseline = row["value"] == row["baseline"]
    return Cell(shown(str(row["value"])), "compared with" if baseline else "", "key" if baseline else "")


def _memory(rows: pd.DataFrame) -> str:
    kinds = [str(kind) for kind in dict.fromkeys(rows["memory_of"]) if kind] if "memory_of" in rows else []
    return {"device": "reserved on the device", "host": "host"}[kinds[0]] if len(kinds) == 1 else "host or device"


def _runs(row: "pd.Series[Any]") -> Cell:
    bad = int(number(row, "runs_not_ok")) if known(row, "runs_not_ok") else 0
    told = f"{bad} not ok" if bad and row["status"] == "ok" else ""
    return Cell(f"{number(row, 'repeats'):.0f}", told, "bad" if told else "") if known(row, "repeats") else Cell("")


def _status(row: "pd.Series[Any]") -> Cell:
    return Cell("" if row["status"] == "ok" else str(row["status"]).replace("_", " "), mark="bad")


def data_bound(comparison: pd.DataFrame, workload: str, device: str) -> str:
    """``With ddp, 25 % of the step time is due to data on 1 CPU core (95 % interval 22 to 28 %), ...``; empty without a
    synthetic twin that has a time."""
    rows = comparison[(comparison["workload"] == workload) & (comparison["setting"] == "synthetic")]
    rows = rows[rows["headline"] & rows["data_bound_share"].notna()].drop_duplicates("devices")
    if rows.empty:
        return ""
    told: list[str] = []
    for _, row in rows.iterrows():
        strategy = f"with {row['strategy']} " if rows["strategy"].nunique() > 1 else ""
        share = f"{_percent(row, 'data_bound_share')} % {strategy}on {words.count_of(device, number(row, 'devices'))}"
        if known(row, "data_bound_share_low") and known(row, "data_bound_share_high"):
            low, high = (_percent(row, f"data_bound_share_{end}") for end in ("low", "high"))
            share += f" ({'' if told else '95 % interval '}{low} to {high} %)"
        told.append(share)
    start = "" if rows["strategy"].nunique() > 1 else f" of {rows['strategy'].iloc[0]}"
    return (
        f"Due to data, of the step time{start}: {words.listing(told)}. That is 1 − t(synthetic) / t(real), against the "
        "same steps on batches that lie ready on the device; what is left is bound by the device."
    )


def _percent(row: "pd.Series[Any]", name: str) -> str:
    return f"{100 * number(row, name):.0f}".replace("-0", "0").replace("-", "−")
