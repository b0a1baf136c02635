"""One run from spec to record: refuse, lock, look around, start the ranks, write down how they ended."""

import importlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

from breakeven.measure.attempts import Attempts
from breakeven.measure.cores import cores_for
from breakeven.measure.environment import check_devices, environment, surroundings
from breakeven.measure.faults import injected
from breakeven.measure.forked import Forked, NoServer, Server, reach
from breakeven.measure.hostlock import host_lock
from breakeven.measure.idle import idle_check
from breakeven.measure.job import Job, Notes
from breakeven.measure.memory import GIB, rank_limit_bytes
from breakeven.measure.nvidia import Gpu
from breakeven.measure.processes import Process
from breakeven.measure.progress import read_progress
from breakeven.measure.ranks import OUTSIDE, Killed, RanksEnd, rank_environment, run_ranks
from breakeven.measure.terminal import Progress, say, start_line
from breakeven.measure.torchrun import Torchrun
from breakeven.measure.watch import ancestors
from breakeven.schema.errors import UserError
from breakeven.schema.record import Record, RunError, StateBytes
from breakeven.schema.spec import Json, Spec, run_id
from breakeven.schema.status import Status
from breakeven.schema.support import refused, unsupported

HERE = "BREAKEVEN_MEASURE_HERE"
SCRATCH_PREFIX = ".measure-"

Launcher = Literal["auto", "fork", "torchrun"]
LAUNCHERS: tuple[Launcher, ...] = ("auto", "fork", "torchrun")

#: Seconds without a run after which a fork server ends, though the process it is for lives.
SERVER_IDLE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The command line: file names in, file names out."""

    spec: Spec
    repeat: int
    data: Path
    record: Path
    steps: Path
    log: Path
    timeout_s: float
    launcher: Launcher = "torchrun"
    model_dir: Path | None = None
    progress: Path | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the record will say. ``message`` is empty for a run that went well."""

    status: Status
    message: str = ""
    rank: int | None = None


