"""Two measured runs never overlap on a host, and a killed one holds nothing up."""

import subprocess
import sys
import time

import pytest

from breakeven.measure.hostlock import host_lock

HOLD = """
import sys, time, subprocess
from pathlib import Path
from breakeven.measure.hostlock import host_lock
with host_lock(lambda: None, lambda: True, Path(sys.argv[1])):
    child = subprocess.Popen(["sleep", "60"], close_fds=False)  # as a rank that outlived its launcher would
    print(child.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True)
    sleeper = int(process.stdout.readline())
    yield process
    process.kill()
    process.wait()
    subprocess.run(["kill", str(sleeper)], check=False)


def nothing():
    pass


def test_a_free_lock_is_taken_without_waiting(tmp_path):
    with host_lock(nothing, lambda: True, tmp_path / "lock") as waited:
        assert waited == 0.0


def test_waiting_is_said_once_and_ends_when_the_holder_is_killed_though_its_child_lives(tmp_path, holder):
    said = []

    def keep_waiting():
        if len(said) == 1:
            holder.kill()
            said.append("killed")
        return True

    with host_lock(lambda: said.append("waiting"), keep_waiting, tmp_path / "lock") as waited:
        assert said == ["waiting", "killed"]
        assert 0 < waited < 30


def test_one_whose_head_has_died_stops_waiting(tmp_path, holder):
    started = time.monotonic()
    with pytest.raises(InterruptedError), host_lock(nothing, lambda: False, tmp_path / "lock"):
        raise AssertionError("never held")
    assert time.monotonic() - started < 5


def test_other_users_can_open_the_lock_file(tmp_path):
    with host_lock(nothing, lambda: True, tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666
