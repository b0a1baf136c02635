"""From raw arrays to runs.csv and points: stated numbers, and every status in its place."""

import contextlib
import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.head.forecast import forecast
from breakeven.metrics.run import own_step_s, run_step_s, window
from breakeven.metrics.same_work import equivalence_table
from breakeven.metrics.table import runs_table
from breakeven.points.records import record_points
from breakeven.records.load import Run, load_run
from breakeven.schema.errors import UserError
from breakeven.schema.record import Environment, IdleCheck, Record, RunError, StateBytes
from breakeven.schema.spec import DataSource, Spec, Workload, run_id
from breakeven.schema.status import Status

TEXT = Workload(model="llama", data=DataSource(name="chat-en"), sequence_length=16)
WORKLOAD = Workload(
    model="mobilenet_v2", config={"norm": "group", "classifier_dropout_prob": 0.0}, data=DataSource(name="digits"),
    image_size=32,
)  # fmt: skip


def spec(strategy: str = "ddp", devices: int = 2, **changes: object) -> Spec:
    return Spec(
        workload=WORKLOAD, strategy=strategy, device_kind="cpu", device_model="a CPU", devices=devices,
        devices_per_node=2, global_batch=8, updates=20, min_warmup=4, **changes,
    )  # fmt: skip


def run(spec: Spec, step_s: np.ndarray, losses: list[float] | None = None, **changes: object) -> Run:
    updates = step_s.shape[1]
    record = Record(
        run_id=run_id(spec), repeat=1, status=Status.OK, spec=spec, started_at="2026-01-01T00:00:00Z", elapsed_s=12.0,
        rank_start_s=6.0, epoch_samples=1500, epoch_tokens=None, peak_rss_gib=[0.4, 0.5], peak_allocated_gib=[],
        peak_reserved_gib=[], parameters=10, trainable_parameters=10, state_bytes=StateBytes(),
        expected_state_bytes=StateBytes(),
        environment=Environment(
            host="h", device_model="a CPU", driver=None, power_limit_w=None, torch_version="2.13.0", measure_sources="x"
        ),
        idle_check=IdleCheck(busy_cores=0.0, load_average_1min=0.0, device_processes=None, idle=True),
        lock_wait_s=0.0, attempts=1,
    )  # fmt: skip
    steps = {
        "step_s": step_s,
        "data_wait_s": np.zeros_like(step_s),
        "sync_wait_s": np.zeros_like(step_s),
        "device_s": np.full_like(step_s, np.nan),
        "loss": np.array(losses if losses is not None else [1.0] * updates, dtype=float),
        "samples": np.full(updates, 8.0),
        "tokens_padded": np.zeros(updates),
        "tokens": np.zeros(updates),
        "tokens_loss": np.zeros(updates),
        "evaluated_at": np.empty(0),
        "accuracy": np.empty(0),
    }
    return Run(dataclasses.replace(record, **changes), steps, Path("record.json"))


def steps(ranks: int = 2, updates: int = 20, seconds: float = 0.1) -> np.ndarray:
    return np.full((ranks, updates), seconds)


def plan(specs: list[Spec], repeats: int = 1) -> dict:
    cells = [
        {
            "run_id": run_id(one),
            "series": f"M, {one.strategy}, strong",
            "scaling": "strong",
            "sweep": "s",
            "spec": dataclasses.asdict(one),
        }
        for one in specs
    ]
    return {
        "study": "s", "title": "t", "workloads": ["M"], "repeats": repeats, "cells": cells,
        "machine": {"device_word": "CPU core"}, "settings": {"timeout_min": 30},
    }  # fmt: skip


def table(runs: list[Run]) -> pd.DataFrame:
    return runs_table("s", "M", {one.record.run_id: "series" for one in runs}, runs)


def test_the_runs_step_time_is_the_slowest_ranks() -> None:
    per_rank = np.array([[0.1, 0.1, 0.3], [0.2, 0.1, 0.1]])
    assert run_step_s(per_rank).tolist() == [0.2, 0.1, 0.3]


