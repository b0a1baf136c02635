"""A repository to its runs and anomalies: whatever it holds, one row per run, and nothing odd goes unsaid."""

import dataclasses
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from breakeven.mlperf import reading
from breakeven.mlperf.anomalies import KINDS, Anomaly, anomalies_csv
from breakeven.mlperf.extract import extract, main
from breakeven.mlperf.pool import spread
from breakeven.mlperf.rules import load_round
from breakeven.mlperf.table import RunRow, facts_csv, read_facts
from breakeven.schema.errors import UserError
from tests.mlperf_repository import T0, log, mllog, repository, snapshot, write_tar, write_tree

ROUND = load_round("v4.1")
FOLDER = "Someone/results/box_1/llama2_70b_lora"


def rows(files: dict[str, bytes], root: Path) -> list[RunRow]:
    return extract(write_tree(root, files), ROUND, processes=1).rows


def anomalies(files: dict[str, bytes], root: Path, *kinds: str) -> list[tuple[str, str, int, str]]:
    """(kind, file, count, detail) of the kinds."""
    found = extract(write_tree(root, files), ROUND, processes=1).anomalies
    assert {anomaly.kind for anomaly in found} <= set(KINDS)
    return [(it.kind, it.file, it.count, it.detail) for it in found if it.kind in kinds]


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "breakeven.mlperf.extract", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


# Rows


def test_a_set_of_ten_runs(tmp_path: Path) -> None:
    found = rows(repository(), tmp_path)
    assert [(row.run, row.status, row.source) for row in found] == [
        (run, "ok", f"{FOLDER}/result_{run}.txt") for run in range(10)
    ]
    first = found[0]
    assert (first.run_time_min, first.samples_to_converge, first.global_batch, first.log_month) == (
        10,
        3072,
        8,
        "2024-09",
    )
    assert (first.workload, first.accelerator_family, first.devices, first.system_name) == (
        "llama2_70b_lora", "H100-SXM", 8, "box",
    )  # fmt: skip
    assert (first.result_id, first.energy_kj) == ("v4.1/Someone/box_1/llama2_70b_lora", None)


def test_where_the_logs_come_from_is_said_as_it_was_given(tmp_path: Path) -> None:
    found = extract(write_tree(tmp_path, repository()), ROUND, repository="https://x", commit="abc", processes=1).rows
    assert {(row.repository, row.commit) for row in found} == {("https://x", "abc")}


def test_runs_are_numbered_in_the_natural_order_of_their_logs(tmp_path: Path) -> None:
    files = repository(runs=0) | {f"{FOLDER}/result_{name}.txt": log() for name in ("10", "2", "b", "1_2", "1_10")}
    sources = [row.source.rpartition("/")[2] for row in rows(files, tmp_path)[:5]]
    assert sources == ["result_1_2.txt", "result_1_10.txt", "result_2.txt", "result_10.txt", "result_b.txt"]


def test_runs_that_the_rules_require_and_that_are_not_there_are_rows(tmp_path: Path) -> None:
    files = repository(runs=3)
    found = rows(files, tmp_path)
    assert [(row.run, row.status) for row in found[3:]] == [(run, "not_measured") for run in range(3, 10)]
    assert {(row.source, row.run_time_min, row.global_batch) for row in found[3:]} == {(FOLDER, None, None)}
    assert anomalies(files, tmp_path, "absent_file") == [("absent_file", FOLDER, 7, "10 logs are required")]


def test_a_set_of_which_only_the_scaling_factor_is_there(tmp_path: Path) -> None:
    files = repository() | {"Someone/results/box_1/bert/scaling.json": b'{"scaling_factor": 1.05115}'}
    found = [row for row in rows(files, tmp_path) if row.benchmark == "bert"]
    assert {(row.status, row.scaling_factor) for row in found} == {("not_measured", 1.05115)}
    assert len(found) == 10


def test_a_benchmark_is_called_by_the_rounds_name_for_it(tmp_path: Path) -> None:
    files = repository() | {"Someone/results/box_1/ssd/result_0.txt": b""}
    assert {(row.benchmark, row.workload) for row in rows(files, tmp_path)} >= {("ssd", "retinanet")}


