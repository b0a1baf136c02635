"""Where the results of a round may come from: what is planned, and what is refused while planning."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from breakeven.head.plan import Plan, make_plan
from breakeven.head.rounds import tree_state
from breakeven.head.sources import sources
from breakeven.schema.errors import UserError
from tests.conftest import Snakemake
from tests.workflow.test_graph import jobs

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOG = "Here/results/one_node/bert/result_0.txt"

Planner = Callable[..., Plan]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two rounds, a tree and an archive. No archive is read while planning, so anything will do for one."""
    mine = tmp_path / "my results"
    log = mine / "v4.1" / LOG
    log.parent.mkdir(parents=True)
    log.write_text(":::MLLOG {}\n")
    (mine / "training_results_v5.1.tar.xz").write_bytes(b"no archive")
    return mine


@pytest.fixture
def plan(project: Path, monkeypatch: pytest.MonkeyPatch) -> Planner:
    """The plan of the default studies with a ``my.yaml`` beside the default config."""
    monkeypatch.chdir(project)

    def planned(mlperf: dict[str, Any], *, studies: tuple[str, ...] = ("mlperf-v4.1",), line: bool = False) -> Plan:
        mine = project / "my.yaml"
        mine.write_text("" if line else yaml.safe_dump({"mlperf": mlperf}))
        raw = {"studies": list(studies), "mlperf": mlperf}
        files = [Path("config/config.yaml")] if line else [Path("my.yaml"), Path("config/config.yaml")]
        return make_plan(raw, files, {"mlperf": mlperf} if line else {})

    return planned


def commands(answer) -> list[str]:
    return re.findall(r"python -m breakeven\.mlperf\S* .*", answer.stdout + answer.stderr)


def test_rounds_of_a_folder_are_extracted_and_scored_whether_a_study_names_them_or_not(
    folder: Path, project: Path, snakemake: Snakemake
) -> None:
    (project / "my.yaml").write_text(yaml.safe_dump({"mlperf": {"rounds": ["v4.1", "v5.1"], "source": str(folder)}}))
    planned = jobs(snakemake("-n", "mlperf", "--configfile", "my.yaml"))
    assert (planned["extract_results"], planned["score_results"]) == (2, 2)
    assert "copy_facts" not in planned


def test_a_folder_may_be_relative_and_named_on_the_command_line(folder: Path, snakemake: Snakemake) -> None:
    answer = snakemake(
        "-n", "-p", "mlperf", "--quiet", "host", "--config", "mlperf={rounds: [v4.1], source: ../my results}"
    )
    assert jobs(answer)["extract_results"] == 1
    first = next(command for command in commands(answer) if "extract" in command)
    assert first.startswith("python -m breakeven.mlperf.extract --round v4.1 ")
    assert " -- '../my results/v4.1' " in first


def test_a_folder_whose_name_begins_as_an_option_does(folder: Path, project: Path, snakemake: Snakemake) -> None:
    for name in ("-x", "-r"):
        shutil.copytree(folder, project / name)
    (project / "-r" / "rounds").mkdir()
    (project / "my.yaml").write_text("mlperf: {rounds: [v4.1], source: '-x', rules: '-r'}\n")
    answer = snakemake("-n", "-p", "mlperf", "--quiet", "host", "--configfile", "my.yaml")
    first = next(command for command in commands(answer) if "extract" in command)
    assert " --rules=-r " in first
    assert " -- -x/v4.1 " in first


def test_a_clone_is_planned_with_the_commit_that_the_rules_pin_or_another(snakemake: Snakemake) -> None:
    answer = snakemake("-n", "-p", "mlperf", "--quiet", "host", "--config", "mlperf={source: repository}")
    planned = jobs(answer)
    assert (planned["clone_results"], planned["extract_results"]) == (1, 1)
    clone = next(command for command in commands(answer) if "fetch" in command)
    url = "https://github.com/mlcommons/training_results_v4.1"
    assert f"--repository {url} --commit b87b9e396f771345d4ef122ba33456304f15228d" in clone


def test_a_repository_and_commits_of_ones_own_are_told_to_the_extraction_too(plan: Planner) -> None:
    of = {"source": "repository", "repository": "https://h/{round}.git", "commits": {"v4.1": COMMIT}}
    found = plan(of).rounds["v4.1"]
    assert (found.repository, found.commit) == ("https://h/v4.1.git", COMMIT)
    assert found.path == "results/mlperf/v4.1/repository"


def test_the_commit_of_a_folder_is_known_where_it_is_told(folder: Path, plan: Planner) -> None:
    untold, told = ({"source": str(folder)}, {"source": str(folder), "commits": {"v4.1": COMMIT}})
    assert plan(untold).rounds["v4.1"].commit == ""
    found = plan(told).rounds["v4.1"]
    assert (found.repository, found.commit) == ("https://github.com/mlcommons/training_results_v4.1", COMMIT)


