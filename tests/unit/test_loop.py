"""The measured window without a model that takes time: clocks, progress marks, and what happens in an update."""

import dataclasses
import gc
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.datasets.batches import IGNORED, Work
from breakeven.measure import clocks
from breakeven.measure.clocks import HostClock
from breakeven.measure.faults import Faults
from breakeven.measure.loop import Between, Timeline, accumulate, cut, run_updates
from breakeven.measure.progress import Progress, progress_file, read_progress
from breakeven.strategies.trainee import Trainee
from breakeven.workloads.anatomy import Anatomy
from breakeven.workloads.objectives import Classification, NextToken


class Linear(torch.nn.Module):
    """Logits of each sample, or of each token, by one layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, values: torch.Tensor) -> Any:
        return SimpleNamespace(logits=self.layer(values))


def trainee(**changes: Any) -> Trainee:
    return Trainee(module=Linear(), anatomy=Anatomy(blocks=()), **changes)


def batch(samples: int, seed: int = 0) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return {
        "values": torch.randn(samples, 4, generator=draw),
        "labels": torch.randint(0, 3, (samples,), generator=draw),
    }


CLASSES = Classification(1, 1, 1, True, "contiguous", "fp32")


def run(of: Trainee, updates: int = 4, samples: int = 8, **changes: Any) -> Timeline:
    defaults = {
        "optimizer": torch.optim.SGD(of.module.parameters(), lr=0.1),
        "scaler": None,
        "objective": CLASSES,
        "work": [Work(samples=samples)] * updates,
        "feed": (batch(samples, seed) for seed in range(updates)),
        "accumulation": 1,
        "clock": HostClock(),
        "mark": lambda: None,
        "faults": Faults(),
    }
    return run_updates(trainee=of, **{**defaults, **changes})


def gradients(of: Trainee) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in of.module.parameters()]


def weights(of: Trainee) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in of.module.parameters()]


@contextmanager
def ticking(times: Iterator[float]) -> Iterator[None]:
    """A host clock that shows these times, one per look."""
    real, clocks.time = clocks.time, SimpleNamespace(perf_counter=lambda: next(times))  # type: ignore[assignment]
    try:
        yield
    finally:
        clocks.time = real


class TestHostClock:
    @given(st.lists(st.tuples(st.floats(1e-3, 10), st.none() | st.floats(0, 100)), min_size=1, max_size=20))
    def test_intervals_are_the_wall_time_but_for_the_pauses(self, updates):
        """Each update takes so long, and some are followed by a pause."""
        stamps = [100.0]
        for step, pause in updates:
            stamps.append(stamps[-1] + step)
            if pause is not None:
                stamps.append(stamps[-1] + pause)
        clock = HostClock()
        with ticking(iter(stamps)):
            clock.stamp()
            for _, pause in updates:
                clock.begin()
                clock.stamp()
                if pause is not None:
                    clock.pause()
                    clock.stamp()
        assert clock.intervals_s() == pytest.approx([step for step, _ in updates])
        paused = sum(pause for _, pause in updates if pause is not None)
        assert clock.intervals_s().sum() == pytest.approx(stamps[-1] - stamps[0] - paused)
        assert len(clock.device_s()) == len(updates)
        assert np.isnan(clock.device_s()).all()

    def test_no_update_no_interval(self):
        clock = HostClock()
        clock.stamp()
        assert clock.intervals_s().shape == (0,)


class TestProgress:
    def test_what_is_marked_is_read(self, tmp_path):
        progress = Progress(tmp_path, 3, updates=2)
        before = time.monotonic()
        for done in range(3):
            progress.mark(host_gib=1.0 + done, device_gib=0.5)
        found = read_progress(tmp_path, 3)
        assert found.updates == 2
        assert before <= found.stamps[0] <= found.stamps[1] <= found.stamps[2] <= time.monotonic()
        assert (found.peak_host_gib, found.peak_device_gib) == (3.0, 0.5)

    def test_a_rank_that_has_marked_nothing_has_begun_no_update(self, tmp_path):
        assert read_progress(tmp_path, 0) is None
        Progress(tmp_path, 0, updates=2)
        assert read_progress(tmp_path, 0).updates == -1

    def test_a_file_cut_anywhere_is_read_as_less_or_not_at_all(self, tmp_path):
        progress = Progress(tmp_path, 0, updates=3)
        for _ in range(4):
            progress.mark(1.0, 0.0)
        whole, content = read_progress(tmp_path, 0), progress_file(tmp_path, 0).read_bytes()
        for length in range(len(content)):
            progress_file(tmp_path, 1).write_bytes(content[:length])
            found = read_progress(tmp_path, 1)
            assert found is None or found.stamps == whole.stamps[: len(found.stamps)]

    def test_one_who_reads_while_a_rank_writes_sees_stamps_that_only_grow(self, tmp_path):
        progress = Progress(tmp_path, 0, updates=50)
        seen = []
        for _ in range(51):
            progress.mark(1.0, 0.0)
            seen.append(read_progress(tmp_path, 0).stamps)
        assert [len(stamps) for stamps in seen] == list(range(1, 52))
        assert all(0 < earlier <= later for stamps in seen for earlier, later in itertools.pairwise(stamps))


class TestAccumulation:
    @settings(max_examples=20)
    @given(samples=st.integers(1, 4), parts=st.integers(1, 6))
    def test_parts_give_the_gradient_of_the_whole_batch(self, samples, parts):
        whole, cut_up = trainee(), trainee()
        inputs, criterion = batch(samples * parts), CLASSES.criterion(Work(samples=samples * parts))
        loss = accumulate(whole, inputs, criterion, 1, Faults())
        assert accumulate(cut_up, inputs, criterion, parts, Faults()).item() == pytest.approx(loss.item(), abs=1e-6)
        for one, other in zip(gradients(whole), gradients(cut_up), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)

    @settings(max_examples=20)
    @given(lengths=st.lists(st.integers(0, 5), min_size=2, max_size=8).filter(lambda some: len(some) % 2 == 0))
    def test_so_do_parts_that_hold_different_numbers_of_tokens(self, lengths):
        draw = torch.Generator().manual_seed(0)
        labels = torch.full((len(lengths), 5), IGNORED)
        for row, length in enumerate(lengths):
            labels[row, :length] = 1
        inputs = {"values": torch.randn(len(lengths), 5, 4, generator=draw), "labels": labels}
        whole, cut_up = trainee(), trainee()
        criterion = NextToken(1).criterion(Work(samples=len(lengths), tokens_loss=sum(lengths)))
        loss = accumulate(whole, inputs, criterion, 1, Faults())
        assert accumulate(cut_up, inputs, criterion, 2, Faults()).item() == pytest.approx(loss.item(), abs=1e-6)
        for one, other in zip(gradients(whole), gradients(cut_up), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)

    def test_every_sample_is_in_one_part_with_its_label(self):
        inputs = batch(12)
        parts = list(cut(inputs, 3))
        assert [len(part["labels"]) for part in parts] == [4, 4, 4]
        for name, tensor in inputs.items():
            assert torch.equal(torch.cat([part[name] for part in parts]), tensor)

    @pytest.mark.parametrize(("faults", "kept"), [(Faults(), [True, True, False]), (Faults(no_sync=True), [True] * 3)])
    def test_gradients_are_exchanged_with_the_last_part_alone(self, faults, kept):
        state, seen = {"kept": False}, []

        @contextmanager
        def no_sync() -> Iterator[None]:
            state["kept"] = True
            yield
            state["kept"] = False

        def whole(of: Trainee, inputs: Any, criterion: Any) -> torch.Tensor:
            seen.append(state["kept"])
            return torch.zeros(())

        accumulate(trainee(no_sync=no_sync, run=whole), batch(6), lambda *_: None, 3, faults)
        assert seen == kept


class TestUpdates:
    def test_losses_are_those_of_plain_training(self):
        ours, plain = trainee(), trainee()
        timeline = run(ours, updates=5)
        optimizer, losses = torch.optim.SGD(plain.module.parameters(), lr=0.1), []
        for seed in range(5):
            inputs = batch(8, seed)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(plain.module(inputs["values"]).logits, inputs["labels"])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert timeline.loss == pytest.approx(losses, abs=1e-6)
        for one, other in zip(weights(ours), weights(plain), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)

    def test_gradients_of_the_last_update_are_left_and_of_no_other(self):
        ran, alone = trainee(), trainee()
        run(ran, updates=3, faults=Faults(no_update=True))
        accumulate(alone, batch(8, seed=2), CLASSES.criterion(Work(samples=8)), 1, Faults())
        for one, other in zip(gradients(ran), gradients(alone), strict=True):
            assert torch.equal(one, other)

    def test_a_rank_that_sees_no_loss_has_none(self):
        assert run(trainee(run=lambda *_: None)).loss is None

    def test_waiting_for_data_is_told_apart_and_is_part_of_the_step(self):
        def slow() -> Iterator[Any]:
            for seed in range(3):
                time.sleep(0.02)
                yield batch(8, seed)

        timeline = run(trainee(), updates=3, feed=slow())
        assert (timeline.data_wait_s >= 0.02).all()
        assert (timeline.step_s >= timeline.data_wait_s).all()

    def test_a_mark_before_the_first_update_and_after_each(self):
        marks = []
        run(trainee(), updates=4, mark=lambda: marks.append(None))
        assert len(marks) == 5

    def test_the_wait_for_gradients_is_read_once_an_update(self):
        waits = iter([0.1, 0.2, 0.3])
        assert run(trainee(sync_wait_s=lambda: next(waits)), updates=3).sync_wait_s.tolist() == [0.1, 0.2, 0.3]


class TestBetween:
    @pytest.mark.parametrize(("every", "at"), [(1, [1, 2, 3, 4]), (2, [2, 4]), (3, [3]), (5, [])])
    def test_it_acts_after_the_updates_that_are_due(self, every, at):
        optimizer = SimpleNamespace(steps=0, zero_grad=lambda **_: None)
        optimizer.step = lambda: setattr(optimizer, "steps", optimizer.steps + 1)
        acted = []
        between = Between(
            due=lambda update: update % every == 0, act=lambda update: acted.append((update, optimizer.steps))
        )
        run(trainee(), updates=4, optimizer=optimizer, between=between)
        assert acted == [(update, update) for update in at]

    def test_its_time_is_in_no_update(self):
        slept = 0.05
        begun = time.perf_counter()
        between = Between(due=lambda update: update != 3, act=lambda _: time.sleep(slept))
        timeline = run(trainee(), updates=4, between=between)
        assert timeline.step_s.shape == (4,)
        assert timeline.step_s.sum() <= time.perf_counter() - begun - 3 * slept

    def test_a_step_is_stamped_at_its_end_and_again_where_a_pause_ends(self):
        calls: list[str] = []

        class Recorded(HostClock):
            def stamp(self) -> None:
                calls.append("stamp")
                super().stamp()

            def begin(self) -> None:
                calls.append("begin")

            def pause(self) -> None:
                calls.append("pause")
                super().pause()

        between = Between(due=lambda update: update == 1, act=lambda _: calls.append("act"))
        run(trainee(), updates=2, clock=Recorded(), between=between)
        assert calls == ["stamp", "begin", "stamp", "pause", "act", "stamp", "begin", "stamp"]


class Scaler:
    """What GradScaler does, and when."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.calls: list[str] = []

    def scale(self, loss: Any) -> Any:
        self.calls.append("scale")
        return loss * self.factor

    def step(self, optimizer: Any) -> None:
        self.calls.append("step")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad /= self.factor
        optimizer.step()

    def update(self) -> None:
        self.calls.append("update")


