"""The rules of every round, and rules that anyone may add: data, and no program."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakeven.mlperf.extract import extract
from breakeven.mlperf.requirements import _WORDS, CONDITIONS
from breakeven.mlperf.rulefiles import HERE
from breakeven.mlperf.rules import _BENCHMARK_KEYS, _ROUND_KEYS, _SOURCE_KEYS, known_rounds, load_round
from breakeven.mlperf.score import submissions
from breakeven.mlperf.table import facts_csv, read_facts
from breakeven.schema.errors import UserError
from breakeven.schema.status import Status
from tests.mlperf_checker import accepted_log, as_log, entry, facts_of
from tests.mlperf_repository import SYSTEM, write_tree

ROUNDS = ["v3.0", "v3.1", "v4.0", "v4.1", "v5.0", "v5.1"]


def test_all_published_rounds_are_known_oldest_first() -> None:
    assert known_rounds() == ROUNDS


@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("v3.0", "bert dlrm_dcnv2 gpt3 maskrcnn resnet rnnt ssd unet3d"),
        ("v3.1", "bert dlrm_dcnv2 gpt3 maskrcnn resnet rnnt ssd stable_diffusion unet3d"),
        ("v4.0", "bert dlrm_dcnv2 gnn gpt3 llama2_70b_lora resnet ssd stable_diffusion unet3d"),
        ("v4.1", "bert dlrm_dcnv2 gnn gpt3 llama2_70b_lora ssd stable_diffusion"),
        ("v5.0", "bert dlrm_dcnv2 llama2_70b_lora llama31_405b retinanet rgat stable_diffusion"),
        ("v5.1", "dlrm_dcnv2 flux1 llama2_70b_lora llama31_405b llama31_8b retinanet rgat"),
    ],
)
def test_a_round_has_its_benchmarks(name: str, folders: str) -> None:
    round = load_round(name)
    assert sorted(round.benchmarks) == folders.split()
    assert round.ruleset == f"{name[1:]}.0"
    assert round.repository == f"https://github.com/mlcommons/training_results_{name}"
    assert all(name in benchmark.comparable_rounds for benchmark in round.benchmarks.values())


@pytest.mark.parametrize(
    ("folder", "required", "dropped", "may_fail"),
    [("unet3d", 40, 4, 4), ("bert", 10, 1, 1), ("ssd", 5, 1, 1), ("resnet", 5, 1, 1), ("gpt3", 3, 1, 1)],
)
def test_runs_that_count(folder: str, required: int, dropped: int, may_fail: int) -> None:
    benchmark = load_round("v4.0").benchmarks[folder]
    assert (benchmark.runs_required, benchmark.runs_dropped, benchmark.runs_may_fail) == (required, dropped, may_fail)


def test_ssd_and_retinanet_are_one_workload_and_so_are_gnn_and_rgat() -> None:
    old, new = load_round("v4.1"), load_round("v5.1")
    assert old.benchmarks["ssd"].workload == new.benchmarks["retinanet"].workload == "retinanet"
    assert old.benchmarks["gnn"].workload == new.benchmarks["rgat"].workload == "rgat"
    assert old.benchmark("retinanet") is old.benchmarks["ssd"]
    assert new.benchmark("ssd") is new.benchmarks["retinanet"]
    first = load_round("v3.0")
    assert first.benchmark("mask") is first.benchmarks["maskrcnn"]
    assert new.benchmark("bert") is None


def test_a_benchmark_may_go_by_the_name_that_any_round_gives_it() -> None:
    rounds = [load_round(name) for name in ROUNDS]
    names = {(folder, one.workload) for round in rounds for folder, one in round.benchmarks.items()}
    for round in rounds:
        own = {one.workload: one for one in round.benchmarks.values()}
        for name, workload in names:
            assert round.benchmark(name) is own.get(workload), (round.name, name)
            if workload in own:
                assert round.scored_as(name) in (own[workload].folder, workload)


def test_repositories_are_pinned_where_they_are_known() -> None:
    commits = {name: load_round(name).commit for name in ROUNDS}
    assert commits["v4.1"] == "b87b9e396f771345d4ef122ba33456304f15228d"
    assert [name for name, commit in commits.items() if not commit] == ["v5.0"]


def test_an_unknown_round_names_those_that_are_known() -> None:
    with pytest.raises(UserError, match=r"'v9\.9' is not known\.\nKnown: v3\.0, v3\.1, v4\.0, v4\.1, v5\.0, v5\.1"):
        load_round("v9.9")


def rules(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        kind, _, file = name.partition("__")
        path = folder / kind / f"{file.replace('_dot_', '.')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


WORLD_MODEL = """
title: World model
unit: clip
runs: {required: 3}
convergence: {key: clips_seen, samples_per_unit: 4}
throughput:
  - {stat: seconds, is: seconds_per_step}
