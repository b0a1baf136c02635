"""One server per head: it serves what shares everything with it, for as long as it is wanted, and nobody else."""

import dataclasses
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakeven.measure.channel import socket_path
from breakeven.measure.forked import Forked, NoServer, Server, reach
from breakeven.measure.job import Job
from breakeven.measure.processes import Process, identity
from breakeven.measure.ranks import rank_environment
from breakeven.schema.status import Status
from tests.measured_runs import IMAGES, SERVER, Run, prepare_data, spec
from tests.processes import command_name, wait_for

pytestmark = pytest.mark.integration

#: In place of the server's own: nothing to import, so that it is there at once.
QUICK = """
import importlib
importlib.import_module = lambda name: None
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return prepare_data(tmp_path_factory.mktemp("data"))["mobilenet_v2"]


@pytest.fixture
def head() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def quick(tmp_path, monkeypatch) -> Path:
    """A folder whose ``sitecustomize`` makes servers that import nothing; tests add to it."""
    (tmp_path / "sitecustomize.py").write_text(QUICK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "sitecustomize.py"


def reached(head: Process, log: Path, generation: int = 1, idle_s: float = 60, **variables: str) -> Server:
    environment = rank_environment(spec(IMAGES)) | variables
    return reach(generation, environment, log, [head], idle_s)


def servers_of(head: subprocess.Popen[bytes]) -> list[int]:
    """Found by what they were started with."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text()
        except OSError:
            continue
        if command_name(int(folder.name)) == SERVER and f'"pid": {head.pid},' in words:
            found.append(int(folder.name))
    return found


@pytest.mark.usefixtures("quick")
class TestLife:
    def test_it_ends_with_its_head(self, head, tmp_path):
        server = reached(identity(head.pid), tmp_path / "log")
        assert len(servers_of(head)) == 1
        server.connection.close()
        time.sleep(0.5)
        assert len(servers_of(head)) == 1
        path = socket_path(identity(head.pid))
        assert path.exists()
        head.kill()
        wait_for(lambda: servers_of(head) == [], 5)
        assert not path.exists()

    def test_it_ends_when_nothing_is_asked_of_it(self, head, tmp_path):
        reached(identity(head.pid), tmp_path / "log", idle_s=1.0).connection.close()
        assert len(servers_of(head)) == 1
        wait_for(lambda: servers_of(head) == [], 5)

    def test_each_repeat_has_its_own_and_the_former_ends(self, head, tmp_path):
        one = reached(identity(head.pid), tmp_path / "log")
        one.connection.close()
        first = servers_of(head)
        again = reached(identity(head.pid), tmp_path / "log")
        again.connection.close()
        assert servers_of(head) == first
        two = reached(identity(head.pid), tmp_path / "log", generation=2)
        two.connection.close()
        assert (one.generation, two.generation) == (1, 2)
        second = servers_of(head)
        assert len(second) == 1
        assert second != first

    @pytest.mark.parametrize("name", ["OMP_PROC_BIND", "TORCH_SHOW_CPP_STACKTRACES", "PYTHONHASHSEED"])
    def test_a_variable_that_can_change_a_number_makes_another_server(self, head, tmp_path, name):
        reached(identity(head.pid), tmp_path / "log").connection.close()
        first = servers_of(head)
        reached(identity(head.pid), tmp_path / "log", BREAKEVEN_FAULT="{}").connection.close()
        assert servers_of(head) == first
        reached(identity(head.pid), tmp_path / "log", **{name: "1"}).connection.close()
        assert servers_of(head) != first

    def test_what_a_killed_one_left_is_no_hindrance(self, head, tmp_path):
        reached(identity(head.pid), tmp_path / "log").connection.close()
        (killed,) = servers_of(head)
        os.kill(killed, 9)
        wait_for(lambda: servers_of(head) == [], 5)
        assert socket_path(identity(head.pid)).exists()
        assert reached(identity(head.pid), tmp_path / "log").served == 0

    def test_a_client_that_goes_away_or_talks_nonsense_costs_it_nothing(self, head, tmp_path):
        server = reached(identity(head.pid), tmp_path / "log")
        server.connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        server.connection.close()
        assert reached(identity(head.pid), tmp_path / "log").served == 0
        assert len(servers_of(head)) == 1


def test_a_server_with_threads_forks_nothing_and_ends(head, quick, tmp_path, data):
    quick.write_text(QUICK + "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n")
    log = tmp_path / "log"
    server = reached(identity(head.pid), log)
    job = Job(
        spec=spec(IMAGES),
        data=data,
        model_dir=None,
        scratch=tmp_path,
        launcher_pid=os.getpid(),
        launched_at=time.monotonic(),
        timeout_s=30,
        cores=[0, 1],
    )
    with pytest.raises(NoServer, match="has 2 threads, and cannot be forked"):
        Forked.begin(job, dict(os.environ), log, server)


def test_one_that_cannot_start_is_told_of_and_leaves_no_record(tmp_path, data, head):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch today')\n")
    run = Run(spec(IMAGES), tmp_path / "run", data, variables={"PYTHONPATH": str(tmp_path)})
    done = run.execute()
    assert done.returncode == 1
    assert "no record: the fork server did not start: ImportError: no torch today" in done.stderr
    assert "--launcher torchrun does without" in done.stderr
    assert "Traceback" in run.log
    assert not run.record_file.exists()
    wait_for(lambda: run.processes(servers=True) == [], 5)


def test_a_study_under_one_head_spreads_its_repeats_over_servers(tmp_path, data):
    """As Snakemake asks for them: all first repeats, then all second ones."""
    runs = [
        Run(dataclasses.replace(spec(IMAGES), seed=seed), tmp_path / f"{seed}-r{repeat}", data, repeat=repeat)
        for repeat in (1, 2)
        for seed in (0, 1)
    ]
    starts = [run.measured().record().start for run in runs]
    assert [start["generation"] for start in starts] == [1, 1, 2, 2]
    assert starts[1]["served"] == starts[0]["served"] + 1
    assert [start["served"] for start in starts[2:]] == [0, 1]
    losses = [run.steps()["loss"].tolist() for run in runs]
    assert losses[0] == losses[2] != losses[1] == losses[3]
    assert all(run.record().status is Status.OK for run in runs)


def test_no_device_is_touched_and_one_thread_is_all_it_has(tmp_path, data):
    run = Run(spec(IMAGES), tmp_path, data, repeat=2).measured()
    (server,) = [pid for pid in run.processes(servers=True) if command_name(pid) == SERVER]
    assert len(os.listdir(f"/proc/{server}/task")) == 1
    opened = {os.readlink(f"/proc/{server}/fd/{fd}") for fd in os.listdir(f"/proc/{server}/fd")}
    assert not any("nvidia" in path for path in opened)
