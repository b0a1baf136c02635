"""However a run ends, it is data: the right status, the last memory, no process left, and its neighbours untouched."""

import itertools
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from breakeven.schema.record import Record
from breakeven.schema.status import Status
from tests.measured_runs import IMAGES, TEXT, Run, prepare_data, spec
from tests.processes import is_rank, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores"),
]

BOTH = pytest.mark.parametrize("launcher", ["fork", pytest.param("torchrun", marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    return prepare_data(tmp_path_factory.mktemp("data"))


def ended(run: Run) -> Record:
    """The record of a run that was let end, with what holds of every one of them."""
    run.measured()
    record = run.record()
    assert run.processes() == []
    assert len(record.peak_rss_gib) == 2
    assert all(0.1 < peak < 4 for peak in record.peak_rss_gib)
    if record.status is not Status.DIVERGED:
        assert run.steps()["step_s"].shape == (2, 0)
    return record


class TestKilledRank:
    @pytest.mark.parametrize("rank", [0, 1])
    def test_is_named_and_the_run_has_failed(self, tmp_path, data, rank):
        run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"rank": rank, "kill_at": 2})
        record = ended(run)
        assert (record.status, record.error.rank) == (Status.FAILED, rank)
        assert record.error.message == "killed by SIGKILL"
        assert record.elapsed_s < 20

    @pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
    def test_under_torchrun_too(self, tmp_path, data, rank):
        fault = {"rank": rank, "kill_at": 2}
        record = ended(Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], launcher="torchrun", fault=fault))
        assert (record.status, record.error.rank) == (Status.FAILED, rank)
        assert record.error.message == "killed by SIGKILL"


class TestKilledFromOutside:
    """What strikes everything at once is no property of the run: it is tried again, and a second time it is."""

    def begun(self, run: Run) -> tuple[subprocess.Popen[str], list[int]]:
        process = run.start()
        wait_for(lambda: len(list(run.folder.glob(".measure-*/started-*.json"))) == 2, 60)
        return process, [pid for pid in run.processes() if is_rank(pid)]

    def test_all_ranks(self, tmp_path, data):
        run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"sleep_s": 600})
        for code in (1, 0):
            process, ranks = self.begun(run)
            for pid in ranks:
                os.kill(pid, signal.SIGSTOP)  # so that none can fail of the other's end before its own
            for pid in ranks:
                os.kill(pid, signal.SIGKILL)
            assert process.wait(timeout=30) == code, process.stderr.read()
            assert run.record_file.exists() == (code == 0)
        assert run.attempts() == [
            ("start", None, None),
            ("killed", "SIGKILL", None),
            ("start", None, None),
            ("killed", "SIGKILL", None),
            ("record", None, None),
        ]
        record = run.record()
        assert (record.status, record.attempts, record.error.message) == (Status.FAILED, 2, "killed by SIGKILL twice")

    def test_the_server_and_the_next_run_has_another(self, tmp_path, data):
        run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"sleep_s": 600})
        process, _ = self.begun(run)
        before = set(run.processes(servers=True)) - set(run.processes())
        assert len(before) == 1
        os.kill(before.pop(), signal.SIGKILL)
        assert process.wait(timeout=30) == 1
        assert "was killed by SIGKILL from outside" in process.stderr.read()
        assert run.processes(servers=True) == []
        assert not run.record_file.exists()
        run.fault = {}
        assert run.measured().record().status is Status.OK
        assert run.record().start == {"by": "fork", "generation": 1, "served": 0}


@BOTH
def test_memory_that_is_filled_fails_in_its_rank_and_in_nothing_else(tmp_path, data, launcher):
    run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], launcher=launcher, fault={"rank": 1, "fill_at": 3})
    run.variables = {"BREAKEVEN_MEMORY_GIB": "1.5"}  # 0.75 for each rank
    record = ended(run)
    assert (record.status, record.error.rank) == (Status.OOM, 1)
    assert "allocate memory" in record.error.message
    # It had its limit and what it had imported; the other took what such a run takes.
    assert record.environment.details["ranks"]["memory_limit_gib"] == 0.75
    assert 0.75 < record.peak_rss_gib[1] < 0.75 + 0.6
    assert record.peak_rss_gib[0] < 0.7


def test_a_device_out_of_memory_is_oom(tmp_path, data):
    record = ended(Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"rank": 0, "oom_at": 2}))
    assert (record.status, record.error.rank) == (Status.OOM, 0)


#: A head in a control group of its own: ``head.py GROUP COMMAND…``.
IN_GROUP = """
import os, subprocess, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
sys.exit(subprocess.call(sys.argv[2:]))
"""


