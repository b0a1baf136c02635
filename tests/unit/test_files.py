"""A file is written whole or not at all, and what cannot be written is one message."""

import os
import stat
from pathlib import Path

import pytest

from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new" / ("x" * 250)
    for text in ("one", "two"):
        write_text(path, text)
        assert path.read_text() == text
    assert [it.name for it in path.parent.iterdir()] == [path.name]


def test_behind_a_link_the_file_is_written_and_the_link_stays(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("file")
    write_text(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "is a folder"),
        ("file/below", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("a\0b", "null"),
        ("/proc/breakeven", ""),
        ("pipe", "is there and is no regular file"),
        ("to_pipe", "is there and is no regular file"),
        ("circle", "symbolic links"),
    ],
)
def test_what_cannot_be_written_is_a_message_and_leaves_nothing(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to_pipe").symlink_to("pipe")
    (tmp_path / "circle").symlink_to("circle")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=rf"cannot be written \(.*{reason}"):
        write_text(tmp_path / name, "text")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_device_stays_what_it_is() -> None:
    for device in (Path("/dev/null"), Path("/dev/full")):
        with pytest.raises(UserError, match="is there and is no regular file"):
            write_text(device, "text")
        assert stat.S_ISCHR(device.stat().st_mode)


def test_text_that_no_file_can_hold(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        write_text(tmp_path / "file", "\udcff")
