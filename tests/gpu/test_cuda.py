"""The CUDA path: what is timed is the device's time, nothing in the window waits for it, and every run ends as it does
on a CPU. Skipped without a GPU; ``python tests/gpu/check.py`` runs it by one command and tells when it could not."""

import dataclasses
import functools
import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from breakeven.datasets.batches import schedule
from breakeven.measure.clocks import CudaClock, clock_for
from breakeven.measure.faults import Faults
from breakeven.measure.feed import feed
from breakeven.measure.loop import run_updates
from breakeven.measure.nvidia import visible_gpus
from breakeven.measure.progress import Progress, read_progress
from breakeven.measure.worker import marker, set_precision
from breakeven.schema.checks import WORKLOADS
from breakeven.schema.spec import Spec
from breakeven.schema.status import Status
from breakeven.schema.strategies import find_strategy
from breakeven.strategies.compose import compose
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.trainee import Trainee
from breakeven.workloads.objectives import objective
from breakeven.workloads.registry import anatomy, build_model
from tests.measured_runs import TEXT, Run, prepare_data
from tests.measured_runs import spec as cpu_spec
from tests.ranks import data_of
from tests.ranks import spec as small_spec

#: Small, and at these learning rates a wrong gradient shows in a few updates while rounding does not.
IMAGES, LEARNING_RATE = WORKLOADS["mobilenet_v2"], 0.05
#: Of these models the one that rounding moves least, so that a lower precision is told from one that does not train.
VIT, VIT_LEARNING_RATE = WORKLOADS["vit"], 0.02
GPUS = visible_gpus()
CUDA = "cuda:0"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(not GPUS, reason="no NVIDIA GPU here (nvidia-smi shows none)"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch here cannot use a GPU"),
]

two_gpus = pytest.mark.skipif(len(GPUS) < 2, reason=f"two ranks need two GPUs, here are {len(GPUS)}")


@pytest.fixture(scope="module")
def spin() -> Callable[[float], None]:
    """Keeps the device busy for so many seconds, and returns at once."""

    def milliseconds(cycles: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end))

    milliseconds(200_000_000)  # the clock comes up from idle
    cycles = 100_000_000
    per_s = cycles / (milliseconds(cycles) / 1e3)
    return lambda seconds: torch.cuda._sleep(int(seconds * per_s))


class TestClock:
    def test_it_times_the_device_while_the_host_runs_ahead(self, spin):
        clock = clock_for("cuda", updates=5, pauses=1)
        assert isinstance(clock, CudaClock)
        began = time.perf_counter()
        clock.stamp()
        for update in range(5):
            clock.begin()
            spin(0.05)
            clock.stamp()
            if update == 2:
                clock.pause()
                spin(0.2)  # an evaluation
                clock.stamp()
        launched_s = time.perf_counter() - began
        steps_s = clock.intervals_s()
        assert launched_s < 0.1
        assert steps_s == pytest.approx([0.05] * 5, rel=0.25)
        assert clock.device_s() == pytest.approx(steps_s, rel=0.05)
        assert time.perf_counter() - began >= 0.9 * (steps_s.sum() + 0.2)

    def test_a_host_that_is_slow_shows_as_time_in_which_the_device_had_nothing_to_do(self, spin):
        clock = clock_for("cuda", updates=3)
        clock.stamp()
        for _ in range(3):
            time.sleep(0.05)
            clock.begin()
            spin(0.02)
            clock.stamp()
            torch.cuda.synchronize()  # as a loop that reads its loss in every update does
        assert clock.intervals_s() - clock.device_s() == pytest.approx([0.05] * 3, rel=0.4)
        assert clock.device_s() == pytest.approx([0.02] * 3, rel=0.3)


@contextmanager
def synchronising_is_an_error() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def cuda_trainee(spec: Spec, data: Any) -> Trainee:
    """On one GPU without other ranks, composed as a rank does it."""
    model = build_model(spec, data, None)
    mixed = {"bf16": torch.bfloat16, "fp16": torch.float16}
    trainee = Trainee(module=model, anatomy=anatomy(model))
    if spec.precision in mixed:
        autocast = functools.partial(torch.autocast, "cuda", dtype=mixed[spec.precision])
        trainee = dataclasses.replace(trainee, autocast=autocast)
    return compose(
        trainee,
        find_strategy("single"),
        Mesh.make({}, 1, torch.device(CUDA)),
        {},
        checkpointing=spec.activation_checkpointing,
        compiled=False,
    )