def test_energy_is_the_mean_power_for_the_runs_time(tmp_path: Path) -> None:
    def node(watts: float) -> bytes:
        lines = [
            ("power_measurement_start", 0, None),
            ("power_reading", 1000, watts),
            ("power_measurement_stop", 1000, None),
        ]
        return "".join(mllog(key, T0 + ms, value) for key, ms, value in lines).encode()

    power = f"{FOLDER}/power"
    files = repository() | {
        f"{power}/result_0/node_0.txt": node(7000),
        f"{power}/result_0/node_1.txt": node(5000),
        f"{power}/result_0/sw_0.txt": mllog("interconnect_power_est", T0, 100).encode(),
        f"{power}/result_1/node_0.txt": b"nothing",
        f"{power}/result_2/sw_0.txt": b"",
    }
    assert [row.energy_kj for row in rows(files, tmp_path)[:4]] == [
        pytest.approx(12_100 * 600 / 1000),
        None,
        None,
        None,
    ]
    found = anomalies(files, tmp_path, "bad_power")
    assert ("bad_power", f"{power}/result_1/node_0.txt", 1, "power_measurement_start is missing") in found
    assert {(file, detail) for _, file, _, detail in found} >= {
        (f"{power}/result_{run}", "no readable power log of a node") for run in range(1, 10)
    }


# Anomalies


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "scaling_factor is 'None'; expected a number above 0"),
        (b'{"scaling_factor": "1.5"}', "scaling_factor is '1.5'"),
        (b'{"scaling_factor": 0}', "scaling_factor is '0'"),
        (b'{"scaling_factor": NaN}', "scaling_factor is 'nan'"),
        (b'{"scaling_factor": 1e999}', "scaling_factor is 'inf'"),
        (b'{"scaling_factor": true}', "scaling_factor is 'True'"),
        (b'{"scaling_factor": 10.5}', "scaling_factor is '10.5'; expected a number above 0, 10 at the most"),
        (b'{"scaling_factor": 1' + b"0" * 400 + b"}", "scaling_factor is '1000"),
        (b'{"scaling_factor": ' + b"[" * 900 + b"]" * 900 + b"}", "scaling_factor is "),
        (b"[" * 100_000, "not valid JSON"),
        (b" " * (1 << 20) + b"{}", "longer than 1048576 bytes"),
        (random.Random(4).randbytes(1000), "not valid JSON"),
    ],
)
def test_a_scaling_factor_that_cannot_be_read_is_1_and_listed(tmp_path: Path, content: bytes, detail: str) -> None:
    files = repository() | {f"{FOLDER}/scaling.json": content}
    assert {row.scaling_factor for row in rows(files, tmp_path)} == {1.0}
    [(_, file, _, said)] = anomalies(files, tmp_path, "bad_scaling")
    assert file == f"{FOLDER}/scaling.json"
    assert said.startswith(detail)


def test_the_same_runs_of_another_submitter_are_a_duplicate(tmp_path: Path) -> None:
    files = repository(submitter="B") | repository(submitter="A") | repository(submitter="C", start_ms=T0 + 1)
    assert {(row.submitter, row.duplicate_of) for row in rows(files, tmp_path)} == {
        ("A", ""),
        ("B", "A/box_1"),
        ("C", ""),
    }
    folder = "B/results/box_1/llama2_70b_lora"
    assert anomalies(files, tmp_path, "duplicate_submission") == [
        ("duplicate_submission", folder, 10, "the runs of A/box_1")
    ]


def duplicates(files: dict[str, bytes], root: Path) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """Submitter → duplicate_of, and what is listed."""
    listed = {(file.partition("/")[0], detail) for _, file, _, detail in anomalies(files, root, "duplicate_submission")}
    return {row.submitter: row.duplicate_of for row in rows(files, root)}, listed


def test_a_set_that_is_not_in_the_table_is_nobodys_original(tmp_path: Path) -> None:
    files = repository(submitter="A") | repository(submitter="B") | repository(submitter="C")
    del files["A/systems/box_1.json"]
    assert duplicates(files, tmp_path) == ({"B": "", "C": "B/box_1"}, {("C", "the runs of B/box_1")})


