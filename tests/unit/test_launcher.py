"""What the launcher decides without starting a rank: refusals, verdicts, its two lines, and what it watches."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from breakeven.measure import environment, idle, launch, nvidia
from breakeven.measure.attempts import Attempts
from breakeven.measure.cores import cores_for
from breakeven.measure.job import Notes
from breakeven.measure.launch import Request, Verdict, judge
from breakeven.measure.processes import identity
from breakeven.measure.ranks import Exits, Killed, RanksEnd, killed, rank_environment
from breakeven.measure.results import empty_steps
from breakeven.measure.terminal import Progress, start_line
from breakeven.measure.torchrun import exits, signals_in_report
from breakeven.measure.watch import is_snakemake, pidfd, wait
from breakeven.schema.errors import UserError
from breakeven.schema.record import STEP_ARRAYS
from breakeven.schema.spec import DataSource, Spec, Workload
from breakeven.schema.status import Status


def spec(**changes) -> Spec:
    workload = Workload(model="llama", technique="lora", data=DataSource(name="chat-en"), sequence_length=64)
    facts = {"device_kind": "cpu", "device_model": environment.cpu_model(), "devices": 2, "devices_per_node": 2}
    return Spec(**{"workload": workload, "strategy": "ddp", "global_batch": 8, **facts, **changes})


def test_the_launcher_imports_no_torch():
    script = "import sys, breakeven.measure.__main__; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


class TestRefusals:
    def test_a_machine_that_is_not_the_one_the_spec_names(self):
        with pytest.raises(UserError, match="The run is of device 'H100', but this machine has"):
            environment.check_devices(spec(device_model="H100"))

    def test_more_cores_than_this_process_may_use_unless_the_run_is_not_timed(self):
        with pytest.raises(UserError, match="The run needs 999 CPU cores, but this process may use"):
            environment.check_devices(spec(devices=999, devices_per_node=999))
        assert environment.check_devices(spec(devices=999, devices_per_node=999, timed=False)) == []

    def test_gpus_where_there_are_none(self, monkeypatch):
        monkeypatch.setattr(environment, "visible_gpus", list)
        with pytest.raises(UserError, match="shows no GPU"):
            environment.check_devices(spec(device_kind="cuda", device_model="H100"))

    def test_more_nodes_than_one(self):
        with pytest.raises(UserError, match="this version measures on one"):
            environment.check_devices(spec(devices=4))

    def test_a_login_node_unless_told_so_or_inside_a_job(self, tmp_path, monkeypatch):
        (tmp_path / "sbatch").write_text("#!/bin/sh\n")
        (tmp_path / "sbatch").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        monkeypatch.delenv(launch.HERE, raising=False)
        with pytest.raises(UserError, match="--workflow-profile profiles/slurm"):
            launch.refuse_on_a_login_node()
        monkeypatch.setenv(launch.HERE, "1")
        launch.refuse_on_a_login_node()
        monkeypatch.delenv(launch.HERE)
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        launch.refuse_on_a_login_node()

    def test_a_run_that_a_strategy_finds_wrong(self, monkeypatch):
        monkeypatch.setenv(launch.HERE, "1")
        with pytest.raises(UserError, match="strategy pp evaluates nothing"):
            launch.measure(request(spec(strategy="pp", evaluate_every=2)))


@pytest.fixture
def notes(tmp_path) -> Notes:
    return Notes(tmp_path)


def request(asked: Spec) -> Request:
    return Request(spec=asked, repeat=1, data=Path("d"), record=Path("r"), steps=Path("s"), log=Path("l"), timeout_s=30)


def verdict(notes: Notes, **end):
    usual = {"ended": "exited", "succeeded": False, "started": True, "error": next(iter(notes.errors()), None)}
    rest = {"killed": None, "stall": None, "peak_rss_gib": {}, "elapsed_s": 1.0, "start": {}}
    ranks_end = RanksEnd(**{**usual, **rest, **end})
    return judge(ranks_end, request(spec()), notes, Attempts(notes.scratch / "attempts.jsonl"))


class TestVerdicts:
    def test_the_first_rank_to_fail_is_named_not_those_it_took_down(self, notes):
        notes.write_error(1, "failed", "RuntimeError: injected")
        notes.write_error(0, "failed", "RuntimeError: Connection closed by peer")
        assert verdict(notes) == Verdict(Status.FAILED, "RuntimeError: injected", 1)

    def test_out_of_memory_is_its_own_status(self, notes):
        notes.write_error(0, "oom", "OutOfMemoryError: CUDA out of memory.")
        assert verdict(notes).status is Status.OOM

    def test_a_deadline_is_a_result_only_once_ranks_have_started(self, notes):
        assert verdict(notes, ended="deadline").status is Status.TIMEOUT
        assert isinstance(verdict(notes, ended="deadline", started=False), str)

    def test_a_loss_that_is_not_finite_has_diverged_at_an_update_counted_from_one(self, notes):
        notes.result.write_text('{"first_not_finite": 3}')
        assert verdict(notes, succeeded=True) == Verdict(Status.DIVERGED, "the loss is not finite from update 4 on")
        notes.result.write_text('{"first_not_finite": null}')
        assert verdict(notes, succeeded=True) == Verdict(Status.OK)

    def test_a_rank_that_is_killed_alone_is_a_failed_run_at_once(self, notes):
        notes.write_error(0, "failed", "RuntimeError: Connection closed by peer")
        assert verdict(notes, killed=Killed(1, signal.SIGKILL)) == Verdict(Status.FAILED, "killed by SIGKILL", 1)

    def test_a_rank_that_the_kernel_kills_for_want_of_memory_is_oom(self, notes):
        for rank in (1, None):
            found = verdict(notes, killed=Killed(rank, signal.SIGKILL, for_memory=True))
            assert (found.status, found.rank) == (Status.OOM, rank)
        assert verdict(notes, killed=Killed(1, signal.SIGTERM, for_memory=True)).status is Status.FAILED

    def test_a_kill_of_all_is_a_result_the_second_time_and_again_after_a_record(self, notes):
        everyone = Killed(None, signal.SIGKILL)
        assert "a second time would be a result" in verdict(notes, killed=everyone)
        assert verdict(notes, killed=everyone) == Verdict(Status.FAILED, "killed by SIGKILL twice")
        Attempts(notes.scratch / "attempts.jsonl").end()
        assert isinstance(verdict(notes, killed=everyone), str)

    def test_two_different_kills_of_all_are_no_result(self, notes):
        assert isinstance(verdict(notes, killed=Killed(None, signal.SIGKILL)), str)
        assert isinstance(verdict(notes, killed=Killed(None, signal.SIGTERM)), str)

    def test_a_rank_that_is_killed_before_the_ranks_have_met_is_tried_again(self, notes):
        assert isinstance(verdict(notes, killed=Killed(0, signal.SIGKILL), started=False), str)

    def test_a_crash_of_a_ranks_own_is_a_result_at_once(self, notes):
        assert verdict(notes, killed=Killed(0, signal.SIGSEGV)) == Verdict(Status.FAILED, "crashed by SIGSEGV", 0)

    def test_broken_machinery_leaves_no_record_and_the_users_mistakes_are_told(self, notes):
        assert isinstance(verdict(notes, error=None), str)
        notes.write_error(0, "infrastructure", "ModuleNotFoundError: No module named 'peft'")
        assert verdict(notes) == "rank 0: ModuleNotFoundError: No module named 'peft'"
        notes.write_error(0, "user", "the data is not this run's")
        with pytest.raises(UserError, match="the data is not this run's"):
            verdict(notes)


REPORT = """
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 100)
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 101)
"""


class TestTorchrun:
    def test_the_report_names_the_rank_that_was_killed_before_those_that_torchrun_ended(self):
        assert signals_in_report(REPORT) == [(101, signal.SIGKILL), (100, signal.SIGTERM)]
        assert signals_in_report(REPORT.replace("-9", "1 ")) == [(100, signal.SIGTERM)]
        assert signals_in_report("no report") == []

    def test_its_own_sigterm_is_no_kill_from_outside(self):
        ranks = {100: 0, 101: 1}
        assert exits(1, REPORT, ranks, 2, noted=True) == Exits({0: 1, 1: -9}, 1, 1)
        assert exits(1, REPORT.replace("-9", "1 "), ranks, 2, noted=True) == Exits({0: 1, 1: 1}, None, 1)
        assert exits(1, REPORT.replace("-9", "-15"), ranks, 2, noted=False) == Exits({0: -15, 1: -15}, 1, 1)
        assert exits(0, "", ranks, 2, noted=False) == Exits({0: 0, 1: 0})


class TestKills:
    @pytest.mark.parametrize(
        ("codes", "first", "ranks", "expected"),
        [
            ({0: 1, 1: -9}, 1, 2, Killed(1, signal.SIGKILL)),
            ({0: -9}, 0, 1, Killed(0, signal.SIGKILL)),
            ({0: -9, 1: -9}, 1, 2, Killed(None, signal.SIGKILL)),
            ({0: -11, 1: -11}, 1, 2, Killed(1, signal.SIGSEGV)),
            ({0: 1, 1: 1}, None, 2, None),
        ],
        ids=["one of two", "the only one", "all", "all crash", "none"],
    )
    def test_who_was_killed(self, codes, first, ranks, expected):
        assert killed(Exits(codes, first), ranks, 3, 3) == expected

    def test_what_started_the_ranks_was_killed(self):
        assert killed(Exits({}, None, -9), 2, None, None) == Killed(None, signal.SIGKILL)

    def test_the_kernel_says_whether_it_killed_for_want_of_memory(self):
        assert killed(Exits({0: 1, 1: -9}, 1), 2, 3, 4) == Killed(1, signal.SIGKILL, for_memory=True)


def test_starts_are_counted_until_a_record_and_the_file_goes_when_nothing_was_killed(tmp_path):
    attempts = Attempts(tmp_path / "attempts.jsonl")
    assert [attempts.begin(), attempts.begin()] == [1, 2]
    attempts.end()
    assert not attempts.path.exists()
    assert attempts.begin() == 1
    attempts.killed("SIGKILL", 1)
    attempts.end()
    assert attempts.path.exists()
    assert attempts.begin() == 1


def test_empty_steps_hold_every_array_the_record_promises():
    arrays = empty_steps(2)
    assert set(arrays) == set(STEP_ARRAYS)
    assert arrays["step_s"].shape == (2, 0)
    assert arrays["loss"].shape == (0,)


class TestTerminal:
    def test_the_first_line_says_where_the_run_stands(self, tmp_path):
        records = [tmp_path / f"{i}.json" for i in range(24)]
        for record in records[:4]:
            record.touch()
        file = tmp_path / "progress.json"
        file.write_text(json.dumps({"records": [str(record) for record in records], "started_at": 1000.0}))
        progress = Progress.read(file, now=1036.0)
        assert progress == Progress(5, 24, 180.0)  # 9 s each, 20 to go
        line = "run 5 of 24: llama-lora ddp on 2 CPU cores, repeat 2, about 3 min left"
        assert start_line(spec(), 2, progress) == line

    def test_without_a_progress_file_it_says_what_it_knows(self, tmp_path):
        assert Progress.read(tmp_path / "none.json") is None
        assert start_line(spec(devices=1, strategy="single"), 1, None) == (
            "run: llama-lora single on 1 CPU core, repeat 1"
        )


class TestIdle:
    def test_busy_ticks_are_all_but_idle_and_waiting_for_disks(self):
        assert idle.busy_ticks("cpu  1 2 4 1000 1000 8 16 32 0 0\ncpu0 1 2 3\n") == 63

    def test_a_spinning_neighbour_is_seen(self):
        spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            assert idle.idle_check(window_s=0.5).busy_cores > 0.7
        finally:
            spinner.kill()
            spinner.wait()


class TestWatch:
    @pytest.mark.parametrize(
        ("command", "head"),
        [
            ("/env/bin/python3 /env/bin/snakemake --cores 2", True),
            ("python -m snakemake --jobs 1", True),
            ("code /home/me/snakemake-project", False),
            ("bash -c sleep", False),
        ],
    )
    def test_snakemake_is_told_by_its_program_not_by_any_path(self, command, head):
        assert is_snakemake(command.split()) is head

    def test_a_child_that_ends_is_seen_at_once(self):
        child = subprocess.Popen(["sleep", "0.2"])
        assert wait(Child(child), [identity(os.getpid())], time.monotonic() + 30) == "exited"

    def test_the_deadline_is_kept(self):
        child = subprocess.Popen(["sleep", "30"])
        try:
            started = time.monotonic()
            assert wait(Child(child), [], started + 0.3) == "deadline"
            assert 0.3 <= time.monotonic() - started < 3
        finally:
            child.kill()
            child.wait()

    def test_a_standstill_is_looked_for_every_so_often(self):
        child = subprocess.Popen(["sleep", "30"])
        looks = iter([False, False, True])
        try:
            started = time.monotonic()
            assert wait(Child(child), [], started + 30, lambda: next(looks), 0.1) == "stalled"
            assert 0.2 <= time.monotonic() - started < 3
        finally:
            child.kill()
            child.wait()

    @pytest.mark.parametrize("kernel_has_pidfds", [True, False])
    def test_the_end_of_one_above_is_seen(self, monkeypatch, kernel_has_pidfds):
        if not kernel_has_pidfds:
            monkeypatch.setattr(os, "pidfd_open", lambda pid: (_ for _ in ()).throw(OSError("no such system call")))
        head, child = subprocess.Popen(["sleep", "0.3"]), subprocess.Popen(["sleep", "30"])
        try:
            assert wait(Child(child), [identity(head.pid)], time.monotonic() + 30) == "orphaned"
        finally:
            child.kill()
            child.wait()
            head.wait()


class Child:
    """As a launcher waits for one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.fd = process, pidfd(process.pid)

    def fileno(self) -> int:
        return self.fd

    def ended(self) -> bool:
        return self.process.poll() is not None