class TestWindow:
    @pytest.mark.parametrize(
        ("workload", "settings"),
        [
            *((name, {"synthetic": True}) for name in WORKLOADS),
            ("llama", {"pin_memory": True, "non_blocking": True}),
            ("mobilenet_v2", {"pin_memory": True, "non_blocking": True, "workers": 1}),
            ("llama", {"synthetic": True, "precision": "bf16"}),
            ("vit", {"synthetic": True, "precision": "bf16", "activation_checkpointing": True}),
            ("resnet", {"synthetic": True, "memory_format": "channels_last", "gradient_accumulation": 2}),
        ],
    )
    def test_nothing_in_it_waits_for_the_device(self, workload, settings, tmp_path):
        spec = small_spec("single", 1, workload, optimizer="adamw", learning_rate=1e-3, **settings)
        set_precision(torch, spec)
        data = data_of(spec)
        trainee = cuda_trainee(spec, data)
        plan = schedule(data, global_batch=spec.global_batch, updates=spec.updates, seed=0)
        mark, marks, debug = marker(Progress(tmp_path, 0, spec.updates), cuda=True), 0, synchronising_is_an_error()

        def watched_mark() -> None:
            """After the first update, which sets libraries up, and until the last."""
            nonlocal marks
            mark()
            marks += 1
            if marks == 2:
                debug.__enter__()
            if marks == spec.updates + 1:
                debug.__exit__(None, None, None)

        task = objective(data, spec, 1)
        try:
            timeline = run_updates(
                trainee=trainee,
                optimizer=torch.optim.AdamW(trainee.module.parameters(), lr=1e-3),
                scaler=None,
                objective=task,
                work=[data.work(indices) for indices in plan],
                feed=feed(data, task, plan, spec, torch.device(CUDA)),
                accumulation=spec.gradient_accumulation,
                clock=clock_for("cuda", spec.updates),
                mark=watched_mark,
                faults=Faults(),
            )
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert np.isfinite(timeline.loss).all()
        assert (timeline.device_s > 0).all()
        assert (timeline.device_s <= timeline.step_s * 1.001).all()
        assert read_progress(tmp_path, 0).peak_device_gib > 0

    def test_waiting_would_have_been_seen(self):
        value = torch.ones(1, device=CUDA)
        with synchronising_is_an_error(), pytest.raises(RuntimeError, match="synchroniz"):
            value.item()

    @pytest.mark.parametrize("workload", ["mobilenet_v2", "llama"])
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"pin_memory": True},
            {"pin_memory": True, "non_blocking": True},
            {"pin_memory": True, "non_blocking": True, "workers": 2, "persistent_workers": True},
        ],
        ids=lambda settings: "+".join(settings) or "plain",
    )
    def test_however_batches_are_copied_they_arrive_whole(self, workload, settings, spin):
        """The device is kept busy, so that a copy lies in its queue while the host loads what comes next."""
        spec = small_spec("single", 1, workload, updates=12, **settings)
        data, device = data_of(spec), torch.device(CUDA)
        task = objective(data, spec, 1)
        plan = schedule(data, global_batch=spec.global_batch, updates=spec.updates, seed=0)
        arrived = []
        for inputs in feed(data, task, plan, spec, device):
            spin(0.01)
            arrived.append({name: tensor + 0 for name, tensor in inputs.items()})
        assert len(arrived) == spec.updates
        for inputs, indices in zip(arrived, plan, strict=True):
            for name, tensor in task.device(task.host(data.take(indices))).items():
                assert inputs[name].device == device
                torch.testing.assert_close(inputs[name].cpu(), tensor, rtol=1e-5, atol=1e-5)


