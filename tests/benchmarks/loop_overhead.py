"""What the measured loop adds to a training step, and how fast it is beside loops that people use: tables for the docs.

``python tests/benchmarks/loop_overhead.py``

One process on one core, one thread. All loops take turns in blocks of a few steps, each round in a new random order, so
that what else the machine does falls on all alike. They train the same model and optimiser objects (a copy would lie
elsewhere in memory, which alone is worth a per cent) on the same batches in the same round; beforehand each trains a
model from the same weights, and the losses must be equal. The step before a block warms the caches again and is not
counted. Python's cyclic garbage collection is off for all, as the measured loop has it.

- ours: ``run_updates`` as a rank runs it, with its feed, clock, marks of progress and readings of memory; times are its
  own clock's, from the end of one step to the end of the next, so that nothing between two steps is left out.
- bare: forward pass, loss, backward pass, optimiser step, gradients dropped. Nothing else.
- accelerate: the same lines with what ``Accelerator.prepare`` returned, and its ``backward``.
- Trainer: one call of ``Trainer.train``, which a callback interrupts between blocks, so that no start-up is counted;
  the loss is ours (``compute_loss_func``); no logging, saving, evaluation, clipping, gradient norm or test for NaN.

``loaded``: all read the same data set by a torch DataLoader in the main process. ``ready``: prepared batches lie in
memory, so that nothing but the loop is left beside the model. Shown, not judged: ``linear layer``, a model of 30
weights that makes the loop's own microseconds visible; ``ddp``, two ranks whose own stamps of each step we read,
against the same replica without, the slower rank counting: its processes and gloo's threads share the cores.

Ends with exit code 1 where a bound is missed: of the rounds' ratios of ours to bare, the median is at most 1.01; of the
ratio of total times the interval ends by 1.02; of the others' total time to ours it begins at 0.97 or above. Intervals:
95 %, moving blocks of rounds, both sides resampled together. ``--smoke``: few steps, nothing judged.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported; as for a rank
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import dataclasses
import gc
import platform
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import accelerate
import numpy as np
import torch
import torch.distributed as dist
import transformers
from numpy.typing import NDArray
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from breakeven.datasets.batches import Data, Images, Texts, Work, schedule
from breakeven.measure.clocks import clock_for
from breakeven.measure.cores import cores_for
from breakeven.measure.faults import Faults
from breakeven.measure.feed import Batches, feed
from breakeven.measure.hostlock import host_lock
from breakeven.measure.loop import run_updates
from breakeven.measure.progress import Phase, Progress
from breakeven.measure.worker import marker, told, told_of
from breakeven.schema.spec import DataSource, Spec, Workload
from breakeven.schema.strategies import find_strategy
from breakeven.stats.bootstrap import generator, interval, moving_block_means
from breakeven.strategies.compose import compose
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.trainee import Trainee
from breakeven.workloads.anatomy import Anatomy
from breakeven.workloads.objectives import Objective, objective
from breakeven.workloads.registry import anatomy, build_model

Seconds = NDArray[np.float64]
Block = Callable[[], list[float]]
"""Runs a loop's next block; seconds of its counted steps."""

CPU = torch.device("cpu")
BATCH = 8
LEARNING_RATE = 1e-6  # weights, and with them the work, stay what they are over thousands of steps
RESAMPLES = 10_000
MEDIAN_AT_MOST, RATIO_AT_MOST, SPEED_AT_LEAST = 1.01, 1.02, 0.97