@pytest.fixture
def memory_group():
    """A control group of the kernel's with 1 GiB; skipped where this user may make none."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root) / f"breakeven-test-{uuid.uuid4().hex[:8]}"
        try:
            group.mkdir()
            (group / limit).write_text(str(1 << 30))
        except OSError:
            if group.exists():
                group.rmdir()
            continue
        yield group
        wait_for(lambda group=group: not (group / "cgroup.procs").read_text().strip(), 20)
        group.rmdir()
        return
    pytest.skip("no control group with a memory limit can be made here")


@BOTH
def test_the_kernel_takes_a_rank_when_memory_runs_out_and_that_is_oom(tmp_path, data, launcher, memory_group):
    run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], launcher=launcher, fault={"rank": 1, "fill_at": 3})
    run.variables = {"BREAKEVEN_MEMORY_GIB": "0"}  # no limit of ours
    run.mark = uuid.uuid4().hex
    command = [sys.executable, "-c", IN_GROUP, str(memory_group), *run.command]
    done = subprocess.run(command, env=run.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + run.log
    record = run.record()
    assert (record.status, record.error.rank) == (Status.OOM, 1)
    assert record.error.message == "killed by the kernel for want of host memory"
    # torchrun leaves nobody who is told: there it is what was known at the last update.
    assert record.peak_rss_gib[1] > (0.5 if launcher == "fork" else 0.1)
    wait_for(lambda: run.processes(servers=True) == [], 10)


def test_a_loss_that_is_no_number_is_diverged_and_its_steps_are_kept(tmp_path, data):
    run = Run(spec(TEXT, learning_rate=1e20, updates=12), tmp_path, data["llama"])
    record = ended(run)
    loss = run.steps()["loss"]
    first = int(np.argmin(np.isfinite(loss)))
    assert record.status is Status.DIVERGED
    assert 0 < first < 12
    assert not np.isfinite(loss[first])
    assert record.error.message == f"the loss is not finite from update {first + 1} on"
    assert run.steps()["step_s"].shape == (2, 12)


def test_a_rank_that_raises_is_named_with_its_last_line(tmp_path, data):
    run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"rank": 1, "raise_at": 3, "message": "no luck"})
    done = run.execute()
    record = run.record()
    assert done.returncode == 0
    assert (record.status, record.error.rank) == (Status.FAILED, 1)
    assert record.error.message == "RuntimeError: no luck"
    assert f"FAILED rank 1: RuntimeError: no luck (log: {run.folder / 'run.log'})" in done.stderr
    assert "Traceback" in run.log
    assert record.parameters > 0
    assert run.processes() == []


@BOTH
def test_a_run_past_its_deadline_is_timeout_and_the_log_says_where_it_was(tmp_path, data, launcher):
    timeout_s = 5 if launcher == "fork" else 40
    run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], launcher=launcher, fault={"rank": 1, "sleep_s": 600})
    run.timeout_s = timeout_s
    record = ended(run)
    assert record.status is Status.TIMEOUT
    assert record.error.message == f"did not end within {timeout_s} s"
    assert timeout_s <= record.elapsed_s < timeout_s + 10
    stacks = run.log.split("Where rank ")[1:]
    assert [stack[0] for stack in stacks] == ["0", "1"]
    assert "in before_forward" not in stacks[0]
    assert "in before_forward" in stacks[1]


@pytest.mark.slow
@BOTH
def test_a_rank_that_hangs_ends_the_run_after_thirty_seconds(tmp_path, data, launcher):
    fault = {"rank": 1, "sleep_s": 3600, "from_update": 6}
    run = Run(spec(IMAGES, updates=60), tmp_path, data["mobilenet_v2"], launcher=launcher, fault=fault, timeout_s=600)
    record = ended(run)
    assert record.status is Status.TIMEOUT
    assert record.error.rank == 1
    assert record.error.message.startswith("no progress for 30 s (median step ")
    assert record.error.message.endswith("rank 1 is behind, in update 7 of 60, in the forward pass")
    assert 30 < record.elapsed_s < 75
    assert "in before_forward" in run.log


@pytest.mark.slow
def test_pauses_of_less_than_thirty_seconds_end_nothing(tmp_path, data):
    fault = {"rank": 1, "sleep_s": 20, "from_update": 7}
    run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault=fault)
    assert run.measured().record().status is Status.OK


def test_a_run_among_failing_ones_is_the_run_alone(tmp_path, data):
    """Equal losses to the last bit, and steps of the same length."""

    def healthy(name: str) -> Run:
        run = Run(spec(IMAGES, updates=24), tmp_path / name, data["mobilenet_v2"]).measured()
        assert run.record().status is Status.OK
        return run

    def failing(name: str, **fault: object) -> Status:
        run = Run(spec(IMAGES), tmp_path / name, data["mobilenet_v2"], fault=fault)
        run.variables = {"BREAKEVEN_MEMORY_GIB": "1.5"}
        return run.measured().record().status

    alone = healthy("alone")
    among = []
    for fault in ({"rank": 0, "kill_at": 1}, {"rank": 1, "fill_at": 1}, {"rank": 1, "raise_at": 4}):
        assert failing(f"failing-{len(among)}", **fault) in (Status.FAILED, Status.OOM)
        among.append(healthy(f"healthy-{len(among)}"))
    hung = Run(spec(IMAGES), tmp_path / "hung", data["mobilenet_v2"], timeout_s=3, fault={"rank": 0, "sleep_s": 600})
    assert hung.measured().record().status is Status.TIMEOUT
    among.append(healthy("after-hung"))

    # One server for them all, and each run's processes are its own.
    served = [run.record().start["served"] for run in (alone, *among)]
    assert [after - before for before, after in itertools.pairwise(served)] == [2, 2, 2, 2]

    def quick_s(run: Run) -> float:
        # The tenth percentile: a neighbour's load only ever adds time.
        return float(np.quantile(run.steps()["step_s"].max(axis=0)[4:], 0.1))

    for run in among:
        assert run.steps()["loss"].tolist() == alone.steps()["loss"].tolist()
        assert 0.5 < quick_s(run) / quick_s(alone) < 2


def test_the_time_after_a_kill_is_short(tmp_path, data):
    """A rank's end is noticed by the others and by the launcher, not waited for."""
    run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"rank": 0, "kill_at": 0})
    ended(run)  # the server is there from now on
    began = time.monotonic()
    run = Run(spec(IMAGES), tmp_path / "again", data["mobilenet_v2"], fault={"rank": 0, "kill_at": 0})
    ended(run)
    assert time.monotonic() - began < 15
