"""What one rank runs, whoever started it: torchrun (``python -m breakeven.measure.worker JOB.json``, never by hand) or
a fork server."""

import contextlib
import dataclasses
import faulthandler
import functools
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from breakeven.measure.job import ErrorKind, Job, Notes
from breakeven.measure.memory import be_killed_first, lift_limit, limit_this
from breakeven.measure.processes import rank_dies_with
from breakeven.measure.progress import Phase, Progress
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec

GIB = 2**30

#: Updates between readings of the device's allocator, which take as long as launching a few kernels.
DEVICE_MEMORY_EVERY = 10

#: Seconds beyond the launcher's own deadline after which a collective gives up by itself.
AFTER_DEADLINE_S = 10.0

#: (timeout) to the keyword arguments by which ``init_process_group`` finds the other ranks.
Rendezvous = Callable[[timedelta], dict[str, Any]]

#: In what an error says where memory ran out, whatever its type.
_NO_MEMORY = (
    "out of memory",
    "can't allocate memory",  # torch's allocator for the CPU
    "Cannot allocate memory",  # the C library's words
    "std::bad_alloc",
)


def main() -> None:
    job = Job.read(Path(sys.argv[1]))
    rank_dies_with(job.launcher_pid)
    run_rank(job, int(os.environ["RANK"]), lambda _: {})  # the environment has it all


def run_rank(job: Job, rank: int, rendezvous: Rendezvous) -> NoReturn:
    """The whole life of a rank's process, whose end it is."""
    be_killed_first()
    faulthandler.enable()
    notes = Notes(job.scratch)
    # The launcher asks where it hangs; the file stays open for as long as this process lives.
    faulthandler.register(signal.SIGUSR1, file=notes.stack(rank).open("w"), all_threads=False)
    notes.write_alive(rank)
    progress = Progress(job.scratch, rank, job.spec.updates)
    progress.memory(_peak_host_gib(), 0.0)
    if job.cores:
        # Before torch is imported, so that the threads it starts stay on this core too.
        os.sched_setaffinity(0, {job.cores[rank]})
    try:
        _run(job, notes, rank, progress, rendezvous)
    except BaseException as error:
        lift_limit()  # what is said of it takes memory too
        # First of all: once this rank has closed its connections, others fail of it.
        notes.write_error(rank, _kind(error, started=notes.started()), _last_line(error), _last_memory_gib())
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    # No destructors: destroying a gloo group while a replica is alive hung 4 of 59 processes (torch 2.13).
    os._exit(0)


