"""Starts the ranks under torchrun, waits for them, and says how they ended."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from breakeven.measure.job import Job, Notes, RankError
from breakeven.measure.processes import Process, child_dies_with
from breakeven.measure.sources import PACKAGE
from breakeven.measure.watch import Ended, wait
from breakeven.schema.spec import Spec

#: Signals that come from outside; a rank's own crash (SIGSEGV, SIGABRT, SIGBUS, SIGFPE) is its failure.
OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}

#: Seconds a killed rank may take to go: a device driver can hold it for a while.
KILL_WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class RanksEnd:
    ended: Ended
    returncode: int | None
    """Of torchrun's agent; negative: the signal that killed it."""
    started: bool
    """Whether any rank had imported everything and reached the others."""
    error: RankError | None
    """The first that a rank noted."""
    killed: tuple[int | None, signal.Signals] | None
    """The rank (None: the agent) that a signal ended, and which."""
    elapsed_s: float


def rank_environment(spec: Spec) -> dict[str, str]:
    """The launcher's environment, with what would change a number set from the spec: Snakemake exports thread counts of
    its own, and libraries would start as many threads as there are cores in every rank."""
    allowed = len(os.sched_getaffinity(0))
    threads = 1 if spec.device_kind == "cpu" else max(1, allowed // spec.devices_per_node)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    search = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        **dict.fromkeys(names, str(threads)),
        "PYTHONPATH": os.pathsep.join(search),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",  # a timed job never downloads
    }
    environment.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # nvidia-smi's order
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one host: no need that its name resolves
    return environment


def run_ranks(job: Job, environment: dict[str, str], log: Path, watched: list[Process]) -> RanksEnd:
    """Whatever happens here, exceptions included, no rank is left when it returns."""
    notes = Notes(job.scratch)
    job_file = job.scratch / "job.json"
    job.write(job_file)
    agent = ["torch.distributed.run", "--standalone", f"--nproc-per-node={job.spec.ranks}"]
    rank = ["-m", "breakeven.measure.worker", str(job_file)]
    began = time.monotonic()
    with log.open("wb") as stream:
        child = subprocess.Popen(
            [sys.executable, "-m", *agent, *rank],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the launcher alone, which ends the ranks itself
            preexec_fn=lambda: child_dies_with(job.launcher_pid),
        )
        try:
            ended = wait(child, watched, began + job.timeout_s)
        finally:
            _kill(child, notes)
    return RanksEnd(
        ended=ended,
        returncode=child.returncode if ended == "exited" else None,
        started=notes.started(),
        error=notes.first_error(),
        killed=_killed(child.returncode, log, notes) if ended == "exited" else None,
        elapsed_s=time.monotonic() - began,
    )


def _kill(child: subprocess.Popen[bytes], notes: Notes) -> None:
    """The agent first, and its ranks die with it. Then any that is left; then wait until all are gone."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    give_up = time.monotonic() + KILL_WAIT_S
    while (left := [rank for rank in notes.alive().values() if rank.lives]) and time.monotonic() < give_up:
        for rank in left:
            try:
                os.kill(rank.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def _killed(returncode: int, log: Path, notes: Notes) -> tuple[int | None, signal.Signals] | None:
    """Which rank a signal ended. torchrun alone knows, and says it in its report at the end of the log."""
    if returncode < 0:
        return None, signal.Signals(-returncode)
    found = signals_in_report(log.read_text(errors="replace"))
    if not found:
        return None
    ranks = {process.pid: rank for rank, process in notes.alive().items()}
    pid, number = found[0]
    return ranks.get(pid), number


def signals_in_report(log: str) -> list[tuple[int, signal.Signals]]:
    """(process id, signal) of every rank that a signal ended, the likeliest cause of the others first.

    Once a rank has failed, torchrun ends the others by SIGTERM and lists them too; the first failure stands last.
    """
    pairs = re.findall(r"exitcode\s*:\s*-(\d+) \(pid: (\d+)\)", log)
    last_first = [(int(pid), signal.Signals(int(number))) for number, pid in reversed(pairs)]
    return sorted(last_first, key=lambda one: one[1] == signal.SIGTERM)
