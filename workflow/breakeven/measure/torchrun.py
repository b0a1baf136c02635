"""Ranks started by torchrun: every run imports everything anew. As on a cluster, and for GPUs."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from breakeven.measure.job import Job, Notes
from breakeven.measure.processes import adopt_orphans, child_dies_with, end_children
from breakeven.measure.ranks import Exits
from breakeven.measure.watch import pidfd
from breakeven.schema.spec import Json


@dataclass
class Torchrun:
    """torchrun's agent, and the ranks below it."""

    child: subprocess.Popen[bytes]
    log: Path
    notes: Notes
    ranks: int
    start: Json = field(default_factory=lambda: {"by": "torchrun"})
    _fd: int = -1

    @classmethod
    def begin(cls, job: Job, environment: dict[str, str], log: Path) -> "Torchrun":
        job_file = job.scratch / "job.json"
        job.write(job_file)
        agent = ["torch.distributed.run", "--standalone", f"--nproc-per-node={job.spec.ranks}"]
        rank = ["-m", "breakeven.measure.worker", str(job_file)]
        adopt_orphans()
        with log.open("ab") as stream:
            child = subprocess.Popen(
                [sys.executable, "-m", *agent, *rank],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the launcher alone, which ends the ranks itself
                preexec_fn=lambda: child_dies_with(job.launcher_pid),
            )
        return cls(child, log, Notes(job.scratch), job.spec.ranks, _fd=pidfd(child.pid))

    def fileno(self) -> int:
        return self._fd

    def ended(self) -> bool:
        return self.child.poll() is not None

    def stop(self) -> Exits:
        by_itself = self.ended()
        if not by_itself:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
        end_children()
        if self._fd >= 0:
            os.close(self._fd)
        if not by_itself:
            return Exits({})
        ranks = {process.pid: rank for rank, process in self.notes.alive().items()}
        report = self.log.read_text(errors="replace")
        return exits(self.child.returncode, report, ranks, self.ranks, noted=bool(self.notes.errors()))


def exits(returncode: int, log: str, ranks: dict[int, int], count: int, *, noted: bool) -> Exits:
    """``ranks``: of each process that one was; ``noted``: whether any rank has said why it failed."""
    if returncode == 0:
        return Exits(dict.fromkeys(range(count), 0))
    found = [(ranks[pid], number) for pid, number in signals_in_report(log) if pid in ranks]
    if noted or any(number is not signal.SIGTERM for _, number in found):
        # Once a rank has failed, the agent ends the others by SIGTERM: that is no kill from outside.
        found = [(rank, number) for rank, number in found if number is not signal.SIGTERM]
    codes = dict.fromkeys(ranks.values(), 1) | {rank: -number for rank, number in found}
    return Exits(codes, found[0][0] if found else None, returncode)


def signals_in_report(log: str) -> list[tuple[int, signal.Signals]]:
    """(process id, signal) of every rank that a signal ended, the likeliest cause of the others first. torchrun alone
    knows, and says it at the end of the log.

    Once a rank has failed, torchrun ends the others by SIGTERM and lists them too; the first failure stands last.
    """
    pairs = re.findall(r"exitcode\s*:\s*-(\d+) \(pid: (\d+)\)", log)
    last_first = [(int(pid), signal.Signals(int(number))) for number, pid in reversed(pairs)]
    return sorted(last_first, key=lambda one: one[1] == signal.SIGTERM)