@pytest.mark.parametrize("source", [None, "", "facts"])
def test_facts_are_the_source_where_nothing_else_is_said(source: str | None, plan: Planner) -> None:
    assert plan({"source": source}).rounds["v4.1"].source == "facts"


def test_a_round_that_a_study_alone_names_may_come_from_the_facts(folder: Path, plan: Planner) -> None:
    (folder / "v4.1").rename(folder / "elsewhere")
    rounds = plan({"rounds": ["v5.1"], "source": str(folder)}).rounds
    assert {name: found.source for name, found in rounds.items()} == {"v5.1": "files", "v4.1": "facts"}


@pytest.mark.parametrize("name", ["training_results_v5.0", "training_results_v5.0.tar", "training_results_v5.0.tar.gz"])
def test_names_that_a_round_may_have_in_a_folder(name: str, folder: Path, plan: Planner) -> None:
    (folder / name).mkdir()
    assert plan({"rounds": ["v5.0"], "source": str(folder)}).rounds["v5.0"].path == str(folder / name)


def test_a_round_is_added_by_data_alone(folder: Path, plan: Planner) -> None:
    rules = folder / "rules/rounds/v9.0.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text("like: v5.1\n")
    (folder / "v9.0").mkdir()
    of = {"rounds": ["v9.0"], "source": str(folder), "rules": str(folder / "rules")}
    found = plan(of)
    assert found.rounds["v9.0"].path == str(folder / "v9.0")
    assert found.rules_arguments() == [f"--rules={folder / 'rules'}"]
    assert found.rule_files() == [str(rules)]


def test_the_state_of_a_tree_tells_of_every_file_but_of_no_code(folder: Path) -> None:
    def state() -> str:
        tree_state.cache_clear()
        return tree_state(str(folder / "v4.1"))

    before = state()
    assert state() == before
    code = folder / "v4.1/Here/benchmarks/run.sh"
    code.parent.mkdir()
    code.write_text("true\n")
    assert state() == before
    log = folder / "v4.1" / LOG
    os.utime(log, ns=(0, 0))
    touched = state()
    assert touched != before
    log.with_name("result_1.txt").touch()
    assert state() != touched


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a round without rules": (
        {"rounds": ["v4.1", "v7.1"]},
        r"my\.yaml, line 4: no rules of round 'v7\.1'. Did you mean 'v\d\.1'\?.*mlperf\.rules",
    ),
    "no name of a round": ({"rounds": [4.1]}, r"my\.yaml, line 3: 'mlperf\.rounds\.0': should be .* such as v4\.1"),
    "no facts": (
        {"rounds": ["v5.0"]},
        r"my\.yaml, line 3: no facts of round 'v5\.0' come with the project \(only of .*v4\.1.*Set mlperf\.source to a",
    ),
    "no folder": (
        {"source": "nowhere"},
        r"my\.yaml, line 2: mlperf\.source: nowhere: no such folder.*'facts' and 'repository' are sources",
    ),
    "a file": ({"source": "Snakefile"}, r"mlperf\.source: Snakefile: a file\. Name the folder that it lies in"),
    "nobody's home": ({"source": "~nosuchuser/x"}, r"mlperf\.source: ~nosuchuser/x: no home folder of such a user"),
    "nobody's rules": ({"rules": "~nosuchuser"}, r"mlperf\.rules: ~nosuchuser: no home folder of such a user"),
    "a name too long": ({"source": "x" * 300}, r"mlperf\.source: x{300}: no such folder"),
    "rules with a name too long": ({"rules": "y" * 300}, r"mlperf\.rules: y{300}: no such folder"),
    "our own outputs": ({"source": "results"}, r"mlperf\.source: results: results/v4\.1 and 'results/', where this"),
    "what holds our outputs": ({"source": "around"}, r"around/v4\.1 and 'results/', where this workflow writes, lie"),
    "braces": ({"source": "a {x} b"}, r"line 2: mlperf\.source: a \{x\} b: Snakemake takes braces for a wildcard"),
    "a folder without the round": (
        {"source": "config"},
        r"my\.yaml, line 2: mlperf\.source: config: no results of round 'v4\.1' in it\. Looked for a tree 'v4\.1/' and "
        r"an archive 'training_results_v4\.1\.tar\.xz' \(or \.tar\.gz, \.tar\)",
    ),
    "no commit pinned": (
        {"source": "repository", "rounds": ["v5.0"]},
        r"line 3: no commit of round 'v5\.0' is pinned.*mlperf\.commits: \{v5\.0: <40 hex digits>\}",
    ),
    "no commit": (
        {"source": "repository", "commits": {"v4.1": "main"}},
        r"line 3: 'mlperf\.commits\.v4\.1': should be a commit: 40 hex digits .* Found 'main'",
    ),
    "a protocol that runs commands": (
        {"source": "repository", "repository": "ext::sh -c true"},
        r"line 2: mlperf\.repository: 'ext::sh -c true' is of a protocol that is not let through",
    ),
    "an option for git": ({"source": "repository", "repository": "--help"}, r"'--help' starts with '-'"),
    "a repository that nothing is cloned from": (
        {"repository": "https://h/r"},
        r"my\.yaml, line 1: 'mlperf': .* they need 'source: repository'",
    ),
    "no folder of rules": ({"rules": "nowhere"}, r"my\.yaml, line 2: mlperf\.rules: nowhere: no such folder"),
    "no rules in the folder": ({"rules": "profiles"}, r"mlperf\.rules: profiles: holds neither a folder 'rounds' nor"),
    "an unknown key": ({"sorce": "facts"}, r"my\.yaml, line 2: unknown key 'sorce'\. Did you mean 'source'\?"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_there_is_refused_with_file_key_and_remedy(case: str, plan: Planner) -> None:
    mlperf, words = REFUSED[case]
    Path("results/v4.1").mkdir(parents=True)
    Path("around").mkdir()
    Path("around/v4.1").symlink_to("..")
    with pytest.raises(UserError, match=words):
        plan(mlperf)


def test_a_key_of_the_command_line_is_said_to_be_one(plan: Planner) -> None:
    with pytest.raises(UserError, match=r"^--config mlperf: mlperf\.source: nowhere: no such folder"):
        plan({"source": "nowhere"}, line=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"round": "v6.9"}, r"studies/mine\.yaml, line 3: no rules of round 'v6\.9'"),
        ({"round": "4.1"}, r"studies/mine\.yaml, line 3: 'round': should be the name of a round, such as v4\.1"),
        ({"workloads": {"brt": "BERT"}}, r"mine\.yaml, line \d: workloads: unknown benchmark 'brt' of .*'bert'\?"),
        (
            {"workloads": {"gnn": "A", "rgat": "B"}},
            r"mine\.yaml, line \d: workloads: 'gnn' and 'rgat' are one benchmark of round v4\.1\. Leave one out\.",
        ),
        ({"family": "H100"}, r"mine\.yaml, line 4: family 'H100' has no result of 'bert' in round v4\.1\. Did"),
        ({"submitter": "NVIDA"}, r"mine\.yaml, line \d: submitter 'NVIDA' has no result .* Did you mean 'NVIDIA'\?"),
        ({"price_per_device_hour": 0}, r"mine\.yaml, line \d: 'price_per_device_hour': Input should be greater than 0"),
        ({"price_per_device_hour": True}, r"'price_per_device_hour': Input should be a valid number"),
    ],
)  # fmt: skip
def test_a_study_of_what_is_not_there_is_refused(change: dict[str, Any], words: str, plan: Planner) -> None:
    study = {"source": "mlperf", "title": "t", "round": "v4.1", "family": "H100-SXM", "workloads": {"bert": "BERT"}}
    Path("config/studies/mine.yaml").write_text(yaml.safe_dump(study | change, sort_keys=False))
    with pytest.raises(UserError, match=words):
        plan({}, studies=("mine",))


