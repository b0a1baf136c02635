"""The whole chain through Snakemake: a small study measured on two cores, killed in every way, and finished."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.conftest import copy_project, environment, run_snakemake
from tests.processes import MARK, is_rank, marked, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores"),
]

STUDY = {
    "source": "measured",
    "title": "A small study",
    "workload": {
        "model": "mobilenet_v2",
        "config": {"depth_multiplier": 0.35, "norm": "group", "classifier_dropout_prob": 0.0},
        "image_size": 16,
    },
    "defaults": {"global_batch": 16, "updates": 12, "min_warmup": 4, "optimizer": "sgd", "learning_rate": 0.01},
    "sweeps": {
        "baseline": {"cases": [{"strategy": "single", "devices": 1}]},
        "ddp": {"grid": {"strategy": ["ddp"], "devices": [1, 2]}},
    },
    "repeats": 2,
}


def small(project: Path, **changes: object) -> Path:
    (project / "config/studies/small.yaml").write_text(yaml.safe_dump(STUDY | changes, sort_keys=False))
    (project / "config/config.yaml").write_text("studies: [small]\n")
    return project


def records(project: Path) -> dict[Path, int]:
    """Every record and when it was written, in nanoseconds."""
    return {path: path.stat().st_mtime_ns for path in project.glob("results/runs/*/r*/record.json")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = small(copy_project(tmp_path_factory.mktemp("small")))
    answer = run_snakemake(project)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return project


def test_a_small_study_is_measured_end_to_end(finished: Path) -> None:
    tables = finished / "results/studies/small/tables"
    runs = pd.read_csv(tables / "runs.csv")
    assert runs["status"].tolist() == ["ok"] * 6
    # throughput x time is work: 16 samples an update, over the updates that were kept
    work = runs["throughput"] * runs["window_s"]
    assert work.tolist() == pytest.approx((16 * (12 - runs["warmup_dropped"])).tolist())
    curve = pd.read_csv(tables / "efficiency.csv").query("headline")
    assert curve["devices"].tolist() == [1, 2]
    assert (curve["time_s"] > 0).all()
    assert curve["repeats"].tolist() == [2, 2]
    same = pd.read_csv(tables / "equivalence.csv").set_index(["strategy", "devices"])
    assert same.loc[("ddp", 2), "max_abs_loss_difference"] <= 1e-5


def test_its_answer_says_cpu_cores_and_never_gpu(finished: Path) -> None:
    answer = (finished / "results/answer.txt").read_text()
    assert "CPU cores" in answer
    assert "GPU" not in answer
    assert "at 2" in answer


def test_a_lost_array_measures_that_run_again_and_no_other(finished: Path) -> None:
    before = records(finished)
    lost = min(before)
    lost.with_name("steps.npz").unlink()
    answer = run_snakemake(finished)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    after = records(finished)
    assert [path for path in before if after[path] != before[path]] == [lost]
    assert "Nothing to be done" in run_snakemake(finished).stderr


def test_lost_data_measure_nothing_again_and_are_the_same_when_prepared_again(finished: Path) -> None:
    before = records(finished)
    data = next(finished.glob("results/data/*.npz"))
    content = data.read_bytes()
    data.unlink()
    assert "Nothing to be done" in run_snakemake(finished).stderr
    assert run_snakemake(finished, "data").returncode == 0
    assert data.read_bytes() == content
    assert "Nothing to be done" in run_snakemake(finished).stderr
    assert records(finished) == before


def test_an_oversubscribed_study_checks_losses_and_draws_no_time(tmp_path: Path) -> None:
    many = 2 * len(os.sched_getaffinity(0))
    sweeps = {
        "baseline": {"cases": [{"strategy": "single", "devices": 1}]},
        "check": {"cases": [{"strategy": "ddp", "devices": many, "global_batch": 8 * many}], "oversubscribe": True},
    }
    project = small(copy_project(tmp_path), sweeps=sweeps, repeats=1)
    answer = run_snakemake(project)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    tables = project / "results/studies/small/tables"
    runs = pd.read_csv(tables / "runs.csv").set_index("devices")
    assert runs.loc[many, "status"] == "ok"
    assert pd.isna(runs.loc[many, "step_time_ms"])
    assert pd.read_csv(tables / "points.csv")["devices"].tolist() == [1]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[], tuple[Path, subprocess.Popen[str], str]]]:
    """A study begun: one run finished, the next one's two ranks at work."""
    heads = []

    def start() -> tuple[Path, subprocess.Popen[str], str]:
        project = small(
            copy_project(tmp_path),
            sweeps={"ddp": {"cases": [{"strategy": "ddp", "devices": 2, "updates": 60}]}},
        )
        mark = uuid.uuid4().hex
        head = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "measure"],
            cwd=project,
            env=environment() | {MARK: mark},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        heads.append(head)
        met = "results/runs/*/r2/.measure-*/started-*.json"
        wait_for(lambda: len(records(project)) == 1 and len(list(project.glob(met))) == 2, 120)
        return project, head, mark

    yield start
    for head in heads:
        if head.poll() is None:
            os.killpg(head.pid, signal.SIGKILL)
        head.wait()


def ranks(mark: str) -> list[int]:
    return [pid for pid in marked(mark) if is_rank(pid)]


def finishes_without_repeating(project: Path, kept: dict[Path, int]) -> None:
    answer = run_snakemake(project, "measure")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    after = records(project)
    assert len(after) == 2
    assert {path: after[path] for path in kept} == kept


@pytest.mark.parametrize("way", ["kill the head", pytest.param("ctrl-c", marks=pytest.mark.slow)])
def test_nothing_is_left_and_the_same_command_finishes(
    way: str, started: Callable[[], tuple[Path, subprocess.Popen[str], str]]
) -> None:
    project, head, mark = started()
    kept = records(project)
    if way == "ctrl-c":
        os.killpg(head.pid, signal.SIGINT)  # as a terminal does it: the whole foreground group
    else:
        os.kill(head.pid, signal.SIGKILL)
    head.wait(timeout=60)
    wait_for(lambda: not marked(mark), 20)
    finishes_without_repeating(project, kept)


def test_a_killed_rank_is_a_failed_run_and_the_study_goes_on(
    started: Callable[[], tuple[Path, subprocess.Popen[str], str]],
) -> None:
    project, head, mark = started()
    kept = records(project)
    os.kill(ranks(mark)[0], signal.SIGKILL)
    assert head.wait(timeout=120) == 0
    wait_for(lambda: not marked(mark), 20)
    after = records(project)
    assert {path: after[path] for path in kept} == kept
    (failed,) = after.keys() - kept.keys()
    assert json.loads(failed.read_text())["status"] == "failed"
    assert "Nothing to be done" in run_snakemake(project, "measure").stderr
