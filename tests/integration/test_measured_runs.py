"""Real runs: the times are the right ranks' times, the work is the same, and nothing is left behind.

Ranks are forked from one server, which takes a few seconds to import; those few that torchrun starts take as long each.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven.datasets.__main__ import main as prepare
from breakeven.measure.hostlock import host_lock
from breakeven.schema.record import STEP_ARRAYS
from breakeven.schema.spec import Spec, canonical_json, run_id
from breakeven.schema.status import Status
from tests.measured_runs import CHAT, IMAGES, TEXT, Run, prepare_data, spec
from tests.processes import is_rank, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    return prepare_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """Runs by spec and fault; each is executed once for the whole module."""
    made: dict[str, Run] = {}

    def get(one: Spec, **fault: Any) -> Run:
        key = one.to_json() + json.dumps(fault)
        if key not in made:
            folder = tmp_path_factory.mktemp("run")
            made[key] = Run(one, folder, data[one.workload.model], fault=fault).measured()
        return made[key]

    return get


@pytest.mark.parametrize("workload", [IMAGES, TEXT], ids=lambda workload: workload.model)
class TestSameWork:
    def test_two_ranks_train_as_one_does_and_a_strategy_that_does_not_is_caught(self, runs, workload):
        single = runs(spec(workload, strategy="single", devices=1)).steps()["loss"]
        ddp = runs(spec(workload)).steps()["loss"]
        broken = runs(spec(workload), no_sync=True).steps()["loss"]
        assert len(single) == 8
        assert np.ptp(single) > 0.01
        assert np.abs(ddp - single).max() <= 1e-5
        assert np.abs(broken - single).max() >= 1e-3

    def test_the_record_and_the_arrays_agree_on_the_work_done(self, runs, workload):
        run = runs(spec(workload))
        record, steps = run.record(), run.steps()
        assert set(steps) == set(STEP_ARRAYS)
        assert record.status is Status.OK
        assert record.run_id == run_id(run.spec)
        assert steps["step_s"].shape == steps["data_wait_s"].shape == steps["sync_wait_s"].shape == (2, 8)
        assert steps["samples"].tolist() == [8] * 8
        assert (steps["tokens_padded"] >= steps["tokens"]).all()
        assert (steps["tokens"] >= steps["tokens_loss"]).all()
        assert (steps["tokens_loss"].min() > 0) == (workload is TEXT)
        assert record.environment.details["ranks"]["cores"][0] != record.environment.details["ranks"]["cores"][1]
        assert record.trainable_parameters < record.parameters or workload is IMAGES
        assert record.faults == {}

    def test_steps_are_back_to_back_so_rate_times_time_is_the_work(self, runs, workload):
        run = runs(spec(workload))
        record, steps = run.record(), run.steps()
        window_s = steps["step_s"].sum(axis=1)
        assert (window_s < record.elapsed_s - record.rank_start_s).all()
        rate = steps["samples"].sum() / steps["step_s"].max(axis=0).sum()
        # The slowest rank's steps, step by step, can only be a little longer than either rank's whole window.
        assert rate * window_s.max() == pytest.approx(steps["samples"].sum(), rel=0.1)

    def test_both_run_lengths_see_the_same_tokens_on_any_number_of_devices(self, runs, workload):
        one, two = runs(spec(workload, strategy="single", devices=1)).steps(), runs(spec(workload)).steps()
        for name in ("samples", "tokens_padded", "tokens", "tokens_loss"):
            assert one[name].tolist() == two[name].tolist()


def test_a_slow_rank_is_slow_in_its_own_time_and_the_other_waits_for_it(runs):
    run = runs(spec(IMAGES, updates=44, global_batch=16), rank=1, sleep_s=0.05, from_update=24)
    steps = run.steps()
    own_ms, wait_ms = 1e3 * (steps["step_s"] - steps["sync_wait_s"]), 1e3 * steps["sync_wait_s"]

    def gain(values: np.ndarray) -> float:
        # Quartiles, not medians: a neighbour's load only ever adds time.
        return float(np.quantile(values[24:], 0.25) - np.quantile(values[4:24], 0.25))

    assert gain(own_ms[1]) == pytest.approx(50, abs=20)
    assert gain(own_ms[0]) == pytest.approx(0, abs=20)
    assert gain(wait_ms[0]) == pytest.approx(50, abs=20)
    assert gain(1e3 * steps["step_s"].max(axis=0)) == pytest.approx(50, abs=20)
    assert run.record().faults == {"rank": 1, "sleep_s": 0.05, "from_update": 24}


def test_torchrun_and_a_fork_server_run_the_same_code(runs, tmp_path, data):
    forked = runs(spec(TEXT))
    started = Run(spec(TEXT), tmp_path, data["llama"], launcher="torchrun").measured()
    assert started.steps()["loss"].tolist() == forked.steps()["loss"].tolist()
    assert started.record().start == {"by": "torchrun"}
    assert forked.record().start["by"] == "fork"
    assert started.record().environment.details["variables"] == forked.record().environment.details["variables"]
    assert forked.record().rank_start_s < 0.5 * started.record().rank_start_s
    for record in (started.record(), forked.record()):
        assert all(0.1 < peak < 2 for peak in record.peak_rss_gib)
        assert len(record.peak_rss_gib) == 2
    assert started.processes() == []


def test_a_machine_that_is_not_the_specs_is_refused_at_once(tmp_path, data):
    run = Run(spec(IMAGES, device_model="Abacus"), tmp_path, data["mobilenet_v2"])
    done = run.execute()
    assert done.returncode == 2
    assert "The run is of device 'Abacus'" in done.stderr
    assert list(tmp_path.iterdir()) == []


#: A head process as Snakemake is one: it runs bash, which runs the launcher, and ends neither when it dies.
HEAD = "import subprocess, sys; subprocess.Popen(['bash', '-c', sys.argv[2] + '; true']).wait()  # snakemake"


@pytest.mark.parametrize(
    ("launcher", "whom", "number"),
    [
        ("fork", "launcher", signal.SIGKILL),
        ("fork", "launcher", signal.SIGINT),
        ("fork", "head", signal.SIGKILL),
        ("fork", "head", signal.SIGINT),
        ("torchrun", "launcher", signal.SIGKILL),
        pytest.param("torchrun", "head", signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_no_process_is_left_when_the_launcher_or_its_head_ends(tmp_path, data, launcher, whom, number, request):
    fault = {"rank": 1, "sleep_s": 600}
    run = Run(spec(IMAGES, workers=1), tmp_path, data["mobilenet_v2"], launcher=launcher, fault=fault)
    command = run.command
    if whom == "head":
        import shlex

        run.mark = tmp_path.name  # it has a fork server of its own, which is to end too
        command = [sys.executable, "-c", HEAD, "snakemake", shlex.join(command)]
    process = subprocess.Popen(command, env=run.environment, stderr=subprocess.PIPE, text=True)
    request.addfinalizer(lambda: [os.kill(pid, signal.SIGKILL) for pid in run.processes(servers=whom == "head")])
    wait_for(lambda: len(list(tmp_path.glob(".measure-*/started-*.json"))) == 2, 60)
    assert sum(map(is_rank, run.processes())) >= 2
    assert len(run.processes()) >= 4  # launcher, what starts the ranks, two of them; workers that load data later
    process.send_signal(number)
    process.wait(timeout=30)
    wait_for(lambda: run.processes(servers=whom == "head") == [], 10)
    assert not run.record_file.exists()
    with host_lock(lambda: None, lambda: True) as waited:
        assert waited < 10
    if (whom, number) == ("launcher", signal.SIGINT):
        assert process.returncode == 130
        assert "stopped by SIGINT, no record" in process.stderr.read()
        assert not list(tmp_path.glob(".measure-*"))


def test_a_local_model_folder_trains_on_a_file_of_ones_own(tmp_path, data):
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path / "model"
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([json.dumps(row) for row in CHAT], vocab_size=300, special_tokens=["<s>", "</s>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, bos_token="<s>", eos_token="</s>")
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=300, **sizes, num_key_value_heads=2)).save_pretrained(folder)
    workload = dataclasses.replace(TEXT, model=str(folder), revision="0" * 16, config={})
    output = tmp_path / "own.npz"
    text = canonical_json(dataclasses.asdict(workload))
    assert prepare(["--workload", text, "--file", str(data["own"]), "--output", str(output)]) == 0

    quick = spec(workload, optimizer="adamw", learning_rate=0.02, updates=16)
    run = Run(quick, tmp_path / "run", output, model_dir=folder).measured()
    assert run.record().status is Status.OK
    losses = run.steps()["loss"]
    assert losses[:4].mean() > losses[-4:].mean() + 0.1
    assert run.record().epoch_samples == len(CHAT)
