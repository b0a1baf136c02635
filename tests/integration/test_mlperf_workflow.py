"""Published results through Snakemake: the same logs as a tree, as an archive and as a clone give the same scores."""

import shutil
import subprocess
import tarfile
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.conftest import ROOT, copy_project, run_snakemake
from tests.unit.test_mlperf_fetch import git
from tests.workflow.test_graph import jobs

SUBSET = ROOT.parent / "shared/data/mlperf/v4.1_test_subset.tar.xz"
TABLES = ("runs", "anomalies", "scores", "critical_batch", "reference")
#: Of what the subset holds, one workload, by the name that later rounds gave it.
STUDY = {
    "source": "mlperf",
    "title": "A part of v4.1",
    "round": "v4.1",
    "workloads": {"retinanet": "RetinaNet"},
}

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not SUBSET.is_file(), reason="the part of the round's logs is not here"),
]


def ready(project: Path, **mlperf: object) -> Path:
    (project / "config/studies/part.yaml").write_text(yaml.safe_dump(STUDY))
    (project / "my.yaml").write_text(yaml.safe_dump({"studies": ["part"], "mlperf": mlperf}))
    return project


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_snakemake(project, "mlperf", "--configfile", "my.yaml", *arguments)


def unpack(folder: Path) -> None:
    with tarfile.open(SUBSET) as archive:
        archive.extractall(folder, filter="data")


@pytest.fixture(scope="module")
def from_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished project whose round lay in a folder as an archive."""
    project = copy_project(tmp_path_factory.mktemp("archive"))
    (project / "mine").mkdir()
    shutil.copy(SUBSET, project / "mine/training_results_v4.1.tar.xz")
    answer = run(ready(project, rounds=["v4.1"], source="mine"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return project


@pytest.fixture(scope="module")
def from_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished project whose round lay in a folder as a tree."""
    project = copy_project(tmp_path_factory.mktemp("tree"))
    unpack(project / "mine/v4.1")
    answer = run(ready(project, rounds=["v4.1"], source=str(project / "mine")))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return project


def table(project: Path, name: str) -> str:
    return (project / f"results/mlperf/v4.1/{name}.csv").read_text()


@pytest.mark.parametrize("name", TABLES)
def test_a_tree_and_an_archive_of_the_same_logs_give_the_same_table(
    name: str, from_tree: Path, from_archive: Path
) -> None:
    assert table(from_tree, name) == table(from_archive, name)


def test_the_scores_are_those_that_mlcommons_scorer_gives(from_archive: Path) -> None:
    scores = pd.read_csv(from_archive / "results/mlperf/v4.1/scores.csv")
    found = scores.set_index(["submitter", "benchmark"])["time_to_train_strict_min"]
    official = pd.read_csv(SUBSET.with_name("v4.1_test_subset_expected.csv"))
    expected = {
        (row["submitter"], name.removesuffix(":time_to_train")): row[name]
        for _, row in official.iterrows()
        for name in official.columns
        if name.endswith(":time_to_train") and pd.notna(row[name])
    }
    assert found.dropna().to_dict() == pytest.approx(expected)


def test_a_study_of_the_round_has_its_points_and_figures(from_archive: Path) -> None:
    study = from_archive / "results/studies/part"
    points = pd.read_csv(study / "tables/points.csv")
    assert set(points.loc[points["headline"], "devices"]) == {8}
    assert (study / "figures/retinanet/time.svg").is_file()


def test_nothing_is_done_again_until_a_log_below_the_folder_changes(from_tree: Path) -> None:
    assert "Nothing to be done" in run(from_tree).stderr
    log = next((from_tree / "mine").rglob("result_0.txt"))
    content = log.read_bytes()
    log.write_bytes(content + b"\n")
    assert jobs(run(from_tree, "-n"))["extract_results"] == 1
    log.write_bytes(content)


@pytest.mark.slow
def test_what_the_logs_turn_out_not_to_hold_is_told_and_ends_nothing(from_tree: Path, tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    ready(project, source=str(from_tree / "mine"))
    (project / "config/studies/part.yaml").write_text(yaml.safe_dump(STUDY | {"family": "MI300X"}))
    answer = run_snakemake(project, "--configfile", "my.yaml")
    assert answer.returncode == 0, answer.stderr
    assert "breakeven: config/studies/part.yaml: No scored submission of retinanet on 'MI300X'" in answer.stderr
    assert "no scored submission" in (project / "results/studies/part/figures/retinanet/time.svg").read_text()
    assert "no scored submission" in (project / "results/answer.txt").read_text()


def test_a_clone_of_the_same_logs_gives_the_same_scores(tmp_path: Path, from_archive: Path) -> None:
    work, bare = tmp_path / "work", tmp_path / "v4.1.git"
    unpack(work)
    git(work, "init", "--quiet")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "results")
    commit = git(work, "rev-parse", "HEAD")
    git(tmp_path, "clone", "--quiet", "--bare", str(work), str(bare))
    git(bare, "config", "uploadpack.allowFilter", "true")
    url = (tmp_path / "{round}.git").as_uri().replace("%7B", "{").replace("%7D", "}")
    project = ready(copy_project(tmp_path), source="repository", repository=url, commits={"v4.1": commit})
    answer = run_snakemake(project, "results/mlperf/v4.1/scores.csv", "--configfile", "my.yaml")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    scores = [pd.read_csv(p / "results/mlperf/v4.1/scores.csv") for p in (project, from_archive)]
    assert set(scores[0]["commit"]) == {commit}
    pd.testing.assert_frame_equal(*(frame.drop(columns=["repository", "commit"]) for frame in scores))
