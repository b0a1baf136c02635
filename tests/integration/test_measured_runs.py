"""Real runs under torchrun: the times are the right ranks' times, the work is the same, and nothing is left behind.

Every run starts one or two processes that import torch and transformers; the whole file takes two minutes on two cores.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven.datasets.__main__ import main as prepare
from breakeven.measure.hostlock import host_lock
from breakeven.schema.cpu import cpu_model
from breakeven.schema.record import STEP_ARRAYS, Record
from breakeven.schema.spec import DataSource, Spec, Workload, canonical_json, run_id
from breakeven.schema.status import Status
from tests.processes import MARK, marked, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores"),
]

CHAT = [{"prompt": f"What comes after {n}?", "response": f"After {n} comes {n + 1}" * (n % 5 + 1)} for n in range(60)]

IMAGES = Workload(
    model="mobilenet_v2",
    config={"depth_multiplier": 0.35, "norm": "group", "classifier_dropout_prob": 0.0},
    data=DataSource(name="digits"),
    image_size=32,
)
TEXT = Workload(
    model="llama",
    config={"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 400},
    technique="lora",
    technique_options={"rank": 4},
    data=DataSource(name="jsonl"),
    sequence_length=48,
)


def spec(workload: Workload, **changes: Any) -> Spec:
    usual = {
        "strategy": "ddp",
        "device_kind": "cpu",
        "device_model": cpu_model(),
        "devices": 2,
        "devices_per_node": 2,
        "global_batch": 8,
        "optimizer": "sgd",
        "learning_rate": 0.005,
        "updates": 8,
        "min_warmup": 2,
    }
    return Spec(workload=workload, **{**usual, **changes})


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    own = folder / "own.jsonl"
    own.write_text("".join(json.dumps(row) + "\n" for row in CHAT))
    files = {}
    for workload in (IMAGES, TEXT):
        files[workload.model] = folder / f"{workload.model}.npz"
        text = canonical_json(dataclasses.asdict(workload))
        assert prepare(["--workload", text, "--output", str(files[workload.model]), "--file", str(own)]) == 0
    return {**files, "own": own}


@dataclass
class Run:
    """One run's files, and the command that makes them."""

    spec: Spec
    folder: Path
    data: Path
    timeout_s: float = 120
    model_dir: Path | None = None
    fault: dict[str, Any] = dataclasses.field(default_factory=dict)
    mark: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def record_file(self) -> Path:
        return self.folder / "record.json"

    @property
    def command(self) -> list[str]:
        files = {"record": self.record_file, "steps": self.folder / "steps.npz", "log": self.folder / "run.log"}
        arguments = {
            "spec": self.spec.to_json(),
            "repeat": "1",
            "data": self.data,
            "timeout-s": self.timeout_s,
            **files,
        }
        if self.model_dir:
            arguments["model-dir"] = self.model_dir
        options = [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
        return [sys.executable, "-m", "breakeven.measure", *options]

    @property
    def environment(self) -> dict[str, str]:
        fault = {"BREAKEVEN_FAULT": json.dumps(self.fault)} if self.fault else {}
        return {**os.environ, MARK: self.mark, "BREAKEVEN_MEASURE_HERE": "1", **fault}

    def execute(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command, env=self.environment, capture_output=True, text=True, check=False)

    def record(self) -> Record:
        return Record.from_json(self.record_file.read_text())

    def steps(self) -> dict[str, np.ndarray]:
        with np.load(self.folder / "steps.npz") as arrays:
            return dict(arrays)

    def measured(self) -> "Run":
        done = self.execute()
        log = self.folder / "run.log"
        assert done.returncode == 0, done.stderr + (log.read_text() if log.exists() else "")
        return self

    def processes(self) -> list[int]:
        """Everything this run started that still runs, whoever its parent is by now."""
        return marked(self.mark)


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


class TestFailures:
    def test_a_rank_that_raises_is_named_with_its_last_line(self, tmp_path, data):
        run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"rank": 1, "raise_at": 3, "message": "no luck"})
        done = run.execute()
        record = run.record()
        assert done.returncode == 0
        assert (record.status, record.error.rank) == (Status.FAILED, 1)
        assert record.error.message == "RuntimeError: no luck"
        assert f"FAILED rank 1: RuntimeError: no luck (log: {run.folder / 'run.log'})" in done.stderr
        assert "Traceback" in (run.folder / "run.log").read_text()
        assert run.steps()["step_s"].shape == (2, 0)
        assert record.parameters > 0
        assert run.processes() == []

    def test_memory_that_runs_out_is_oom(self, tmp_path, data):
        run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"rank": 0, "oom_at": 2}).measured()
        assert run.record().status is Status.OOM
        assert run.record().error.rank == 0

    def test_a_run_past_its_deadline_is_timeout_and_its_ranks_are_gone(self, tmp_path, data):
        run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], timeout_s=16, fault={"rank": 1, "sleep_s": 600})
        run.measured()
        assert run.record().status is Status.TIMEOUT
        assert run.record().elapsed_s < 40
        assert run.processes() == []

    def test_a_rank_killed_from_outside_is_tried_again_and_the_second_time_a_result(self, tmp_path, data):
        run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault={"rank": 1, "kill_at": 2})
        first = run.execute()
        assert first.returncode == 1
        assert "rank 1 was killed by SIGKILL from outside" in first.stderr
        assert not run.record_file.exists()
        events = [json.loads(line) for line in (tmp_path / "attempts.jsonl").read_text().splitlines()]
        assert [(event["event"], event.get("signal"), event.get("rank")) for event in events] == [
            ("start", None, None),
            ("killed", "SIGKILL", 1),
        ]
        run.measured()
        record = run.record()
        assert (record.status, record.attempts, record.error.rank) == (Status.FAILED, 2, 1)
        assert "out-of-memory killer" in record.error.message
        assert run.processes() == []

    def test_a_machine_that_is_not_the_specs_is_refused_at_once(self, tmp_path, data):
        run = Run(spec(IMAGES, device_model="Abacus"), tmp_path, data["mobilenet_v2"])
        done = run.execute()
        assert done.returncode == 2
        assert "The run is of device 'Abacus'" in done.stderr
        assert list(tmp_path.iterdir()) == []


#: A head process as Snakemake is one: it runs bash, which runs the launcher, and ends neither when it dies.
HEAD = "import subprocess, sys; subprocess.Popen(['bash', '-c', sys.argv[2] + '; true']).wait()  # snakemake"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("whom", ["launcher", "head"])
def test_no_process_is_left_when_the_launcher_or_its_head_ends(tmp_path, data, whom, number, request):
    fault = {"rank": 1, "sleep_s": 600}
    run = Run(spec(IMAGES), tmp_path, data["mobilenet_v2"], fault=fault)
    command = run.command
    if whom == "head":
        import shlex

        command = [sys.executable, "-c", HEAD, "snakemake", shlex.join(command)]
    process = subprocess.Popen(command, env=run.environment, stderr=subprocess.PIPE, text=True)
    request.addfinalizer(lambda: [os.kill(pid, signal.SIGKILL) for pid in run.processes()])
    wait_for(lambda: any(tmp_path.glob(".measure-*/started-1.json")), 60)
    assert len(run.processes()) >= 4  # launcher, torchrun's agent, two ranks
    process.send_signal(number)
    process.wait(timeout=30)
    wait_for(lambda: run.processes() == [], 10)
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
