"""A table of one's own timings as points. ``python -m breakeven.points.elsewhere``: a CSV to points.csv."""

import argparse
import json
import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from breakeven.points.table import points_frame, write_points
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.point import Point, Scaling
from breakeven.schema.status import Status

#: Names a time column may have, and the seconds in its unit.
TIME_COLUMNS = {"time_s": 1.0, "time": 1.0, "time_ms": 1e-3, "time_min": 60.0, "time_h": 3600.0}
OPTIONAL = {
    "repeat", "series", "workload", "scaling", "nodes", "status", "unit", "global_batch", "label",
    "device", "device_model", "driver", "torch_version", "power_limit_w",
}  # fmt: skip


def read_timings(path: Path, study: str, workload: str, device: str) -> pd.DataFrame:
    """A user's CSV as a points table.

    Columns: ``devices``, one of ``TIME_COLUMNS``, ``work``; any of ``OPTIONAL``. Raises UserError naming file, line and
    column for what cannot be read.
    """
    try:
        raw = pd.read_csv(path, dtype=str, skipinitialspace=True, comment="#", keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a CSV table: {str(error).strip()}") from None
    raw.columns = raw.columns.str.strip()
    time = _check_columns(raw, path)
    # Header is line 1. Comment and blank lines shift this; the value itself is named too.
    points = [
        _point(row, time, f"{path}, row {number}", study, workload, device)
        for number, row in enumerate(raw.to_dict("records"), 1)
    ]
    if not points:
        raise UserError(f"{path}: no rows. One row is one timed run: devices, {time}, work and, if any, repeat.")
    frame = points_frame(points)
    frame["repeat"] = frame["repeat"].where(
        frame["repeat"] > 0, frame.groupby(["series", "devices"], sort=False).cumcount() + 1
    )
    _refuse_repeated(frame, path)
    if "scaling" not in raw:
        for _, series in frame.groupby("series", sort=False):
            frame.loc[series.index, "scaling"] = infer_scaling(series)
    if "series" not in raw:
        frame["series"] = frame["workload"] + ", " + frame["scaling"]
    return frame


def _check_columns(raw: pd.DataFrame, path: Path) -> str:
    times = [name for name in TIME_COLUMNS if name in raw]
    if len(times) != 1:
        raise UserError(
            f"{path}: need exactly one time column ({', '.join(TIME_COLUMNS)}); found {', '.join(raw.columns)}."
        )
    for name in ("devices", "work"):
        if name not in raw:
            raise UserError(f"{path}: column '{name}' is missing; found {', '.join(raw.columns)}.")
    unknown = [name for name in raw.columns if name not in OPTIONAL | {"devices", "work", times[0]}]
    if unknown:
        raise UserError(f"{path}: unknown column '{unknown[0]}'. Known: {', '.join(sorted(OPTIONAL))}.")
    return times[0]


def _point(row: Mapping[Hashable, Any], time: str, where: str, study: str, workload: str, device: str) -> Point:
    status_text = row.get("status") or "ok"
    if status_text not in set(Status):
        raise UserError(f"{where}: status '{status_text}' is unknown. Known: {', '.join(Status)}.")
    status = Status(status_text)
    ok = status is Status.OK
    title = row.get("workload") or workload
    scaling = row.get("scaling") or "free"
    if scaling not in ("weak", "strong", "free"):
        raise UserError(f"{where}: scaling '{scaling}' is unknown. Known: weak, strong, free.")
    kind: Scaling = scaling  # type: ignore[assignment]
    return Point(
        study=study,
        workload=title,
        series=row.get("series") or title,
        scaling=kind,
        device=row.get("device") or row.get("device_model") or device,
        devices=_count(row["devices"], "devices", where),
        nodes=_count(row.get("nodes") or "1", "nodes", where),
        repeat=_count(row["repeat"], "repeat", where, least=0) if row.get("repeat") else -1,
        status=status,
        time_s=_positive(row[time], time, where) * TIME_COLUMNS[time] if ok else None,
        samples=_positive(row["work"], "work", where) if ok else None,
        unit=row.get("unit") or "work units",
        global_batch=_positive(row["global_batch"], "global_batch", where) if row.get("global_batch") else None,
        label=row.get("label") or "",
        device_model=row.get("device_model") or "",
        driver=row.get("driver") or "",
        torch_version=row.get("torch_version") or "",
        power_limit_w=_positive(row["power_limit_w"], "power_limit_w", where) if row.get("power_limit_w") else None,
        source=where,
    )


def _positive(text: str, column: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"{where}: {column} must be a number above 0; found '{text}'.")
    return value


def _count(text: str, column: str, where: str, least: int = 1) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value == int(value) and value >= least):
        raise UserError(f"{where}: {column} must be a whole number of at least {least}; found '{text}'.")
    return int(value)


def _refuse_repeated(frame: pd.DataFrame, path: Path) -> None:
    twice = frame[frame.duplicated(["series", "devices", "repeat"], keep=False)]
    if not twice.empty:
        rows = ", ".join(source.rsplit(" ", 1)[-1] for source in twice["source"].head(2))
        first = twice.iloc[0]
        raise UserError(
            f"{path}: rows {rows} are both repeat {first['repeat']} at {first['devices']} devices of "
            f"'{first['series']}'. Number the repeats, or leave the column out."
        )


def infer_scaling(series: pd.DataFrame) -> Literal["weak", "strong", "free"]:
    """strong where every size did the same work, weak where work grows with the devices, else free (within 1 %)."""
    ok = series.dropna(subset=["samples"])
    if ok.empty:
        return "free"
    per_run = ok["samples"].astype(float)
    per_device = per_run / ok["devices"]
    if per_run.max() <= per_run.min() * 1.01:
        return "strong"
    if per_device.max() <= per_device.min() * 1.01:
        return "weak"
    return "free"


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="the study's plan.json")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    plan = json.loads(args.plan.read_text())
    settings = plan["settings"]
    points = read_timings(Path(settings["table"]), plan["study"], plan["workloads"][0], settings["device"])
    write_points(points, args.output)


if __name__ == "__main__":
    main()
