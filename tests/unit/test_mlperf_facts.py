"""The committed run facts: what they hold, and that the archive gives them back byte for byte."""

import os
import tarfile
from pathlib import Path

import pandas as pd
import pytest

from breakeven.mlperf.anomalies import ANOMALY_COLUMNS, KINDS, anomalies_csv
from breakeven.mlperf.extract import extract, main
from breakeven.mlperf.rules import load_round
from breakeven.mlperf.table import FACT_COLUMNS, facts_csv, read_facts
from breakeven.schema.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "workflow" / "breakeven" / "mlperf" / "facts" / "v4.1_runs.csv"
ANOMALIES = FACTS.with_name("v4.1_anomalies.csv")
ARCHIVES = ROOT.parent / "shared" / "data" / "mlperf"
ARCHIVE = ARCHIVES / "training_results_v4.1.tar.xz"
NEWER = ARCHIVES / "training_results_v5.1.tar.xz"
SUBSET = ARCHIVES / "v4.1_test_subset.tar.xz"
OUTSIDE = "the raw archive is kept outside the repository"
ROUND = load_round("v4.1")


@pytest.fixture(scope="module")
def facts() -> pd.DataFrame:
    return read_facts(FACTS)


@pytest.fixture(scope="module")
def anomalies() -> pd.DataFrame:
    return pd.read_csv(ANOMALIES, keep_default_na=False)


@pytest.mark.skipif(not ARCHIVE.exists(), reason=OUTSIDE)
def test_the_archive_gives_the_committed_facts_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "facts"
    tables = ["--runs", str(out / "runs.csv"), "--anomalies", str(out / "anomalies.csv")]
    origin = ["--repository", ROUND.repository, "--commit", ROUND.commit]
    monkeypatch.setattr("sys.argv", ["extract", str(ARCHIVE), "--round", "v4.1", *tables, *origin])
    main()
    assert (out / "runs.csv").read_bytes() == FACTS.read_bytes()
    assert (out / "anomalies.csv").read_bytes() == ANOMALIES.read_bytes()
    assert sorted(path.name for path in out.iterdir()) == ["anomalies.csv", "runs.csv"]


@pytest.mark.skipif(not SUBSET.exists(), reason=OUTSIDE)
def test_a_tree_and_its_archive_give_the_same(tmp_path: Path) -> None:
    with tarfile.open(SUBSET) as archive:
        archive.extractall(tmp_path / "tree", filter="data")
    from_archive, from_tree = extract(SUBSET, ROUND), extract(tmp_path / "tree", ROUND)
    assert facts_csv(from_tree.rows) == facts_csv(from_archive.rows)
    assert anomalies_csv(from_tree.anomalies) == anomalies_csv(from_archive.anomalies)
    sets = {(row.submitter, row.benchmark) for row in from_tree.rows}
    assert sets == {
        ("GigaComputing", "llama2_70b_lora"),
        ("Google", "stable_diffusion"),
        ("NVIDIA", "ssd"),
        ("NVIDIA", "stable_diffusion"),
        ("tinycorp", "bert"),
    }


@pytest.mark.skipif(not NEWER.exists(), reason=OUTSIDE)
def test_v5_1_has_1669_runs_on_known_accelerators_and_two_sets_submitted_twice() -> None:
    found = extract(NEWER, load_round("v5.1"), processes=len(os.sched_getaffinity(0)))
    assert len(found.rows) == 1669
    assert {row.status for row in found.rows} == {"ok", "failed"}
    assert {row.accelerator_family for row in found.rows} == {
        "B200-SXM", "B300-SXM", "GB200", "GB300", "H100-SXM", "H200-SXM", "MI300X", "MI325X", "MI350X", "MI355X",
        "RTX-PRO-6000",
    }  # fmt: skip
    assert all(row.devices for row in found.rows)
    duplicates = {
        (row.submitter, row.system, row.benchmark, row.duplicate_of) for row in found.rows if row.duplicate_of
    }
    original = "Dell/1xXE9680Lx8B200-SXM-180GB"
    assert duplicates == {
        ("Dell", "1xXE9780x8B200-SXM-180GB", "retinanet", original),
        ("Dell", "1xXE9780x8B200-SXM-180GB", "rgat", original),
    }


