"""The committed run facts: what they hold, and that the archive gives them back byte for byte."""

import json
import random
import tarfile
from pathlib import Path

import pandas as pd
import pytest

from breakeven.mlperf.extract import extract, main
from breakeven.mlperf.score import submissions
from breakeven.mlperf.table import FACT_COLUMNS, facts_csv, read_facts
from breakeven.schema.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "workflow" / "breakeven" / "mlperf" / "facts" / "v4.1_runs.csv"
ARCHIVES = ROOT.parent / "shared" / "data" / "mlperf"
ARCHIVE = ARCHIVES / "training_results_v4.1.tar.xz"
SUBSET = ARCHIVES / "v4.1_test_subset.tar.xz"
OUTSIDE = "the raw archive is kept outside the repository"


@pytest.fixture(scope="module")
def facts() -> pd.DataFrame:
    return read_facts(FACTS)


@pytest.mark.skipif(not ARCHIVE.exists(), reason=OUTSIDE)
def test_the_archive_gives_the_committed_facts_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "facts" / "runs.csv"
    monkeypatch.setattr("sys.argv", ["extract", str(ARCHIVE), "--out", str(out)])
    main()
    assert out.read_bytes() == FACTS.read_bytes()
    assert [path.name for path in out.parent.iterdir()] == ["runs.csv"]


@pytest.mark.skipif(not SUBSET.exists(), reason=OUTSIDE)
def test_a_tree_and_its_archive_give_the_same_and_the_official_tools_scores(tmp_path: Path) -> None:
    with tarfile.open(SUBSET) as archive:
        archive.extractall(tmp_path / "tree", filter="data")
    text = facts_csv(extract(SUBSET, "v4.1"))
    assert facts_csv(extract(tmp_path / "tree", "v4.1")) == text
    table = tmp_path / "runs.csv"
    table.write_text(text)
    expected = pd.read_csv(SUBSET.with_name("v4.1_test_subset_expected.csv"))
    official = sorted(expected.filter(like=":time_to_train").stack().dropna())
    assert sorted(submissions(read_facts(table))["time_to_train_min"]) == pytest.approx(official, rel=1e-12)


def test_the_table_holds_110_sets_of_four_benchmarks(facts: pd.DataFrame) -> None:
    assert list(facts.columns) == FACT_COLUMNS
    assert len(facts) == 970
    sets = facts.drop_duplicates(["submitter", "system", "benchmark"])["benchmark"].value_counts().to_dict()
    assert sets == {"llama2_70b_lora": 30, "bert": 29, "ssd": 26, "stable_diffusion": 25}


def test_devices_are_counted_never_read_from_a_name(facts: pd.DataFrame) -> None:
    assert (facts["devices"] > 0).all()
    assert (facts["devices"] == facts["nodes"] * facts["accelerators_per_node"]).all()
    devices = facts.drop_duplicates("system").set_index("system")["devices"]
    assert devices["cloud-tpu-v5p-2048-maxdiffusion"] == 1024  # the name counts cores
    assert devices["512xBM.GPU.H100.8"] == 512  # the name counts GPUs, and there are 64 nodes
    assert devices["tinybox_green"] == 6


def test_the_ten_absent_logs_of_clemson_are_not_measured(facts: pd.DataFrame) -> None:
    absent = facts[facts["status"] == "not_measured"]
    assert len(absent) == 10
    assert set(absent["submitter"]) == {"Clemson"}
    assert set(absent["system"]) == {"7x8xH100-SXM5-80GB"}
    assert absent[["run_time_min", "samples_to_converge", "global_batch"]].isna().all(axis=None)


def test_three_runs_failed(facts: pd.DataFrame) -> None:
    assert set(facts[facts["status"] == "failed"]["source"]) == {
        "NVIDIA/results/eos_n64_ngc24.09_nemo/stable_diffusion/result_6.txt",
        "NVIDIA/results/eos_n8_ngc23.04_pytorch/bert/result_4.txt",
        "tinycorp/results/tinybox_green/bert/result_2.txt",
    }


def test_every_run_that_converged_has_its_time_samples_and_batch(facts: pd.DataFrame) -> None:
    converged = facts[facts["status"] == "ok"]
    assert converged[["run_time_min", "samples_to_converge", "global_batch"]].notna().all(axis=None)
    assert (converged["run_time_min"] > 0).all()