class Stopped(BaseException):
    """A signal asked this launcher to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def measure(request: Request) -> int:
    """The exit code: 0 with a record, 1 without one because the machinery broke, 128 + n after signal n.

    Raises UserError for what the user can mend.
    """
    refuse_on_a_login_node()
    if wrong := refused(request.spec):
        raise UserError(wrong)
    gpus = check_devices(request.spec)
    if not request.data.exists():
        raise UserError(f"{request.data}: no such file. Prepare the data first (python -m breakeven.datasets).")
    for path in (request.record, request.steps, request.log):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _signals_raised():
            return _measure(request, gpus)
    except Stopped as stopped:
        say(f"stopped by {signal.Signals(stopped.number).name}, no record")
        return 128 + stopped.number


def refuse_on_a_login_node() -> None:
    """Where jobs are submitted, training on the spot would measure, and disturb, a machine shared by all."""
    if shutil.which("sbatch") and "SLURM_JOB_ID" not in os.environ and os.environ.get(HERE) != "1":
        raise UserError(
            "This machine submits jobs to Slurm, so it is no place to measure. Use --workflow-profile profiles/slurm, "
            f"or set {HERE}=1 to measure here all the same."
        )


def _measure(request: Request, gpus: list[Gpu]) -> int:
    watched = ancestors()

    def on_wait() -> None:
        say("waiting: another measured run holds this host")

    def alone() -> AbstractContextManager[float]:
        if unsupported(request.spec):
            return nullcontext(0.0)  # no rank is started that could disturb another run
        return host_lock(on_wait, lambda: all(process.lives for process in watched))

    try:
        with alone() as lock_wait_s:
            say(start_line(request.spec, request.repeat, Progress.read(request.progress)))
            attempts = Attempts(request.record.with_name("attempts.jsonl"))
            started = attempts.begin()
            for left in request.record.parent.glob(f"{SCRATCH_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)  # of a launcher that was killed
            scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=request.record.parent))
            try:
                return _execute(request, gpus, scratch, attempts, started, lock_wait_s, watched)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except InterruptedError:
        say("the process that asked for this run has ended, no record")
        return 1


def _execute(
    request: Request,
    gpus: list[Gpu],
    scratch: Path,
    attempts: Attempts,
    started: int,
    lock_wait_s: float,
    watched: list[Process],
) -> int:
    spec = request.spec
    variables = rank_environment(spec)
    reason = unsupported(spec)
    server: Server | None = None
    request.log.write_bytes(b"")
    if not reason and by_fork(request.launcher, spec):
        try:
            server = reach(request.repeat, variables, request.log, watched, SERVER_IDLE_S)
        except NoServer as error:
            say(f"no record: {error} (log: {request.log}; --launcher torchrun does without)")
            return 1
    details: Json = {}

    def look_around() -> None:
        details.update(surroundings(gpus, variables))
        importlib.import_module(
            "breakeven.measure.results"
        )  # numpy, which this process needs when the ranks have ended

    idle = idle_check(meanwhile=look_around)
    started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    job = Job(
        spec=spec,
        data=request.data.resolve(),
        model_dir=request.model_dir.resolve() if request.model_dir else None,
        scratch=scratch.resolve(),
        launcher_pid=os.getpid(),
        launched_at=time.monotonic(),
        timeout_s=request.timeout_s,
        cores=cores_for(spec.ranks) if spec.device_kind == "cpu" else [],
        memory_limit_bytes=rank_limit_bytes(spec.ranks) if spec.device_kind == "cpu" else None,
    )
    notes = Notes(job.scratch)

    def begin(job: Job) -> Forked | Torchrun:
        if server is not None:
            return Forked.begin(job, variables, request.log, server)
        return Torchrun.begin(job, variables, request.log)

    if reason:
        end = None
        verdict: Verdict | str = Verdict(Status.UNSUPPORTED, reason)
    else:
        try:
            end = run_ranks(job, begin, watched, request.log)
        except NoServer as error:
            say(f"no record: {error} (log: {request.log})")
            return 1
        verdict = judge(end, request, notes, attempts)
    if isinstance(verdict, str):
        say(f"no record: {verdict} (log: {request.log})")
        return 1
    facts = notes.facts()
    limits = {"memory_limit_gib": job.memory_limit_bytes / GIB if job.memory_limit_bytes is not None else None}
    result: Json = json.loads(notes.result.read_text()) if notes.result.exists() else {}
    memory = peaks(result, notes, end, spec.ranks)
    record = Record(
        run_id=run_id(spec),
        repeat=request.repeat,
        status=verdict.status,
        spec=spec,
        started_at=started_at,
        elapsed_s=end.elapsed_s if end else 0.0,
        rank_start_s=result.get("rank_start_s"),
        epoch_samples=facts.get("epoch_samples"),
        epoch_tokens=facts.get("epoch_tokens"),
        peak_rss_gib=memory["peak_rss_gib"],
        peak_allocated_gib=memory["peak_allocated_gib"],
        peak_reserved_gib=memory["peak_reserved_gib"],
        parameters=facts.get("parameters"),
        trainable_parameters=facts.get("trainable_parameters"),
        state_bytes=StateBytes(**result.get("state_bytes", {})),
        expected_state_bytes=StateBytes(**result.get("expected_state_bytes", {})),
        environment=environment(spec, gpus, details, {**facts, **limits, "cores": result.get("cores", job.cores)}),
        idle_check=idle,
        lock_wait_s=lock_wait_s,
        attempts=started,
        start=end.start if end else {},
        faults=injected(),
        error=RunError(rank=verdict.rank, message=verdict.message, log=str(request.log)) if verdict.message else None,
    )
    _write(request, record, notes)
    attempts.end()
    say(end_line(request, record))
    return 0


def by_fork(launcher: Launcher, spec: Spec) -> bool:
    """Whether a fork server starts the ranks. Unless asked to, not for GPUs, nor in a Slurm job: it is one run."""
    if launcher == "auto":
        return spec.device_kind == "cpu" and "SLURM_JOB_ID" not in os.environ
    return launcher == "fork"


def judge(end: RanksEnd, request: Request, notes: Notes, attempts: Attempts) -> Verdict | str:
    """How the run ended; as text, why there is no record. Raises UserError for what the user can mend."""
    error = end.error
    if end.ended == "orphaned":
        return "the process that asked for this run has ended"
    if end.ended == "deadline":
        within = f"within {request.timeout_s:g} s"
        return Verdict(Status.TIMEOUT, f"did not end {within}") if end.started else f"the ranks did not start {within}"
    if end.stall is not None:
        return Verdict(Status.TIMEOUT, end.stall.message, end.stall.behind[0] if len(end.stall.behind) == 1 else None)
    if end.succeeded and notes.result.exists():
        update = json.loads(notes.result.read_text())["first_not_finite"]
        return (
            Verdict(Status.OK)
            if update is None
            else Verdict(Status.DIVERGED, f"the loss is not finite from update {update + 1} on")
        )
    if end.killed is not None:
        return _judge_kill(end.killed, end.started, attempts)
    if error is None:
        return "the ranks ended without a word"
    if error.kind == "user":
        raise UserError(error.message)
    if error.kind == "infrastructure":
        return f"rank {error.rank}: {error.message}"
    return Verdict(Status.OOM if error.kind == "oom" else Status.FAILED, error.message, error.rank)


def _judge_kill(killed: Killed, started: bool, attempts: Attempts) -> Verdict | str:
    """A rank that dies alone is the run's own affair: at once a result. What strikes all of them, or what had started
    them, comes from outside: the run is tried again, and a second time it is a result."""
    number, rank = killed.by, killed.rank
    if number not in OUTSIDE:
        return Verdict(Status.FAILED, f"crashed by {number.name}", rank)
    if started and number is signal.SIGKILL and killed.for_memory:
        return Verdict(Status.OOM, "killed by the kernel for want of host memory", rank)
    if started and rank is not None:
        return Verdict(Status.FAILED, f"killed by {number.name}", rank)
    if attempts.killed(number.name, rank):
        return Verdict(Status.FAILED, f"killed by {number.name} twice", rank)
    who = "every rank, or what had started them," if rank is None else f"rank {rank}"
    return f"{who} was killed by {number.name} from outside; a second time would be a result"


def peaks(result: Json, notes: Notes, end: RanksEnd | None, ranks: int) -> dict[str, list[float]]:
    """Peak memory of every rank as the record has it; of a run that did not end, the last that is known."""
    names = ("peak_rss_gib", "peak_allocated_gib", "peak_reserved_gib")
    if result or end is None:
        return {name: result.get(name, []) for name in names}
    found: dict[str, dict[int, float]] = {name: {} for name in names}

    def note(name: str, rank: int, value: float | None) -> None:
        if value:
            found[name][rank] = max(value, found[name].get(rank, 0.0))

    for rank in range(ranks):
        note("peak_rss_gib", rank, end.peak_rss_gib.get(rank))
        if reached := read_progress(notes.scratch, rank):
            note("peak_rss_gib", rank, reached.peak_host_gib)
            note("peak_reserved_gib", rank, reached.peak_device_gib)
    for error in notes.errors():
        for name, value in error.memory_gib.items():
            note(name, error.rank, value)
    # Lists are by rank: where one is not known, none can be told from another.
    return {
        name: [by_rank[rank] for rank in range(ranks)] if len(by_rank) == ranks else []
        for name, by_rank in found.items()
    }


def end_line(request: Request, record: Record) -> str:
    """``ok, 41.2 ms per step``, or how it failed and where its log lies."""
    from breakeven.measure.results import median_step_ms

    if record.status is Status.OK:
        line = f"ok, {median_step_ms(request.steps, record.spec.min_warmup):.1f} ms per step"
        busy = record.idle_check.busy_cores
        return line if record.idle_check.idle else f"{line}, but the machine was not idle ({busy:.1f} cores busy)"
    error = record.error or RunError(rank=None, message="", log=str(request.log))
    rank = "" if error.rank is None else f" rank {error.rank}"
    return f"{record.status.upper()}{rank}: {error.message} (log: {request.log})"


def _write(request: Request, record: Record, notes: Notes) -> None:
    """Steps first: where there is a record, its steps are there too."""
    from breakeven.measure.results import empty_steps, write_steps

    if not notes.result.exists():
        write_steps(notes.steps, empty_steps(record.spec.ranks))
    part = notes.scratch / "record.json"
    with part.open("w") as stream:
        stream.write(record.to_json())
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(notes.steps, request.steps)
    os.replace(part, request.record)


@contextmanager
def _signals_raised() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise Stopped, once: a second must not cut short the clearing up."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int, _frame: FrameType | None) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(number)

    # A signal ignored by whoever started this (nohup) stays ignored.
    former = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if former[number] is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, former[number])
