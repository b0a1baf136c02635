"""``python -m breakeven.measure.allreduce``: how fast this machine's devices add up a tensor that each of them has.

Starts itself again under torchrun, one process per device, and writes what was measured as JSON. For the self-test
alone: no run is planned or judged by it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from breakeven.measure.cores import cores_for
from breakeven.measure.hostlock import host_lock
from breakeven.measure.processes import adopt_orphans, child_dies_with, end_children, rank_dies_with
from breakeven.measure.terminal import say
from breakeven.measure.watch import ancestors
from breakeven.schema.files import write_text
from breakeven.schema.spec import Json

#: Bytes of the tensor. Gigabytes per second on loopback, hundreds of them between GPUs: those are given more.
SIZES = {
    "cpu": (2**12, 2**16, 2**20, 2**24, 2**26),
    "cuda": (2**12, 2**16, 2**20, 2**24, 2**26, 2**28, 2**30),
}

#: Seconds that one batch of operations lasts about, and how many batches the median is of.
BATCH_S = 0.2
BATCHES = 5

#: Seconds for all of it, the start of the ranks included.
TIMEOUT_S = 120.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m breakeven.measure.allreduce", description=__doc__)
    parser.add_argument("--device-kind", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True, help="the figures to write (.json)")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="what the ranks say")
    parser.add_argument("--launcher-pid", type=int, help="in a rank: who has started it")
    args = parser.parse_args(arguments)
    if args.launcher_pid is not None:
        _rank(args.device_kind, args.output, args.launcher_pid)
    watched = ancestors()
    with host_lock(
        lambda: say("waiting: another measured run holds this host"), lambda: all(process.lives for process in watched)
    ):
        say(f"all-reduce over {args.devices} {'CPU cores' if args.device_kind == 'cpu' else 'GPUs'}")
        return _start(args.device_kind, args.devices, args.output, args.log)


def _start(kind: str, devices: int, output: Path, log: Path) -> int:
    """The ranks' exit code. None of them is left, however they ended."""
    mine = os.getpid()
    words = ["--device-kind", kind, "--output", str(output), "--launcher-pid", str(mine)]
    agent = ["torch.distributed.run", "--standalone", f"--nproc-per-node={devices}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    log.parent.mkdir(parents=True, exist_ok=True)
    adopt_orphans()
    with log.open("wb") as stream:
        child = subprocess.Popen(
            [sys.executable, "-m", *agent, "-m", __spec__.name, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: child_dies_with(mine),
        )
        try:
            code = child.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            say(f"no all-reduce within {TIMEOUT_S:.0f} s (log: {log})")
            return 1
        finally:
            end_children()
    if code:
        say(f"all-reduce failed (log: {log})")
    return 1 if code else 0


def _rank(kind: str, output: Path, launcher_pid: int) -> None:
    """One process of those that torchrun starts. Never returns: a gloo group must not be destroyed (see ``worker``)."""
    rank_dies_with(launcher_pid)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if kind == "cpu":
        os.sched_setaffinity(0, {cores_for(world)[rank]})
    import torch
    import torch.distributed as dist

    device = torch.device("cpu") if kind == "cpu" else torch.device("cuda", rank)
    if kind == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
    figures = [{"bytes": size, "time_s": _time_s(torch, dist, device, size)} for size in SIZES[kind]]
    if rank == 0:
        found: Json = {
            "devices": world,
            "backend": "gloo" if kind == "cpu" else f"nccl {'.'.join(map(str, torch.cuda.nccl.version()))}",
            "torch": torch.__version__,
            "sizes": figures,
        }
        write_text(output, json.dumps(found, indent=1) + "\n")
    dist.barrier()
    os._exit(0)


def _time_s(torch: Any, dist: Any, device: Any, size: int) -> float:
    """Seconds of one all-reduce of so many bytes, on the slowest rank: the median of a few batches."""
    tensor = torch.ones(size // 4, device=device)
    some = torch.tensor([_batch_s(torch, dist, tensor, 2) / 2], device=device)  # the first connects: only a guess
    some.fill_(_batch_s(torch, dist, tensor, 2) / 2)
    dist.all_reduce(some, op=dist.ReduceOp.MAX)
    count = max(2, min(1000, int(BATCH_S / float(some))))
    times = torch.tensor([_batch_s(torch, dist, tensor, count) / count for _ in range(BATCHES)], device=device)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    slowest: list[float] = times.tolist()
    return statistics.median(slowest)


def _batch_s(torch: Any, dist: Any, tensor: Any, count: int) -> float:
    dist.barrier()
    if tensor.is_cuda:
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(tensor)
    if tensor.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