def test_what_a_rank_took_itself_is_its_step_without_waiting_for_the_others() -> None:
    per_rank = np.array([[0.2, 0.2], [0.2, 0.2]])
    waiting = np.array([[0.15, 0.1], [0.0, 0.0]])
    assert own_step_s(per_rank, waiting) == pytest.approx(np.array([[0.05, 0.1], [0.2, 0.2]]))


def test_a_run_of_even_steps_has_the_throughput_of_its_batch_over_its_step() -> None:
    row = table([run(spec(), steps())]).iloc[0]
    assert row["throughput"] == pytest.approx(80.0)
    assert row["step_time_ms"] == pytest.approx(100.0)
    assert row["warmup_dropped"] == 4
    assert row["window_work"] == 8 * 16
    assert row["peak_rss_gib"] == 0.5


@given(
    st.lists(st.floats(1e-4, 10.0), min_size=6, max_size=60),
    st.integers(1, 4),
)
def test_throughput_times_time_is_work_for_any_steps_and_ranks(seconds: list[float], ranks: int) -> None:
    rng = np.random.default_rng(len(seconds))
    per_rank = np.array(seconds) * rng.uniform(0.5, 1.0, size=(ranks, len(seconds)))
    found = window(run(spec(), per_rank))
    assert found is not None
    assert found.work / found.seconds * found.seconds == pytest.approx(8 * (len(seconds) - found.dropped))
    assert found.seconds == pytest.approx(per_rank[:, found.dropped :].max(axis=0).sum())


def test_a_failed_run_keeps_its_row_its_reason_and_has_no_time() -> None:
    error = RunError(rank=1, message="RuntimeError: no", log="run.log")
    row = table([run(spec(), np.empty((2, 0)), [], status=Status.FAILED, error=error)]).iloc[0]
    assert (row["status"], row["error_rank"], row["error"], row["log"]) == ("failed", 1, "RuntimeError: no", "run.log")
    assert pd.isna(row["step_time_ms"])


def test_a_run_that_is_not_timed_or_has_a_fault_has_losses_and_no_time() -> None:
    rows = table([run(spec(timed=False), steps()), run(spec(), steps(), faults={"sleep_s": 1})])
    assert rows["step_time_ms"].isna().all()
    assert rows["loss_first"].tolist() == [1.0, 1.0]


def test_throughput_of_text_is_of_tokens_without_padding() -> None:
    one = run(dataclasses.replace(spec(), workload=TEXT), steps(), epoch_tokens=9000)
    counted = {"tokens_padded": np.full(20, 128.0), "tokens": np.full(20, 100.0), "tokens_loss": np.full(20, 60.0)}
    row = table([dataclasses.replace(one, steps=one.steps | counted)]).iloc[0]
    assert (row["unit"], row["epoch_work"], row["window_work"]) == ("tokens/s", 9000, 100 * 16)
    assert row["throughput"] == pytest.approx(1000.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -0.1])
def test_a_step_without_a_real_time_gives_no_times_and_a_point_that_says_so(bad: float) -> None:
    step_s = steps()
    step_s[1, 9] = bad
    one = spec()
    runs = table([run(one, step_s)])
    assert runs[["step_time_ms", "throughput", "window_s"]].isna().all(axis=None)
    point = record_points(plan([one]), runs).iloc[0]
    assert point["status"] == "not_measured"
    assert point["source"].endswith("/r1/record.json: no finite step times past its warm-up")


@pytest.mark.parametrize("price", [2.5, None])
def test_the_price_of_a_platform_reaches_the_points(price: float | None) -> None:
    of_price = plan([spec()])
    of_price["machine"]["price_per_device_hour"] = price
    (found,) = record_points(of_price, table([run(spec(), steps())]))["price_per_device_hour"]
    assert found == price


def test_a_step_of_the_warm_up_may_be_anything() -> None:
    step_s = steps()
    step_s[0, 0] = np.nan
    assert table([run(spec(), step_s)]).iloc[0]["window_s"] == pytest.approx(1.6)