@pytest.mark.parametrize(
    "otherwise", [{"division": "open"}, {"division": ""}, {"accelerator_model_name": "NVIDIA A100-SXM4-80GB"}]
)
def test_a_copy_that_says_it_is_something_else_takes_nobodys_place(tmp_path: Path, otherwise: dict[str, Any]) -> None:
    files = repository(submitter="A", **otherwise) | repository(submitter="B") | repository(submitter="C")
    marked, listed = duplicates(files, tmp_path)
    assert marked == {"A": "", "B": "", "C": "B/box_1"}
    other = ("B", "the runs of A/box_1") if "division" not in otherwise else ("A", "the runs of B/box_1")
    assert listed == {other, ("C", "the runs of B/box_1")}


def test_a_second_folder_of_one_benchmark_is_listed_and_not_pooled(tmp_path: Path) -> None:
    files = repository()
    for folder, minutes in (("ssd", 20), ("retinanet", 10)):
        files |= {f"Someone/results/box_1/{folder}/result_{n}.txt": log(T0 + n, minutes) for n in range(5)}
    found = [row for row in rows(files, tmp_path) if row.workload == "retinanet"]
    assert {row.source.rpartition("/")[0] for row in found if row.status != "not_measured"} <= {
        "Someone/results/box_1/ssd"
    }
    assert {row.result_id for row in found} == {"v4.1/Someone/box_1/ssd"}
    assert anomalies(files, tmp_path, "second_folder") == [
        ("second_folder", "Someone/results/box_1/retinanet", 5, "the results of Someone/results/box_1/ssd hold")
    ]


def test_systems_whose_names_are_written_alike_are_not_pooled(tmp_path: Path) -> None:
    files = repository()
    for name in ("box\n1", "box\\n1"):
        files |= {path.replace("box_1", name): content for path, content in repository(start_ms=T0 + 1).items()}
    found = [row for row in rows(files, tmp_path) if row.system == "box\\n1"]
    assert [row.run for row in found] == list(range(10))
    assert [count for _, _, count, _ in anomalies(files, tmp_path, "second_folder")] == [10]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"{", "not valid JSON"), (b" " * (1 << 20) + b"{}", "longer than 1048576 bytes"), (None, "is a folder")],
)
def test_a_source_whose_only_description_is_broken_says_so(tmp_path: Path, content: bytes | None, reason: str) -> None:
    files = repository() | {"Someone/systems/box_1.json": content or b""}
    if content is None:
        files["Someone/systems/box_1.json/x"] = files.pop("Someone/systems/box_1.json")
    with pytest.raises(
        UserError, match=rf"no description of a system can be read\.\nSomeone/systems/box_1\.json: {reason}"
    ):
        rows(files, tmp_path)


def test_energy_that_is_no_number_is_none(tmp_path: Path) -> None:
    lines = [("conversion_eff", 0, 9e11), ("power_measurement_start", 0, None), ("power_reading", 1e290, 9e11)]
    node = "".join(mllog(key, at, value) for key, at, value in lines).encode()
    files = repository() | {f"{FOLDER}/power/result_0/node_0.txt": node}
    assert rows(files, tmp_path)[0].energy_kj is None
    said = {detail for _, file, _, detail in anomalies(files, tmp_path, "bad_power") if file.endswith("result_0")}
    assert said == {"no finite energy over the run's time"}


def test_sets_without_times_are_not_each_others_duplicates(tmp_path: Path) -> None:
    files = repository(submitter="A", runs=0) | repository(submitter="B", runs=0) | repository(submitter="C")
    files |= {f"{who}/results/box_1/llama2_70b_lora/result_0.txt": b"" for who in "AB"}
    assert {row.duplicate_of for row in rows(files, tmp_path)} == {""}