class TestPrecision:
    @pytest.mark.skipif(bool(GPUS) and torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0),
                        reason="tf32 needs compute capability 8.0")  # fmt: skip
    @pytest.mark.parametrize("operation", ["matrix product", "convolution"])
    def test_tf32_rounds_to_ten_bits_and_fp32_does_not(self, operation):
        draw = torch.Generator(device=CUDA).manual_seed(0)
        random = functools.partial(torch.randn, device=CUDA, generator=draw, dtype=torch.float64)

        def run(dtype: torch.dtype) -> torch.Tensor:
            if operation == "matrix product":
                return left.to(dtype) @ right.to(dtype)
            return torch.nn.functional.conv2d(images.to(dtype), weights.to(dtype))

        left, right, images, weights = random(512, 512), random(512, 512), random(8, 64, 32, 32), random(64, 64, 3, 3)
        exact, errors = run(torch.float64), {}
        for precision in ("fp32", "tf32"):
            set_precision(torch, small_spec("single", 1, "llama", precision=precision))
            found = run(torch.float32).double()
            errors[precision] = float((found - exact).norm() / exact.norm())
        assert errors["fp32"] < 2e-5
        assert 5e-5 < errors["tf32"] < 5e-3


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    files = prepare_data(tmp_path_factory.mktemp("data"))
    return {**files, "vit": files["mobilenet_v2"]}  # images are made of no model


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """Real runs under torchrun, by spec and fault; each is executed once for the whole module."""
    made: dict[str, Run] = {}

    def get(one: Spec, **fault: Any) -> Run:
        key = one.to_json() + json.dumps(fault)
        if key not in made:
            folder = tmp_path_factory.mktemp("run")
            run = Run(one, folder, data[one.workload.model], launcher="torchrun", fault=fault)
            made[key] = run.measured()
        return made[key]

    return get


def gpu_spec(workload: Any, strategy: str = "single", devices: int = 1, **changes: Any) -> Spec:
    facts = {"device_kind": "cuda", "device_model": GPUS[0].name, "devices_per_node": max(len(GPUS), 1)}
    return cpu_spec(
        workload, strategy=strategy, devices=devices, **{"learning_rate": LEARNING_RATE, **facts, **changes}
    )


def ok(run: Run) -> dict[str, np.ndarray]:
    record = run.record()
    assert record.status is Status.OK, f"{record.error}\n{run.log[-3000:]}"
    return run.steps()


BOTH = pytest.mark.parametrize("workload", [IMAGES, TEXT], ids=lambda workload: workload.model)


@BOTH
class TestOneGpu:
    def test_a_run_is_recorded_as_the_device_has_it(self, runs, workload):
        run = runs(gpu_spec(workload))
        record, steps = run.record(), ok(run)
        assert np.ptp(steps["loss"]) > 0.01
        assert (steps["device_s"] > 0).all()
        assert (steps["device_s"] <= steps["step_s"] * 1.001).all()
        assert steps["step_s"].sum() < record.elapsed_s - record.rank_start_s
        total_gib = torch.cuda.get_device_properties(0).total_memory / 2**30
        assert 0 < record.peak_allocated_gib[0] <= record.peak_reserved_gib[0] < total_gib
        assert record.state_bytes == record.expected_state_bytes
        facts = record.environment.details["ranks"]
        assert facts["gpu"] == record.environment.device_model == GPUS[0].name
        assert facts["cudnn_tf32"] is False
        assert record.environment.driver == GPUS[0].driver
        assert run.processes() == []

    def test_in_double_precision_it_trains_as_a_cpu_does(self, runs, workload, tmp_path, data):
        on_gpu = ok(runs(gpu_spec(workload, precision="fp64")))["loss"]
        one = cpu_spec(workload, strategy="single", devices=1, learning_rate=LEARNING_RATE, precision="fp64")
        on_cpu = ok(Run(one, tmp_path, data[workload.model], launcher="torchrun").measured())["loss"]
        assert np.abs(on_gpu - on_cpu).max() <= 1e-9


