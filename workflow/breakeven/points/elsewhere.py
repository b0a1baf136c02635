"""A table of one's own timings as points. ``python -m breakeven.points.elsewhere``: a CSV to points.csv."""

import argparse
import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from breakeven.points.table import points_frame, write_points
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.plan import read_plan
from breakeven.schema.point import Point, Scaling
from breakeven.schema.status import Status

#: Names a time column may have, and the seconds in its unit.
TIME_COLUMNS = {"time_s": 1.0, "time": 1.0, "time_ms": 1e-3, "time_min": 60.0, "time_h": 3600.0}
OPTIONAL = {
    "repeat", "series", "workload", "scaling", "nodes", "status", "unit", "global_batch", "label",
    "device", "device_model", "driver", "torch_version", "power_limit_w", "energy_kj", "price_per_device_hour",
}  # fmt: skip
#: More devices, nodes or repeats than anyone has: a slip of the keyboard.
MOST = 10_000_000
#: What all rows of a series share; cells left empty are taken to agree.
ONE_PER_SERIES = ("workload", "scaling", "device", "unit")


@dataclass(frozen=True, slots=True)
class Row:
    """A data row of the user's file: its number, counted without comments and blank lines, and its line."""

    path: Path
    number: int
    line: int
    cells: dict[str, str]

    @property
    def source(self) -> str:
        return f"{self.path}, row {self.number}"

    @property
    def place(self) -> str:
        return f"{self.source} (line {self.line})"


def read_timings(path: Path, study: str, workload: str, device: str) -> pd.DataFrame:
    """A user's CSV as a points table.

    Columns: ``devices``, one of ``TIME_COLUMNS``, ``work``; any of ``OPTIONAL``. Raises UserError naming file, line and
    column for what cannot be read.
    """
    columns, rows = read_rows(path)
    time = _check_columns(columns, path)
    if not rows:
        raise UserError(f"{path}: no rows. One row is one timed run: devices, {time}, work and, if any, repeat.")
    frame = points_frame(_point(row, time, study, workload, device) for row in rows)
    told = pd.DataFrame([{name: row.cells.get(name, "") for name in OPTIONAL} for row in rows])
    frame = _settle_series(_name_series(frame, told), told, path)
    frame["repeat"] = frame["repeat"].where(
        told["repeat"] != "", frame.groupby(["series", "devices"], sort=False).cumcount() + 1
    )
    _refuse_repeated(frame, path)
    return frame


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Header and data rows of a CSV file. Lines that start with ``#`` are comments; a ``#`` in a value is its own."""
    line = 0

    def lines(file: Iterable[str]) -> Iterator[str]:
        nonlocal line
        for line, text in enumerate(file, 1):  # noqa: B007  read by the loop below: the line the reader has come to
            if not text.startswith("#") and text.strip():
                yield text

    header: list[str] = []
    rows: list[Row] = []
    try:
        # utf-8-sig: spreadsheets begin a file with a byte-order mark
        with path.open(newline="", encoding="utf-8-sig") as file:
            for fields in csv.reader(lines(file), skipinitialspace=True, strict=True):
                cells = [field.strip() for field in fields]
                if not header:
                    header = cells
                    continue
                if len(cells) != len(header):
                    raise UserError(
                        f"{path}, line {line}: {len(cells)} fields, but the header has {len(header)}. Give every row "
                        "one value per column, with a decimal point (10.5), not a comma."
                    )
                rows.append(Row(path, len(rows) + 1, line, dict(zip(header, cells, strict=True))))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a CSV table (UTF-8 text): {error}, near line {line}.") from None
    if not header:
        raise UserError(f"{path}: not a CSV table: no header in it.")
    return header, rows


def _check_columns(columns: list[str], path: Path) -> str:
    if twice := [name for name, times in Counter(columns).items() if times > 1]:
        raise UserError(f"{path}: column '{twice[0]}' stands twice in the header. Delete or rename one of the two.")
    times = [name for name in TIME_COLUMNS if name in columns]
    if len(times) != 1:
        raise UserError(
            f"{path}: need exactly one time column ({', '.join(TIME_COLUMNS)}); found {', '.join(columns)}."
        )
    for name in ("devices", "work"):
        if name not in columns:
            raise UserError(f"{path}: column '{name}' is missing; found {', '.join(columns)}.")
    unknown = [name for name in columns if name not in OPTIONAL | {"devices", "work", times[0]}]
    if unknown:
        raise UserError(f"{path}: unknown column '{unknown[0]}'. Known: {', '.join(sorted(OPTIONAL))}.")
    return times[0]