@pytest.mark.parametrize(
    ("round", "names", "scored"),
    [
        ("v4.1", ["retinanet", "rgat"], ["retinanet", "rgat"]),
        ("v4.1", ["ssd", "gnn"], ["ssd", "gnn"]),
        ("v5.1", ["ssd", "gnn"], ["retinanet", "rgat"]),
    ],
)
def test_a_benchmark_may_be_called_what_other_rounds_call_it(
    round: str, names: list[str], scored: list[str], plan: Planner, folder: Path
) -> None:
    workloads = dict(zip(names, ["One", "Other"], strict=True))
    Path("config/studies/mine.yaml").write_text(
        yaml.safe_dump({"source": "mlperf", "title": "t", "round": round, "workloads": workloads}, sort_keys=False)
    )
    study = plan({"source": str(folder)}, studies=("mine",)).studies["mine"]
    assert list(study.benchmarks.values()) == list(study.document["settings"]["workloads"]) == scored


def test_rules_are_inputs_as_code_is_and_facts_are_not() -> None:
    found = {Path(path).name for path in sources("mlperf")}
    assert {"score.py", "v4.1.yaml", "retinanet.yaml", "accelerators.yaml", "reference_convergence.csv"} <= found
    assert "v4.1_runs.csv" not in found


def test_errors_reach_the_terminal_as_one_message(project: Path, snakemake: Snakemake) -> None:
    (project / "my.yaml").write_text("mlperf:\n  rounds: [v5.1]\n  source: config\n")
    answer = snakemake("mlperf", "--configfile", "my.yaml")
    assert answer.returncode == 2
    assert "breakeven: my.yaml, line 3: mlperf.source: config: no results of round 'v5.1' in it." in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (project / "results").exists()