def test_a_run_with_an_injected_fault_is_no_point_and_leaves_the_size_to_the_others() -> None:
    one = spec("ddp", 1)
    runs = table([run(one, steps(1), faults={"sleep_s": 1}), run(one, steps(1), repeat=2)])
    points = record_points(plan([one], repeats=2), runs)
    assert points["status"].tolist() == ["not_measured", "ok"]
    assert points["time_s"].isna().tolist() == [True, False]
    assert points["source"].iloc[0] == f"results/runs/{run_id(one)}/r1/record.json: an injected fault"


def test_losses_are_compared_with_the_single_device_run_of_the_same_work() -> None:
    reference = run(spec("single", 1), steps(1), [2.0, 1.5, 1.2, 1.1, 1.0, 0.0])
    other = run(spec(), steps(), [2.0, 1.5, 1.2, 1.1, 1.25, 9.0])
    rows = equivalence_table("s", [reference, other])
    # the sixth loss is past what is compared
    assert rows["max_abs_loss_difference"].tolist() == pytest.approx([0.25])
    assert rows["reference_run_id"].tolist() == [reference.record.run_id]


def test_without_a_single_device_run_the_comparison_says_so() -> None:
    rows = equivalence_table("s", [run(spec(), steps())])
    assert rows["note"].tolist() == ["no single-device run of the same samples to compare with"]


def accurate(spec: Spec, evaluated_at: list[int], accuracy: list[float]) -> Run:
    one = run(spec, steps())
    return dataclasses.replace(
        one, steps=one.steps | {"evaluated_at": np.array(evaluated_at), "accuracy": np.array(accuracy)}
    )


def test_the_target_is_reached_where_an_evaluation_first_sees_it() -> None:
    one = accurate(spec(), [5, 10, 15, 20], [0.5, 0.98, 0.97, 0.99])
    row = runs_table("s", "M", {one.record.run_id: "series"}, [one], target_accuracy=0.98).iloc[0]
    assert (row["accuracy"], row["accuracy_best"]) == (0.99, 0.99)
    assert (row["updates_to_target"], row["samples_to_target"]) == (10, 80)
    assert row["epochs_to_target"] == pytest.approx(80 / 1500)
    assert row["time_to_target_s"] == pytest.approx(1.0)


def test_a_target_that_no_evaluation_saw_is_not_reached() -> None:
    one = accurate(spec(), [10, 20], [0.5, 0.97])
    row = runs_table("s", "M", {one.record.run_id: "series"}, [one], target_accuracy=0.98).iloc[0]
    assert row["accuracy"] == 0.97
    assert pd.isna(row["updates_to_target"])


def test_host_bound_is_the_share_of_the_wall_that_the_device_did_not_work() -> None:
    one = run(spec(), steps())
    on_cuda = dataclasses.replace(one, steps=one.steps | {"device_s": steps(seconds=0.075)})
    assert table([on_cuda]).iloc[0]["host_bound_share"] == pytest.approx(0.25)
    assert pd.isna(table([one]).iloc[0]["host_bound_share"])


def test_every_setting_of_a_spec_has_a_column_by_the_users_name() -> None:
    fields = {field.name for field in dataclasses.fields(Spec)} - {"workload", "device_kind", "devices_per_node"}
    assert fields <= set(table([run(spec(), steps())]).columns)
    row = table([run(spec("fsdp", strategy_options={"offload": True}, precision="bf16"), steps())]).iloc[0]
    assert (row["strategy_options"], row["degrees"]) == ('{"offload":true}', '{"shard":2}')
    assert (row["precision"], row["image_size"], row["data"], row["batch_per_device"]) == ("bf16", 32, "digits", 4)