def real_scaler() -> Any:
    return torch.amp.GradScaler("cpu", init_scale=1024.0)


class TestScaler:
    def test_every_part_is_scaled_and_the_update_is_made_by_the_scaler_once(self):
        scaler = Scaler(8.0)
        run(trainee(scale=scaler.scale), updates=2, accumulation=2, scaler=scaler)
        assert scaler.calls == ["scale", "scale", "step", "update"] * 2

    @pytest.mark.parametrize("make", [lambda: Scaler(1024.0), real_scaler], ids=["a fake", "torch's own"])
    def test_scaling_by_a_power_of_two_changes_neither_loss_nor_weights(self, make: Callable[[], Any]):
        plain, scaled, scaler = trainee(), trainee(), make()
        expected = run(plain)
        found = run(dataclasses.replace(scaled, scale=scaler.scale), scaler=scaler)
        assert found.loss.tolist() == expected.loss.tolist()
        for one, other in zip(weights(plain), weights(scaled), strict=True):
            assert torch.equal(one, other)

    def test_a_run_told_not_to_update_does_not_with_a_scaler_either(self):
        scaler = real_scaler()
        left = trainee(scale=scaler.scale)
        before = weights(left)
        run(left, scaler=scaler, faults=Faults(no_update=True))
        assert all(torch.equal(one, other) for one, other in zip(before, weights(left), strict=True))


def test_the_window_leaves_the_collector_of_garbage_on():
    run(trainee())
    assert gc.isenabled()