MODELS: dict[str, Workload] = {
    "mobilenet_v2": Workload(
        model="mobilenet_v2",
        config={"depth_multiplier": 0.35, "classifier_dropout_prob": 0.0},  # a loader draws random numbers as it starts
        data=DataSource(name="digits"),
        image_size=48,
    ),
    "llama": Workload(
        model="llama",
        config={"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4},
        data=DataSource(name="chat-en"),
        sequence_length=64,
    ),
}


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    counted: int
    """Steps of a block; one more is run before them."""

    @property
    def block(self) -> int:
        return self.counted + 1

    @property
    def updates(self) -> int:
        return self.rounds * self.block


def made_up(workload: Workload) -> Data:
    """Data of a prepared data set's shape: what lies in them changes no time."""
    rng = np.random.default_rng(0)
    if workload.sequence_length is None:
        return Images(rng.integers(0, 17, (1024, 8, 8), dtype=np.uint8), rng.integers(0, 10, 1024), 16, 10)
    lengths = rng.integers(8, 100, 1024)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = rng.integers(0, 512, offsets[-1], dtype=np.int32)
    return Texts(ids, offsets, np.full(1024, 4, np.int32), 0, 512, workload.sequence_length)


@dataclass(frozen=True, slots=True)
class Task:
    """A model on its data, as a rank has it, and the batches of all rounds."""

    spec: Spec
    data: Data
    trainee: Trainee
    optimizer: Any
    objective: Objective
    parts: list[NDArray[np.int64]]
    work: list[Work]

    @classmethod
    def of(cls, name: str, size: Size, mesh: Mesh, strategy: str = "single") -> "Task":
        ranks = mesh.data_ranks
        spec = Spec(
            workload=MODELS[name],
            strategy=strategy,
            device_kind="cpu",
            device_model="",
            devices=ranks,
            devices_per_node=ranks,
            global_batch=BATCH * ranks,
        )
        data = made_up(spec.workload)
        model = build_model(spec, data, None)
        trainee = compose(
            Trainee(module=model, anatomy=anatomy(model)),
            find_strategy(strategy),
            mesh,
            {},
            checkpointing=False,
            compiled=False,
        )
        plan = schedule(data, global_batch=spec.global_batch, updates=size.updates, seed=0)
        return cls(
            spec=spec,
            data=data,
            trainee=trainee,
            optimizer=torch.optim.AdamW(trainee.module.parameters(), lr=LEARNING_RATE),
            objective=objective(data, spec, ranks),
            parts=[indices[mesh.data_rank * BATCH : (mesh.data_rank + 1) * BATCH] for indices in plan],
            work=[data.work(indices) for indices in plan],
        )

    def loader(self) -> Any:
        """What every loop but ours reads: an item is a batch, made by the code that makes ours."""

        def ready(batches: list[dict[str, Any]]) -> dict[str, Any]:
            return self.objective.device(batches[0])

        return DataLoader(Batches(self.data, self.objective, self.parts), batch_size=1, collate_fn=ready)  # type: ignore[arg-type]


def ours(task: Task, size: Size, folder: Path, *, rank: int = 0, synthetic: bool = False) -> Iterator[list[float]]:
    """A call of ``run_updates`` per block, with what ``measure.worker`` wires around it."""
    spec = dataclasses.replace(task.spec, synthetic=synthetic)
    progress = Progress(folder, rank, size.rounds * (size.block + 1))
    trainee = dataclasses.replace(
        task.trainee,
        scale=told(progress, Phase.BACKWARD, task.trainee.scale),
        after_backward=told(progress, Phase.UPDATE, task.trainee.after_backward),
    )
    mark = marker(progress, cuda=False)
    for begin in range(0, size.updates, size.block):
        these = slice(begin, begin + size.block)
        timeline = run_updates(
            trainee=trainee,
            optimizer=task.optimizer,
            scaler=None,
            objective=task.objective,
            work=task.work[these],
            feed=told_of(progress, feed(task.data, task.objective, task.parts[these], spec, CPU)),
            accumulation=1,
            clock=clock_for("cpu", size.block),
            mark=mark,
            faults=Faults(),
        )
        gc.disable()
        yield list(timeline.step_s[1:])


def bare(task: Task, batches: Iterator[dict[str, Any]]) -> Iterator[None]:
    """One step per item."""
    model, optimizer = task.trainee.module, task.optimizer
    for batch, work in zip(batches, task.work, strict=True):
        criterion = task.objective.criterion(work)
        logits = model(**{name: tensor for name, tensor in batch.items() if name != "labels"}).logits
        loss = criterion(logits, batch["labels"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def ready_batches(task: Task, size: Size) -> Iterator[dict[str, Any]]:
    """The same that a synthetic feed repeats in each of our blocks."""
    batches = Batches(task.data, task.objective, task.parts)
    for begin in range(0, size.updates, size.block):
        few = [task.objective.device(batches[u]) for u in range(begin, min(begin + 4, begin + size.block))]
        for step in range(size.block):
            yield few[step % len(few)]


def with_accelerate(task: Task) -> Iterator[None]:
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(task.trainee.module, task.optimizer, task.loader())
    for batch, work in zip(loader, task.work, strict=True):
        criterion = task.objective.criterion(work)
        logits = model(**{name: tensor for name, tensor in batch.items() if name != "labels"}).logits
        loss = criterion(logits, batch["labels"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        yield


def block_of(steps: Iterator[None], size: Size) -> Block:
    """Steps from the end of one to the end of the next, as our own clock has them."""

    def block() -> list[float]:
        stamps = []
        for _ in range(size.block):
            next(steps)
            stamps.append(perf_counter())
        return list(np.diff(stamps))

    return block


class Turns:
    """Every loop once per round, in random order. One of them, ``outer``, is in charge, since it can only be called
    once: it asks for the others' blocks between its own."""

    def __init__(self, blocks: Mapping[str, Block], rounds: int, outer: str | None = None, seed: int = 0) -> None:
        rng = random.Random(seed)
        names = [*blocks, *filter(None, [outer])]
        self._blocks, self._outer = blocks, outer
        self._order = iter([name for _ in range(rounds) for name in rng.sample(names, len(names))])
        self.seconds: dict[str, list[list[float]]] = {name: [] for name in names}

    def others(self) -> None:
        """Run until it is the outer loop's turn."""
        for name in self._order:
            if name == self._outer:
                return
            self.seconds[name].append(self._blocks[name]())


class HandOver(TrainerCallback):
    def __init__(self, turns: Turns, size: Size) -> None:
        self._turns, self._size = turns, size
        self._stamps: list[float] = []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._turns.others()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._stamps.append(perf_counter())
        if len(self._stamps) == self._size.block:
            self._turns.seconds["Trainer"].append(list(np.diff(self._stamps)))
            self._stamps = []
            self._turns.others()


class TheTrainer(Trainer):
    """As it comes, but for the loader, and for the norm of gradients, which it would compute even unclipped."""

    loader: Any = None

    def get_train_dataloader(self) -> Any:
        return self.accelerator.prepare(self.loader)

    def _get_grad_norm(self, *_: Any, **__: Any) -> None:
        return None


def train_with_trainer(task: Task, size: Size, turns: Turns, folder: Path) -> None:
    work = iter(task.work)

    def loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        return task.objective.criterion(next(work))(outputs.logits, labels)

    settings = TrainingArguments(
        output_dir=str(folder),
        max_steps=size.updates,
        per_device_train_batch_size=BATCH,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        use_cpu=True,
        max_grad_norm=0,
        logging_strategy="no",
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = TheTrainer(
        model=task.trainee.module,
        args=settings,
        compute_loss_func=loss,
        optimizers=(task.optimizer, None),  # type: ignore[arg-type]
        callbacks=[HandOver(turns, size)],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.loader = task.loader()
    trainer.train()


def take_turns(task: Task, size: Size, folder: Path) -> dict[str, Seconds]:
    """Seconds of each loop's counted steps, shape (rounds, counted)."""
    blocks: dict[str, Block] = {
        "ours, loaded": partial(next, ours(task, size, folder)),
        "bare, loaded": block_of(bare(task, iter(task.loader())), size),
        "ours, ready": partial(next, ours(task, size, folder, rank=1, synthetic=True)),
        "bare, ready": block_of(bare(task, ready_batches(task, size)), size),
        "accelerate": block_of(with_accelerate(task), size),
    }
    turns = Turns(blocks, size.rounds, outer="Trainer")
    gc.disable()
    train_with_trainer(task, size, turns, folder)
    gc.enable()
    return {name: np.array(seconds) for name, seconds in turns.seconds.items()}


class LinearLayer(torch.nn.Module):
    """Hardly a model."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 10)

    def forward(self, pixel_values: torch.Tensor) -> Any:
        return SimpleNamespace(logits=self.layer(pixel_values[:, 0, 0, :2]))


def without_a_model(like: Task, size: Size, folder: Path) -> tuple[Seconds, Seconds]:
    """Steps of ours and of the bare loop that take next to no time themselves."""
    model = LinearLayer()
    plan = schedule(like.data, global_batch=BATCH, updates=size.updates, seed=0)
    task = dataclasses.replace(
        like,
        trainee=Trainee(module=model, anatomy=Anatomy(blocks=()), sync_wait_s=lambda: 0.0),
        optimizer=torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE),
        parts=plan,
        work=[like.data.work(indices) for indices in plan],
    )
    blocks: dict[str, Block] = {
        "ours": partial(next, ours(task, size, folder, synthetic=True)),
        "bare": block_of(bare(task, ready_batches(task, size)), size),
    }
    turns = Turns(blocks, size.rounds)
    gc.disable()
    turns.others()
    gc.enable()
    return np.array(turns.seconds["ours"]), np.array(turns.seconds["bare"])


class Recording:
    """An objective that keeps every loss."""

    def __init__(self, wrapped: Objective) -> None:
        self._wrapped = wrapped
        self.losses: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def criterion(self, work: Work) -> Callable[[Any, Any], Any]:
        inner = self._wrapped.criterion(work)

        def criterion(logits: Any, labels: Any) -> Any:
            loss = inner(logits, labels)
            self.losses.append(loss.item())
            return loss

        return criterion


def check_same_work(name: str, folder: Path) -> None:
    """Every loop alone, from the same weights on the same batches. Raises SystemExit where their losses differ."""
    size = Size(rounds=2, counted=2)
    found: dict[str, list[float]] = {}

    def task() -> Task:
        fresh = Task.of(name, size, Mesh.make({}, 1, CPU))
        recording = Recording(fresh.objective)
        for group in (optimizer := fresh.optimizer).param_groups:
            group["lr"] = 1e-3  # so that a loop that updates otherwise is seen
        return Task(fresh.spec, fresh.data, fresh.trainee, optimizer, recording, fresh.parts, fresh.work)

    for loop in ("ours", "bare", "accelerate", "Trainer"):
        one = task()
        if loop == "ours":
            list(ours(one, size, folder))
        elif loop == "bare":
            list(bare(one, iter(one.loader())))
        elif loop == "accelerate":
            list(with_accelerate(one))
        else:
            train_with_trainer(one, size, Turns({}, size.rounds, outer="Trainer"), folder)
        found[loop] = one.objective.losses  # type: ignore[attr-defined]
        gc.enable()
    for loop, losses in found.items():
        if len(losses) != size.updates or not np.allclose(losses, found["bare"], rtol=1e-6, atol=0):
            raise SystemExit(f"{name}: not the same work: losses of {loop} {losses}, of bare {found['bare']}")


def ddp_rank(rank: int, name: str, size: Size, folder: Path) -> None:
    """One of two ranks; rank 0 leaves both loops' steps, the slower rank's."""
    os.sched_setaffinity(0, {cores_for(2)[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store-{name}", rank=rank, world_size=2)
    task = Task.of(name, size, Mesh.make({"replicate": 2}, 2, CPU), "ddp")
    replica = task.trainee.module
    bare_block = block_of(bare(task, iter(task.loader())), size)
    our_block = partial(next, ours(task, size, folder, rank=rank))

    def with_stamps(on: bool, block: Block) -> list[float]:
        replica._set_ddp_runtime_logging_sample_rate(1 if on else 1 << 30)
        dist.barrier()
        return block()

    blocks = {"ours": partial(with_stamps, True, our_block), "bare": partial(with_stamps, False, bare_block)}
    turns = Turns(blocks, size.rounds)
    gc.disable()
    turns.others()
    mine = torch.tensor(np.array([turns.seconds["ours"], turns.seconds["bare"]]))
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    if rank == 0:
        np.save(folder / f"ddp-{name}.npy", mine.numpy())
    dist.barrier()
    os._exit(0)


def ddp_turns(name: str, size: Size, folder: Path) -> tuple[Seconds, Seconds]:
    context = torch.multiprocessing.get_context("spawn")
    ranks = [context.Process(target=ddp_rank, args=(rank, name, size, folder)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    if any(rank.exitcode for rank in ranks):
        raise SystemExit(f"{name}: a rank of two ended with {[rank.exitcode for rank in ranks]}")
    found = np.load(folder / f"ddp-{name}.npy")
    return found[0], found[1]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of two loops' step times, ``numerator`` to ``denominator``."""

    median: float
    """Of the rounds' ratios."""
    total: float
    low: float
    high: float
    """Of total times, with the 95 % interval."""


def ratio(numerator: Seconds, denominator: Seconds, name: str) -> Ratio:
    above, below = numerator.mean(axis=1), denominator.mean(axis=1)
    # One name, one stream: both sides get the same rounds.
    means = [moving_block_means(side, RESAMPLES, generator(name)) for side in (above, below)]
    low, high = interval(means[0] / means[1])
    return Ratio(float(np.median(above / below)), float(above.sum() / below.sum()), low, high)


def overhead_row(name: str, our_s: Seconds, bare_s: Seconds, judged: bool) -> tuple[str, list[str]]:
    """The row, and what it misses."""
    found = ratio(our_s, bare_s, name)
    step_ms, added_us = np.median(bare_s) * 1e3, np.median(our_s.mean(axis=1) - bare_s.mean(axis=1)) * 1e6
    bounds = f"{found.low:.4f} to {found.high:.4f}"
    row = f"| {name} | {step_ms:.2f} | {added_us:+.0f} | {found.median:.4f} | {found.total:.4f} ({bounds}) |"
    missed = []
    if judged and not found.median <= MEDIAN_AT_MOST:
        missed.append(f"{name}: median ratio of ours to bare {found.median:.4f}, at most {MEDIAN_AT_MOST} allowed")
    if judged and not found.high <= RATIO_AT_MOST:
        missed.append(f"{name}: ratio of ours to bare up to {found.high:.4f}, at most {RATIO_AT_MOST} allowed")
    return row, missed


def speed_row(name: str, loop: str, our_s: Seconds, their_s: Seconds) -> tuple[str, list[str]]:
    found = ratio(their_s, our_s, f"{name} {loop}")
    bounds = f"{found.low:.4f} to {found.high:.4f}"
    medians = f"{np.median(their_s) * 1e3:.1f} | {np.median(our_s) * 1e3:.1f}"
    row = f"| {name} | {loop} | {medians} | {found.median:.4f} | {found.total:.4f} ({bounds}) |"
    if found.low >= SPEED_AT_LEAST:
        return row, []
    return row, [f"{name}: our speed to that of {loop} down to {found.low:.4f}, at least {SPEED_AT_LEAST} required"]


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of both tables, and what they miss."""

    overheads: list[str]
    speeds: list[str]
    missed: list[str]


def measure(models: list[str], size: Size, folder: Path) -> Tables:
    allowed = os.sched_getaffinity(0)
    found = Tables([], [], [])
    for name in models:
        os.sched_setaffinity(0, {cores_for(1)[0]})
        check_same_work(name, folder)
        task = Task.of(name, size, Mesh.make({}, 1, CPU))
        seconds = take_turns(task, size, folder)
        for data in ("loaded", "ready"):
            row, missed = overhead_row(f"{name}, {data}", seconds[f"ours, {data}"], seconds[f"bare, {data}"], True)
            found.overheads.append(row)
            found.missed.extend(missed)
        for loop in ("Trainer", "accelerate"):
            row, missed = speed_row(name, loop, seconds["ours, loaded"], seconds[loop])
            found.speeds.append(row)
            found.missed.extend(missed)
        if name == "mobilenet_v2":
            alone = without_a_model(task, Size(size.rounds, 20 * size.counted), folder)
            found.overheads.append(overhead_row("linear layer, ready", *alone, judged=False)[0])
        os.sched_setaffinity(0, allowed)
        if len(allowed) >= 2:
            two = ddp_turns(name, size, folder)
            found.overheads.append(overhead_row(f"{name}, loaded, ddp", *two, judged=False)[0])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=120, help="blocks of each loop (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=5, help="counted steps of a block (default: %(default)s)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--smoke", action="store_true", help="few steps, nothing judged")
    args = parser.parse_args()
    size = Size(rounds=3, counted=2) if args.smoke else Size(args.rounds, args.steps)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch, host_lock(lambda: print("waiting for the host lock"), lambda: True):
        load_before = os.getloadavg()[0]
        tables = measure(args.models, size, Path(scratch))
    head = "of total times (95 % interval) |"
    print(f"| model and data | bare step (ms) | added (µs) | ours to bare, median of rounds | {head}")
    print("| --- | ---: | ---: | ---: | ---: |")
    print("\n".join(tables.overheads))
    print(f"\n| model | loop | its step (ms) | our step (ms) | our speed to its, median of rounds | {head}")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    print("\n".join(tables.speeds))
    cores = len(os.sched_getaffinity(0))
    print(f"\n{size.rounds * size.counted} counted steps of each loop, {size.counted} a block; {cores} cores, "
          f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, "
          f"accelerate {accelerate.__version__}; load average {load_before:.1f} before.")  # fmt: skip
    if tables.missed and not args.smoke:
        print("\nMISSED: " + "\nMISSED: ".join(tables.missed), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
