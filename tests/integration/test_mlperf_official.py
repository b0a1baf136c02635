"""Strict scores against MLCommons' own tool: every result set of two rounds, and sets with damaged logs.

Those results are kept outside the repository; without them there is nothing to compare. A round that MLCommons has yet
to hold is made up, and needs none.
"""

import contextlib
import io
import json
import logging
import multiprocessing
import random
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlperf_logging.result_summarizer import result_summarizer

from breakeven.mlperf.extract import extract
from breakeven.mlperf.extract import main as extract_main
from breakeven.mlperf.rulebook import rulebook_of
from breakeven.mlperf.rules import load_round
from breakeven.mlperf.score import main as score_main
from breakeven.mlperf.score import scores, submissions
from breakeven.mlperf.table import facts_csv, read_facts

ARCHIVES = Path(__file__).resolve().parents[3] / "shared" / "data" / "mlperf"
SUBSET = ARCHIVES / "v4.1_test_subset.tar.xz"


#: submitter, system, benchmark
Key = tuple[str, str, str]

#: Sets whose tolerant score (first) is not the strict one (second), in minutes.
TOLERANT_DIFFERS: dict[str, dict[Key, tuple[float, float]]] = {
    "v4.1": {
        ("Lambda", "lambda_1cc_n2_H100-SXM-80GB_ngc24.04_nemo", "stable_diffusion"): (22.8022, 23.3334),
        ("Lambda", "lambda_1cc_n4_H100-SXM-80GB_ngc24.04_nemo", "llama2_70b_lora"): (8.2171, 8.2230),
        ("Lambda", "lambda_1cc_n4_H100-SXM-80GB_ngc24.04_nemo", "stable_diffusion"): (14.2217, 14.2819),
    },
    "v5.1": {},
}

SETS = {"v4.1": 153, "v5.1": 184}


def runs_of(source: Path, round_name: str, rules: Path | None = None, processes: int = 1) -> pd.DataFrame:
    """The table of runs as the workflow reads it: extracted, written, read again."""
    rows = extract(source, load_round(round_name, rules), processes=processes).rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.csv"
        path.write_text(facts_csv(rows))
        return read_facts(path)


def official(organisation: Path, ruleset: str) -> list[dict[str, Any]]:
    """What the tool says of one submitter: a row per set it reports. It writes into the folder it reads."""
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        strong, _, detailed, _ = result_summarizer.summarize_results(str(organisation), "training", ruleset)
    rows = []
    for summary in detailed.to_dict("records"):
        system = summary["details_url"].rpartition("/")[2].removesuffix(".json")
        for column, time in summary.items():
            benchmark, _, what = column.partition(":")
            if what == "time_to_train" and pd.notna(time):
                numbers = {name: summary[f"{benchmark}:{name}"] for name in TOLD}
                rows.append({"key": (organisation.name, system, benchmark), **numbers})
    assert len(rows) == int(strong[[c for c in strong if c in {r["key"][2] for r in rows}]].notna().sum().sum())
    return rows


TOLD = ("time_to_train", "rcp_scaling_factor", "GBS", "samples_to_converge", "Energy")


@pytest.mark.slow
@pytest.mark.parametrize("round_name", ["v4.1", "v5.1"])
def test_every_set_of_a_round_scores_as_the_official_tool_has_it(round_name: str, tmp_path: Path) -> None:
    archive = ARCHIVES / f"training_results_{round_name}.tar.xz"
    if not archive.exists():
        pytest.skip(f"{archive.name} is kept outside the repository")
    runs = runs_of(archive, round_name, processes=2)
    book = rulebook_of(runs)
    scored = scores(runs, book)
    ours = {(row["submitter"], row["system"], row["benchmark"]): row for _, row in scored.iterrows()}

    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    folders = sorted(folder for folder in root.iterdir() if (folder / "results").is_dir())
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        rulesets = [load_round(round_name).ruleset] * len(folders)
        theirs = {row["key"]: row for rows in pool.map(official, folders, rulesets) for row in rows}

    assert len(theirs) == SETS[round_name]
    assert {key for key, row in ours.items() if pd.notna(row["time_to_train_strict_min"])} == set(theirs)
    of_set = {(s, y, b): runs for (s, y, b), runs in runs.groupby(["submitter", "system", "benchmark"])}
    for key, row in theirs.items():
        ours_now = ours[key]
        assert ours_now["time_to_train_strict_min"] == pytest.approx(row["time_to_train"], rel=1e-12), key
        assert ours_now["scaling_factor"] == row["rcp_scaling_factor"], key
        if pd.notna(row["GBS"]):
            assert ours_now["global_batch"] == row["GBS"], key
        if pd.notna(row["Energy"]):
            assert ours_now["energy_kj"] * 1000 == pytest.approx(row["Energy"], rel=1e-12), key
        if pd.notna(row["samples_to_converge"]):
            per_unit = book[round_name, key[2]].benchmark.convergence.samples_per_unit
            assert per_unit is not None
            assert olympic_samples(of_set[key], per_unit) == pytest.approx(row["samples_to_converge"], rel=1e-12), key

    differ = {
        key: (row["time_to_train_min"], row["time_to_train_strict_min"])
        for key, row in ours.items()
        if pd.notna(row["time_to_train_min"]) != pd.notna(row["time_to_train_strict_min"])
        or abs(row["time_to_train_min"] / row["time_to_train_strict_min"] - 1) > 1e-12
    }
    expected = TOLERANT_DIFFERS[round_name]
    assert differ == {key: pytest.approx(minutes, abs=6e-5) for key, minutes in expected.items()}


