"""The benchmark scripts run, on as little as shows it; their figures are in docs/benchmarks.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUBSET = ROOT.parent / "shared" / "data" / "mlperf" / "v4.1_test_subset.tar.xz"


@pytest.mark.slow
@pytest.mark.skipif(not SUBSET.exists(), reason="the raw archive is kept outside the repository")
def test_reading_published_results_is_measured_beside_mlcommons_tool() -> None:
    script = ROOT / "tests" / "benchmarks" / "mlperf_ingest.py"
    command = [sys.executable, str(script), "--v4.1", str(SUBSET), "--v5.1", str(SUBSET), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 5  # head, rule, the official tool, ours twice
    assert all("v4.1" in row for row in rows[2:])


@pytest.mark.slow
def test_the_measured_loop_is_measured_beside_a_bare_one_trainer_and_accelerate() -> None:
    script = ROOT / "tests" / "benchmarks" / "loop_overhead.py"
    done = subprocess.run([sys.executable, str(script), "--smoke"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith(("| mobilenet_v2", "| linear", "| llama"))]
    loops = ["Trainer", "accelerate"]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[:7]] == [
        *(f"mobilenet_v2, {data}" for data in ("loaded", "ready")),
        "linear layer, ready",
        "mobilenet_v2, loaded, ddp",
        *(f"llama, {data}" for data in ("loaded", "ready", "loaded, ddp")),
    ]
    assert [row.split(" | ")[1] for row in rows[7:]] == loops + loops


@pytest.mark.slow
def test_plans_are_timed_and_the_start_of_a_job_with_and_without_what_is_kept() -> None:
    script = ROOT / "tests" / "benchmarks" / "plan_speed.py"
    done = subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[2:]] == [
        "| `snakemake -n`, 72 runs",
        "| the same again",
        "| start of a job of 72 runs",
        "| the same, nothing kept",
        "| `snakemake --version`",
    ]


@pytest.mark.slow
def test_what_a_run_costs_beside_its_window_is_measured_with_both_launchers() -> None:
    script = ROOT / "tests" / "benchmarks" / "orchestration.py"
    done = subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row.split("|")[1].strip() for row in rows[2:]] == ["a fork server", "torchrun"]
    assert re.fullmatch(r"orchestration ratio 0\.\d{3} \(bound 0\.25\)", done.stdout.splitlines()[-1])