evaluation: stops_training
log:
  closed:
    global_batch_size: {needs: exactly_one, above: 0}
    eval_accuracy: {needs: at_least_one, metadata: clips_seen, target: {at_least: 0.9}}
"""

V9_0 = """
title: MLPerf Training v9.0
ruleset: 9.0.0
benchmarks: {world_model: world_model, bert: bert}
log:
  common:
    submission_division: {needs: exactly_one, one_of: [closed, open], selects: division}
    run_start: exactly_one
    run_stop: {needs: exactly_one, after: run_start, metadata: status}
  closed:
    submission_benchmark: {needs: exactly_one, one_of: [world_model, bert], selects: benchmark}
"""


def test_a_new_round_with_a_new_benchmark_is_two_files(tmp_path: Path) -> None:
    extra = rules(tmp_path, rounds__v9_dot_0=V9_0, benchmarks__world_model=WORLD_MODEL)
    assert known_rounds(extra) == [*ROUNDS, "v9.0"]
    round = load_round("v9.0", extra)
    log = [
        entry("submission_division", "closed"),
        entry("submission_benchmark", "world_model"),
        entry("global_batch_size", 16),
        entry("run_start", None, 1_000),
        entry("tracked_stats", {"seconds": 0.5}, 2_000),
        entry("eval_accuracy", 0.91, 9_000, clips_seen=250),
        entry("run_stop", None, 9_000, status="success"),
    ]
    found = facts_of(as_log(log), round, "world_model")
    assert (found.status, found.compliance, found.samples_to_converge) == (Status.OK, "", 1000)
    assert (found.run_time_ms, found.step_throughput) == (8_000, 32)
    log[5]["value"] = 0.89
    assert facts_of(as_log(log), round, "world_model").compliance == "eval_accuracy never at least 0.9"


def test_a_round_may_be_like_another(tmp_path: Path) -> None:
    extra = rules(tmp_path, rounds__v6_dot_0="like: v5.1\ntitle: Next\nruleset: 6.0.0\nbenchmarks: {flux1: flux1}\n")
    new, old = load_round("v6.0", extra), load_round("v5.1")
    assert (new.name, new.title, new.ruleset, list(new.benchmarks)) == ("v6.0", "Next", "6.0.0", ["flux1"])
    assert new.log_common == old.log_common
    assert facts_of(as_log(accepted_log(new, "flux1", "closed")), new).compliance == ""


def test_the_example_of_the_readme_is_a_round_whose_benchmarks_are_scored(tmp_path: Path) -> None:
    example = re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    assert [name for name, _ in example] == ["rounds/v6.0.yaml", "benchmarks/toy.yaml"]
    extra = write_tree(tmp_path / "rules", {name: text.encode() for name, text in example})
    round, files = load_round("v6.0", extra), {}
    for division in ("closed", "open"):
        files[f"Us/systems/{division}.json"] = json.dumps({**SYSTEM, "division": division}).encode()
        for folder, benchmark in round.benchmarks.items():
            for run in range(benchmark.runs_required):
                log = accepted_log(round, folder, division)
                log[-1]["time_ms"] = 3000 + (10 + run) * 60_000
                files[f"Us/results/{division}/{folder}/result_{run}.txt"] = as_log(log)
    (tmp_path / "runs.csv").write_text(facts_csv(extract(write_tree(tmp_path / "v6.0", files), round).rows))
    scored = submissions(read_facts(tmp_path / "runs.csv"), extra)
    found = scored[["system", "benchmark", "time_to_train_strict_min", "strict_note"]].to_numpy().tolist()
    assert found == [
        [division, folder, minutes, ""]
        for division in ("closed", "open")
        for folder, minutes in (("retinanet", 12.0), ("toy", 11.0))
    ]


@pytest.mark.parametrize(("like", "open_too"), [("v5.1", True), ("v4.1", True), ("v3.0", False)])
def test_a_new_benchmark_is_accepted_in_the_divisions_that_it_has_rules_for(
    like: str, open_too: bool, tmp_path: Path
) -> None:
    toy = WORLD_MODEL.replace("clips_seen", "epoch_num") + ("  open: {}\n" if open_too else "")
    extra = rules(tmp_path, rounds__v9_dot_0=f"like: {like}\nbenchmarks: {{toy: toy}}\n", benchmarks__toy=toy)
    round = load_round("v9.0", extra)
    log = accepted_log(round, "toy", "closed")
    assert facts_of(as_log(log), round).compliance == ""
    log = [{**one, "value": "open"} if one["key"] == "submission_division" else one for one in log]
    refused = "" if open_too else "no rules for the benchmark 'toy' in the open division"
    assert facts_of(as_log(log), round).compliance == refused


def test_ones_own_file_wins_over_ours_and_may_be_like_it(tmp_path: Path) -> None:
    extra = rules(
        tmp_path, benchmarks__bert="like: bert\nruns: {required: 4}\n", rounds__v4_dot_1="like: v4.1\ncommit: ''\n"
    )
    round = load_round("v4.1", extra)
    assert (round.benchmarks["bert"].runs_required, round.commit) == (4, "")
    assert round.benchmarks["bert"].log == load_round("v4.1").benchmarks["bert"].log
    assert load_round("v4.1").benchmarks["bert"].runs_required == 10


def test_what_differs_in_one_round_is_said_for_that_round(tmp_path: Path) -> None:
    diffusion = {name: load_round(name).benchmarks["stable_diffusion"] for name in ("v3.1", "v4.0")}
    assert [one.convergence.key for one in diffusion.values()] == ["step_num", "samples_count"]
    assert [one.convergence.samples_per_unit for one in diffusion.values()] == [None, 1]
    assert "open" not in load_round("v3.1").benchmarks["gpt3"].log
    assert "open" in load_round("v4.0").benchmarks["gpt3"].log


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("unit: clip", "unit: 3", r"line 3: unit is 3; expected text\."),
        (
            "runs: {required: 3}",
            "runs: {required: 2}",
            r"line 4: runs\.required is 2; 2 are dropped, so more are needed",
        ),
        ("runs: {required: 3}", "", r"runs is missing or empty; expected keys with values\."),
        (
            "convergence: {key: clips_seen, samples_per_unit: 4}",
            "",
            r"world_model\.yaml: convergence is missing or empty; expected keys with values\.",
        ),
        ("evaluation: stops_training", "", r"evaluation is missing or empty; expected stops_training, overlapped or"),
        (
            "target: {at_least: 0.9}",
            "target: {at_mots: 3.0}",
            r"line 12: log\.closed\.eval_accuracy\.target\.at_mots is not known; known here: .*at_most, ",
        ),
        (
            "target: {at_least: 0.9}",
            "target: {at_least: 0.9, FID: {below: 90.0}}",
            r"target\.at_least is 0\.9; expected 'part: {word: \.\.\.}', such as FID: {at_most: 90\.0}; known words: ",
        ),
        (
            "global_batch_size: {needs: exactly_one, above: 0}",
            "submission_benchmark: {needs: exactly_one, selects: benchmark}",
            r"line 11: log\.closed\.submission_benchmark\.selects is benchmark, which belongs in a round's log\.",
        ),
        (
            "global_batch_size: {needs: exactly_one, above: 0}",
            "submission_division: {needs: exactly_one, selects: division}",
            r"line 11: log\.closed\.submission_division\.selects is division, .* in a round's log\.common only\.",
        ),
        (
            "log:",
            "log_variants: {adam: {opt_name: {selects: variant}}}\nlog:",
            r"line 9: log_variants\.adam\.opt_name\.selects is variant, which belongs in a benchmark's log\.closed",
        ),
        (
            "runs: {required: 3}",
            "runs: {needed: 3}",
            r"line 4: runs\.needed is not known; known here: required, dropped",
        ),
        (
            "evaluation: stops_training",
            "evaluation: sometimes",
            r"line 8: evaluation is 'sometimes'; expected stops_tr",
        ),
        (
            "samples_per_unit: 4",
            "samples_per_unit: 0",
            r"convergence\.samples_per_unit is 0; expected a number above 0",
        ),
        ("above: 0", "over: 0", r"line 11: log\.closed\.global_batch_size\.over is not known; known here: needs, "),
        (
            "needs: exactly_one",
            "needs: some",
            r"line 11: log\.closed\.global_batch_size\.needs is 'some'; expected exactly",
        ),
        ("at_least: 0.9", "at_least: 9e-1", r"target\.at_least is '9e-1'; expected a number \(YAML reads 2e-5 as text"),
        ("title: World model", "title: [", r"world_model\.yaml, line \d+, column \d+: not valid YAML"),
        ("title: World model", "titel: World model", r"line 2: titel is not known; known here: title, unit, "),
    ],
)
def test_a_bad_rule_file_is_one_clear_message(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in WORLD_MODEL
    extra = rules(tmp_path, rounds__v9_dot_0=V9_0, benchmarks__world_model=WORLD_MODEL.replace(old, new))
    with pytest.raises(UserError, match=message) as caught:
        load_round("v9.0", extra)
    assert str(tmp_path / "benchmarks" / "world_model.yaml") in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ruleset: 9.0.0", "ruleset: 9.0", r"line 3: ruleset is 9\.0; expected a version such as 4\.1\.0"),
        (
            "world_model: world_model",
            "world_model: worlds",
            r"line 4: benchmarks\.world_model is 'worlds', which has no rules",
        ),
        ("title: MLPerf", "like: v8.0\ntitle: MLPerf", r"line 2: like is 'v8\.0'; expected one of v3\.0, "),
        (
            "selects: division",
            "selects: team",
            r"log\.common\.submission_division\.selects is 'team'; expected one of div",
        ),
        (
            "selects: division",
            "selects: benchmark",
            r"log\.common\.submission_division\.selects is benchmark, which belong",
        ),
        (
            "selects: benchmark",
            "selects: variant",
            r"log\.closed\.submission_benchmark\.selects is variant, which belong",
        ),
        ("ruleset:", "commit: abc\nruleset:", r"line 3: commit is 'abc'; expected 40 hex digits"),
    ],
)
def test_a_bad_round_file_is_one_clear_message(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in V9_0
    extra = rules(tmp_path, rounds__v9_dot_0=V9_0.replace(old, new), benchmarks__world_model=WORLD_MODEL)
    with pytest.raises(UserError, match=message):
        load_round("v9.0", extra)


def test_a_circle_of_likes_is_refused(tmp_path: Path) -> None:
    extra = rules(tmp_path, rounds__v9_dot_0="like: v9.1\n", rounds__v9_dot_1="like: v9.0\n")
    with pytest.raises(UserError, match=r"like is 'v9\.\d'; expected one of"):
        load_round("v9.0", extra)


def test_a_folder_of_rules_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"rules: no such folder"):
        load_round("v4.1", tmp_path / "rules")


def test_every_word_of_rule_files_is_explained() -> None:
    explained = set(re.findall(r"`(\w+)`", (HERE / "README.md").read_text()))
    words = {*_ROUND_KEYS, *_BENCHMARK_KEYS, *_SOURCE_KEYS, *_WORDS, *CONDITIONS}
    assert not words - explained


def test_every_rule_file_is_used_by_a_round() -> None:
    used = {benchmark.workload for name in ROUNDS for benchmark in load_round(name).benchmarks.values()}
    assert used == {path.stem for path in (HERE / "benchmarks").glob("*.yaml")}


def nodes(value: object, place: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The place of everything in a tree of YAML, the root left out."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, part in parts for found in ((*place, key), *nodes(part, (*place, key)))]


TREE = {"rounds/v9.0": yaml.safe_load(V9_0), "benchmarks/world_model": yaml.safe_load(WORLD_MODEL)}
odd_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.integers(0, 2) | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=300)
@given(st.sampled_from([(file, place) for file, tree in TREE.items() for place in nodes(tree)]), odd_values)
def test_whatever_stands_in_a_rule_file_the_user_is_told(
    tmp_path: Path, spot: tuple[str, tuple[object, ...]], value: object
) -> None:
    tree = copy.deepcopy(TREE)
    file, (*way, last) = spot
    part: Any = tree[file]
    for key in way:
        part = part[key]
    part[last] = value
    for name, content in tree.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    try:
        round = load_round("v9.0", tmp_path)
    except UserError as error:
        assert ".yaml" in str(error)  # noqa: PT017
    else:
        facts_of(as_log([entry("run_start"), entry("eval_accuracy", 1, clips_seen=2)]), round)


def test_a_folder_of_rules_that_cannot_be_is_one_message() -> None:
    with pytest.raises(UserError, match="no such folder"):
        load_round("v4.1", Path("x" * 300))
