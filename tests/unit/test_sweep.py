"""Sweeps to specs: what is a run, what is the same run, and what is never one."""

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.config.cell import Planned
from breakeven.config.machine import Machine
from breakeven.config.models import MeasuredStudy
from breakeven.config.series import held_equal
from breakeven.config.sweep import Cell, cells, powers_of_two, refuse_mixed_series
from breakeven.schema.errors import UserError
from breakeven.schema.spec import DataSource, Spec, Workload, canonical_json, data_id, run_id

FOUR = Machine("cpu", "a CPU", 4, 1)


def study(**changes: object) -> MeasuredStudy:
    return MeasuredStudy.model_validate(
        {
            "source": "measured",
            "title": "t",
            "workload": {"model": "llama", "technique": "lora"},
            "defaults": {"global_batch": 8},
            "sweeps": {"ddp": {"grid": {"strategy": ["ddp"], "devices": "auto"}}},
        }
        | changes
    )


def spec(**changes: object) -> Spec:
    workload = Workload(model="llama", data=DataSource(name="chat-en"), sequence_length=128)
    base = Spec(
        workload=workload, strategy="ddp", device_kind="cpu", device_model="a CPU", devices=2, devices_per_node=2,
        global_batch=8,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def test_a_mistake_in_defaults_is_not_told_of_a_sweep() -> None:
    for defaults, words in (
        ({"global_bach": 8}, "^s: 'defaults': unknown key 'global_bach'. Did you mean 'global_batch'"),
        ({"global_batch": 8, "seed": -1}, "^s: 'defaults': 'seed': Input should be"),
    ):
        with pytest.raises(UserError, match=words):
            cells(study(defaults=defaults), FOUR, "s")
    with pytest.raises(UserError, match=r"^s: sweep 'x', cell .*: 'seed'"):
        cells(study(sweeps={"x": {"grid": {"strategy": ["ddp"], "seed": [-1]}}}), FOUR, "s")


def test_auto_is_every_power_of_two_that_the_machine_has() -> None:
    assert [cell.spec.devices for cell in cells(study(), FOUR, "s")] == [1, 2, 4]
    assert [cell.spec.devices for cell in cells(study(max_devices=2), FOUR, "s")] == [1, 2]
    assert powers_of_two(1) == [1]
    assert powers_of_two(6) == [1, 2, 4]
    assert powers_of_two(8) == [1, 2, 4, 8]


def test_auto_stops_at_what_the_strategy_can_use() -> None:
    sweeps = {"one": {"grid": {"strategy": ["single"], "devices": "auto"}}}
    assert [cell.spec.devices for cell in cells(study(sweeps=sweeps), FOUR, "s")] == [1]


def test_weak_scaling_keeps_the_batch_per_device_and_strong_the_whole() -> None:
    sweeps = {
        "weak": {"grid": {"devices": "auto", "batch_per_device": [4]}},
        "strong": {"grid": {"devices": "auto", "global_batch": [8]}},
    }
    found = cells(study(sweeps=sweeps, defaults={}), FOUR, "s")
    assert [cell.spec.global_batch for cell in found if cell.scaling == "weak"] == [4, 8, 16]
    assert [cell.spec.global_batch for cell in found if cell.scaling == "strong"] == [8, 8, 8]
    assert {cell.series for cell in found} == {"Llama + LoRA, ddp, weak", "Llama + LoRA, ddp, strong"}


def test_a_run_that_two_sweeps_ask_for_is_one_run() -> None:
    sweeps = {
        "a": {"cases": [{"devices": 2, "batch_per_device": 4}]},
        "b": {"cases": [{"devices": 2, "global_batch": 8}]},
    }
    found = cells(study(sweeps=sweeps, defaults={}), FOUR, "s")
    assert len(found) == 2
    assert len({cell.run_id for cell in found}) == 1


def test_every_other_swept_key_is_a_curve_of_its_own() -> None:
    sweeps = {"p": {"grid": {"devices": [1, 2], "precision": ["fp32", "bf16"]}}}
    found = cells(study(sweeps=sweeps), FOUR, "s")
    assert {cell.series for cell in found} == {"Llama + LoRA, ddp, strong", "Llama + LoRA, ddp, bf16, strong"}


def rows(*cases: dict[str, object], **more: object) -> dict[str, object]:
    return {"sweeps": {"s": {"cases": list(cases)} | more}}


def test_a_setting_that_differs_in_another_sweep_is_a_curve_of_its_own_too() -> None:
    sweeps = {
        "a": {"cases": [{"devices": 1, "precision": "fp32"}]},
        "b": {"cases": [{"devices": 2, "precision": "bf16", "updates": 100}]},
    }
    assert [cell.series for cell in cells(study(sweeps=sweeps), FOUR, "s")] == [
        "Llama + LoRA, ddp, strong",
        "Llama + LoRA, ddp, bf16, updates 100, strong",
    ]


def test_two_batches_are_two_curves() -> None:
    found = cells(study(**rows({"devices": 1, "global_batch": 8}, {"devices": 2, "global_batch": 64})), FOUR, "s")
    assert [cell.series for cell in found] == [
        "Llama + LoRA, ddp, strong",  # 8 is this study's default
        "Llama + LoRA, ddp, global_batch 64, strong",
    ]
    grid = {"weak": {"grid": {"devices": [1, 2], "batch_per_device": [4, 8]}}}
    assert {cell.series for cell in cells(study(sweeps=grid, defaults={}), FOUR, "s")} == {
        "Llama + LoRA, ddp, batch_per_device 4, weak",
        "Llama + LoRA, ddp, batch_per_device 8, weak",
    }


def test_what_differs_between_strategies_alone_is_in_no_name() -> None:
    found = cells(study(**rows({"strategy": "single", "devices": 1, "seed": 3}, {"devices": 2})), FOUR, "s")
    assert [cell.series for cell in found] == ["Llama + LoRA, single, strong", "Llama + LoRA, ddp, strong"]


def test_runs_that_are_not_timed_lengthen_no_curves_name() -> None:
    sweeps = {
        "timed": {"cases": [{"devices": 1}, {"devices": 2}]},
        "check": {"cases": [{"devices": 8, "global_batch": 64}, {"devices": 8, "seed": 2}], "oversubscribe": True},
    }
    found = cells(study(sweeps=sweeps), FOUR, "s")
    assert {cell.series for cell in found if cell.spec.timed} == {"Llama + LoRA, ddp, strong"}
    assert len(found) == 4


CASE = st.fixed_dictionaries(
    {"devices": st.sampled_from([1, 2, 4]), "strategy": st.just("ddp")},
    optional={
        "precision": st.sampled_from(["fp32", "bf16"]),
        "seed": st.integers(0, 1),
        "updates": st.sampled_from([40, 50]),
        "learning_rate": st.sampled_from([0.1, 0.01]),
    },
)
BATCH = st.one_of(
    st.fixed_dictionaries({"global_batch": st.sampled_from([8, 16])}),
    st.fixed_dictionaries({"batch_per_device": st.sampled_from([4, 8])}),
)


@given(st.lists(st.tuples(CASE, BATCH).map(lambda both: both[0] | both[1]), min_size=1, max_size=8))
def test_along_a_curve_nothing_changes_but_the_device_count(cases: list[dict[str, object]]) -> None:
    found = cells(study(defaults={}, **rows(*cases)), FOUR, "s")
    curves: dict[str, list[Cell]] = {}
    for cell in found:
        curves.setdefault(cell.series, []).append(cell)
    for curve in curves.values():
        assert all(held_equal(c.spec, c.scaling, {}) == held_equal(curve[0].spec, curve[0].scaling, {}) for c in curve)
        assert len({cell.spec.devices for cell in curve}) == len(curve)
    assert len({(cell.run_id, cell.scaling) for cell in found}) == len(found)


def test_settings_that_read_the_same_are_refused_naming_the_key() -> None:
    one = spec(strategy_options={"shards": 2})
    other = spec(strategy_options={"shards": "2"}, devices=4)
    planned = [Planned(s, "strong", {"strategy_options.shards": s.strategy_options["shards"]}) for s in (one, other)]
    clash = [("s", found, "x, ddp, strong") for found in planned]
    with pytest.raises(UserError, match=r"series 'x, ddp, strong' mixes strategy_options\.shards 2 .* and '2'"):
        refuse_mixed_series(clash, "s.yaml")
    untimed = dataclasses.replace(planned[1], spec=dataclasses.replace(other, timed=False))
    refuse_mixed_series([clash[0], ("s", untimed, "x, ddp, strong")], "s")


def test_an_unknown_key_of_an_exclude_row_is_said_to_be_one() -> None:
    with pytest.raises(UserError, match=r"'exclude' row 2: unknown key 'device'\. Did you mean 'devices'\?"):
        cells(study(exclude=[{"devices": 4}, {"device": 2}]), FOUR, "s.yaml")


@pytest.mark.parametrize(
    "grid",
    [
        {"devices": [1], "seed": list(range(80_000))},
        {"devices": "auto", "seed": list(range(5_000))},
        {key: list(range(100)) for key in ("seed", "updates", "min_warmup", "learning_rate", "devices")},
    ],
)
def test_a_study_of_too_many_cells_is_refused_before_it_is_expanded(grid: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"s\.yaml: sweep 'big' brings the study to \d+ cells .* at most 10000"):
        cells(study(sweeps={"big": {"grid": grid}}), FOUR, "s.yaml")


def test_oversubscribed_runs_are_made_and_never_timed() -> None:
    sweeps = {"check": {"grid": {"devices": [8]}, "oversubscribe": True}}
    found = cells(study(sweeps=sweeps), FOUR, "s")
    assert [cell.spec.timed for cell in found] == [False]


def test_names_and_limits_are_no_part_of_a_run() -> None:
    one = cells(study(), FOUR, "s")
    other = cells(study(title="another", timeout_min=99, repeats=7), FOUR, "elsewhere")
    assert [cell.run_id for cell in one] == [cell.run_id for cell in other]


@pytest.mark.parametrize(
    "change",
    [
        {"strategy": "single"}, {"devices": 1}, {"devices_per_node": 8}, {"device_model": "another"},
        {"global_batch": 16}, {"precision": "bf16"}, {"optimizer": "sgd"}, {"updates": 41}, {"seed": 1},
        {"timed": False}, {"measure_version": 0},
    ],
)  # fmt: skip
def test_whatever_can_change_a_number_changes_the_run(change: dict[str, object]) -> None:
    assert run_id(spec(**change)) != run_id(spec())


def test_a_run_id_is_a_name_and_eight_hex_digits() -> None:
    assert run_id(spec()).rsplit("-", 1)[0] == "llama-ddp-n2-b8"
    assert len(run_id(spec()).rsplit("-", 1)[1]) == 8


@given(st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.booleans(), st.none())), st.randoms())
def test_canonical_json_does_not_know_the_order_of_keys(value: dict[str, object], shuffle: random.Random) -> None:
    items = list(value.items())
    shuffle.shuffle(items)
    assert canonical_json(dict(items)) == canonical_json(value)


def test_a_spec_survives_its_json() -> None:
    assert Spec.from_json(spec().to_json()) == spec()


def test_data_depend_on_the_tokenizer_for_text_and_not_for_images() -> None:
    text = Workload(model="llama", data=DataSource(name="chat-en"), sequence_length=128)
    assert data_id(text) != data_id(dataclasses.replace(text, config={"vocab_size": 512}))
    assert data_id(text) == data_id(dataclasses.replace(text, technique="lora"))
    images = Workload(model="mobilenet_v2", data=DataSource(name="digits"), image_size=32)
    assert data_id(images) == data_id(dataclasses.replace(images, config={"depth_multiplier": 0.5}, image_size=64))
