"""What a user's file may hold: every value that cannot be is one message with its place, never a traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from breakeven.config.load import load_config, load_platform, load_study, study_name
from breakeven.config.machine import Machine, resolve
from breakeven.config.models import MeasuredStudy
from breakeven.config.places import Places
from breakeven.config.sweep import cells
from breakeven.config.values import CONFIG, TECHNIQUE_OPTIONS, kind_of
from breakeven.config.yamlfile import YamlFile
from breakeven.schema.catalog import TECHNIQUES, WORKLOADS
from breakeven.schema.errors import UserError

STUDY: dict[str, Any] = {
    "source": "measured",
    "title": "t",
    "workload": {"model": "llama"},
    "defaults": {"global_batch": 8},
    "sweeps": {"s": {"grid": {"devices": [1, 2]}}},
}
LORA = {"model": "llama", "technique": "lora"}
POINTS = {"source": "points", "title": "t", "table": "t.csv"}
MLPERF = {"source": "mlperf", "title": "t", "workloads": {"bert": "BERT"}}


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], str]:
    """What a study file is refused with, from its text or its data."""
    monkeypatch.chdir(tmp_path)

    def load(content: Any) -> str:
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        Path("s.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(UserError) as refused:
            load_study("s.yaml", Path())
        assert str(refused.value).startswith("s.yaml")
        assert "\n" not in str(refused.value)
        return str(refused.value)

    return load


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"repeats": 1001}, "line 13: 'repeats': Input should be less than or equal to 1000. Found 1001."),
        ({"repeats": True}, "'repeats': Input should be a valid integer. Found True."),
        ({"timeout_min": 100_001}, "'timeout_min': Input should be less than or equal to 100000"),
        ({"max_devices": 65_537}, "'max_devices': Input should be less than or equal to 65536"),
        ({"workload": {"model": "llama", "sequence_length": 2**22 + 1}}, "sequence_length': Input should be less"),
        ({"workload": {"model": "mobilenet_v2", "image_size": 8193}}, "image_size': Input should be less"),
        ({"defaults": {"learning_rate": float("nan")}}, "line 5: 'defaults': learning_rate holds nan"),
        ({"exclude": [{"seed": b"\xff"}]}, "'exclude.0': seed holds b'\\xff'"),
    ],
)
def test_a_value_out_of_bounds_is_refused(changes: dict[str, Any], words: str, message: Callable[[Any], str]) -> None:
    assert words in message(STUDY | changes)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seed": -1}, "'seed': Input should be greater than or equal to 0. Found -1."),
        ({"updates": 1_000_001}, "'updates': Input should be less than or equal to 1000000"),
        ({"devices": 0}, "'devices': should be a whole number from 1 to 65536, or auto. Found 0."),
        ({"devices": True}, "'devices': should be a whole number from 1 to 65536, or auto. Found True."),
        ({"global_batch": 2**24 + 1}, "'global_batch': Input should be less than or equal to 16777216"),
        ({"batch_per_device": 2**24 + 1}, "'batch_per_device': Input should be less than or equal to 16777216"),
        ({"learning_rate": "inf"}, "'learning_rate': Input should be a finite number"),
    ],
)
def test_a_setting_out_of_bounds_names_sweep_and_row(settings: dict[str, Any], words: str) -> None:
    study = MeasuredStudy.model_validate(STUDY | {"sweeps": {"s": {"cases": [{"devices": 1}, settings]}}})
    with pytest.raises(UserError) as refused:
        cells(study, Machine("cpu", "a CPU", 4, 1), "s.yaml")
    assert str(refused.value).startswith(f"s.yaml: sweep 's', case 2: {words}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (LORA | {"technique_options": {"rank": 0}}, "technique_options.rank must be a whole number of at least 1"),
        (LORA | {"technique_options": {"rank": 8.0}}, "rank must be a whole number of at least 1; found 8.0."),
        (LORA | {"technique_options": {"rank": True}}, "rank must be a whole number of at least 1; found True."),
        (LORA | {"technique_options": {"alpha": 0}}, "alpha must be a number above 0; found 0."),
        (LORA | {"technique_options": {"target_modules": [1]}}, "must be text or a list of texts; found [1]."),
        ({"model": "llama", "config": {"hidden_size": 0}}, "line 6: workload.config.hidden_size must be a whole"),
        ({"model": "llama", "config": {"num_hidden_layers": "2"}}, "leave out the quotes"),
        ({"model": "llama", "config": {"rms_norm_eps": "1e-6"}}, "write a number such as 1e-6 as 1.0e-6"),
        ({"model": "llama", "config": {"attention_dropout": 1}}, "must be a number from 0 to below 1; found 1."),
        ({"model": "llama", "config": {"mlp_bias": 1}}, "must be true or false; found 1."),
        ({"model": "mobilenet_v2", "config": {"norm": "layer"}}, "must be 'batch' or 'group'; found 'layer'."),
        ({"model": "mobilenet_v2", "config": {"hidden_act": 6}}, "must be text; found 6."),
        ({"model": "org/m", "config": {"a": {"b": [1, float("inf")]}}}, "'workload.config': a.b.1 holds inf"),
        ({"model": "org/m", "config": {"a": {1, 2}}}, "'workload.config': a holds {1, 2}"),
        ({"model": "org/m", "config": {"a": b"x"}}, "'workload.config': a holds b'x'"),
        ({"model": "org/m", "config": {"a": {1: 2}}}, "'workload.config': a.1 holds 1; use text"),
        ({"model": "org/m", "config": {"a": yaml.safe_load("2024-05-01")}}, "a holds datetime.date(2024, 5, 1)"),
    ],
)
def test_a_models_or_techniques_value_of_the_wrong_kind_is_refused(
    workload: dict[str, Any], words: str, message: Callable[[Any], str]
) -> None:
    assert words in message(STUDY | {"workload": workload})


def test_every_key_that_the_catalogue_knows_has_its_kind_and_no_kind_is_left_over() -> None:
    keys = {key for meta in WORKLOADS.values() for key in meta.config_keys}
    assert {key for key in keys if kind_of(key, CONFIG) is None} == set()
    assert [pattern for pattern, _ in CONFIG if not any(kind_of(key, ((pattern, CONFIG[0][1]),)) for key in keys)] == []
    options = {option for meta in TECHNIQUES.values() for option in meta.options}
    assert options == {name for name, _ in TECHNIQUE_OPTIONS}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("studies: &a [*a]", "line 1, column 10: not valid YAML: an alias (*) inside of what it stands for"),
        ("&a {b: *a}", "an alias (*) inside of what it stands for"),
        ("a: " + "[" * 3000, "line 1, column 54: not valid YAML: lists or keys nested more than 50 deep"),
        ("a: " + "[" * 3000 + "]" * 3000, "lists or keys nested more than 50 deep"),
        ("b: 1\na: !!int abc", "line 2, column 4: not valid YAML: 'abc' is no int (put it in quotes if it is text)"),
        ("a: 2024-99-99", "'2024-99-99' is no timestamp"),
        ("a: !!timestamp x", "'x' is no timestamp"),
        ("a: !!bool z", "'z' is no bool"),
        ("a: " + "9" * 5000, "is no int"),
        ("a: !!python/object:os.system {}", "line 1, column 4: not valid YAML: could not determine a constructor"),
        ("? [1]\n: 2", "a list or keys cannot be a key"),
        ("a: 1\nb: \x00", "line 2: not valid YAML: a character that is not printable"),
        (
            "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)),
            "aliases (*) that stand for more than 1000000 values",
        ),
        ("source: [measured]", "line 1: key 'source' must be one of measured, mlperf, points; found ['measured']"),
        ("source: {a: b}", "line 1: key 'source' must be one of measured, mlperf, points; found {'a': 'b'}"),
    ],
)  # fmt: skip
def test_yaml_that_cannot_be_read_is_refused(text: str, words: str, message: Callable[[Any], str]) -> None:
    assert words in message(text)


def test_anchors_and_merged_keys_stay_useful(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}\ne: [*a, *a]\n")
    assert YamlFile(path).data["d"] == {"b": 3, "c": 2}


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("", "should have at least 1 character"),
        ("x" * 201, "should have at most 200 characters"),
        ("a\nb", "holds the character U+000A"),
        ("a\0b", "holds the character U+0000"),
        ("a\x85b", "holds the character U+0085"),
        ("\ud800", "should be a valid string"),
        ("☃", "needs a letter a-z or a digit"),
    ],
)
@pytest.mark.parametrize(
    ("study", "place"),
    [
        (STUDY, ["title"]), (STUDY, ["workload", "title"]), (MLPERF, ["workloads", "bert"]),
        (POINTS, ["workload"]), (POINTS, ["device"]),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_title_that_cannot_be_a_heading_or_a_file_name_is_refused(
    study: dict[str, Any], place: list[str], title: str, words: str, message: Callable[[Any], str]
) -> None:
    first, *inside = place
    found = message(study | {first: study[first] | {inside[0]: title} if inside else title})
    assert words in found
    assert f"'{'.'.join(place)}'" in found


@pytest.mark.parametrize(
    "entry",
    [
        "../studies/s", "a/b", "..", ".hidden", "-s", "a b", "x" * 101, "a b.yaml", "../.yaml", "☃.csv", "x/☃☃.csv",
        "a\nb", "",
    ],
)  # fmt: skip
def test_a_study_whose_name_is_no_folder_name_is_refused_naming_the_line(entry: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"studies": ["good", entry]}))
    with pytest.raises(UserError, match=r"config\.yaml, line 3: 'studies"):
        load_config({"studies": ["good", entry]}, path)


def test_an_entry_of_the_command_line_is_in_no_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("studies: [good]\n")
    with pytest.raises(UserError, match=r"config\.yaml: 'studies': 'a/b' is no name"):
        load_config({"studies": ["a/b"]}, path)


def test_names_and_paths_of_studies(tmp_path: Path) -> None:
    entries = {"s-1.b": "s-1.b", "../x/s.yaml": "s", "/a/b/s_2.yml": "s_2", "../My data.csv": "my-data"}
    assert load_config({"studies": list(entries)}, tmp_path / "none.yaml").studies == list(entries)
    assert [study_name(entry) for entry in entries] == list(entries.values())


@pytest.mark.parametrize("efficiency", [float("nan"), float("inf"), 0, 1.1])
def test_a_criterion_is_above_nothing_and_at_most_all(efficiency: float, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"criterion\.efficiency"):
        load_config({"studies": ["s"], "criterion": {"efficiency": efficiency}}, tmp_path / "none.yaml")


@pytest.mark.parametrize(("key", "value"), [("nodes", 65_537), ("devices_per_node", 65_537), ("devices_per_node", 0)])
def test_a_platform_has_a_size_that_exists(key: str, value: int, tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text(f"title: big\n{key}: {value}\n")
    with pytest.raises(UserError, match=rf"big\.yaml, line 2: '{key}'.*Found {value}"):
        load_platform("big", tmp_path)


def test_a_platform_may_say_what_a_device_costs_per_hour(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("title: ours\ndevice_kind: cpu\nprice_per_device_hour: 2.5\n")
    assert resolve(load_platform("ours", tmp_path)).price_per_device_hour == 2.5
    (tmp_path / "ours.yaml").write_text("title: ours\nprice_per_device_hour: -1\n")
    with pytest.raises(UserError, match=r"ours\.yaml, line 2: 'price_per_device_hour': Input should be greater than 0"):
        load_platform("ours", tmp_path)


def test_an_error_names_who_wrote_the_value(tmp_path: Path) -> None:
    """Of the files that a config was merged from, the one whose value it is; else the command line."""
    own, beside = tmp_path / "config.yaml", tmp_path / "my.yaml"
    own.write_text("studies: [s]\nmlperf:\n  source: facts\n")
    beside.write_text("mlperf:\n\n  rounds: [v4.1]\n")
    raw = {"studies": ["s"], "mlperf": {"source": "facts", "rounds": ["v4.1"], "rules": "x"}}
    places = Places.of(raw, [beside, own], {"mlperf": {"rules": "x"}})
    assert places.where(["mlperf", "source"]) == f"{own}, line 3"
    assert places.where(["mlperf", "rounds", 0]) == f"{beside}, line 3"
    assert places.where(["mlperf", "rules"]) == "--config mlperf"
    assert places.where(["criterion"]) == str(own)