class TestSettings:
    # On a CPU fp16 moved losses by 1e-4, bf16 by 8e-4, and leaving updates out by 0.5.
    @pytest.mark.parametrize(("precision", "band"), [("tf32", 2e-3), ("fp16", 2e-3), ("bf16", 1e-2)])
    def test_lower_precision_trains_nearly_alike(self, runs, precision, band):
        exact = ok(runs(gpu_spec(VIT, learning_rate=VIT_LEARNING_RATE)))["loss"]
        run = runs(gpu_spec(VIT, learning_rate=VIT_LEARNING_RATE, precision=precision))
        assert 0 < np.abs(ok(run)["loss"] - exact).max() <= band
        assert run.record().environment.details["ranks"]["cudnn_tf32"] is (precision == "tf32")

    def test_pinned_memory_and_loading_processes_change_no_loss(self, runs):
        plain = ok(runs(gpu_spec(IMAGES)))["loss"]
        settings = {"pin_memory": True, "non_blocking": True, "workers": 2, "persistent_workers": True}
        assert ok(runs(gpu_spec(IMAGES, **settings)))["loss"] == pytest.approx(plain, abs=1e-5)

    def test_channels_last_trains_alike(self, runs):
        plain = ok(runs(gpu_spec(IMAGES)))["loss"]
        assert ok(runs(gpu_spec(IMAGES, memory_format="channels_last")))["loss"] == pytest.approx(plain, abs=1e-3)

    def test_checkpointing_trains_alike_in_less_memory(self, runs):
        large = {"global_batch": 128, "updates": 4}
        kept = runs(gpu_spec(IMAGES, **large))
        again = runs(gpu_spec(IMAGES, activation_checkpointing=True, **large))
        assert ok(again)["loss"] == pytest.approx(ok(kept)["loss"], abs=1e-4)
        assert again.record().peak_allocated_gib[0] < kept.record().peak_allocated_gib[0]

    def test_an_evaluation_is_in_no_step(self, runs):
        plain, evaluated = ok(runs(gpu_spec(IMAGES))), ok(runs(gpu_spec(IMAGES, evaluate_every=3)))
        assert evaluated["evaluated_at"].tolist() == [3, 6]
        assert ((evaluated["accuracy"] >= 0) & (evaluated["accuracy"] <= 1)).all()
        assert evaluated["loss"] == pytest.approx(plain["loss"], abs=1e-5)
        assert evaluated["step_s"].shape == (1, 8)

    def test_compiled_blocks_train_alike(self, runs):
        plain = ok(runs(gpu_spec(TEXT)))["loss"]
        assert ok(runs(gpu_spec(TEXT, compile=True)))["loss"] == pytest.approx(plain, abs=1e-3)


class TestOutcomes:
    def test_a_device_that_is_full_is_a_result_with_the_memory_it_had(self, runs):
        run = runs(gpu_spec(IMAGES), fill_at=3)
        record = run.record()
        total_gib = torch.cuda.get_device_properties(0).total_memory / 2**30
        assert record.status is Status.OOM
        assert record.error.rank == 0
        assert "out of memory" in record.error.message
        assert 0.3 * total_gib < record.peak_reserved_gib[0] <= total_gib
        assert record.peak_rss_gib[0] < 0.5 * total_gib
        assert run.processes() == []
        after = ok(runs(gpu_spec(IMAGES, seed=1)))
        assert np.isfinite(after["loss"]).all()


ONE = ("ddp", "fsdp", "zero1", "zero2", "dp")


class TestStrategies:
    @pytest.mark.parametrize("strategy", ONE)
    def test_on_one_gpu_each_trains_as_single_does_and_holds_what_its_formula_says(self, runs, strategy):
        single, run = ok(runs(gpu_spec(TEXT)))["loss"], runs(gpu_spec(TEXT, strategy))
        assert ok(run)["loss"] == pytest.approx(single, abs=1e-5)
        assert run.record().state_bytes == run.record().expected_state_bytes

    @two_gpus
    @pytest.mark.parametrize(
        ("strategy", "workload"),
        [*itertools.product(("ddp", "fsdp", "dp"), (IMAGES, TEXT)), ("zero1", TEXT), ("zero2", TEXT), ("tp", TEXT)],
        ids=lambda part: part if isinstance(part, str) else part.model,
    )
    def test_on_two_as_well(self, runs, strategy, workload):
        single, run = ok(runs(gpu_spec(workload)))["loss"], runs(gpu_spec(workload, strategy, 2))
        assert ok(run)["loss"] == pytest.approx(single, abs=1e-5)
        assert len(run.steps()["step_s"]) == run.spec.ranks == (1 if strategy == "dp" else 2)
        assert run.record().state_bytes == run.record().expected_state_bytes

    @two_gpus
    def test_a_strategy_that_exchanges_no_gradients_is_seen(self, runs):
        single = ok(runs(gpu_spec(IMAGES)))["loss"]
        assert np.abs(ok(runs(gpu_spec(IMAGES, "ddp", 2), no_sync=True))["loss"] - single).max() >= 1e-3

    @two_gpus
    def test_ranks_that_wait_for_one_that_sleeps_are_ended_while_their_gpus_spin(self, runs):
        run = runs(gpu_spec(TEXT, "ddp", 2, updates=20), rank=1, sleep_s=600, from_update=6)
        record = run.record()
        assert record.status is Status.TIMEOUT
        assert "no progress for 30 s" in record.error.message
        assert record.elapsed_s < 90
        assert run.processes() == []
