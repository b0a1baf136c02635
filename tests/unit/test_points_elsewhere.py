"""A table of one's own timings: read, or refused with the place and the reason."""

import math
from pathlib import Path

import pandas as pd
import pytest

from breakeven.points.elsewhere import read_timings
from breakeven.points.table import read_points, read_table, write_points
from breakeven.scaling.efficiency import efficiency_table
from breakeven.schema.errors import UserError
from breakeven.schema.plan import read_plan


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    return path


def read(path: Path):
    return read_timings(path, "mine", "My model", "A100")


def test_the_four_columns_are_enough(tmp_path: Path) -> None:
    frame = read(table(tmp_path, "devices,time,work,repeat\n1,100,5000,1\n1,102,5000,2\n2,52,5000,1\n"))
    assert frame["time_s"].tolist() == [100.0, 102.0, 52.0]
    assert set(frame["series"]) == {"My model, strong"}
    assert set(frame["device"]) == {"A100"}


def test_energy_and_a_price_that_differs_by_size_make_energy_and_cost(tmp_path: Path) -> None:
    text = "devices,time_h,work,energy_kj,price_per_device_hour\n1,2,10,700,3\n1,2,10,900,3\n2,1,10,1000,4\n4,1,10,,\n"
    rows = efficiency_table(read(table(tmp_path, text)))
    assert rows["device_hours"].tolist() == pytest.approx([2.0, 2.0, 4.0])
    assert rows["cost"].tolist() == pytest.approx([6.0, 8.0, math.nan], nan_ok=True)
    assert rows["energy_kj"].tolist() == pytest.approx([800.0, 1000.0, math.nan], nan_ok=True)


def test_minutes_are_read_and_repeats_numbered(tmp_path: Path) -> None:
    frame = read(table(tmp_path, "devices, time_min, work\n1, 2, 10\n1, 2.1, 10\n2, 2, 20\n"))
    assert frame["time_s"].tolist() == [120.0, 126.0, 120.0]
    assert frame["repeat"].tolist() == [1, 2, 1]
    assert set(frame["scaling"]) == {"weak"}