class TestRankEnvironment:
    def test_threads_are_one_per_core_whatever_snakemake_exported(self, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "16")
        assert rank_environment(spec())["OMP_NUM_THREADS"] == "1"

    def test_ranks_have_cores_of_their_own_as_far_as_there_are_any(self):
        available = len(os.sched_getaffinity(0))
        cores = cores_for(available + 1)
        assert len(set(cores[:available])) == available
        assert cores[available] == cores[0]


def test_gpus_are_those_cuda_shows_in_its_order(tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    rows = "0, GPU-aa, NVIDIA H100 80GB HBM3, 550.1, 700.00\\n1, GPU-bb, NVIDIA L4, 550.1, [N/A]\\n"
    smi.write_text(f"#!/bin/sh\nprintf '{rows}'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [gpu.power_limit_w for gpu in nvidia.visible_gpus()] == [700.0, None]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b,0")
    assert [gpu.name for gpu in nvidia.visible_gpus()] == ["NVIDIA L4", "NVIDIA H100 80GB HBM3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert nvidia.visible_gpus() == []


def test_group_norm_replaces_every_batch_norm_and_divides_the_channels():
    import torch

    from breakeven.workloads.norms import with_group_norm

    model = with_group_norm(torch.nn.Sequential(torch.nn.BatchNorm2d(12), torch.nn.BatchNorm2d(7)))
    assert [type(child).__name__ for child in model] == ["GroupNorm", "GroupNorm"]
    assert [(child.num_groups, child.num_channels) for child in model] == [(6, 12), (7, 7)]


def test_a_run_that_cannot_be_waits_for_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "host_lock", lambda *_: pytest.fail("it waits"))
    monkeypatch.setenv(launch.HERE, "1")
    for name in ("data.npz", "s.npz"):
        (tmp_path / name).touch()
    asked = spec(precision="tf32", devices=1)
    files = {"data": tmp_path / "data.npz", "record": tmp_path / "record.json", "steps": tmp_path / "s.npz"}
    assert launch.measure(Request(spec=asked, repeat=1, log=tmp_path / "run.log", timeout_s=30, **files)) == 0
    record = json.loads(files["record"].read_text())
    assert (record["status"], record["lock_wait_s"]) == ("unsupported", 0.0)
    assert "a CPU has none" in record["error"]["message"]