def test_the_table_holds_154_sets_of_seven_benchmarks(facts: pd.DataFrame) -> None:
    assert list(facts.columns) == FACT_COLUMNS
    assert len(facts) == 1319
    sets = facts.drop_duplicates(["submitter", "system", "benchmark"])["benchmark"].value_counts().to_dict()
    assert sets == {
        "llama2_70b_lora": 30,
        "bert": 29,
        "ssd": 26,
        "stable_diffusion": 25,
        "gnn": 17,
        "dlrm_dcnv2": 14,
        "gpt3": 13,
    }
    assert facts.groupby("benchmark")["workload"].unique().explode().to_dict() == {
        name: benchmark.workload for name, benchmark in ROUND.benchmarks.items()
    }


def test_the_table_says_where_its_runs_come_from(facts: pd.DataFrame) -> None:
    assert set(facts["repository"]) == {ROUND.repository} == {"https://github.com/mlcommons/training_results_v4.1"}
    assert set(facts["commit"]) == {ROUND.commit}
    assert facts["result_id"].nunique() == 154


def test_devices_are_counted_never_read_from_a_name(facts: pd.DataFrame) -> None:
    assert (facts["devices"] > 0).all()
    assert (facts["devices"] == facts["nodes"] * facts["accelerators_per_node"]).all()
    devices = facts.drop_duplicates("system").set_index("system")["devices"]
    assert devices["cloud-tpu-v5p-2048-maxdiffusion"] == 1024  # the name counts cores
    assert devices["512xBM.GPU.H100.8"] == 512  # the name counts GPUs, and there are 64 nodes
    assert devices["tinybox_green"] == 6


def test_the_families_of_v4_1(facts: pd.DataFrame) -> None:
    sets = facts.drop_duplicates(["submitter", "system", "benchmark"])["accelerator_family"].value_counts().to_dict()
    assert sets == {
        "H100-SXM": 84, "H200-SXM": 43, "B200-SXM": 7, "TPU-v5p": 7, "Trillium": 4, "H100-NVL": 3, "A100-PCIe": 2,
        "RTX-A5000": 2, "RTX-4090": 1, "RX-7900XTX": 1,
    }  # fmt: skip


def test_the_ten_absent_logs_of_clemson_are_not_measured(facts: pd.DataFrame, anomalies: pd.DataFrame) -> None:
    absent = facts[facts["status"] == "not_measured"]
    assert len(absent) == 10
    assert set(absent["submitter"]) == {"Clemson"}
    assert set(absent["system"]) == {"7x8xH100-SXM5-80GB"}
    assert absent[["run_time_min", "samples_to_converge", "global_batch"]].isna().all(axis=None)
    listed = anomalies[anomalies["kind"] == "absent_file"]
    assert listed[["submitter", "system", "count"]].values.tolist() == [["Clemson", "7x8xH100-SXM5-80GB", 10]]


def test_three_runs_failed(facts: pd.DataFrame, anomalies: pd.DataFrame) -> None:
    failed = {
        "NVIDIA/results/eos_n64_ngc24.09_nemo/stable_diffusion/result_6.txt",
        "NVIDIA/results/eos_n8_ngc23.04_pytorch/bert/result_4.txt",
        "tinycorp/results/tinybox_green/bert/result_2.txt",
    }
    assert set(facts[facts["status"] == "failed"]["source"]) == failed
    assert set(anomalies[anomalies["kind"].isin(["not_converged", "no_run_stop"])]["file"]) == failed


def test_six_logs_fail_the_official_checks_the_three_that_failed_and_three_damaged_ones(facts: pd.DataFrame) -> None:
    rejected = facts[facts["compliance"] != ""]
    assert len(rejected) == 6
    assert ((rejected["status"] == "failed") | (rejected["corrupted_lines"] == 1)).all()


def test_every_run_that_converged_has_its_time_samples_and_batch(facts: pd.DataFrame) -> None:
    converged = facts[facts["status"] == "ok"]
    assert converged[["run_time_min", "samples_to_converge", "global_batch"]].notna().all(axis=None)
    assert (converged["run_time_min"] > 0).all()


def test_a_throughput_is_there_or_its_absence_is_explained(facts: pd.DataFrame) -> None:
    measured = facts[facts["status"] != "not_measured"]
    assert (measured["step_throughput"].isna() == (measured["step_throughput_note"] != "")).all()


def test_three_logs_of_lambda_have_one_corrupted_line_each(facts: pd.DataFrame) -> None:
    corrupted = facts[facts["corrupted_lines"] > 0]
    assert corrupted["corrupted_lines"].tolist() == [1, 1, 1]
    assert set(corrupted["submitter"]) == {"Lambda"}


