"""Functions run on several ranks of a gloo group, and a small training run composed as the measured one is."""

import dataclasses
import multiprocessing
import os
import pickle
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from breakeven.datasets.batches import Data, Images, Texts, rank_part, schedule
from breakeven.schema.checks import WORKLOADS
from breakeven.schema.degrees import normal
from breakeven.schema.spec import Spec
from breakeven.schema.strategies import find_strategy

TIMEOUT_S = 240


def on_ranks(count: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What ``function(rank, *arguments)`` returns on each rank. Processes are new ones: torch's threads do not fork."""
    context = multiprocessing.get_context("spawn")
    with TemporaryDirectory() as folder:
        ranks = [
            context.Process(target=_rank, args=(Path(folder), rank, count, function, arguments))
            for rank in range(count)
        ]
        for process in ranks:
            process.start()
        end = time.monotonic() + TIMEOUT_S
        try:
            for process in ranks:
                process.join(max(0.0, end - time.monotonic()))
        finally:
            for process in ranks:
                process.kill()
                process.join()
        failed = [file.read_text() for file in sorted(Path(folder).glob("failed-*"))]
        assert not failed, "\n".join(failed)
        files = [Path(folder) / f"result-{rank}" for rank in range(count)]
        assert all(file.exists() for file in files), [process.exitcode for process in ranks]
        return [pickle.loads(file.read_bytes()) for file in files]


def _rank(folder: Path, rank: int, count: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count, timeout=timedelta(seconds=60)
    )
    try:
        result = function(rank, *arguments)
    except BaseException:
        (folder / f"failed-{rank}").write_text(f"rank {rank}: {traceback.format_exc()}")
        os._exit(1)
    (folder / f"result-{rank}").write_bytes(pickle.dumps(result))
    dist.barrier()
    os._exit(0)  # without destructors, which can hang while a replica is alive


def spec(strategy: str, devices: int, workload: str, **changes: Any) -> Spec:
    """A run of a small model on so many CPU ranks; ``degrees`` as a user gives them."""
    degrees = normal(find_strategy(strategy).axes, devices, changes.pop("degrees", {}))
    usual: dict[str, Any] = {"global_batch": 16, "optimizer": "sgd", "learning_rate": 0.05, "updates": 6}
    return Spec(
        workload=WORKLOADS[workload],
        strategy=strategy,
        degrees=degrees,
        device_kind="cpu",
        device_model="any",
        devices=devices,
        devices_per_node=devices,
        **{**usual, **changes},
    )


def data_of(spec: Spec) -> Data:
    """Drawn at random: nothing is prepared."""
    draw = np.random.default_rng(0)
    if spec.workload.sequence_length is None:
        shape, digits = (64, 8, 8), np.arange(64) % 10
        return Images(draw.integers(0, 16, shape).astype(np.uint8), digits.astype(np.int64), levels=16, classes=10)
    lengths = draw.integers(8, spec.workload.sequence_length, 64)
    return Texts(
        input_ids=draw.integers(1, 512, lengths.sum()).astype(np.int32),
        offsets=np.concatenate([[0], lengths.cumsum()]).astype(np.int64),
        prompt_lengths=np.full(64, 2, dtype=np.int32),
        pad_id=0,
        vocab_size=512,
        sequence_length=spec.workload.sequence_length,
    )


@dataclasses.dataclass
class Trained:
    """One rank's run, composed and ready. ``update`` makes the next update and returns the rank's loss."""

    trainee: Any
    optimizer: Any
    update: Callable[[], float | None]


def prepared(spec: Spec, *, scaler: Any = None) -> Trained:
    """On every rank, within a process group."""
    import torch
    import torch.distributed as dist

    from breakeven.strategies.compose import compose
    from breakeven.strategies.mesh import Mesh
    from breakeven.strategies.trainee import Trainee
    from breakeven.workloads.objectives import objective
    from breakeven.workloads.registry import anatomy, build_model

    product = find_strategy(spec.strategy)
    mesh = Mesh.make(spec.resolved_degrees, dist.get_world_size(), torch.device("cpu"), spec.devices)
    data = data_of(spec)
    model = build_model(spec, data, None)
    trainee = Trainee(module=model, anatomy=anatomy(model))
    if scaler is not None:
        trainee = dataclasses.replace(trainee, scale=scaler.scale, scaled=True)
    trainee = compose(trainee, product, mesh, spec.strategy_options, checkpointing=False, compiled=False)
    trained = [p for p in trainee.module.parameters() if p.requires_grad]
    optimizer = trainee.optimizer(trained, torch.optim.SGD, {"lr": spec.learning_rate, "momentum": 0.9})
    task = objective(data, spec, mesh.gradient_ranks)
    plan = iter(schedule(data, global_batch=spec.global_batch, updates=spec.updates, seed=spec.seed))

    def update() -> float | None:
        everyones = next(plan)
        mine = rank_part(everyones, mesh.data_rank, mesh.data_ranks)
        inputs = trainee.part(task.device(task.host(data.take(mine))))
        optimizer.zero_grad(set_to_none=True)
        loss = trainee.run(trainee, inputs, task.criterion(data.work(everyones)))
        trainee.after_backward()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        return None if loss is None else float(loss)

    return Trained(trainee, optimizer, update)


def losses(rank: int, spec: Spec) -> list[float] | None:
    """Of each update; None on a rank that sees none."""
    run = prepared(spec)
    found = [run.update() for _ in range(spec.updates)]
    return None if found[0] is None else [loss for loss in found if loss is not None]


def mean_losses(found: list[list[float] | None]) -> np.ndarray:
    """Of the global batch, from what the ranks saw."""
    return np.mean([one for one in found if one is not None], axis=0)