def _name_series(frame: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
    """``frame`` with a scaling and a series in every row: rows without a series are one per workload and scaling.

    ``told``: the cells as the file has them, row by row.
    """
    frame = frame.copy()
    own = told["series"] != ""
    keys = pd.DataFrame({"series": told["series"], "workload": frame["workload"], "scaling": told["scaling"]})
    keys.loc[own, ["workload", "scaling"]] = ""  # a name of one's own is the whole key
    for _, key in keys.groupby(list(keys.columns), sort=False):
        if not told.loc[key.index, "scaling"].any():
            frame.loc[key.index, "scaling"] = infer_scaling(frame.loc[key.index])
    frame["series"] = told["series"].where(own, frame["workload"] + ", " + frame["scaling"])
    return frame


def _settle_series(frame: pd.DataFrame, told: pd.DataFrame, path: Path) -> pd.DataFrame:
    """``frame`` with empty cells filled from their series. A curve over two units or workloads shows their mixture."""
    frame = frame.copy()
    for name, rows in frame.groupby("series", sort=False):
        for column in ONE_PER_SERIES:
            cells = told.loc[rows.index, column]
            _refuse_several(cells[cells != ""], rows, f"{path}: series '{name}' mixes {column}")
            if cells.any():
                frame.loc[rows.index, column] = cells.max()
        if "strong" in set(told.loc[rows.index, "scaling"]):
            batches = rows["global_batch"].dropna().map("{:g}".format)
            _refuse_several(batches, rows, f"{path}: series '{name}' is of strong scaling, yet mixes global_batch")
        for devices, size in rows.groupby("devices"):
            prices = size["price_per_device_hour"].dropna().map("{:g}".format)
            _refuse_several(prices, size, f"{path}: series '{name}' at {devices} devices mixes price_per_device_hour")
    return frame


def _refuse_several(cells: "pd.Series[str]", rows: pd.DataFrame, what: str) -> None:
    first = cells.drop_duplicates()
    if len(first) > 1:
        listed = "; ".join(f"{cell} (row {_number(rows.loc[[row]])})" for row, cell in first.items())
        raise UserError(f"{what}: {listed}. Correct it, or give each its own name in column 'series'.")


def _number(row: pd.DataFrame) -> str:
    return str(row["source"].iloc[0]).rsplit(" ", 1)[-1]


def _point(line: Row, time: str, study: str, workload: str, device: str) -> Point:
    row, where = line.cells, line.place
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
        time_s=_positive(row[time], time, where, TIME_COLUMNS[time]) if ok else None,
        samples=_positive(row["work"], "work", where) if ok else None,
        unit=row.get("unit") or "work units",
        global_batch=_if_given(row, "global_batch", where),
        energy_kj=_if_given(row, "energy_kj", where) if ok else None,
        price_per_device_hour=_if_given(row, "price_per_device_hour", where),
        label=row.get("label") or "",
        device_model=row.get("device_model") or "",
        driver=row.get("driver") or "",
        torch_version=row.get("torch_version") or "",
        power_limit_w=_if_given(row, "power_limit_w", where),
        source=line.source,
    )


def _if_given(row: dict[str, str], column: str, where: str) -> float | None:
    return _positive(row[column], column, where) if row.get(column) else None


def _positive(text: str, column: str, where: str, unit: float = 1.0) -> float:
    try:
        value = float(text) * unit
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
    if value > MOST:
        raise UserError(f"{where}: {column} must be at most {MOST:,}; found '{text}'.")
    return int(value)


def _refuse_repeated(frame: pd.DataFrame, path: Path) -> None:
    twice = frame[frame.duplicated(["series", "devices", "repeat"], keep=False)]
    if not twice.empty:
        first = twice.iloc[0]
        same = (twice[["series", "devices", "repeat"]] == first[["series", "devices", "repeat"]]).all(axis=1)
        rows = ", ".join(_number(twice.loc[[row]]) for row in twice.index[same][:2])
        raise UserError(
            f"{path}: rows {rows} are both repeat {first['repeat']} at {first['devices']} devices of "
            f"'{first['series']}'. Number the repeats, or leave the column out."
        )


def infer_scaling(series: pd.DataFrame) -> Literal["weak", "strong", "free"]:
    """strong where every size did the same work, weak where work grows with the devices, else free (within 1 %).

    Where batches are known and differ, the same work is not strong: that keeps the global batch.
    """
    ok = series.dropna(subset=["samples"])
    if ok.empty:
        return "free"
    per_run = ok["samples"].astype(float)
    per_device = per_run / ok["devices"]
    if per_run.max() <= per_run.min() * 1.01:
        return "strong" if ok["global_batch"].nunique() <= 1 else "free"
    if per_device.max() <= per_device.min() * 1.01:
        return "weak"
    return "free"


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="the study's plan.json")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    plan = read_plan(args.plan, "study", "settings")
    settings = plan["settings"]
    points = read_timings(
        Path(settings["table"]), plan["study"], settings["workload"] or plan["study"], settings["device"]
    )
    write_points(points, args.output)


if __name__ == "__main__":
    main()
