"""Bad input: one clear message, exit code not 0, and nothing started."""

import os
from pathlib import Path

import pytest
import yaml

from tests.conftest import Snakemake

STUDY = {
    "source": "measured",
    "title": "t",
    "platform": "four",
    "workload": {"model": "llama"},
    "defaults": {"global_batch": 8},
    "sweeps": {"hybrid": {"grid": {"strategy": ["ddp"], "devices": [1, 2]}}},
}
PLATFORM = {"title": "four cores", "device_kind": "cpu", "device_model": "a CPU", "devices_per_node": 4}


def write(project: Path, **changes: object) -> None:
    (project / "config/platforms/four.yaml").write_text(yaml.safe_dump(PLATFORM))
    (project / "config/studies/mine.yaml").write_text(yaml.safe_dump(STUDY | changes, sort_keys=False))
    (project / "config/config.yaml").write_text("studies: [mine]\n")


def sweep(**keys: object) -> dict[str, object]:
    return {"sweeps": {"hybrid": {"grid": {"strategy": ["ddp"], "devices": [2]} | keys}}}


CASES = {
    "unknown key": (
        {"repeat": 3},
        ["config/studies/mine.yaml, line", "unknown key 'repeat'", "Did you mean 'repeats'?"],
    ),
    "unknown key of a run": (sweep(device=[2]), ["sweep 'hybrid'", "unknown key 'device'", "Did you mean 'devices'?"]),
    "unknown strategy": (
        sweep(strategy=["ddpp"]),
        ["sweep 'hybrid'", "strategy 'ddpp' is unknown", "Did you mean 'ddp'?"],
    ),
    "unknown workload": (
        {"workload": {"model": "lama"}},
        ["workload.model 'lama' is no family", "Did you mean 'llama'?"],
    ),
    "unknown key of a model": (
        {"workload": {"model": "llama", "config": {"hiden_size": 64}}},
        ["workload.config: 'llama' has no key 'hiden_size'", "Did you mean 'hidden_size'?"],
    ),
    "unknown technique": (
        {"workload": {"model": "llama", "technique": "loar"}},
        ["technique 'loar' is unknown", "Did you mean 'lora'?"],
    ),
    "unpinned hub model": ({"workload": {"model": "org/name"}}, ["workload.revision", "40 hex digits"]),
    "missing data file": (
        {"workload": {"model": "llama", "data": {"file": "mine.jsonl"}}},
        ["workload.data.file: mine.jsonl: no such file"],
    ),
    "too many devices": (sweep(devices=[8]), ["sweep 'hybrid'", "8 devices, but the platform has 4", "Use at most 4"]),
    "batch that does not divide": (
        sweep(devices=[3]),
        ["global_batch 8 does not divide among 3 devices", "such as 6 or 9"],
    ),
    "degrees that are not the devices": (
        sweep(strategy=["fsdp*tp"], degrees={"shard": 2, "tp": 4}, devices=[4]),
        [
            "mine.yaml: sweep 'hybrid', cell {strategy: fsdp*tp",
            "shard 2 x tp 4 = 8 needs 8 devices, but the run has 4. Use",
        ],
    ),
    "a model that cannot be split so": (
        {**sweep(strategy=["cp"]), "workload": {"model": "vit"}},
        ["strategy 'cp' cannot split model 'vit'", "Models that can be: llama."],
    ),
    "empty list": (sweep(devices=[]), ["sweep 'hybrid' is empty", "a list in it has no value"]),
    "everything excluded": (
        {"exclude": [{"strategy": "ddp"}]},
        ["sweep 'hybrid' is empty", "'exclude' leaves no cell"],
    ),
    "an exclude that hits nothing": ({"exclude": [{"devices": 16}]}, ["'exclude' row {'devices': 16} matches no cell"]),
    "an unknown key in an exclude": (
        {"exclude": [{"device": 2}]},
        ["'exclude' row 1: unknown key 'device'", "Did you mean 'devices'?"],
    ),
    "no sweeps": ({"sweeps": {}}, ["line", "'sweeps'"]),
    "single on two devices": (sweep(strategy=["single"]), ["strategy 'single' runs on 1 device, not on 2"]),
    "weak and strong at once": (
        sweep(batch_per_device=[4], global_batch=[8]),
        ["either global_batch", "batch_per_device"],
    ),
    "no window": (sweep(updates=[10]), ["10 updates with min_warmup 10 leave no window", "at least 12"]),
    "unknown platform": (
        {"platform": "fuor"},
        ["config/platforms/fuor.yaml: no such platform", "Did you mean 'four'?"],
    ),
    "unknown source": ({"source": "mesured"}, ["key 'source' must be one of measured, mlperf, points"]),
    "wrong type": ({"repeats": "many"}, ["line", "'repeats'", "Found 'many'"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_study_that_cannot_run_is_refused_with_place_and_remedy(
    case: str, project: Path, snakemake: Snakemake
) -> None:
    changes, words = CASES[case]
    write(project, **changes)
    refused(snakemake(), project, words)


def refused(answer, project: Path, words: list[str]) -> None:
    assert answer.returncode != 0
    for word in words:
        assert word in answer.stderr, answer.stderr
    assert "Traceback" not in answer.stderr
    assert len([line for line in answer.stderr.splitlines() if line.startswith("breakeven: ")]) == 1
    assert not (project / "results").exists()


def test_a_study_that_is_not_there_is_refused(project: Path, snakemake: Snakemake) -> None:
    answer = snakemake("--config", "studies=[images-quik]")
    refused(answer, project, ["config/studies/images-quik.yaml: no such study", "Did you mean 'images-quick'?"])


@pytest.mark.parametrize("file", ["config/config.yaml", "config/studies/mine.yaml", "config/platforms/four.yaml"])
def test_malformed_yaml_is_refused_naming_the_line(file: str, project: Path, snakemake: Snakemake) -> None:
    write(project)
    path = project / file
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, "broken: [1, 2", "more: 3", ""]))
    refused(snakemake(), project, [f"{file}, line {len(lines) + 2}", "not valid YAML"])


