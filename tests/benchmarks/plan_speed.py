"""How long a plan takes: ``snakemake -n`` of 1,000 and of 10,000 runs, and the start of one batch job of such a study.

``python tests/benchmarks/plan_speed.py``

On a copy of the project, a study of four H100 that need not be there: three strategies, two precisions, checkpointing
or not, on 1, 2 and 4 devices, from as many seeds as it takes, two repeats of each. First with nothing kept of earlier
invocations, then again. A batch system's job reads the Snakefile anew, so its start is the command that Snakemake's
executors submit, up to the run itself (``-n``), with the expanded study at hand and without; beside it what Snakemake
takes to say its version. Processor time is that of the command and what it started: on a busy machine it tells more.

Ends with exit code 1 where the wall time of a plan is above 10 s for 1,000 runs, or 60 s for 10,000. ``--quick``: a
smoke run of 72 runs, nothing judged.
"""

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("Snakefile", "config", "workflow", "profiles", "envs")
KEPT = Path("results/.plan")
#: Most seconds that a plan may take, by its runs.
BOUNDS = {1_008: 10.0, 10_080: 60.0}
QUICK = {72: None}

GRID = {
    "strategy": ["ddp", "zero1", "fsdp"],
    "devices": [1, 2, 4],
    "precision": ["fp32", "bf16"],
    "activation_checkpointing": [False, True],
}
REPEATS = 2
#: Runs from one seed.
RUNS_PER_SEED = 3 * 3 * 2 * 2 * REPEATS


@dataclass(frozen=True, slots=True)
class Time:
    wall_s: float
    cpu_s: float


def timed(folder: Path, *words: str) -> Time:
    """Raises SystemExit with what the command said if it fails."""
    before, start = _cpu_s(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    wall_s = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"snakemake {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return Time(wall_s, _cpu_s() - before)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def project(folder: Path, runs: int) -> Path:
    """A copy with one study of so many runs."""
    folder.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(ROOT / part, folder / part)
    study = {
        "source": "measured",
        "title": "many runs",
        "platform": "h100-node",
        "workload": {"model": "llama"},
        "defaults": {"global_batch": 16},
        "sweeps": {"many": {"grid": GRID | {"seed": list(range(runs // RUNS_PER_SEED))}}},
        "repeats": REPEATS,
    }
    (folder / "config/studies/many.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    (folder / "config/config.yaml").write_text("studies: [many]\n")
    return folder


def job(folder: Path) -> list[str]:
    """What an executor has a node run for the plan's last run."""
    sys.path.insert(0, str(folder / "workflow"))
    from breakeven.head.keep import Kept
    from breakeven.head.plan import make_plan

    here = Path.cwd()
    os.chdir(folder)
    run = list(make_plan({"studies": ["many"]}, kept=Kept(KEPT, writes=False)).specs)[-1]
    os.chdir(here)
    return [
        "--target-jobs", f"measure_run:repeat=1,run_id={run}", "--allowed-rules", "measure_run", "--mode", "remote",
        "--cores", "4", "--nolock", "--force", "--rerun-triggers", "mtime", "params", "input", "-n",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    bounds = QUICK if parser.parse_args().quick else BOUNDS
    rows: list[tuple[str, Time]] = []
    late: list[str] = []
    for runs, bound in bounds.items():
        with tempfile.TemporaryDirectory(prefix="plan-speed-") as parent:
            folder = project(Path(parent) / "project", runs)
            first = timed(folder, "-n")
            rows += [(f"`snakemake -n`, {runs:,} runs", first), ("the same again", timed(folder, "-n"))]
            start = job(folder)
            rows.append((f"start of a job of {runs:,} runs", timed(folder, *start)))
            shutil.rmtree(folder / KEPT)
            rows.append(("the same, nothing kept", timed(folder, *start)))
            if bound and first.wall_s > bound:
                late.append(f"{runs:,} runs took {first.wall_s:.1f} s, more than {bound:g} s")
    rows.append(("`snakemake --version`", timed(ROOT, "--version")))
    print("| what | wall time (s) | processor time (s) |\n| --- | ---: | ---: |")
    print("\n".join(f"| {what} | {took.wall_s:.1f} | {took.cpu_s:.1f} |" for what, took in rows))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\n{os.cpu_count()} cores, Python {platform.python_version()}, load average {load}.")
    if late:
        raise SystemExit("\n".join(late))


if __name__ == "__main__":
    main()