def test_batches_that_differ_extra_runs_and_old_logs(tmp_path: Path) -> None:
    files = repository(runs=12)
    files[f"{FOLDER}/result_3.txt"] = log(batch=16)
    files[f"{FOLDER}/result_4.txt"] = log(start_ms=T0 - 200 * 86_400_000)
    files[f"{FOLDER}/result_5.txt"] = log(start_ms=T0 - 400 * 86_400_000)
    assert anomalies(files, tmp_path, "batch_differs", "extra_runs", "old_logs") == [
        ("batch_differs", FOLDER, 2, "8 in 11 runs, 16 in 1 runs"),
        ("extra_runs", FOLDER, 2, "10 logs are required"),
        ("old_logs", FOLDER, 2, "logged in 2023-08 to 2024-03; the round's own begin in 2024-06"),
    ]


def test_what_is_odd_about_a_log(tmp_path: Path) -> None:
    whole = log().decode().splitlines(keepends=True)
    files = repository() | {
        f"{FOLDER}/result_0.txt": b"",
        f"{FOLDER}/result_1.txt": random.Random(5).randbytes(100_000),
        f"{FOLDER}/result_2.txt": b"0: " + log() + b"\xff\n1: :::MLLOG {\n",
        f"{FOLDER}/result_3.txt": log() + b"x" * 3_000_000 + b"\n",
        f"{FOLDER}/result_4.txt": "".join(whole[:-1]).encode(),
        f"{FOLDER}/result_5.txt": "".join(line for line in whole if "run_start" not in line).encode(),
        f"{FOLDER}/result_6.txt": log(status="aborted"),
        f"{FOLDER}/result_7.txt": b"\0" * 100_000,
    }
    kinds = [kind for kind in KINDS if kind not in ("fails_official_check", "old_logs")]
    found = {(kind, file.rpartition("_")[2], count) for kind, file, count, _ in anomalies(files, tmp_path, *kinds)}
    assert found == {
        ("empty_file", "0.txt", 1),
        ("empty_file", "1.txt", 1),
        ("non_utf8", "1.txt", 1),
        ("prefixed_lines", "2.txt", 2),
        ("several_ranks", "2.txt", 2),
        ("corrupted_lines", "2.txt", 1),
        ("non_utf8", "2.txt", 1),
        ("overlong_line", "3.txt", 1),
        ("no_run_stop", "4.txt", 1),
        ("no_run_start", "5.txt", 1),
        ("not_converged", "6.txt", 1),
        ("empty_file", "7.txt", 1),
    }
    status = {row.source[-5]: row.status for row in rows(files, tmp_path)}
    assert status == {run: "ok" if run in "2389" else "failed" for run in "0123456789"}


def test_a_log_that_fails_the_official_checks_says_which(tmp_path: Path) -> None:
    found = rows(repository(), tmp_path)
    listed = anomalies(repository(), tmp_path, "fails_official_check")
    assert all(row.compliance for row in found)  # these small logs lack most of what the rules ask
    assert {detail for *_, detail in listed} == {row.compliance for row in found}


def test_results_without_a_description_are_left_out_and_listed(tmp_path: Path) -> None:
    files = repository() | repository(submitter="Nameless") | repository(submitter="Broken", start_ms=1)
    del files["Nameless/systems/box_1.json"]
    files["Broken/systems/box_1.json"] = b"{"
    assert {row.submitter for row in rows(files, tmp_path)} == {"Someone"}
    assert [(kind, file.split("/")[0], count) for kind, file, count, _ in anomalies(
        files, tmp_path, "no_system_description", "bad_system_description")] == [
        ("bad_system_description", "Broken", 1),
        ("no_system_description", "Broken", 10),
        ("no_system_description", "Nameless", 10),
    ]  # fmt: skip


def test_a_description_with_mistakes_keeps_its_results(tmp_path: Path) -> None:
    files = repository(accelerators_per_node="many", accelerator_model_name="NVIDIA X1")
    assert {(row.devices, row.nodes, row.accelerator_family) for row in rows(files, tmp_path)} == {
        (None, 1, "NVIDIA X1")
    }
    listed = anomalies(files, tmp_path, "bad_system_description", "unknown_accelerator")
    assert [kind for kind, *_ in listed] == ["bad_system_description", "unknown_accelerator"]
    assert {file for _, file, *_ in listed} == {"Someone/systems/box_1.json"}
    table = tmp_path / "runs.csv"
    table.write_text(facts_csv(rows(files, tmp_path)))
    assert read_facts(table)["devices"].isna().all()