def test_a_config_that_holds_itself_is_refused(project: Path, snakemake: Snakemake) -> None:
    (project / "config/config.yaml").write_text("studies: &a [*a]\n")
    refused(snakemake(), project, ["config/config.yaml, line 1", "an alias (*) inside of what it stands for"])


def test_a_study_outside_its_folder_is_refused(project: Path, snakemake: Snakemake) -> None:
    (project / "config/config.yaml").write_text("studies:\n  - ../studies/llm-quick\n")
    refused(snakemake(), project, ["config/config.yaml, line 2", "is no name of a study"])


def test_a_key_that_stands_twice_is_refused(project: Path, snakemake: Snakemake) -> None:
    write(project)
    with (project / "config/studies/mine.yaml").open("a") as file:
        file.write("title: again\n")
    refused(snakemake(), project, ["key 'title' stands here a second time"])


def test_a_profile_that_is_not_there_is_refused(project: Path, snakemake: Snakemake) -> None:
    answer = snakemake("--workflow-profile", "profiles/nope")
    refused(answer, project, ["profiles/nope: no such profile", "profiles/default", "profiles/slurm"])


def test_a_config_without_studies_is_refused(project: Path, snakemake: Snakemake) -> None:
    (project / "config/config.yaml").write_text("studies: []\n")
    refused(snakemake(), project, ["config/config.yaml, line 1", "'studies'"])


def test_an_unknown_benchmark_is_refused(project: Path, snakemake: Snakemake) -> None:
    path = project / "config/studies/mlperf-v4.1.yaml"
    path.write_text(path.read_text().replace("bert: BERT", "brt: BERT"))
    refused(snakemake(), project, ["unknown benchmark 'brt'", "Did you mean 'bert'?"])


def test_a_table_of_timings_that_is_not_there_is_refused(project: Path, snakemake: Snakemake) -> None:
    (project / "config/config.yaml").write_text("studies: [my.csv]\n")
    refused(snakemake(), project, ["my.csv: no such study"])


def test_measuring_on_a_login_node_is_refused_naming_the_profile(project: Path, snakemake: Snakemake) -> None:
    write(project)
    commands = project / "bin"
    commands.mkdir()
    (commands / "sbatch").write_text("#!/bin/sh\n")
    (commands / "sbatch").chmod(0o755)
    answer = snakemake("measure", PATH=f"{commands}{os.pathsep}{os.environ['PATH']}", BREAKEVEN_MEASURE_HERE="0")
    assert answer.returncode != 0
    assert "--workflow-profile profiles/slurm" in answer.stderr
    assert not list(project.glob("results/runs/*"))