def test_the_state_of_the_fullest_rank_is_told_and_whether_it_is_the_formulas() -> None:
    measured = StateBytes(parameters=[40, 44], gradients=[40, 40], optimizer=[80, 88])
    row = table([run(spec(), steps(), state_bytes=measured, expected_state_bytes=measured)]).iloc[0]
    assert (row["parameter_bytes"], row["optimizer_bytes"], row["state_bytes_as_expected"]) == (44, 88, True)
    less = dataclasses.replace(measured, gradients=[40, 41])
    other = table([run(spec(), steps(), state_bytes=less, expected_state_bytes=measured)]).iloc[0]
    assert not other["state_bytes_as_expected"]
    assert table([run(spec(), steps())]).iloc[0]["state_bytes_as_expected"] is None


def test_where_all_ranks_read_the_same_one_device_is_compared_that_reads_it_too() -> None:
    half = run(dataclasses.replace(spec("single", 1), global_batch=4), steps(1))
    (row,) = equivalence_table("s", [half, run(spec(sampling="replicated"), steps())]).to_dict("records")
    assert row["reference_run_id"] == half.record.run_id
    assert row["note"] == "every rank reads the same 4 samples: 8 read, 4 counted"


@pytest.mark.parametrize(
    ("model", "config", "note"),
    [
        ("mobilenet_v2", {}, "batch normalisation sees each part of the batch on its own and dropout draws anew"),
        ("resnet", {}, "batch normalisation sees each part of the batch on its own: losses differ by design"),
        ("vit", {"hidden_dropout_prob": 0.1}, "dropout draws anew for each part of the batch: losses differ by design"),
        ("resnet", {"norm": "group"}, ""),
        ("vit", {}, ""),
    ],
)
def test_what_makes_losses_differ_by_design_is_told_of_every_image_family(model: str, config: dict, note: str) -> None:
    workload = dataclasses.replace(WORKLOAD, model=model, config=config)
    pair = [run(dataclasses.replace(spec(*kind), workload=workload), steps()) for kind in (("single", 1), ("ddp", 2))]
    (found,) = equivalence_table("s", pair)["note"]
    assert found.startswith(note)
    assert bool(found) == bool(note)


def test_a_pipelines_micro_batches_are_parts_of_the_batch_on_one_device_too() -> None:
    workload = dataclasses.replace(WORKLOAD, model="resnet", config={})
    single = run(dataclasses.replace(spec("single", 1), workload=workload), steps(1))
    for micro_batches, note in (
        (4, "batch normalisation sees each part of the batch on its own: losses differ by design"),
        (1, ""),
    ):
        pipe = spec("pp", 1, strategy_options={"micro_batches": micro_batches})
        pair = [single, run(dataclasses.replace(pipe, workload=workload), steps(1))]
        assert equivalence_table("s", pair)["note"].tolist() == [note]


def test_another_memory_format_is_told_to_round_otherwise() -> None:
    pair = [run(one, steps(1)) for one in (spec("single", 1), spec("single", 1, memory_format="channels_last"))]
    (found,) = equivalence_table("s", pair)["note"]
    assert found == "other kernels round otherwise: losses differ by design"


def test_a_low_precision_is_compared_with_itself_where_one_device_has_it() -> None:
    fp32, bf16 = spec("single", 1), spec("single", 1, precision="bf16")
    rows = equivalence_table("s", [run(one, steps(one.devices)) for one in (fp32, bf16, spec(precision="bf16"))])
    assert rows["reference_run_id"].tolist() == [run_id(fp32), run_id(bf16)]
    rows = equivalence_table("s", [run(one, steps(one.devices)) for one in (fp32, spec(precision="bf16"))])
    assert rows["note"].tolist() == ["bf16 rounds otherwise than fp32: losses differ by design"]


