"""A table of one's own timings: read, or refused with the place and the reason."""

from pathlib import Path

import pytest

from breakeven.points.elsewhere import read_timings
from breakeven.points.table import read_points, write_points
from breakeven.schema.errors import UserError


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
        ("devices,time_s,work\n1,-2,3\n", "row 1: time_s must be a number above 0; found '-2'"),
        ("devices,time_s,work\n1,2,3\n1.5,2,3\n", "row 2: devices must be a whole number of at least 1; found '1.5'"),
        ("devices,time_s,work\n1,soon,3\n", "row 1: time_s must be a number above 0; found 'soon'"),
        ("devices,time_s,work,status\n1,2,3,fine\n", "row 1: status 'fine' is unknown"),
        ("devices,time_s,work,scaling\n1,2,3,big\n", "row 1: scaling 'big' is unknown"),
        ("devices,time_s,work,repeat\n1,2,3,1\n1,2,3,1\n", "rows 1, 2 are both repeat 1 at 1 devices"),
        ("devices,time_s,work\n", "no rows"),
        ("", "not a CSV table"),
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
