"""Starts the ranks one way or the other, waits for them, and says how they ended."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from breakeven.measure.job import Job, Notes, RankError
from breakeven.measure.memory import kernel_kills, peak_host_gib
from breakeven.measure.processes import Process
from breakeven.measure.sources import PACKAGE
from breakeven.measure.watch import Ended, wait
from breakeven.measure.watchdog import EVERY_S, Stall, Watchdog
from breakeven.schema.spec import Json, Spec

#: Signals that come from outside; a rank's own crash (SIGSEGV, SIGABRT, SIGBUS, SIGFPE) is its failure.
OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}

#: Seconds that ranks have to write down where they are, before they are killed.
DUMP_S = 0.3


@dataclass(frozen=True, slots=True)
class Killed:
    """That a signal which the launcher did not send ended something."""

    rank: int | None
    """The first rank that one ended; None: not a rank but what had started them, or every rank at once."""
    by: signal.Signals
    for_memory: bool = False
    """Whether the kernel has killed a process for want of memory meanwhile."""


@dataclass(frozen=True, slots=True)
class RanksEnd:
    ended: Ended
    succeeded: bool
    """Whether every rank ended well."""
    started: bool
    """Whether any rank had imported everything and reached the others."""
    error: RankError | None
    """The first that a rank noted."""
    killed: Killed | None
    stall: Stall | None
    peak_rss_gib: dict[int, float]
    """Most host memory of each rank, as far as the kernel has told."""
    elapsed_s: float
    start: Json
    """How the ranks were started, for the record."""


@dataclass(frozen=True, slots=True)
class Exits:
    """How the processes ended, after all of them have."""

    codes: dict[int, int]
    """Exit code of each rank that ended by itself; negative: the signal that ended it."""
    first_killed: int | None = None
    """Of the ranks that a signal ended, the one that was the first."""
    starter: int = 0
    """Of what had started them."""
    peak_rss_gib: dict[int, float] | None = None


class Starter(Protocol):
    """Ranks that have been started."""

    @property
    def start(self) -> Json:
        """How, for the record."""

    def fileno(self) -> int: ...

    def ended(self) -> bool: ...

    def stop(self) -> Exits:
        """Kills what is left; no process of the run is left when it returns."""


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
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # the rank itself compiles: no process of its own, which would be left
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # to see whether there are GPUs touches none: a rank could not be forked
    }
    environment.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # nvidia-smi's order
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one host: no need that its name resolves
    return environment


def run_ranks(job: Job, begin: Callable[[Job], Starter], watched: list[Process], log: Path) -> RanksEnd:
    """Whatever happens here, exceptions included, no rank is left when it returns. ``log``: what the ranks say."""
    notes = Notes(job.scratch)
    watchdog = Watchdog(job.scratch, job.spec.ranks, job.spec.updates, job.spec.min_warmup)
    found: list[Stall] = []
    kernel_kills_before = kernel_kills()

    def stalled() -> bool:
        found.extend(filter(None, [watchdog.look()]))
        return bool(found)

    began = time.monotonic()
    ranks = begin(job)
    try:
        ended = wait(ranks, watched, began + job.timeout_s, stalled, EVERY_S)
        peaks = _peaks(notes)
        if ended in ("deadline", "stalled"):
            _dump(notes)
    finally:
        exits = ranks.stop()
    with log.open("a") as stream:
        for rank, stack in notes.stacks().items():
            stream.write(f"\nWhere rank {rank} was when it was ended:\n{stack}")
    errors = notes.errors()
    return RanksEnd(
        ended=ended,
        succeeded=ended == "exited" and exits.starter == 0 and set(exits.codes.values()) == {0},
        started=notes.started(),
        error=errors[0] if errors else None,
        killed=killed(exits, job.spec.ranks, kernel_kills_before, kernel_kills()) if ended == "exited" else None,
        stall=found[0] if found else None,
        peak_rss_gib={**peaks, **(exits.peak_rss_gib or {})},
        elapsed_s=time.monotonic() - began,
        start=ranks.start,
    )


def killed(exits: Exits, ranks: int, kernel_kills_before: int | None, kernel_kills_after: int | None) -> Killed | None:
    """Whom a signal ended. One rank of several, or the only one, while its launcher lives is the run's own failure;
    all of several at once, or what started them, is somebody's doing."""
    for_memory = (kernel_kills_after or 0) > (kernel_kills_before or 0)
    by = {rank: signal.Signals(-code) for rank, code in exits.codes.items() if code < 0}
    if exits.starter < 0 and not by:
        return Killed(None, signal.Signals(-exits.starter), for_memory)
    if not by or exits.first_killed is None:
        return None
    number = by[exits.first_killed]
    everyone = ranks > 1 and len(by) == ranks and set(by.values()) == {number} and number in OUTSIDE
    return Killed(None if everyone else exits.first_killed, number, for_memory)


def _peaks(notes: Notes) -> dict[int, float]:
    """Of those ranks that still run."""
    found = {rank: peak_host_gib(process.pid) for rank, process in notes.alive().items() if process.lives}
    return {rank: peak for rank, peak in found.items() if peak is not None}


def _dump(notes: Notes) -> None:
    """Every rank that still runs notes which line it is at."""
    for process in notes.alive().values():
        if process.lives:
            os.kill(process.pid, signal.SIGUSR1)
    time.sleep(DUMP_S)


def log_tail(log: Path) -> str:
    """The last line that something was said in."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return lines[-1].strip() if lines else "it said nothing"
