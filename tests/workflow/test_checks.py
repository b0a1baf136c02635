"""What Snakemake plans for the equivalence table and the self-test: runs of no study, on whatever machine."""

from pathlib import Path

import pytest

from breakeven.head.selftest import chosen
from breakeven.schema.checks import Row, rows
from breakeven.schema.spec import run_id
from tests.conftest import Snakemake
from tests.workflow.test_graph import jobs


def machine(project: Path, kind: str, devices: int) -> list[Row]:
    """The rows of a platform that is the same wherever the tests run."""
    (project / "config/platforms/this-machine.yaml").write_text(
        f"title: a machine\ndevice_kind: {kind}\ndevice_model: a device\ndevices_per_node: {devices}\n"
    )
    return rows(kind, "a device", devices)  # type: ignore[arg-type]


def runs(found: list[Row]) -> int:
    return len({run_id(spec) for row in found for spec in row.specs})


@pytest.mark.parametrize(("kind", "devices"), [("cpu", 2), ("cuda", 1), ("cuda", 4)])
def test_the_table_needs_every_run_that_the_machine_can_make_and_nothing_of_a_study(
    kind: str, devices: int, project: Path, snakemake: Snakemake
) -> None:
    (project / "config/config.yaml").write_text("studies: [mlperf-v4.1]\n")
    expected = runs(machine(project, kind, devices))
    planned = jobs(snakemake("-n", "equivalence"))
    data = planned.pop("prepare_data")
    assert data in (1, 2)
    assert planned == {"expand_checks": 1, "measure_run": expected, "check_table": 1, "equivalence": 1}


def test_a_run_that_a_study_has_too_is_made_once(project: Path, snakemake: Snakemake) -> None:
    expected = runs(machine(project, "cpu", 2))
    (project / "config/config.yaml").write_text("studies: [images-quick]\n")
    study = jobs(snakemake("-n", "measure"))["measure_run"]
    assert jobs(snakemake("-n", "measure", "equivalence"))["measure_run"] == study + expected


def test_the_self_test_makes_its_own_runs_so_that_they_are_of_today(project: Path, snakemake: Snakemake) -> None:
    expected = runs(chosen(machine(project, "cpu", 2), 50))
    planned = jobs(snakemake("-n", "selftest"))
    assert planned == {
        "expand_checks": 1, "prepare_data": 2, "selftest_run": expected, "selftest_fault": 2, "selftest_allreduce": 1,
        "check_table": 1, "selftest_text": 1, "selftest": 1,
    }  # fmt: skip
