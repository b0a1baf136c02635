"""What Snakemake plans to do: golden counts of jobs, targets, and what a change of a file sets off."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, Snakemake, copy_project, run_snakemake

TABLE = "devices,time_s,work,repeat\n1,100,1000,1\n1,101,1000,2\n2,52,1000,1\n2,53,1000,2\n4,31,1000,1\n4,30,1000,2\n"


def jobs(answer) -> dict[str, int]:
    """Rules and numbers of jobs from the statistics of a dry run."""
    assert answer.returncode == 0, answer.stderr
    table = re.search(r"^job +count\n-+ +-+\n(.*?)\n\n", answer.stdout + answer.stderr, flags=re.M | re.S)
    rows = [line.split() for line in table[1].splitlines()] if table else []
    return {rule: int(count) for rule, count in rows if rule != "total"}


@pytest.fixture
def two_cores(project: Path) -> None:
    """A platform that is the same on every machine the tests run on."""
    (project / "config/platforms/this-machine.yaml").write_text(
        "title: two cores\ndevice_kind: cpu\ndevice_model: a CPU\ndevices_per_node: 2\n"
    )


@pytest.mark.usefixtures("two_cores")
def test_the_default_graph(snakemake: Snakemake) -> None:
    assert jobs(snakemake("-n")) == {
        "expand_study": 3, "prepare_data": 2, "measure_run": 48, "copy_facts": 1, "score_results": 1,
        "mlperf_points": 1, "metrics": 2, "measured_points": 2, "scaling": 3, "comparison": 2, "draw": 30,
        "write_report": 1, "all": 1,
    }  # fmt: skip


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "mlperf",
            {"expand_study": 1, "copy_facts": 1, "score_results": 1, "mlperf_points": 1, "scaling": 1, "draw": 24,
             "mlperf": 1},
        ),
        ("measure", {"prepare_data": 2, "measure_run": 48, "measure": 1}),
        ("data", {"prepare_data": 2, "data": 1}),
        ("plan", {"expand_study": 2, "plan": 1}),
    ],
)  # fmt: skip
def test_targets(target: str, expected: dict[str, int], snakemake: Snakemake) -> None:
    assert jobs(snakemake("-n", target)) == expected


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("planned", [True, False])
def test_data_that_are_there_leave_out_no_run(planned: bool, project: Path, snakemake: Snakemake) -> None:
    # Prepared data are read as ancient. If anything but their absence made them old, Snakemake would prepare them again
    # and leave out the runs that read them.
    (project / "config/config.yaml").write_text("studies: [llm-quick]\n")
    assert snakemake("data").returncode == 0
    study = project / "config/studies/llm-quick.yaml"
    study.write_text(study.read_text().replace("rank: 8", "rank: 16"))
    if planned:
        assert snakemake("plan").returncode == 0
    assert jobs(snakemake("-n"))["measure_run"] == 21
    assert "prepare_data" not in jobs(snakemake("-n"))


@pytest.mark.usefixtures("two_cores")
def test_more_devices_are_more_runs_up_to_eight(project: Path, snakemake: Snakemake) -> None:
    path = project / "config/platforms/this-machine.yaml"
    path.write_text(path.read_text().replace("devices_per_node: 2", "devices_per_node: 64"))
    # single, ddp and fsdp on 1, 2, 4, 8, and tp (the model has four heads) on 1, 2, 4: twelve cells of three repeats
    assert jobs(snakemake("-n", "measure", "--config", "studies=[llm-quick]"))["measure_run"] == 36


PAPERS = ("paper-images", "paper-images-cpu")
#: Keys of a run that the papers vary, and ours beside them.
AXES = {
    "strategy", "strategy_options", "sampling", "devices", "precision", "pin_memory", "non_blocking", "workers",
    "prefetch_factor", "persistent_workers", "memory_format", "global_batch", "batch_per_device", "image_size", "data",
    "optimizer", "compile", "activation_checkpointing", "gradient_accumulation", "synthetic", "resize_on", "epochs",
    "learning_rate_rule", "evaluate_every", "degrees",
}  # fmt: skip


def test_the_papers_study_plans_completely_without_a_gpu_and_its_twin_has_the_same_sweeps(
    snakemake: Snakemake,
) -> None:
    planned = jobs(snakemake("-n", "--config", "studies=[paper-images]"))
    assert planned["measure_run"] == 612
    assert planned["draw"] == 3
    studies = [yaml.safe_load((ROOT / f"config/studies/{name}.yaml").read_text()) for name in PAPERS]
    own, twin = studies
    assert [name for name in own["sweeps"] if name != "compile"] == list(twin["sweeps"])
    keys = {key for sweep in own["sweeps"].values() for key in sweep.get("grid", {})}
    assert keys | {"devices"} >= AXES


def test_repeats_are_measured_in_blocks_and_in_random_order() -> None:
    from breakeven.head.plan import make_plan

    plan = make_plan({"studies": ["images-quick", "llm-quick"]})
    order = sorted(((plan.priority(run, k), k, run) for run in plan.specs for k in (1, 2, 3)), reverse=True)
    assert [k for _, k, _ in order] == sorted(k for _, k, _ in order)
    blocks = [[run for _, k, run in order if k == block] for block in (1, 2, 3)]
    assert all(sorted(block) == sorted(plan.specs) for block in blocks)
    assert blocks[0] != blocks[1]


def test_help_lists_every_target_and_where_its_results_are(snakemake: Snakemake) -> None:
    answer = snakemake("help")
    assert answer.returncode == 0, answer.stderr
    for target in ("plan", "data", "mlperf", "measure", "figures", "report", "equivalence", "selftest", "help"):
        assert f"snakemake {target} " in answer.stdout
    assert "-> results/report.html" in answer.stdout


@pytest.mark.usefixtures("two_cores")
def test_plan_counts_runs_and_bounds_device_hours(project: Path, snakemake: Snakemake) -> None:
    answer = snakemake("plan", "--config", "studies=[llm-quick]")
    assert answer.returncode == 0, answer.stderr
    # 21 runs of at most 10 minutes, 9 of them on two devices
    assert "to run: 21 runs; at most 3.50 h and 5.00 device-hours" in answer.stdout
    assert "Llama + LoRA, ddp, strong, 2 CPU cores: 0 recorded, 3 to run" in answer.stdout
    assert not (project / "results/runs").exists()


def test_plan_names_what_the_platform_cannot_run_and_counts_no_hours_for_it(
    project: Path, snakemake: Snakemake
) -> None:
    # four H100 that are not here: what is planned asks no device
    cases = [
        {"strategy": "fsdp*tp", "degrees": {"tp": 2}, "devices": 4},
        {"strategy": "dp", "devices": 4},
        {"strategy": "ddp", "devices": 4, "precision": "tf32"},
    ]
    study = yaml.safe_load((project / "config/studies/llm-quick.yaml").read_text())
    study |= {"sweeps": {"some": {"cases": cases}}, "headline": [], "repeats": 1}
    for platform, unsupported in (("h100-node", 0), ("this-machine", 2)):
        (project / "config/platforms/this-machine.yaml").write_text(
            "title: four cores\ndevice_kind: cpu\ndevice_model: a CPU\ndevices_per_node: 4\n"
        )
        (project / "config/studies/mine.yaml").write_text(yaml.safe_dump(study | {"platform": platform}))
        answer = snakemake("plan", "--config", "studies=[mine]", CUDA_VISIBLE_DEVICES="")
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.count("unsupported: ") == unsupported + (unsupported > 0)
        hours = (3 - unsupported) * 10 / 60
        assert f"to run: 3 runs; at most {hours:.2f} h and {4 * hours:.2f} device-hours" in answer.stdout
    assert "dp, strong, 4 CPU cores: 0 recorded, 1 to run, unsupported: dp runs on cuda alone" in answer.stdout
    assert "unsupported: 2 of them start no rank, and are recorded with the reason" in answer.stdout


def test_a_table_of_timings_is_a_study_by_one_line_of_config(project: Path, snakemake: Snakemake) -> None:
    (project / "mine.csv").write_text(TABLE)
    (project / "config/config.yaml").write_text("studies: [mine.csv]\n")
    answer = snakemake()
    assert answer.returncode == 0, answer.stderr
    folder = project / "results/studies/mine"
    assert {path.name for path in (folder / "figures/mine").iterdir()} == {"time.svg", "efficiency.svg"}
    # E(4) = (101/4 + 100/4) / (30.5) against the mean of the repeats: 100.5 / 4 / 30.5
    assert "0.82 at 4" in (project / "results/answer.txt").read_text()
    assert "report: " not in answer.stderr
    assert "all: results/report.html" in answer.stderr


def test_a_table_of_two_workloads_has_the_figures_of_both(project: Path, snakemake: Snakemake) -> None:
    (project / "mine.csv").write_text("devices,time_s,work,workload\n1,10,5,A\n2,6,5,A\n1,9,5,B\n2,5,5,B\n")
    answer = snakemake("figures", "--config", "studies=[mine.csv]")
    assert answer.returncode == 0, answer.stderr
    assert {path.name for path in (project / "results/studies/mine/figures").iterdir()} == {"a", "b"}


def test_a_table_that_mixes_machines_ends_with_the_reason(project: Path, snakemake: Snakemake) -> None:
    (project / "mine.csv").write_text("devices,time_s,work,device_model\n1,10,5,A100\n2,6,5,H100\n")
    answer = snakemake("--config", "studies=[mine.csv]")
    assert answer.returncode != 0
    assert "results/report.html" not in answer.stderr
    assert "mixes device_model: A100 (mine.csv, row 1); H100 (mine.csv, row 2)" in answer.stderr
    assert not (project / "results/report.html").exists()


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of a table, made once: tests take copies."""
    folder = copy_project(tmp_path_factory.mktemp("finished"))
    (folder / "mine.csv").write_text(TABLE)
    (folder / "config/config.yaml").write_text("studies: [mine.csv]\n")
    answer = run_snakemake(folder)
    assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture
def finished(finished_once: Path, project: Path) -> Path:
    shutil.rmtree(project)
    shutil.copytree(finished_once, project)
    return project


def test_results_that_are_not_of_this_call_are_not_announced(finished: Path, snakemake: Snakemake) -> None:
    (finished / "results/studies/mine/tables/points.csv").unlink()
    for dry_run in ("-n", "--dry-run"):
        assert "all: results/report.html" not in snakemake(dry_run).stderr
    (finished / "mine.csv").write_text(TABLE.replace("1000", "a thousand"))
    failing = snakemake()
    assert failing.returncode != 0
    assert "all: results/report.html" not in failing.stderr


def test_a_finished_study_has_nothing_to_do_and_says_where_it_is(finished: Path, snakemake: Snakemake) -> None:
    again = snakemake()
    assert "Nothing to be done" in again.stderr
    assert "results/report.html" in again.stderr


@pytest.mark.parametrize(
    ("file", "rebuilt"),
    [
        ("plan.json", {"expand_study", "table_points", "scaling", "draw", "write_report"}),
        ("tables/points.csv", {"table_points", "scaling", "draw", "write_report"}),
        ("tables/efficiency.csv", {"scaling", "draw", "write_report"}),
        ("tables/breakeven.csv", {"scaling", "draw", "write_report"}),
        ("figures/mine/time.svg", {"draw", "write_report"}),
        ("../../answer.txt", {"write_report"}),
    ],
)
def test_deleting_a_file_makes_it_and_what_depends_on_it(
    file: str, rebuilt: set[str], finished: Path, snakemake: Snakemake
) -> None:
    (finished / "results/studies/mine" / file).unlink()
    assert set(jobs(snakemake("-n"))) - {"all"} == rebuilt
    assert snakemake().returncode == 0
    assert "Nothing to be done" in snakemake().stderr