def test_points_of_runs_that_are_missing_failed_or_not_timed() -> None:
    single, good, missing = spec("single", 1), spec("ddp", 1), spec("ddp", 2)
    untimed = spec("ddp", 4, timed=False)
    error = RunError(rank=0, message="out of memory", log="l")
    runs = table(
        [run(single, np.empty((1, 0)), [], status=Status.OOM, error=error), run(good, steps(1)), run(untimed, steps(4))]
    )
    points = record_points(plan([single, good, missing, untimed]), runs)
    assert points["devices"].tolist() == [1, 1, 2]
    assert points["status"].tolist() == ["oom", "ok", "not_measured"]
    assert points["headline"].tolist() == [False, True, True]
    assert points["time_s"].tolist()[1] == pytest.approx(1.6)
    assert points["target_work"].tolist()[1] == 1500
    assert set(points["device"]) == {"CPU core"}


def test_the_forecast_bounds_by_timeout_and_estimates_by_records(tmp_path: Path) -> None:
    recorded, unknown = spec("ddp", 1), spec("ddp", 2)
    folder = tmp_path / run_id(recorded) / "r1"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(run(recorded, steps(1)).record.to_json())
    lines = forecast([plan([recorded, unknown], repeats=3)], tmp_path)
    # 2 + 3 runs of at most half an hour, 3 of them on two devices
    assert "to run: 5 runs; at most 2.50 h and 4.00 device-hours (every run up to its timeout)" in lines
    assert "by records: 0.4 min for 2 of them; 3 have no record" in lines


def test_the_forecast_tells_of_a_recorded_failure_that_it_stands_and_how_to_measure_again(tmp_path: Path) -> None:
    one = spec("ddp", 1)
    folder = tmp_path / run_id(one) / "r1"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(run(one, steps(1), status="failed").record.to_json())
    lines = forecast([plan([one])], tmp_path)
    assert f"1 recorded (1 failed: to measure again, delete {folder.parent}), 0 to run" in lines[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run as it lies in the archive."""
    one = run(spec(), steps())
    path = tmp_path / one.record.run_id / "r1"
    path.mkdir(parents=True)
    (path / "record.json").write_text(one.record.to_json())
    np.savez(path / "steps.npz", **one.steps)
    return path


def refused(folder: Path, words: str) -> None:
    with pytest.raises(UserError, match=rf"{words}.*Delete its folder"):
        load_run(folder)


def test_a_run_is_read_as_it_was_written(folder: Path) -> None:
    assert load_run(folder).steps["step_s"].shape == (2, 20)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"ok"', "1", "{}", "[" * 100_000])
def test_a_damaged_record_is_refused_with_the_remedy(folder: Path, text: str) -> None:
    (folder / "record.json").write_text(text)
    refused(folder, r"record\.json: not a readable record")


def test_no_flipped_bit_or_lost_end_of_the_arrays_is_a_traceback(folder: Path) -> None:
    path = folder / "steps.npz"
    whole = path.read_bytes()
    for place in range(0, len(whole), 23):
        for content in (whole[:place], whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]):
            path.write_bytes(content)
            if len(content) < len(whole):
                refused(folder, r"steps\.npz: not readable")
            else:
                with contextlib.suppress(UserError):  # some bits of a zip file mean nothing
                    load_run(folder)


def test_arrays_of_another_shape_are_refused_naming_them(folder: Path) -> None:
    good = run(spec(), steps()).steps
    for change in (
        {"step_s": steps(3)},
        {"loss": np.ones(19)},
        {"tokens": np.ones((20, 1))},
        {"samples": np.float64(8)},
    ):
        np.savez(folder / "steps.npz", **(good | change))
        refused(folder, rf"steps\.npz: not readable \({next(iter(change))} has shape")
    np.save(folder / "steps.npy", good["loss"])
    (folder / "steps.npy").replace(folder / "steps.npz")
    refused(folder, r"steps\.npz: not readable")


@pytest.mark.parametrize("change", [{"run_id": "another-run"}, {"repeat": 2}])
def test_a_record_of_another_run_or_repeat_is_refused(folder: Path, change: dict) -> None:
    raw = json.loads((folder / "record.json").read_text()) | change
    (folder / "record.json").write_text(json.dumps(raw))
    refused(folder, r"record\.json: the record of .*, not of this folder")