def test_the_one_duplicate_names_its_original(facts: pd.DataFrame) -> None:
    duplicates = facts[facts["duplicate_of"] != ""].drop_duplicates(["system", "benchmark"])
    assert duplicates[["submitter", "system", "benchmark", "duplicate_of"]].values.tolist() == [
        ["Dell", "8xXE9680x8H100-SXM-80GB-POWER", "llama2_70b_lora", "Dell/8xXE9680x8H100-SXM-80GB"]
    ]


def test_what_is_odd_about_v4_1(anomalies: pd.DataFrame) -> None:
    assert list(anomalies.columns) == ANOMALY_COLUMNS
    assert set(anomalies["kind"]) <= set(KINDS)
    assert anomalies["kind"].value_counts().to_dict() == {
        "prefixed_lines": 519,
        "several_ranks": 176,
        "old_logs": 19,
        "non_utf8": 7,
        "fails_official_check": 6,
        "corrupted_lines": 3,
        "not_converged": 2,
        "absent_file": 1,
        "duplicate_submission": 1,
        "no_run_stop": 1,
    }


def test_reading_gives_back_the_numbers_written(facts: pd.DataFrame) -> None:
    text = pd.read_csv(FACTS, dtype=str)
    for column in ("run_time_min", "scaling_factor", "step_throughput", "samples_to_converge", "evaluation_min"):
        written = text[column].dropna()
        assert [float(number) for number in facts.loc[written.index, column]] == written.map(float).tolist()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("run_time_min", "soon", r"line 3: run_time_min is 'soon'; expected a number or nothing"),
        ("devices", "inf", r"line 3: devices is 'inf'"),
        ("devices", "1.5", r"line 3: devices is '1\.5'; expected a whole number, 1 or more, or nothing"),
        ("devices", "1e300", r"line 3: devices is '1e300'"),
        ("devices", "0", r"line 3: devices is '0'"),
        ("devices", "-3", r"line 3: devices is '-3'"),
        ("global_batch", "-5", r"line 3: global_batch is '-5'"),
        ("run", "0.5", r"line 3: run is '0\.5'; expected a whole number, 0 or more"),
        ("samples_to_converge", "0", r"line 3: samples_to_converge is '0'; expected a number above 0 or nothing"),
        ("step_throughput", "-1", r"line 3: step_throughput is '-1'"),
        ("scaling_factor", "0", r"line 3: scaling_factor is '0'"),
        ("status", "fine", r"line 3: status 'fine' is unknown"),
    ],
)
def test_a_table_with_a_cell_that_cannot_be(tmp_path: Path, column: str, value: str, message: str) -> None:
    table = pd.read_csv(FACTS, dtype=str, keep_default_na=False).head(3)
    table.loc[1, column] = value
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(UserError, match=rf"t\.csv: {message}"):
        read_facts(tmp_path / "t.csv")


def test_a_row_longer_or_shorter_than_the_header(tmp_path: Path) -> None:
    table, rows = tmp_path / "t.csv", FACTS.read_text().splitlines()[:4]
    table.write_text("\n".join([rows[0], rows[1].replace("tinycorp", '"tiny\ncorp"'), "", rows[2] + ",7", rows[3]]))
    with pytest.raises(UserError, match=r"t\.csv: line 4: 34 cells, but 33 columns, the last source"):
        read_facts(table)
    table.write_text("\n".join([*rows[:2], rows[2].rpartition(",")[0]]))
    with pytest.raises(UserError, match=r"t\.csv: line 3: 32 cells, but 33 columns"):
        read_facts(table)
    table.write_text("\n".join([rows[0] + ",devices", rows[1] + ",8"]))
    with pytest.raises(UserError, match=r"t\.csv: has more than one column devices"):
        read_facts(table)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"a,b\n1,2\n", b'round,"benchmark\n', bytes(100)])
def test_a_table_that_is_no_run_facts(tmp_path: Path, content: bytes) -> None:
    table = tmp_path / "t.csv"
    table.write_bytes(content)
    with pytest.raises(UserError, match=r"(?s)t\.csv: (lacks the columns round|cannot be read).*Expected what"):
        read_facts(table)
    with pytest.raises(UserError, match=r"nowhere\.csv: cannot be read"):
        read_facts(tmp_path / "nowhere.csv")