def olympic_samples(runs: pd.DataFrame, per_unit: float) -> float:
    """The tool's own mean of convergence, in the units of the logs: fewest and most samples dropped (not the fastest
    and the slowest run, as in our column), fractions of an epoch rounded to three decimals, a failed run 1e9."""
    measured = runs[runs["status"] != "not_measured"]
    units = sorted(
        1e9 if pd.isna(samples) else round(samples / per_unit, 3) for samples in measured["samples_to_converge"]
    )
    return float(pd.Series(units[1:-1]).mean())


#: What may be wrong with a log: a name and how its lines change.
Damage = Callable[[list[bytes], random.Random], list[bytes]]


def key_of(line: bytes) -> str:
    found = re.search(rb'"key": "(\w+)"', line)
    return found.group(1).decode() if found and b":::MLLOG" in line else ""


def without(key: str) -> Damage:
    return lambda lines, _: [line for line in lines if key_of(line) != key]


def broken_off(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return lines[: chance.randrange(len(lines))]


def aborted(lines: list[bytes], _: random.Random) -> list[bytes]:
    return [re.sub(rb'"status": "\w+"', b'"status": "aborted"', line) for line in lines]


def missed_target(lines: list[bytes], _: random.Random) -> list[bytes]:
    changed = [re.sub(rb'"value": [0-9.e-]+', b'"value": 1e9', line) for line in lines]
    return [new if key_of(new) == "eval_accuracy" else old for old, new in zip(lines, changed, strict=True)]


def overwritten(lines: list[bytes], chance: random.Random) -> list[bytes]:
    i = chance.choice([i for i, line in enumerate(lines) if key_of(line)])
    at = chance.randrange(lines[i].index(b":::MLLOG") + 10, len(lines[i]) - 1)
    return [*lines[:i], lines[i][:at] + b"Lambda" + lines[i][at + 20 :].rstrip() + b"\n", *lines[i + 1 :]]


def twice(key: str) -> Damage:
    return lambda lines, _: [copy for line in lines for copy in [line] * (1 + (key_of(line) == key))]


def stopped_before_it_started(lines: list[bytes], _: random.Random) -> list[bytes]:
    moved = [re.sub(rb'"time_ms": \d+', b'"time_ms": 1', line) for line in lines]
    return [new if key_of(new) == "run_stop" else old for old, new in zip(lines, moved, strict=True)]


def with_ranks(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [b"%d: " % chance.randrange(4) + line for line in lines]


def in_latin_1(lines: list[bytes], _: random.Random) -> list[bytes]:
    return [b"caf\xe9 \xff\n", *lines, b"\xa0 the end\n"]


def with_windows_line_ends(lines: list[bytes], _: random.Random) -> list[bytes]:
    return [line.rstrip(b"\n") + b"\r\n" for line in lines]


def emptied(lines: list[bytes], _: random.Random) -> list[bytes]:
    return []


DAMAGES: list[Damage] = [
    broken_off,
    aborted,
    missed_target,
    overwritten,
    stopped_before_it_started,
    with_ranks,
    in_latin_1,
    with_windows_line_ends,
    emptied,
    *map(without, ["run_start", "run_stop", "seed", "global_batch_size", "submission_org", "eval_accuracy"]),
    *map(twice, ["run_start", "run_stop", "seed", "eval_accuracy", "global_batch_size"]),
]

SCALINGS = [
    None,
    '{"scaling_factor": 1.0625}',
    '{"scaling_factor": 2}',
    '{"factor": 1.1}',
    "[1.1",
    '{"scaling_factor": "1.1"}',
]


@pytest.fixture(scope="module")
def subset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not SUBSET.exists():
        pytest.skip(f"{SUBSET.name} is kept outside the repository")
    folder = tmp_path_factory.mktemp("subset")
    with tarfile.open(SUBSET) as tar:
        tar.extractall(folder, filter="data")
    return folder


SMALL_SETS: list[Key] = [
    ("GigaComputing", "G593-ZD1_pytorch", "llama2_70b_lora"),
    ("NVIDIA", "eos_ngc24.09_pytorch", "ssd"),
    ("tinycorp", "tinybox_green", "bert"),
    ("Google", "cloud-tpu-v5p-128-maxdiffusion", "stable_diffusion"),
    ("NVIDIA", "eos_n64_ngc24.09_nemo", "stable_diffusion"),
]


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_set_scores_as_the_official_tool_has_it(subset: Path, seed: int) -> None:
    chance = random.Random(seed)
    damages = chance.choices(DAMAGES, k=chance.choice([0, 1, 1, 2, 3]))
    absent = chance.choice([0, 0, 0, 1, 2, 7, 9])
    compare(subset, chance.choice(SMALL_SETS), absent, damages, chance.choice(SCALINGS), chance)


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_does_to_a_score_what_it_does_officially(subset: Path, damage: Damage) -> None:
    compare(subset, SMALL_SETS[1], 0, [damage], None, random.Random(3))


def compare(
    subset: Path, key: Key, absent: int, damages: list[Damage], scaling: str | None, chance: random.Random
) -> None:
    submitter, system, benchmark = key
    with tempfile.TemporaryDirectory() as root:
        results = Path(root) / submitter / "results" / system / benchmark
        shutil.copytree(subset / submitter / "results" / system / benchmark, results)
        shutil.copytree(subset / submitter / "systems", Path(root) / submitter / "systems")
        logs = sorted(results.glob("result_*.txt"))
        for log in chance.sample(logs, min(absent, len(logs) - 1)):
            log.unlink()
        logs = sorted(results.glob("result_*.txt"))
        for damage, log in zip(damages, chance.sample(logs, len(logs)), strict=False):
            log.write_bytes(b"".join(damage(log.read_bytes().splitlines(keepends=True), chance)))
        (results / "scaling.json").unlink(missing_ok=True)
        if scaling is not None:
            (results / "scaling.json").write_text(scaling)
        (ours,) = submissions(runs_of(Path(root), "v4.1")).to_dict("records")
        # A scaling.json without a number stops the tool; here the factor is then 1, and an anomaly says so.
        if scaling is not None and ours["scaling_factor"] == 1:
            (results / "scaling.json").unlink()
        try:
            time, factor = official_score(benchmark, system, results)
        except KeyError:
            # A stable_diffusion log that breaks off between a checkpoint's two metrics stops the tool; here it fails.
            assert ours["runs_compliant"] < ours["runs"]
            return
    assert ours["scaling_factor"] == factor
    assert ours["time_to_train_strict_min"] == pytest.approx(
        float("nan") if time is None else time, rel=1e-12, nan_ok=True
    )
    assert ours["runs_required"] > ours["runs"] or ours["note"] == "" or ours["runs_converged"] < ours["runs"]


def official_score(benchmark: str, system: str, results: Path) -> tuple[float | None, float]:
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        score, _, factor = result_summarizer._compute_strong_score_standalone(
            benchmark, system, False, str(results), "training", "4.1.0"
        )
    logging.disable(logging.NOTSET)
    return score, factor


ROUND = """
title: A round to come
ruleset: 9.0.0
logs_since: "2030-01"
benchmarks: {dice: dice}
log:
  common:
    submission_division: {needs: exactly_one, one_of: [closed], selects: division}
    run_start: exactly_one
    run_stop: {needs: exactly_one, after: run_start, metadata: status}
  closed:
    submission_benchmark: {needs: exactly_one, one_of: [dice], selects: benchmark}
"""
BENCHMARK = """
title: Throwing sixes
unit: throw
runs: {required: 7, dropped: 2}
convergence: {key: epoch_num, samples_per_unit: 1000}
throughput: [{stat: throughput}]
evaluation: stops_training
comparable_rounds: [v9.0]
log:
  closed:
    global_batch_size: exactly_one
    eval_accuracy: {needs: at_least_one, metadata: epoch_num, target: {at_least: 0.9}}
"""


def dice_log(minutes: float, epochs: int, batch: int, reached: bool) -> str:
    """A run of ``minutes``: one epoch of 1000 throws after another, a tenth of the time for the evaluation of each."""
    start = 2_000_000_000_000
    lines: list[tuple[float, str, object, dict[str, object]]] = [
        (-1, "submission_benchmark", "dice", {}),
        (-1, "submission_division", "closed", {}),
        (-1, "global_batch_size", batch, {}),
        (0, "run_start", None, {}),
    ]
    each = minutes / epochs
    for epoch in range(epochs):
        done = {"epoch_num": epoch + 1}
        lines += [
            (epoch * each, "epoch_start", None, {"epoch_num": epoch}),
            ((epoch + 0.9) * each, "tracked_stats", {"throughput": 1000 / (0.9 * each * 60)}, {}),
            ((epoch + 0.9) * each, "eval_start", None, done),
            ((epoch + 1) * each, "eval_stop", None, done),
            ((epoch + 1) * each, "eval_accuracy", 0.95 if reached and epoch + 1 == epochs else 0.5, done),
        ]
    lines.append((minutes, "run_stop", None, {"status": "success" if reached else "aborted"}))
    names = ("time_ms", "key", "value", "metadata")
    entries = [dict(zip(names, (round(start + at * 60_000), *rest), strict=True)) for at, *rest in lines]
    return "".join(f":::MLLOG {json.dumps(entry)}\n" for entry in entries)


def test_a_round_and_a_benchmark_to_come_are_two_files_and_a_table_of_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, source, out = tmp_path / "rules", tmp_path / "results", tmp_path / "out"
    for name, text in {"rounds/v9.0": ROUND, "benchmarks/dice": BENCHMARK}.items():
        (rules / name).parent.mkdir(parents=True)
        (rules / f"{name}.yaml").write_text(text)
    points = "round,benchmark,global_batch,runs,mean,sd,unit\n"
    points += "".join(f"v9.0,dice,{batch},14,{4 * (1 + batch / 64)},0.5,epochs\n" for batch in (16, 32, 128))
    (rules / "reference_convergence.csv").write_text(points)
    # system → minutes of its runs, epochs and batch; the last run misses its target
    made_up = {"one": ([30, 31, 32, 33, 34, 35, 90], 5, 16), "two": ([20, 21, 22, 23, 24, 25, 90], 6, 32)}
    made_up["four"] = ([15, 16, 17, 18, 19, 20, 90], 12, 128)
    for system, (times, epochs, batch) in made_up.items():
        logs = source / "Casino" / "results" / system / "dice"
        logs.mkdir(parents=True)
        for i, minutes in enumerate(times):
            (logs / f"result_{i}.txt").write_text(dice_log(minutes, epochs, batch, reached=i < 6))
        description = {"system_name": system, "number_of_nodes": "1", "accelerators_per_node": str(len(system) - 1)}
        description |= {
            "accelerator_model_name": "Die",
            "division": "closed",
            "status": "Research",
            "submitter": "Casino",
        }
        (source / "Casino" / "systems").mkdir(exist_ok=True)
        (source / "Casino" / "systems" / f"{system}.json").write_text(json.dumps(description))

    run(monkeypatch, extract_main, "extract", source, "--round", "v9.0", "--rules", rules, "--processes", 1,
        "--runs", out / "runs.csv", "--anomalies", out / "anomalies.csv")  # fmt: skip
    run(monkeypatch, score_main, "score", "--runs", out / "runs.csv", "--rules", rules, "--scores", out / "scores.csv",
        "--critical-batch", out / "critical_batch.csv", "--reference", out / "reference.csv")  # fmt: skip

    scored = pd.read_csv(out / "scores.csv").set_index("system")
    # Two at either end do not count, the failed run among them: of 30 to 35 and a failure, 32, 33 and 34 do.
    assert scored["time_to_train_min"].to_dict() == pytest.approx({"one": 33, "two": 23, "four": 18})
    assert scored["time_to_train_strict_min"].to_dict() == pytest.approx({"one": 33, "two": 23, "four": 18})
    assert scored["samples_to_converge"].to_dict() == {"one": 5000, "two": 6000, "four": 12000}
    assert scored["reference_samples"].to_dict() == {"one": 5000, "two": 6000, "four": 12000}
    assert scored["evaluation_min"].to_dict() == pytest.approx({"one": 3.3, "two": 2.3, "four": 1.8}, rel=1e-4)
    assert scored["note"].isna().all()
    assert scored["strict_note"].str.startswith("result_6.txt: ").all()
    fits = pd.read_csv(out / "critical_batch.csv").set_index("of")
    assert fits["samples_min"].to_dict() == pytest.approx({"reference": 4000, "submissions": 4000})
    assert fits["critical_batch"].to_dict() == pytest.approx({"reference": 64, "submissions": 64})
    assert pd.read_csv(out / "reference.csv")["samples_mean"].tolist() == [5000, 6000, 12000]


def run(monkeypatch: pytest.MonkeyPatch, command: Callable[[], None], *arguments: object) -> None:
    monkeypatch.setattr("sys.argv", [str(argument) for argument in arguments])
    command()
