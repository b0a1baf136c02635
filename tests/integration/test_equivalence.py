"""Every strategy held against one device, and the self-test, each as a user runs it: by one command, completely."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import copy_project, run_snakemake

pytestmark = [pytest.mark.integration, pytest.mark.slow]

IMAGES = {"mobilenet_v2", "resnet", "vit"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = copy_project(tmp_path_factory.mktemp("equivalence"))
    answer = run_snakemake(project, "equivalence", timeout=1500)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return project


@pytest.fixture(scope="module")
def table(finished: Path) -> pd.DataFrame:
    return pd.read_csv(finished / "results/equivalence/table.csv", keep_default_na=False)


def test_every_row_passes(table: pd.DataFrame) -> None:
    assert set(table["verdict"]) <= {"pass", "unsupported"}
    assert set(table.query("verdict == 'unsupported'")["strategy"]) == {"dp"}
    assert set(table.query("verdict == 'pass'")["updates"].astype(int)) == {6}


def test_it_covers_the_families_products_schedules_and_both_kinds_of_model(table: pd.DataFrame) -> None:
    passed = table[(table["verdict"] == "pass") & ~table["settings"].str.contains("control=")]
    names = set(passed["strategy"])
    products = {name for name in names if "*" in name}
    assert len(names) >= 20
    assert len(names - products) >= 8
    assert len(products) >= 5
    assert {"tp", "tp_sp", "cp", "hsdp", "pp"} <= names
    assert len(set(passed["options"].str.extract(r"schedule=(\w+)")[0].dropna())) >= 4
    assert set(passed["devices"]) == {1, 2, 4, 8}
    assert set(passed["workload"]) == IMAGES | {"llama", "llama-lora"}
    for family in {"ddp", "fsdp", "zero1", "zero2", "hsdp", "pp", "tp"}:
        workloads = set(passed[passed["strategy"] == family]["workload"])
        assert workloads & IMAGES, family
        assert workloads - IMAGES, family


def test_wider_tolerances_have_reasons_and_wrong_runs_differ(table: pd.DataFrame) -> None:
    control = table["settings"].str.contains("control=")
    assert (table[control]["max_abs_loss_difference"].astype(float) >= 1e-3).all()
    run = table[~control & (table["verdict"] == "pass")]
    wide = run[run["tolerance"].astype(float) > 1e-5]
    assert (wide["note"] != "").all()
    assert set(run["bytes"]) == {"ok"}


def test_nothing_is_run_twice_and_a_loss_off_by_2e_5_fails_by_name(finished: Path, table: pd.DataFrame) -> None:
    answer = run_snakemake(finished, "equivalence")
    assert answer.returncode == 0
    assert "measure_run" not in answer.stdout + answer.stderr
    one = table.query("strategy == 'fsdp*tp' and workload == 'llama'").iloc[0]
    steps = finished / f"results/runs/{one['run_id']}/r1/steps.npz"
    with np.load(steps) as archive:
        arrays = dict(archive)
    arrays["loss"][5] += 2e-5
    np.savez(steps, **arrays)
    answer = run_snakemake(finished, "equivalence")
    assert answer.returncode != 0
    assert "results/equivalence/table.csv: 1 of " in answer.stderr
    assert re.search(
        r"fsdp\*tp \(llama, 4 devices.*\): losses differ by [12]\.\de-05, more than 1\.0e-05", answer.stderr
    )
    assert (finished / "results/equivalence/table.csv").exists()


def test_the_self_test_verifies_this_machine(finished: Path) -> None:
    answer = run_snakemake(finished, "selftest", timeout=900)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    said = (finished / "results/selftest.txt").read_text()
    assert said in answer.stdout
    assert re.search(r"recorded as oom; last known peak \d+\.\d+ GiB", said)
    assert "recorded as timeout" in said
    assert "no progress for 30 s" in said
    assert "GB/s busbw at 64 MiB" in said
    assert "GPU" not in said
    assert "Verified on:" in said