def test_benchmarks_that_the_round_does_not_have_are_left_out_and_listed(tmp_path: Path) -> None:
    files = repository() | {"Someone/results/box_1/poetry/result_0.txt": log()}
    assert {row.benchmark for row in rows(files, tmp_path)} == {"llama2_70b_lora"}
    assert anomalies(files, tmp_path, "unknown_benchmark") == [
        ("unknown_benchmark", "Someone/results/box_1/poetry", 1, "")
    ]


def test_a_log_that_cannot_be_read_is_listed_and_taken_as_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str, *arguments: object, **options: object) -> io.FileIO:
        if path.endswith("result_3.txt"):
            raise PermissionError(13, "Permission denied")
        return io.FileIO(path)

    monkeypatch.setattr(reading, "open", refused, raising=False)
    for processes in (1, 2):
        extraction = extract(write_tree(tmp_path, repository()), ROUND, processes=processes)
        assert [row.status for row in extraction.rows if row.run == 3] == ["not_measured"]
        [(file, detail)] = [(it.file, it.detail) for it in extraction.anomalies if it.kind == "unreadable_file"]
        assert (file, detail) == (f"{FOLDER}/result_3.txt", "Permission denied")
        assert not [it for it in extraction.anomalies if it.kind == "absent_file"]


def test_odd_names_are_one_line_of_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"Some one, Inc.\n\xff")
    files = {
        path.replace("Someone", name): content for path, content in (repository() | repository(submitter="Ünï")).items()
    }
    tree, archive = write_tree(tmp_path / "tree", files), write_tar(tmp_path / "a.tar", files)
    assert extract(tree, ROUND, processes=2) == extract(archive, ROUND, processes=2)
    table = tmp_path / "runs.csv"
    table.write_bytes(facts_csv(extract(tree, ROUND).rows).encode())
    assert set(read_facts(table)["submitter"]) == {"Some one, Inc.\\n\\udcff", "Ünï"}
    assert len(table.read_bytes().splitlines()) == 21


def test_anomalies_are_a_sorted_table_each_once() -> None:
    def one(kind: str) -> Anomaly:
        return Anomaly(round="v4.1", kind=kind, file="a,b")

    assert anomalies_csv([one("old_logs"), one("bad_scaling"), one("old_logs")]) == (
        "round,kind,submitter,system,benchmark,file,count,detail\n"
        'v4.1,bad_scaling,,,,"a,b",1,\nv4.1,old_logs,,,,"a,b",1,\n'
    )


# The whole