def test_a_failed_row_needs_no_time(tmp_path: Path) -> None:
    frame = read(table(tmp_path, "devices,time_s,work,status\n1,10,5,ok\n2,,,oom\n"))
    assert frame["status"].tolist() == ["ok", "oom"]
    assert frame["time_s"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("devices,time_s\n1,2\n", "column 'work' is missing; found devices, time_s"),
        ("devices,work\n1,2\n", "need exactly one time column"),
        ("devices,time_s,time_min,work\n1,2,3,4\n", "need exactly one time column"),
        ("devices,time_s,work,gpu\n1,2,3,x\n", "unknown column 'gpu'"),
        ("devices,time_s,work\n1,-2,3\n", r"row 1 \(line 2\): time_s must be a number above 0; found '-2'"),
        ("devices,time_s,work\n1,2,3\n1.5,2,3\n", r"row 2 \(line 3\): devices must be a whole number of at least 1"),
        ("devices,time_s,work\n1,soon,3\n", r"row 1 \(line 2\): time_s must be a number above 0; found 'soon'"),
        ("devices,time_s,work,status\n1,2,3,fine\n", r"row 1 \(line 2\): status 'fine' is unknown"),
        ("devices,time_s,work,scaling\n1,2,3,big\n", r"row 1 \(line 2\): scaling 'big' is unknown"),
        ("devices,time_s,work,repeat\n1,2,3,1\n1,2,3,1\n", "rows 1, 2 are both repeat 1 at 1 devices"),
        ("devices,time_s,work\n", "no rows"),
        ("", "not a CSV table"),
        # a column too many or too few must not shift the rest; a decimal comma is one too many
        ("devices,time_s,work\n1,2,3\n2,1,3,ddp\n", "line 3: 4 fields, but the header has 3"),
        ("devices,time_s,work\n# a note\n\n1,10,5,300\n", "line 4: 4 fields, but the header has 3.*decimal point"),
        ("devices,time_s,work\n1,2\n", "line 2: 2 fields, but the header has 3"),
        ('devices,time_s,work\n1,"2,3\n', "not a CSV table.*near line 2"),
        ("devices,time_s,work,time_s\n1,2,3,4\n", "column 'time_s' stands twice"),
        ("devices,time_s,work\n1e300,2,3\n", "devices must be at most 10,000,000; found '1e300'"),
        ("devices,time_s,work,nodes\n1,2,3,10000001\n", "nodes must be at most 10,000,000"),
        ("devices,time_s,work,repeat\n1,2,3,1e17\n", "repeat must be at most 10,000,000"),
        ("devices,time_s,work\n1,1e-400,3\n", "time_s must be a number above 0; found '1e-400'"),
        # finite as written, not in seconds
        ("devices,time_h,work\n1,1e308,3\n", "time_h must be a number above 0; found '1e308'"),
        # a '#' begins a comment at the start of a line alone
        ("devices,time_s,work\n1,2,3 # slow\n", "work must be a number above 0; found '3 # slow'"),
        (
            "devices,time_s,work,scaling,global_batch\n1,2,3,strong,8\n2,2,3,strong,16\n",
            r"series 'My model, strong' is of strong scaling, yet mixes global_batch: 8 \(row 1\); 16 \(row 2\)",
        ),
        ("devices,time_s,work,unit\n1,2,3,samples\n2,2,3,tokens\n", r"mixes unit: samples \(row 1\); tokens \(row 2\)"),
        ("devices,time_s,work,device\n1,2,3,A100\n2,2,3,H100\n", r"mixes device: A100 \(row 1\); H100 \(row 2\)"),
        ("devices,time_s,work,series,scaling\n1,2,3,x,weak\n2,2,3,x,strong\n", "series 'x' mixes scaling: weak"),
        ("devices,time_s,work,series,workload\n1,2,3,x,A\n2,2,3,x,B\n", "series 'x' mixes workload: A"),
        ("devices,time_s,work,energy_kj\n1,2,3,0\n", "energy_kj must be a number above 0; found '0'"),
        ("devices,time_s,work,price_per_device_hour\n1,2,3,cheap\n", "price_per_device_hour must be a number above 0"),
        (
            "devices,time_s,work,price_per_device_hour\n1,2,3,2\n2,1,3,2\n2,1,3,2.5\n",
            r"at 2 devices mixes price_per_device_hour: 2 \(row 2\); 2.5 \(row 3\)",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_place_and_reason(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=f"mine.csv.*{message}"):
        read(table(tmp_path, text))


@pytest.mark.parametrize("column", ["device_model", "driver", "torch_version", "power_limit_w"])
def test_a_series_that_mixes_machines_or_software_is_refused_naming_them(tmp_path: Path, column: str) -> None:
    values = ("700", "400") if column == "power_limit_w" else ("A", "B")
    path = table(tmp_path, f"devices,time_s,work,{column}\n1,10,5,{values[0]}\n2,6,5,{values[1]}\n")
    frame = read(path)
    with pytest.raises(UserError, match=rf"mixes {column}: {values[1] if values[0] > values[1] else values[0]}"):
        write_points(frame, tmp_path / "points.csv")
    assert not (tmp_path / "points.csv").exists()


def test_points_survive_writing_and_reading(tmp_path: Path) -> None:
    frame = read(
        table(tmp_path, "devices,time_s,work,driver\n1,0.1234567890123,5,550.54\n2,,,\n".replace("2,,,\n", ""))
    )
    write_points(frame, tmp_path / "points.csv")
    again = read_points(tmp_path / "points.csv")
    assert again["time_s"].tolist() == frame["time_s"].tolist()
    assert again["driver"].tolist() == ["550.54"]
    assert again["torch_version"].tolist() == [""]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.csv: cannot be read: No such file"):
        read(tmp_path / "none.csv")


def test_comments_are_lines_and_a_sign_in_a_value_is_kept(tmp_path: Path) -> None:
    frame = read(table(tmp_path, "# mine\ndevices,time_s,work,label\n#1,9,9,old\n1,2,3,run #7\n"))
    assert frame["label"].tolist() == ["run #7"]
    assert frame["source"].str.endswith("mine.csv, row 1").all()


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_the_table(tmp_path: Path) -> None:
    frame = read(table(tmp_path, "\ufeffdevices,time_s,work\r\n1,2,3\r\n"))
    assert frame[["devices", "time_s", "samples"]].to_numpy().tolist() == [[1.0, 2.0, 3.0]]


def test_empty_cells_agree_with_the_rest_of_their_series(tmp_path: Path) -> None:
    frame = read(table(tmp_path, "devices,time_s,work,series,unit,scaling,status\n1,2,3,x,images,weak,\n2,,,x,,,oom\n"))
    assert set(frame["unit"]) == {"images"}
    assert set(frame["scaling"]) == {"weak"}


def test_without_series_every_workload_and_scaling_is_one_with_repeats_of_its_own(tmp_path: Path) -> None:
    frame = read(table(tmp_path, "devices,time_s,work,scaling\n1,2,3,weak\n1,2,3,strong\n2,2,6,weak\n2,1,3,strong\n"))
    assert frame["series"].tolist() == ["My model, weak", "My model, strong"] * 2
    assert frame["repeat"].tolist() == [1, 1, 1, 1]


def test_the_same_work_with_other_global_batches_is_not_called_strong(tmp_path: Path) -> None:
    frame = read(table(tmp_path, "devices,time_s,work,global_batch\n1,2,3,8\n2,1,3,16\n"))
    assert set(frame["series"]) == {"My model, free"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a readable table"),
        (b"a,b\n1,2\n", "no column 'study' in it"),
        (b"\xff\xfe\x00", "not a readable table"),
        (None, "not a readable table"),
    ],
)
def test_a_damaged_table_of_points_is_refused_with_the_remedy(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "points.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"points\.csv: {message}.*Delete it"):
        read_points(path)


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    pd.DataFrame({"driver": ["535.10", None]}).to_csv(path, index=False)
    assert read_table(path, ["driver"], ["driver"])["driver"].tolist() == ["535.10", ""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a readable plan"),
        ("{", "not a readable plan"),
        ("[" * 100_000, "not a readable plan"),
        ("[]", "not a study's plan \\(not an object\\)"),
        ("null", "not a study's plan \\(not an object\\)"),
        ('{"study": "s"}', "not a study's plan \\(no 'cells' in it\\)"),
        (None, "not a readable plan"),
    ],
)
def test_a_damaged_plan_is_refused_with_the_remedy(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=rf"plan\.json: {message}.*Delete it"):
        read_plan(path, "study", "cells")