def test_three_logs_of_lambda_have_one_corrupted_line_each(facts: pd.DataFrame) -> None:
    corrupted = facts[facts["corrupted_lines"] > 0]
    assert corrupted["corrupted_lines"].tolist() == [1, 1, 1]
    assert set(corrupted["submitter"]) == {"Lambda"}


def test_the_one_duplicate_names_its_original(facts: pd.DataFrame) -> None:
    duplicates = facts[facts["duplicate_of"] != ""].drop_duplicates(["system", "benchmark"])
    assert duplicates[["submitter", "system", "benchmark", "duplicate_of"]].values.tolist() == [
        ["Dell", "8xXE9680x8H100-SXM-80GB-POWER", "llama2_70b_lora", "8xXE9680x8H100-SXM-80GB"]
    ]


def test_reading_gives_back_the_numbers_written(facts: pd.DataFrame) -> None:
    text = pd.read_csv(FACTS, dtype=str)
    for column in ("run_time_min", "scaling_factor"):
        written = text[column].dropna()
        assert [repr(float(number)) for number in facts.loc[written.index, column]] == written.tolist()


def small_tree(root: Path, **description: object) -> Path:
    system = {
        "submitter": "Someone Inc.",
        "division": "closed",
        "status": "Available on-premise",
        "system_name": "box",
        "number_of_nodes": "1",
        "accelerators_per_node": "8",
        "accelerator_model_name": "NVIDIA H100-SXM5-80GB",
    }
    results = root / "Someone" / "results" / "box_1" / "ssd"
    results.mkdir(parents=True)
    (results / "result_0.txt").write_text("")
    (results / "scaling.json").write_text('{"scaling_factor": 1.5}')
    systems = root / "Someone" / "systems"
    systems.mkdir()
    (systems / "box_1.json").write_text(json.dumps({**system, **description}))
    return root


def test_runs_that_the_rules_require_and_the_tree_lacks_are_rows(tmp_path: Path) -> None:
    rows = extract(small_tree(tmp_path), "v9.9")
    assert [row.status for row in rows] == ["failed", *["not_measured"] * 4]
    assert [row.run for row in rows] == [0, 1, 2, 3, 4]
    assert {(row.submitter, row.system_name, row.devices, row.scaling_factor) for row in rows} == {
        ("Someone", "box", 8, 1.5)
    }


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"accelerator_model_name": "NVIDIA H100"}, "box_1.json: accelerator_model_name 'NVIDIA H100' belongs to no"),
        ({"accelerators_per_node": "0"}, "box_1.json: accelerators_per_node is '0'; it must be a whole number above 0"),
        ({"number_of_nodes": ""}, "box_1.json: number_of_nodes is missing or empty"),
    ],
)
def test_a_system_description_that_cannot_be_right(
    tmp_path: Path, description: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        extract(small_tree(tmp_path, **description), "v9.9")


def test_a_missing_system_description_is_named(tmp_path: Path) -> None:
    (small_tree(tmp_path) / "Someone" / "systems" / "box_1.json").unlink()
    with pytest.raises(UserError, match=r"Expected Someone/systems/box_1\.json"):
        extract(tmp_path, "v9.9")


def test_a_source_that_is_no_results_repository(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no results of bert, llama2_70b_lora"):
        extract(tmp_path, "v9.9")
    file = tmp_path / "notes.txt"
    file.write_text("not a tar archive")
    with pytest.raises(UserError, match=r"notes\.txt: cannot be read as an archive"):
        extract(file, "v9.9")


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_an_archive_cut_short(tmp_path: Path, kept: float) -> None:
    whole, cut = tmp_path / "whole.tar.xz", tmp_path / "cut.tar.xz"
    tree = small_tree(tmp_path / "tree")
    (tree / "Someone" / "results" / "box_1" / "ssd" / "result_1.txt").write_bytes(random.Random(0).randbytes(300_000))
    with tarfile.open(whole, "w:xz") as archive:
        archive.add(tree, arcname="repository")
    content = whole.read_bytes()
    cut.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(UserError, match=r"cut\.tar\.xz: cannot be read as an archive"):
        extract(cut, "v9.9")


def test_a_table_that_is_no_run_facts(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"t\.csv: lacks the columns round, benchmark"):
        read_facts(table)