def test_one_process_or_several_tree_or_archive_give_the_same(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    for who in "ABCDE":
        files |= repository(submitter=who, start_ms=T0 + ord(who)) | {f"{who}/results/box_1/ssd/result_0.txt": b"\xff"}
    tree = write_tree(tmp_path / "tree", files)
    shuffled = list(files.items())
    random.Random(6).shuffle(shuffled)
    before = snapshot(tmp_path)
    whole = extract(tree, ROUND, processes=1)
    assert snapshot(tmp_path) == before
    assert len(whole.rows) == 75
    for mode in ("w", "w:gz", "w:xz"):
        archive = write_tar(tmp_path / "archive", dict(shuffled), "top-main/", mode)
        for processes in (1, 2, 5):
            assert extract(archive, ROUND, processes=processes) == whole
    assert extract(tree, ROUND, processes=3) == whole


def test_the_later_of_two_entries_with_one_name_holds(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "archive.tar", repository())
    with tarfile.open(archive, "a") as appended:
        member = tarfile.TarInfo(f"{FOLDER}/result_0.txt")
        member.size = len(log(minutes=99))
        appended.addfile(member, io.BytesIO(log(minutes=99)))
    assert {extract(archive, ROUND, processes=n).rows[0].run_time_min for n in (1, 4)} == {99}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"Someone/results/README.md": b""}, "holds no results"),
        ({"Someone/systems/box_1.json": b"{}"}, "holds no results that can be read as round v4.1's"),
        ({f"{FOLDER}/result_0.txt": b""}, "no system is described"),
        ({"Someone/results/box_1/poetry/result_0.txt": b""}, "Benchmarks there: poetry; the round's: bert, dlrm_dcnv2"),
    ],
)
def test_a_source_without_results_of_the_round(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    with pytest.raises(UserError, match=message):
        extract(write_tree(tmp_path, files), ROUND)


# The command


def test_the_command_writes_two_tables_and_nothing_else(tmp_path: Path) -> None:
    tree, out = write_tree(tmp_path / "tree", repository()), tmp_path / "out"
    out.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    before = snapshot(tree)
    done = run(tree, "--round", "v4.1", "--runs", out / "r.csv", "--anomalies", out / "deep" / "a.csv", cwd=work)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert set(snapshot(out)) == {"r.csv", "deep", "deep/a.csv"}
    assert snapshot(tree) == before
    assert snapshot(work) == {}
    assert len(read_facts(out / "r.csv")) == 10


def test_a_mistake_is_a_message_and_leaves_nothing(tmp_path: Path) -> None:
    tables = ("--runs", tmp_path / "out" / "r.csv", "--anomalies", tmp_path / "out" / "a.csv")
    for arguments, message in (
        ((tmp_path / "nowhere", "--round", "v4.1"), "nowhere: No such file"),
        ((write_tree(tmp_path / "tree", repository()), "--round", "v0.0"), "round 'v0.0' is not known"),
        ((tmp_path / "tree", "--round", "v4.1", "--processes", "0"), "expected a whole number above 0"),
    ):
        done = run(*arguments, *tables)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def measured(command: list[str]) -> tuple[int, int]:
    """Exit code, and the most memory in KiB of any process of the command."""
    code = (
        "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]);"
        "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True, timeout=300
    )
    code_text, kib = done.stdout.split()
    return int(code_text), int(kib)


@pytest.mark.slow
def test_a_line_of_two_gigabytes_is_never_held_in_memory(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", repository())
    with (tree / FOLDER / "result_0.txt").open("ab") as grown:
        grown.truncate(2 << 30)  # sparse: no space on disk
    tables = ["--runs", str(tmp_path / "r.csv"), "--anomalies", str(tmp_path / "a.csv")]
    code, kib = measured([sys.executable, "-m", "breakeven.mlperf.extract", str(tree), "--round", "v4.1", *tables])
    assert code == 0
    assert kib < 100 * 1024
    assert (tmp_path / "a.csv").read_text().count("overlong_line") == 1
    assert read_facts(tmp_path / "r.csv")["status"].tolist() == ["ok"] * 10


def test_a_large_file_of_an_archive_is_read_where_it_stands(tmp_path: Path) -> None:
    archive = tmp_path / "archive.tar.gz"
    files = repository()
    files[f"{FOLDER}/result_0.txt"] += b"\0" * (160 << 20)
    write_tar(archive, files, mode="w:gz")
    tables = ["--runs", str(tmp_path / "r.csv"), "--anomalies", str(tmp_path / "a.csv")]
    code, kib = measured([sys.executable, "-m", "breakeven.mlperf.extract", str(archive), "--round", "v4.1", *tables])
    assert code == 0
    assert kib < 100 * 1024
    assert read_facts(tmp_path / "r.csv")["status"].tolist() == ["ok"] * 10


# Processes


def double(number: int) -> int:
    return 2 * number


def die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leave(number: int) -> int:
    os._exit(7)


def children() -> set[str]:
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize("processes", [1, 2, 7])
def test_work_is_spread_and_every_result_comes_back(processes: int) -> None:
    assert sorted(spread(double, range(100), processes)) == list(range(0, 200, 2))
    assert list(spread(double, [], processes)) == []


def test_batches_are_taken_only_as_processes_become_free() -> None:
    taken = 0

    def batches() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    results = spread(double, batches(), 2)
    for done in range(1, 50):
        next(results)
        assert taken <= done + 3
    results.close()
    assert taken < 100


@pytest.mark.parametrize(("work", "how"), [(die, "killed by SIGKILL"), (leave, "exit code 7")])
def test_a_process_that_dies_ends_the_work_with_a_message(work: Callable[[int], int], how: str) -> None:
    before = children()
    with pytest.raises(
        UserError, match=rf"(?s)ended before its work did \({how}\); nothing was written.*--processes 1"
    ):
        list(spread(work, range(100), 3))
    assert children() == before


def start(tmp_path: Path) -> "subprocess.Popen[str]":
    """An extraction that takes long."""
    tree = write_tree(tmp_path / "tree", repository())
    for log_file in sorted((tree / FOLDER).iterdir()):
        with log_file.open("ab") as grown:
            grown.truncate(1 << 40)
    tables = ["--runs", str(tmp_path / "r.csv"), "--anomalies", str(tmp_path / "a.csv"), "--processes", "2"]
    command = [sys.executable, "-m", "breakeven.mlperf.extract", str(tree), "--round", "v4.1", *tables]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def readers(parent: int) -> list[str]:
    """Its two reading processes, once both are there."""
    path = Path(f"/proc/{parent}/task/{parent}/children")
    for _ in range(600):
        found = path.read_text().split()
        if len(found) == 2:
            time.sleep(0.3)  # past their start
            return found
        time.sleep(0.05)
    raise AssertionError("no reading processes")


def gone(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_an_interrupt_ends_all_processes_and_writes_nothing(tmp_path: Path) -> None:
    running = start(tmp_path)
    workers = readers(running.pid)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said == "breakeven: interrupted; nothing was written.\n"
    assert all(map(gone, workers))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tree"]


def test_a_reader_that_is_killed_is_named_in_a_message(tmp_path: Path) -> None:
    running = start(tmp_path)
    workers = readers(running.pid)
    os.kill(int(workers[0]), signal.SIGKILL)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 2
    assert said.startswith("breakeven: A reading process ended before its work did (killed by SIGKILL)")
    assert "Traceback" not in said
    assert all(map(gone, workers))


def test_readers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", repository())
    code = (
        "import time; from breakeven.mlperf.pool import spread; import sys\n"
        "def batches():\n"
        "    yield 1; yield 2\n"
        "    print('begun', flush=True); time.sleep(60)\n"
        "list(spread(abs, batches(), 2))"
    )
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tree)
    assert running.stdout is not None
    running.stdout.readline()
    workers = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    assert len(workers) == 2
    running.kill()
    running.wait()
    for _ in range(100):
        if all(map(gone, workers)):
            break
        time.sleep(0.05)
    assert all(map(gone, workers))


def test_every_kind_of_anomaly_has_its_meaning() -> None:
    assert all(KINDS.values())
    assert json.dumps(sorted(KINDS)) == json.dumps(list(KINDS))
    assert {field.name for field in dataclasses.fields(Anomaly)} == {
        "round", "kind", "submitter", "system", "benchmark", "file", "count", "detail",
    }  # fmt: skip


def test_main_is_what_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = write_tree(tmp_path / "tree", repository())
    tables = ["--runs", str(tmp_path / "r.csv"), "--anomalies", str(tmp_path / "a.csv")]
    monkeypatch.setattr("sys.argv", ["extract", str(tree), "--round", "v4.1", *tables, "--processes", "1"])
    main()
    assert (tmp_path / "r.csv").read_text() == facts_csv(extract(tree, ROUND).rows)


def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    source = write_tree(tmp_path / "tree", repository(runs=1))
    monkeypatch.chdir(tmp_path)
    tables = ["--runs", "runs.csv", "--anomalies", "anomalies.csv"]
    monkeypatch.setattr("sys.argv", ["extract", str(source), "--round", "v4.1", *tables, "--processes", "1", *more])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--runs", "tree"], "tree: cannot be written (is a folder)"),
        (["--anomalies", "runs.csv"], "runs.csv: is to be the table of runs and of anomalies"),
        (["--anomalies", "tree/../runs.csv"], "is to be the table of runs and of anomalies"),
        (["--repository", "\udcff"], "argument --repository: '\\udcff'; expected characters"),
    ],
)
def test_tables_that_cannot_be_written_are_a_message(
    more: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert words in refused(tmp_path, monkeypatch, capsys, *more)