def _run(job: Job, notes: Notes, rank: int, progress: Progress, rendezvous: Rendezvous) -> None:
    import torch
    import torch.distributed as dist

    from breakeven.datasets import batches
    from breakeven.measure.clocks import clock_for
    from breakeven.measure.faults import Faults
    from breakeven.measure.feed import feed
    from breakeven.measure.loop import run_updates
    from breakeven.schema.spec import data_id
    from breakeven.schema.strategies import find_strategy
    from breakeven.strategies.compose import compose, expected_state
    from breakeven.strategies.mesh import Mesh
    from breakeven.strategies.state import measured
    from breakeven.strategies.trainee import Trainee
    from breakeven.workloads.objectives import objective as find_objective
    from breakeven.workloads.registry import anatomy, build_model

    spec = job.spec
    world = int(os.environ["WORLD_SIZE"])
    if world != spec.ranks:
        raise RuntimeError(f"{world} ranks were started, but the run is of {spec.ranks}")
    if spec.device_kind == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(1)
    cuda = device.type == "cuda"
    # The launcher's own deadline comes first.
    timeout = timedelta(seconds=job.launched_at + job.timeout_s + AFTER_DEADLINE_S - time.monotonic())
    if cuda:
        # With its device it connects now, not in the first step.
        dist.init_process_group("nccl", timeout=timeout, device_id=device, **rendezvous(timeout))
    else:
        dist.init_process_group("gloo", timeout=timeout, **rendezvous(timeout))
    if job.memory_limit_bytes is not None:
        limit_this(job.memory_limit_bytes)
    notes.write_started(rank)

    product = find_strategy(spec.strategy)
    mesh = Mesh.make({} if product.one_process else spec.resolved_degrees, world, device, spec.devices)
    set_precision(torch, spec)
    data = batches.read(
        job.data,
        data_id=data_id(spec.workload),
        sequence_length=spec.workload.sequence_length,
        image_size=spec.workload.image_size,
    )
    facts = {**_library_facts(torch, device), "epoch_samples": data.samples, "epoch_tokens": data.epoch_tokens}
    if rank == 0:
        notes.write_facts(facts)
    parts, work = _shares(batches, data, spec, mesh)

    model = build_model(spec, data, job.model_dir)
    trainee = Trainee(module=model, anatomy=anatomy(model))
    facts["parameters"] = sum(p.numel() for p in model.parameters())
    facts["trainable_parameters"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if rank == 0:
        notes.write_facts(facts)
    torch.manual_seed(spec.seed + 1 + mesh.data_rank)  # from here on each part of the batch draws its own dropout
    kind, settings, moments = _optimizer(torch, spec)
    expected = expected_state(trainee, product, mesh, spec.strategy_options, moments)
    autocast = functools.partial(torch.autocast, device.type, dtype=_AUTOCAST.get(spec.precision))
    scaler = torch.amp.GradScaler(device.type) if spec.precision == "fp16" else None
    trainee = dataclasses.replace(
        trainee,
        autocast=autocast if spec.precision in _AUTOCAST else contextlib.nullcontext,
        scale=told(progress, Phase.BACKWARD, scaler.scale if scaler else trainee.scale),
        scaled=scaler is not None,
    )
    trainee = compose(
        trainee,
        product,
        mesh,
        spec.strategy_options,
        checkpointing=spec.activation_checkpointing,
        compiled=spec.compile,
    )
    optimizer = trainee.optimizer([p for p in trainee.module.parameters() if p.requires_grad], kind, settings)
    shares = 1 if spec.sampling == "replicated" else mesh.gradient_ranks
    objective = find_objective(data, spec, shares)
    evaluations: dict[int, float] = {}
    trainee = dataclasses.replace(trainee, after_backward=told(progress, Phase.UPDATE, trainee.after_backward))
    progress.memory(*_memory_gib(cuda))

    dist.barrier()
    if cuda:
        torch.cuda.synchronize()
    rank_start_s = time.monotonic() - job.launched_at
    timeline = run_updates(
        trainee=trainee,
        optimizer=optimizer,
        scaler=scaler,
        objective=objective,
        work=work,
        feed=told_of(progress, feed(data, objective, parts, spec, device)),
        accumulation=spec.gradient_accumulation,
        clock=clock_for(device.type, spec.updates, spec.evaluations),
        mark=marker(progress, cuda),
        faults=Faults.of_rank(rank, spec.control),
        between=_evaluation(spec, trainee, objective, data, mesh, progress, evaluations)
        if spec.evaluate_every
        else None,
    )
    mine = {
        "timeline": timeline,
        "rank_start_s": rank_start_s,
        **memory_gib(cuda),
        "state": measured(trainee.module, optimizer),
        "expected_state": expected,
        "accuracy": evaluations,
        "cores": sorted(os.sched_getaffinity(0)),
        "host": os.uname().nodename,
    }
    progress.sign()
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, mine)
    if rank == 0:
        from breakeven.measure.results import write_results

        write_results(notes, everyone, work)
    dist.barrier()


#: Precisions by autocast over fp32 weights, and the type they compute in; filled where torch is imported.
_AUTOCAST: dict[str, Any] = {}


def set_precision(torch: Any, spec: Spec) -> None:
    """What fp32 means on this device. torch's own default lets convolutions round to tf32."""
    _AUTOCAST.update(fp16=torch.float16, bf16=torch.bfloat16)
    tf32 = spec.precision == "tf32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32


def _shares(batches: Any, data: Any, spec: Spec, mesh: Any) -> tuple[list[Any], list[Any]]:
    """This rank's samples of each update, and each update's work over all ranks."""
    replicated = spec.sampling == "replicated"
    batch = spec.global_batch // (mesh.data_ranks if replicated else 1)
    plan = batches.schedule(data, global_batch=batch, updates=spec.updates, seed=spec.seed)
    work = [data.work(indices) for indices in plan]
    if replicated:  # every rank goes through the data by itself, as one device with this batch does
        return plan, work
    return [batches.rank_part(indices, mesh.data_rank, mesh.data_ranks) for indices in plan], work


