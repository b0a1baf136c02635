"""What one rank runs: ``python -m breakeven.measure.worker JOB.json``, started by torchrun, never by hand."""

import contextlib
import functools
import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from breakeven.measure.job import ErrorKind, Job, Notes
from breakeven.measure.processes import rank_dies_with
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec

GIB = 2**30


def main() -> None:
    job = Job.read(Path(sys.argv[1]))
    rank_dies_with(job.launcher_pid)
    rank = int(os.environ["RANK"])
    notes = Notes(job.scratch)
    notes.write_alive(rank)
    if job.cores:
        # Before torch is imported, so that the threads it starts stay on this core too.
        os.sched_setaffinity(0, {job.cores[rank]})
    try:
        _run(job, notes, rank)
    except BaseException as error:
        traceback.print_exc()
        notes.write_error(rank, _kind(error, started=notes.started()), _last_line(error))
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    # No destructors: destroying a gloo group while a replica is alive hung 4 of 59 processes (torch 2.13).
    os._exit(0)


def _run(job: Job, notes: Notes, rank: int) -> None:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    from breakeven.datasets import batches
    from breakeven.measure.clocks import clock_for
    from breakeven.measure.faults import Faults
    from breakeven.measure.loop import run_updates
    from breakeven.schema.spec import data_id
    from breakeven.strategies.registry import strategy as find_strategy
    from breakeven.workloads.objectives import objective as find_objective
    from breakeven.workloads.registry import build_model

    spec = job.spec
    world = int(os.environ["WORLD_SIZE"])
    if world != spec.devices:
        raise RuntimeError(f"{world} ranks were started, but the run is of {spec.devices} devices")
    if spec.device_kind == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(1)
    timeout = timedelta(seconds=job.timeout_s)  # the launcher's own deadline comes first
    if device.type == "cuda":
        dist.init_process_group("nccl", timeout=timeout, device_id=device)  # connected now, not in the first step
    else:
        dist.init_process_group("gloo", timeout=timeout)
    notes.write_started(rank)

    data = batches.read(job.data, data_id=data_id(spec.workload), sequence_length=spec.workload.sequence_length)
    facts = {**_library_facts(torch, device), "epoch_samples": data.samples, "epoch_tokens": data.epoch_tokens}
    if rank == 0:
        notes.write_facts(facts)
    plan = batches.schedule(data, global_batch=spec.global_batch, updates=spec.updates, seed=spec.seed)
    parts = [batches.rank_part(indices, rank, world) for indices in plan]
    work = [data.work(indices) for indices in plan]

    model = build_model(spec, data, job.model_dir).to(device)
    torch.manual_seed(spec.seed + rank)  # equal weights until here; from here on each rank draws its own dropout
    facts["parameters"] = sum(p.numel() for p in model.parameters())
    facts["trainable_parameters"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if rank == 0:
        notes.write_facts(facts)
    strategy = find_strategy(spec.strategy)
    model = strategy.apply(model, device, spec.strategy_options)
    optimizer = _optimizer(torch, spec, model)
    objective = find_objective(data, device=device, ranks=world, image_size=spec.workload.image_size)
    autocast = functools.partial(torch.autocast, device.type, dtype=torch.bfloat16)
    clock = clock_for(device.type, spec.updates)

    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize()
    rank_start_s = time.monotonic() - job.launched_at
    timeline = run_updates(
        model=model,
        optimizer=optimizer,
        objective=objective,
        strategy=strategy,
        work=work,
        feed=lambda update: objective.inputs(data.take(parts[update])),
        autocast=autocast if spec.precision == "bf16" else contextlib.nullcontext,
        clock=clock,
        faults=Faults.of_rank(rank),
    )
    cuda = device.type == "cuda"
    mine = {
        "timeline": timeline,
        "rank_start_s": rank_start_s,
        "peak_rss_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB,
        "peak_allocated_gib": torch.cuda.max_memory_allocated() / GIB if cuda else None,
        "peak_reserved_gib": torch.cuda.max_memory_reserved() / GIB if cuda else None,
        "cores": sorted(os.sched_getaffinity(0)),
        "host": os.uname().nodename,
    }
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, mine)
    if rank == 0:
        from breakeven.measure.results import write_results

        write_results(notes, everyone, work)
    dist.barrier()


def _optimizer(torch: Any, spec: Spec, model: Any) -> Any:
    trained = [p for p in model.parameters() if p.requires_grad]
    if spec.optimizer == "sgd":
        return torch.optim.SGD(trained, lr=spec.learning_rate, momentum=0.9)
    return torch.optim.AdamW(trained, lr=spec.learning_rate)


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
    if any(sign in str(error) for sign in ("out of memory", "DefaultCPUAllocator: can't allocate memory")):
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
