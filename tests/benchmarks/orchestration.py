"""What a run of a study costs beside its measured window: ranks forked from a server, and torchrun for every run.

``python tests/benchmarks/orchestration.py``

The same study of 40 runs, once with each: a small language model and a small image model, single, ddp and fsdp, mostly
on two ranks, two repeats of every cell, one after the other as ``snakemake measure`` has them, on a copy of the project
whose data are prepared beforehand. Each time from the start of ``snakemake`` to its end, less the sum of the measured
windows (the updates after the warm-up, the slowest rank's time of each), divided by the number of runs: so it holds
everything, the start of Snakemake and of the servers too, and the warm-up.

Then ``plan_speed.py``, the time to plan 1,000 and 10,000 runs. Ends with exit code 1 where the ratio of the two is
above 0.25, or a plan takes too long. ``--quick``: a smoke run of 4 runs, no plans, nothing judged;
``--torchrun-cells N``: fewer cells with torchrun, for a look.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("Snakefile", "config", "workflow", "profiles", "envs")

BOUND = 0.25
UPDATES, WARMUP = 30, 5

MODELS = {
    "text": {
        "model": "llama",
        "config": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 400},
        "sequence_length": 48,
    },
    "images": {
        "model": "mobilenet_v2",
        "config": {"depth_multiplier": 0.35, "norm": "group", "classifier_dropout_prob": 0.0},
        "image_size": 32,
    },
}


@dataclass(frozen=True, slots=True)
class Cost:
    runs: int
    wall_s: float
    windows_s: float

    @property
    def per_run_s(self) -> float:
        """What a run takes beside its window."""
        return (self.wall_s - self.windows_s) / self.runs


def study(model: str, launcher: str, cells: int, repeats: int) -> dict[str, object]:
    """``cells`` of ten: ddp on two ranks at four batches, fsdp at four, single at two, of each model."""
    cases = [
        *({"strategy": "ddp", "devices": 2, "global_batch": batch} for batch in (8, 16, 24, 32)),
        *({"strategy": "fsdp", "devices": 2, "global_batch": batch} for batch in (8, 16, 24, 32)),
        *({"strategy": "single", "devices": 1, "global_batch": batch} for batch in (8, 16)),
    ]
    return {
        "source": "measured",
        "title": f"Orchestration: {model}",
        "workload": MODELS[model],
        "defaults": {"updates": UPDATES, "min_warmup": WARMUP, "optimizer": "sgd", "learning_rate": 0.005},
        "sweeps": {"all": {"cases": cases[:cells]}},
        "repeats": repeats,
        "launcher": launcher,
    }


def cost(launcher: str, cells: int, repeats: int, folder: Path) -> Cost:
    """One study of both models from ``snakemake`` to its end. Raises SystemExit where a run did not end well."""
    project = folder / launcher
    project.mkdir()
    for part in PARTS:
        source = ROOT / part
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, project / part)
    for model in MODELS:
        text = yaml.safe_dump(study(model, launcher, cells, repeats), sort_keys=False)
        (project / f"config/studies/{model}.yaml").write_text(text)
    (project / "config/config.yaml").write_text(yaml.safe_dump({"studies": list(MODELS)}))
    snakemake(project, "data")
    began = time.perf_counter()
    snakemake(project, "measure")
    wall_s = time.perf_counter() - began
    windows_s = [window_s(file) for file in project.glob("results/runs/*/r*/record.json")]
    if len(windows_s) != len(MODELS) * cells * repeats:
        raise SystemExit(f"{launcher}: {len(windows_s)} records, expected {len(MODELS) * cells * repeats}.")
    return Cost(len(windows_s), wall_s, sum(windows_s))


def snakemake(project: Path, target: str) -> None:
    environment = {**os.environ, "BREAKEVEN_MEASURE_HERE": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)])
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-m", "snakemake", target]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")


def window_s(file: Path) -> float:
    """Of one run: the updates after the warm-up, the slowest rank's time of each."""
    record = json.loads(file.read_text())
    if record["status"] != "ok":
        raise SystemExit(f"{file}: {record['status']}: {record['error']}")
    with np.load(file.with_name("steps.npz")) as arrays:
        return float(arrays["step_s"].max(axis=0)[WARMUP:].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--torchrun-cells", type=int, metavar="N", help="of ten, of each model (default: all)")
    args = parser.parse_args()
    cells, repeats = (1, 2) if args.quick else (10, 2)
    with tempfile.TemporaryDirectory() as scratch:
        fork = cost("fork", cells, repeats, Path(scratch))
        torchrun = cost("torchrun", args.torchrun_cells or cells, repeats, Path(scratch))
    ratio = fork.per_run_s / torchrun.per_run_s
    print("| ranks started by | runs | wall time (s) | sum of measured windows (s) | beside it, per run (s) |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, found in (("a fork server", fork), ("torchrun", torchrun)):
        print(f"| {name} | {found.runs} | {found.wall_s:.1f} | {found.windows_s:.1f} | {found.per_run_s:.2f} |")
    print(f"\n{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}; load average before the end "
          f"{os.getloadavg()[0]:.1f}.")  # fmt: skip
    late = False
    if not args.quick:
        print(flush=True)
        late = subprocess.run([sys.executable, str(Path(__file__).with_name("plan_speed.py"))]).returncode != 0
    print(f"orchestration ratio {ratio:.3f} (bound {BOUND})")
    if not args.quick and (ratio > BOUND or late):
        sys.exit(1)


if __name__ == "__main__":
    main()