def _optimizer(torch: Any, spec: Spec) -> tuple[type, dict[str, Any], int]:
    """Class, settings, and how many tensors of state it keeps per parameter."""
    if spec.optimizer == "sgd":
        return torch.optim.SGD, {"lr": spec.scaled_learning_rate, "momentum": 0.9}, 1
    return torch.optim.AdamW, {"lr": spec.scaled_learning_rate}, 2


def _evaluation(
    spec: Spec, trainee: Any, objective: Any, data: Any, mesh: Any, progress: Progress, found: dict[int, float]
) -> Any:
    from breakeven.measure.evaluation import accuracy
    from breakeven.measure.loop import Between

    batch = max(1, spec.global_batch // mesh.data_ranks)

    def act(update: int) -> None:
        if not found:
            progress.silent()  # a compiled model is compiled anew for evaluation
        signs = trainee.module.register_forward_hook(lambda *_: progress.sign())
        found[update] = accuracy(trainee, objective, data.test, mesh, batch)
        signs.remove()
        progress.sign()

    return Between(due=lambda update: update % spec.evaluate_every == 0, act=act)


def memory_gib(cuda: bool) -> dict[str, float | None]:
    """This rank's peaks so far: host memory, and of a device what tensors took and what the allocator held."""
    import torch

    return {
        "peak_rss_gib": _peak_host_gib(),
        "peak_allocated_gib": torch.cuda.max_memory_allocated() / GIB if cuda else None,
        "peak_reserved_gib": torch.cuda.max_memory_reserved() / GIB if cuda else None,
    }


def _last_memory_gib() -> dict[str, float | None]:
    """The same of a rank that has failed, wherever that was."""
    torch = sys.modules.get("torch")
    return memory_gib(cuda=torch is not None and torch.cuda.is_initialized())


def _memory_gib(cuda: bool) -> tuple[float, float]:
    """Host and device peaks so far, as progress has them."""
    found = memory_gib(cuda)
    return found["peak_rss_gib"] or 0.0, found["peak_reserved_gib"] or 0.0


def _peak_host_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


def marker(progress: Progress, cuda: bool) -> Callable[[], None]:
    """Notes an update as done, with the memory peaks so far, for a launcher that may outlive this rank."""
    import torch

    done = 0
    device_gib = 0.0

    def mark() -> None:
        nonlocal done, device_gib
        if cuda and done % DEVICE_MEMORY_EVERY == 0:
            device_gib = torch.cuda.max_memory_reserved() / GIB
        done += 1
        progress.mark(_peak_host_gib(), device_gib)

    return mark


def told(progress: Progress, phase: Phase, action: Callable[..., Any]) -> Callable[..., Any]:
    """The action, begun by noting what this rank is at: less than a microsecond, twice an update."""

    def act(*arguments: Any) -> Any:
        progress.phase(phase)
        return action(*arguments)

    return act


def told_of(progress: Progress, feed: Iterator[Any]) -> Iterator[Any]:
    """The feed, whose end of waiting is noted; that it is waited for, the mark of an update says."""
    for inputs in feed:
        progress.phase(Phase.FORWARD)
        yield inputs


def _library_facts(torch: Any, device: Any) -> dict[str, Any]:
    """What only a process with torch can say of it."""
    facts: dict[str, Any] = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
    }
    if device.type == "cuda":
        facts |= {
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "cudnn_tf32": torch.backends.cudnn.allow_tf32,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "gpu": torch.cuda.get_device_name(device),
            "compute_capability": ".".join(map(str, torch.cuda.get_device_capability(device))),
        }
    else:
        facts |= {"cpu_capability": torch.backends.cpu.get_cpu_capability(), "mkldnn": torch.backends.mkldnn.enabled}
    return facts


def _kind(error: BaseException, *, started: bool) -> ErrorKind:
    if isinstance(error, UserError):
        return "user"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "oom"
    if any(sign in str(error) for sign in _NO_MEMORY):
        return "oom"
    if isinstance(error, ImportError):
        return "infrastructure"  # an environment that lacks a library: installing it mends every run
    return "failed" if started else "infrastructure"


def _last_line(error: BaseException) -> str:
    """As it ends a traceback: the type, and the first line of what it says. A UserError is its message alone."""
    if isinstance(error, UserError):
        return str(error)
    first = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {first}"[:500] if first else type(error).__name__


if __name__ == "__main__":
    main()
