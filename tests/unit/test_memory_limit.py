"""What a rank may allocate, and how the launcher and a fork server speak."""

import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from breakeven.measure import channel, memory
from breakeven.measure.processes import Process
from breakeven.schema.errors import UserError

GIB = 2**30


class TestLimit:
    def test_is_four_fifths_of_what_is_available_divided_by_the_ranks(self, monkeypatch):
        monkeypatch.delenv(memory.VARIABLE, raising=False)
        monkeypatch.setattr(memory, "available_bytes", lambda: 10 * GIB)
        assert memory.rank_limit_bytes(4) == 2 * GIB

    @pytest.mark.parametrize(("text", "expected"), [("3", 3 * GIB // 2), ("0.5", GIB // 4), ("0", None)])
    def test_is_what_the_variable_says(self, monkeypatch, text, expected):
        monkeypatch.setenv(memory.VARIABLE, text)
        assert memory.rank_limit_bytes(2) == expected

    @pytest.mark.parametrize("text", ["much", "-1", "nan", "inf"])
    def test_a_variable_that_is_no_number_is_refused(self, monkeypatch, text):
        monkeypatch.setenv(memory.VARIABLE, text)
        with pytest.raises(UserError, match="not a number of GiB"):
            memory.rank_limit_bytes(2)

    def test_an_allocation_past_it_fails_and_once_lifted_no_more(self):
        script = (
            "from breakeven.measure.memory import limit_this, lift_limit\n"
            "limit_this(100 << 20)\n"
            "held = bytearray(64 << 20)\n"
            "try:\n    bytearray(64 << 20)\nexcept MemoryError:\n    print('full')\n"
            "lift_limit()\n"
            "held = bytearray(256 << 20)\n"
            "print('lifted')\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["full", "lifted"]

    def test_the_kernel_counts_what_this_process_holds(self):
        peak = memory.peak_host_gib()
        assert peak == pytest.approx(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, rel=0.1)
        assert memory.peak_host_gib(2**22 + 1) is None
        assert 0 < memory.available_bytes() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_control_group_leaves_what_the_narrowest_above_it_does(tmp_path):
    inner = tmp_path / "job" / "step"
    inner.mkdir(parents=True)
    for folder, limit, used, cache in ((tmp_path / "job", "1000", 600, 100), (inner, "max", 500, 50)):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cache}\n")
    assert memory.left(tmp_path, "/job/step", "memory.max", "memory.current", "inactive_file") == [500]
    assert memory.left(tmp_path, "/none", "memory.max", "memory.current", "inactive_file") == []


class TestChannel:
    def test_a_message_comes_whole_with_its_files(self, tmp_path):
        one, other = socket.socketpair()
        with one, other, (tmp_path / "log").open("w") as stream:
            channel.send(one, {"text": "é" * 10_000}, (stream.fileno(),))
            message, fds = channel.receive(other)
            assert message == {"text": "é" * 10_000}
            os.write(fds[0], b"said")
            os.close(fds[0])
            assert channel.is_same_user(other)
        assert (tmp_path / "log").read_text() == "said"

    @pytest.mark.parametrize("said", [b"", b"\0\0", b"\0\0\0\5{}", b"GET / HTTP/1.0\r\n\r\n", b"\0\0\0\2xx"])
    def test_an_end_and_nonsense_are_no_message(self, said):
        one, other = socket.socketpair()
        with other:
            one.sendall(said)
            one.close()
            assert channel.receive(other) is None

    def test_a_folder_that_others_can_enter_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(channel.tempfile, "gettempdir", lambda: str(tmp_path))
        folder = channel.user_folder()
        assert folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o755)
        with pytest.raises(UserError, match="not a folder of this user's alone"):
            channel.user_folder()
        folder.rmdir()
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(UserError, match="not a folder of this user's alone"):
            channel.user_folder()

    def test_a_path_too_long_for_a_socket_is_told_of(self, tmp_path, monkeypatch):
        long = Path(tmp_path, "x" * 100)
        long.mkdir()
        monkeypatch.setattr(channel.tempfile, "gettempdir", lambda: str(long))
        with pytest.raises(UserError, match="Set TMPDIR to a shorter folder"):
            channel.socket_path(Process(1, 2))
