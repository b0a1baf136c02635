"""What tests of real runs share: small workloads, their data, and one run's command, files and processes."""

import dataclasses
import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from breakeven.datasets.__main__ import main as prepare
from breakeven.schema.cpu import cpu_model
from breakeven.schema.record import Record
from breakeven.schema.spec import DataSource, Spec, Workload, canonical_json
from tests.processes import MARK, command_name, marked

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

#: Of all that this test session starts: runs of one session share a fork server, which carries the mark of its first.
SESSION = uuid.uuid4().hex

#: What a fork server calls itself; it outlives the runs it serves.
SERVER = "breakeven-fork"


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


def prepare_data(folder: Path) -> dict[str, Path]:
    """Prepared data by the model that reads them, and ``own``, the user's file that the text comes from."""
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
    launcher: str = "fork"
    repeat: int = 1
    model_dir: Path | None = None
    fault: dict[str, Any] = dataclasses.field(default_factory=dict)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    mark: str = SESSION

    @property
    def record_file(self) -> Path:
        return self.folder / "record.json"

    @property
    def log(self) -> str:
        file = self.folder / "run.log"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def command(self) -> list[str]:
        files = {"record": self.record_file, "steps": self.folder / "steps.npz", "log": self.folder / "run.log"}
        arguments = {
            "spec": self.spec.to_json(),
            "repeat": self.repeat,
            "data": self.data,
            "timeout-s": self.timeout_s,
            "launcher": self.launcher,
            **files,
        }
        if self.model_dir:
            arguments["model-dir"] = self.model_dir
        options = [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
        return [sys.executable, "-m", "breakeven.measure", *options]

    @property
    def environment(self) -> dict[str, str]:
        fault = {"BREAKEVEN_FAULT": json.dumps(self.fault)} if self.fault else {}
        return {**os.environ, MARK: self.mark, "BREAKEVEN_MEASURE_HERE": "1", **fault, **self.variables}

    def execute(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command, env=self.environment, capture_output=True, text=True, check=False)

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command, env=self.environment, stderr=subprocess.PIPE, text=True)

    def record(self) -> Record:
        return Record.from_json(self.record_file.read_text())

    def steps(self) -> dict[str, np.ndarray]:
        with np.load(self.folder / "steps.npz") as arrays:
            return dict(arrays)

    def measured(self) -> "Run":
        done = self.execute()
        assert done.returncode == 0, done.stderr + self.log
        return self

    def processes(self, *, servers: bool = False) -> list[int]:
        """Everything this run started that still runs, whoever its parent is by now; fork servers left out."""
        return [pid for pid in marked(self.mark) if servers or command_name(pid) != SERVER]

    def attempts(self) -> list[tuple[str, str | None, int | None]]:
        """(event, signal, rank) of each that is noted."""
        lines = (self.folder / "attempts.jsonl").read_text().splitlines()
        return [(event["event"], event.get("signal"), event.get("rank")) for event in map(json.loads, lines)]