def test_a_second_head_in_the_same_folder_is_refused_naming_the_first(project: Path, snakemake: Snakemake) -> None:
    import fcntl

    (project / "mine.csv").write_text(TABLE)
    lock = project / "results/.lock"
    lock.parent.mkdir()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump({"pid": os.getpid(), "host": "here", "since": "today"}, file)
        file.flush()
        answer = snakemake("--config", "studies=[mine.csv]")
    assert answer.returncode == 2
    assert f"another run works in this folder (process {os.getpid()} on here, since today)" in answer.stderr
    assert snakemake("--config", "studies=[mine.csv]").returncode == 0


@pytest.mark.slow
def test_snakemakes_own_report_is_made_with_captions(finished: Path, snakemake: Snakemake) -> None:
    answer = snakemake("--report", "snakemake-report.zip")
    assert answer.returncode == 0, answer.stderr
    folder = finished / "unpacked"
    shutil.unpack_archive(finished / "snakemake-report.zip", folder)
    page = "".join(path.read_text(errors="replace") for path in folder.rglob("*.html"))
    data = "".join(path.read_text(errors="replace") for path in folder.rglob("*.js"))
    assert "break-even" in page + data
    assert "efficiency" in page + data


def test_snakemakes_linter_has_nothing_to_say_of_rules_that_run_our_code(snakemake: Snakemake) -> None:
    answer = snakemake("--lint")
    named = set(re.findall(r"Lints for rule (\w+)", answer.stdout + answer.stderr))
    # a rendered template has no output to log, and these targets print for the person who asked
    assert named <= {"expand_study", "expand_checks", "plan", "help", "equivalence", "selftest"}
