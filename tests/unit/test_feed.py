"""What a rank is fed is the same however it is loaded; workers live as long as they are said to, and none longer."""

import os
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from breakeven.datasets.batches import Images, schedule
from breakeven.measure.feed import SYNTHETIC_BATCHES, epochs, feed
from breakeven.measure.processes import children
from breakeven.schema.errors import UserError
from breakeven.schema.spec import DataSource, Spec, Workload
from breakeven.workloads.objectives import objective

CPU = torch.device("cpu")
SAMPLES, BATCH, UPDATES = 24, 8, 8  # three epochs, the last one cut short


def spec(**changes) -> Spec:
    workload = Workload(model="resnet", data=DataSource(name="digits"), image_size=20)
    settings = {
        "strategy": "single",
        "device_kind": "cpu",
        "device_model": "x",
        "devices": 1,
        "devices_per_node": 1,
        "global_batch": BATCH,
        "updates": UPDATES,
    }
    return Spec(workload=workload, **(settings | changes))


@pytest.fixture
def images() -> Images:
    random = np.random.RandomState(0)
    pixels = random.randint(0, 17, (SAMPLES, 8, 8)).astype(np.uint8)
    return Images(pixels, np.arange(SAMPLES), levels=16, classes=SAMPLES)


def parts(images):
    return schedule(images, global_batch=BATCH, updates=UPDATES, seed=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"workers": 2},
        {"workers": 2, "persistent_workers": True},
        {"workers": 1, "persistent_workers": True, "prefetch_factor": 4},
        {"resize_on": "host"},
        {"resize_on": "host", "workers": 2},
        {"resize_on": "host", "memory_format": "channels_last"},
        {"memory_format": "channels_last"},
    ],
    ids=str,
)
def test_a_loaders_settings_change_no_sample_and_no_pixel(images, settings):
    def fed(spec):
        return list(feed(images, objective(images, spec, 1), parts(images), spec, CPU))

    plain, other = fed(spec()), fed(spec(**settings))
    assert len(plain) == len(other) == UPDATES
    for one, two in zip(plain, other, strict=True):
        assert torch.equal(one["labels"], two["labels"])
        assert torch.equal(one["pixel_values"], two["pixel_values"])
        assert two["pixel_values"].shape == (BATCH, 3, 20, 20)
        layout = torch.channels_last if "memory_format" in settings else torch.contiguous_format
        assert two["pixel_values"].is_contiguous(memory_format=layout)


@dataclass(frozen=True)
class WhoLoads:
    """An objective that tells which process ran it, and on which cores it may run."""

    def host(self, samples):
        return {"pid": torch.tensor(os.getpid()), "cores": torch.tensor(sorted(os.sched_getaffinity(0)))}

    def device(self, batch):
        return batch


@pytest.mark.parametrize(("persistent", "processes"), [(False, 6), (True, 2)])
def test_two_workers_begin_anew_with_each_of_three_epochs_unless_they_persist(images, persistent, processes):
    before = set(children(os.getpid()))
    batches = feed(images, WhoLoads(), parts(images), spec(workers=2, persistent_workers=persistent), CPU)
    fed = [next(batches) for _ in range(UPDATES)]
    pids = [int(batch["pid"]) for batch in fed]
    assert len(set(pids)) == processes
    assert os.getpid() not in pids
    assert fed[0]["cores"].tolist() == sorted(os.sched_getaffinity(0))
    batches.close()
    assert set(children(os.getpid())) <= before


def test_no_number_is_drawn_from_torchs_generator_so_dropout_is_the_same_however_data_are_loaded(images):
    drawn = []
    for settings in ({}, {"workers": 2}, {"workers": 2, "persistent_workers": True}):
        torch.manual_seed(3)
        for _ in feed(images, WhoLoads(), parts(images), spec(**settings), CPU):
            pass
        drawn.append(float(torch.rand(())))
    assert len(set(drawn)) == 1


def test_what_is_wrong_with_an_image_is_said_by_the_rank_without_a_workers_traceback(images):
    class Faulty(WhoLoads):
        def host(self, samples):
            raise UserError("cat/3.png: not readable as an image")

    for workers in (0, 1):
        with pytest.raises(UserError) as raised:
            next(feed(images, Faulty(), parts(images), spec(workers=workers), CPU))
        assert str(raised.value) == "cat/3.png: not readable as an image"


def test_a_synthetic_feed_repeats_its_first_batches_and_loads_no_more(images):
    chosen = spec(synthetic=True, workers=2)
    fed = list(feed(images, objective(images, chosen, 1), parts(images), chosen, CPU))
    assert len(fed) == UPDATES
    assert len({id(batch) for batch in fed}) == SYNTHETIC_BATCHES
    assert fed[0] is fed[SYNTHETIC_BATCHES]


@given(updates=st.integers(1, 60), batch=st.integers(1, 50), samples=st.integers(1, 80))
def test_epochs_cut_the_updates_in_order_and_an_epoch_reads_its_samples_once(updates, batch, samples):
    found = epochs(updates, batch, samples)
    assert [update for epoch in found for update in epoch] == list(range(updates))
    assert all(len(epoch) for epoch in found)
    for epoch in found[:-1]:  # a pass ends within the epoch's last update
        assert (epoch.stop - 1) * batch // samples < epoch.stop * batch // samples


def test_where_all_ranks_read_the_same_an_epoch_is_as_long_as_one_ranks_batches_make_it(images):
    chosen = spec(workers=1, sampling="replicated", global_batch=2 * BATCH, devices=2, strategy="ddp")
    pids = [int(batch["pid"]) for batch in feed(images, WhoLoads(), parts(images), chosen, CPU)]
    assert pids[0] == pids[2] != pids[3]  # 24 samples are three batches of 8
