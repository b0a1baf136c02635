"""A row of a sweep as a run: in one form, and refused where no machine could run it."""

from typing import Any

import pytest

from breakeven.config.load import load_platform
from breakeven.config.machine import Machine, resolve
from breakeven.config.models import MeasuredStudy
from breakeven.config.sweep import Cell, cells
from breakeven.schema.errors import UserError
from breakeven.schema.support import unsupported
from tests.conftest import ROOT

EIGHT = Machine("cpu", "a CPU", 8, 1)
H100 = resolve(load_platform("h100-node", ROOT / "config/platforms"))
LLAMA = {"model": "llama", "sequence_length": 48}
IMAGES = {"model": "mobilenet_v2", "image_size": 32}


def planned(
    *cases: dict[str, Any], workload: dict[str, Any] = LLAMA, machine: Machine = EIGHT, **more: Any
) -> list[Cell]:
    study = {"source": "measured", "title": "t", "workload": workload, "defaults": {"global_batch": 16}}
    study |= {"sweeps": {"s": {"cases": list(cases)}}} | more
    return cells(MeasuredStudy.model_validate(study), machine, "s.yaml")


def devices(*cases: dict[str, Any], **more: Any) -> list[int]:
    return [cell.spec.devices for cell in planned(*cases, **more)]


def test_auto_is_the_sizes_that_degrees_schedule_and_model_fit() -> None:
    assert devices({"strategy": "fsdp*tp", "degrees": {"tp": 2}}) == [2, 4, 8]
    assert devices({"strategy": "hsdp", "degrees": {"shard": 4}}) == [4, 8]
    # the model has four heads, four micro-batches keep four stages busy, four layers and two ends are six stages
    assert devices({"strategy": "tp"}) == [1, 2, 4]
    assert devices({"strategy": "pp"}) == [1, 2, 4]
    assert devices({"strategy": "pp", "strategy_options": {"micro_batches": 8}}) == [1, 2, 4]
    assert devices({"strategy": "single"}) == [1]


def test_where_no_size_fits_the_largest_says_why() -> None:
    with pytest.raises(UserError, match=r"case 1 at 8 devices: degrees: tp 3 does not divide 8 devices"):
        planned({"strategy": "fsdp*tp", "degrees": {"tp": 3}})


def test_a_product_has_one_name_however_it_is_written() -> None:
    one, other = (
        planned({"strategy": name, "degrees": {"tp": 2}, "devices": 4})[0] for name in ("tp * fsdp", "fsdp*tp")
    )
    assert one.spec.strategy == "fsdp*tp"
    assert one.run_id == other.run_id


def test_one_split_is_one_run_whichever_degrees_are_said() -> None:
    split: list[dict[str, int]] = [{"tp": 2}, {"shard": 2}, {"shard": 2, "tp": 2}]
    cases = [{"strategy": "fsdp*tp", "devices": 4, "degrees": degrees} for degrees in split]
    assert len({cell.run_id for cell in planned(*cases)}) == 1


def test_a_curve_holds_the_degrees_that_are_given_while_the_other_axis_grows() -> None:
    names = {cell.series for cell in planned({"strategy": "fsdp*tp", "degrees": {"tp": 2}})}
    assert names == {"Llama, fsdp*tp, strong"}
    both = planned(
        {"strategy": "fsdp*tp", "degrees": {"tp": 2}},
        {"strategy": "fsdp*tp", "degrees": {"shard": 2}},
    )
    curves = {
        name: [cell.spec.resolved_degrees for cell in both if cell.series == name] for name in {c.series for c in both}
    }
    assert curves == {
        "Llama, fsdp*tp, tp 2, strong": [{"shard": n, "tp": 2} for n in (1, 2, 4)],
        "Llama, fsdp*tp, shard 2, strong": [{"shard": 2, "tp": n} for n in (1, 2, 4)],
    }


def test_data_that_differ_are_two_curves() -> None:
    cases = [{"devices": 2, "data": name} for name in ("digits", "digits-large")]
    assert [cell.series for cell in planned(*cases, workload=IMAGES)] == [
        "MobileNetV2, ddp, strong",
        "MobileNetV2, ddp, digits-large, strong",
    ]


def test_names_of_curves_say_what_differs_and_read_well() -> None:
    found = planned(
        {"devices": 2},
        {"devices": 2, "strategy_options": {"hook": "fp16"}},
        {"devices": 2, "activation_checkpointing": True},
        {"devices": 2, "image_size": 48},
        {"devices": 2, "memory_format": "channels_last"},
        workload=IMAGES,
    )
    assert [cell.series for cell in found] == [
        "MobileNetV2, ddp, strong",
        "MobileNetV2, ddp, hook fp16, strong",
        "MobileNetV2, ddp, activation_checkpointing on, strong",
        "MobileNetV2, ddp, image_size 48, strong",
        "MobileNetV2, ddp, channels_last, strong",
    ]


def test_what_has_no_effect_is_in_no_run() -> None:
    base = {"devices": 2}
    same = (
        {"strategy_options": {"bucket_cap_mb": 25}},
        {"prefetch_factor": 8, "persistent_workers": True},
        {"learning_rate_batch": 8},
        {"pin_memory": False, "non_blocking": False},
    )
    runs = [planned(base | more, workload=IMAGES)[0].run_id for more in ({}, *same)]
    assert len(set(runs)) == 1
    synthetic = [
        planned(base | {"synthetic": True} | m, workload=IMAGES)[0] for m in ({}, {"workers": 2}, {"resize_on": "host"})
    ]
    assert len({cell.run_id for cell in synthetic}) == 1


def test_memory_is_pinned_where_there_is_a_device_to_copy_to() -> None:
    cell = planned({"devices": 2}, machine=H100)[0]
    assert (cell.spec.pin_memory, cell.spec.non_blocking) == (True, True)
    assert not planned({"devices": 2})[0].spec.pin_memory


@pytest.mark.parametrize(
    ("settings", "updates", "evaluations"),
    [
        # 1,500 images make 46.9 batches of 32
        ({"epochs": 2}, 94, 0),
        ({"epochs": 0.5}, 24, 0),
        ({"epochs": 3, "evaluate_every": "epoch"}, 141, 3),
        ({"updates": 100, "evaluate_every": "epoch"}, 100, 2),
        # each of the two ranks goes through all of them by itself, in batches of 16
        ({"epochs": 1, "sampling": "replicated"}, 94, 0),
    ],
)
def test_epochs_are_updates_by_the_size_of_the_training_data(
    settings: dict[str, Any], updates: int, evaluations: int
) -> None:
    spec = planned({"devices": 2, "global_batch": 32} | settings, workload=IMAGES)[0].spec
    assert (spec.updates, spec.evaluations) == (updates, evaluations)


def test_epochs_of_data_that_nobody_has_counted_are_refused() -> None:
    hub = {
        "hub": "org/name",
        "revision": "0" * 40,
        "image": "image",
        "label": "label",
        "train": "train",
        "test": "test",
    }
    with pytest.raises(UserError, match=r"epochs needs the number of training samples, .* Give updates instead"):
        planned({"devices": 2, "epochs": 2}, workload=IMAGES | {"data": hub})


def test_epochs_are_one_curve_though_their_updates_are_not() -> None:
    found = planned({"epochs": 2, "batch_per_device": 16}, workload=IMAGES, defaults={})
    assert [cell.spec.updates for cell in found] == [188, 94, 48, 24]
    assert {cell.series for cell in found} == {"MobileNetV2, ddp, weak"}


def test_a_cell_of_two_sweeps_is_of_the_one_that_makes_the_curves() -> None:
    sweeps = {"settings": {"cases": [{"devices": 2}]}, "curve": {"cases": [{"devices": 2}]}}
    assert [cell.sweep for cell in planned(sweeps=sweeps)] == ["settings"]
    assert [cell.sweep for cell in planned(sweeps=sweeps, headline=["curve"])] == ["curve"]


def test_what_a_machine_lacks_is_planned_with_its_reason() -> None:
    for settings, reason in (
        ({"strategy": "dp"}, "dp runs on cuda alone, not on cpu"),
        ({"precision": "tf32"}, "a CPU has none"),
        ({"pin_memory": True}, "on a CPU there is none"),
    ):
        assert reason in unsupported(planned({"devices": 2} | settings)[0].spec)
        assert not unsupported(planned({"devices": 2} | settings, machine=H100)[0].spec)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such factor": ({"strategy": "fsdp*tpp"}, "strategy 'tpp' is unknown. Did you mean 'tp'?"),
    "a factor that is missing": ({"strategy": "ddp*"}, "strategy 'ddp*': a factor is missing"),
    "a file that is no strategy": ({"strategy": "mesh"}, "strategies/mesh.py is no strategy: no line of it begins"),
    "two that split the same": ({"strategy": "ddp*fsdp"}, "ddp and fsdp split the same thing (data)"),
    "no product": ({"strategy": "single*tp"}, "makes no product with"),
    "an unknown option": ({"strategy_options": {"hok": "fp16"}}, "'ddp' has no option 'hok'. Did you mean 'hook'?"),
    "an option of another strategy": (
        {"strategy": "single", "devices": 1, "strategy_options": {"hook": "fp16"}},
        "strategy 'single' has no option 'hook'. It takes none.",
    ),
    "no choice": ({"strategy_options": {"hook": "fp8"}}, "strategy_options.hook must be 'none' or 'fp16' or 'bf16' or"),
    "a number for a switch": ({"strategy_options": {"static_graph": 1}}, "static_graph must be true or false; found"),
    "too small": ({"strategy_options": {"bucket_cap_mb": 0}}, "must be a whole number of at least 1; found 0."),
    "a switch for a number": ({"strategy_options": {"bucket_cap_mb": True}}, "whole number of at least 1; found True."),
    "degrees that are too many": (
        {"strategy": "fsdp*tp", "degrees": {"shard": 4, "tp": 4}, "devices": 8},
        "degrees: shard 4 x tp 4 = 16 needs 16 devices, but the run has 8. Use shard x tp = 8, or devices 16.",
    ),
    "a degree that is no count": ({"degrees": {"tp": 0}}, "'degrees.tp': Input should be greater than or equal to 1"),
    "a batch that ranks do not share": (
        {"strategy": "fsdp*tp", "degrees": {"tp": 2}, "devices": 8, "global_batch": 6},
        "global_batch 6 does not divide among 4 data-parallel ranks. Use a multiple of 4, such as 4 or 8.",
    ),
    "a batch too small for its parts": (
        {"devices": 2, "gradient_accumulation": 3},
        "global_batch 16 does not divide among 2 devices x gradient_accumulation 3 = 6 parts. Use a multiple of 6, "
        "such as 12 or 18.",
    ),
    "a batch too small for its micro-batches": (
        {"strategy": "fsdp*pp", "degrees": {"pp": 2}, "devices": 4, "batch_per_device": 3},
        "batch_per_device 3 on 4 devices is a global batch of 12, which does not divide among 2 data-parallel ranks x "
        "4 micro-batches = 8 parts. Use a multiple of 2, such as 2 or 4.",
    ),
    "more ranks than heads": ({"strategy": "tp", "devices": 8}, "tp 8 does not divide the model's 4 attention heads"),
    "a rule without its batch": ({"learning_rate_rule": "linear"}, "linear needs learning_rate_batch"),
    "both lengths": ({"updates": 40, "epochs": 1}, "give either updates or epochs."),
    "an image's size for text": ({"image_size": 32}, "image_size 32 is for image models; 'llama' trains on text"),
    "accuracy of text": ({"evaluate_every": 5}, "evaluate_every 5 is for image models"),
    "NHWC text": ({"memory_format": "channels_last"}, "memory_format channels_last is for image models"),
    "sampling without data ranks": (
        {"strategy": "tp", "sampling": "replicated"},
        "sampling replicated is about data-parallel ranks, and strategy 'tp' has none",
    ),
    "sampling without ranks": (
        {"strategy": "dp", "sampling": "replicated"},
        "sampling replicated is about data-parallel ranks, and strategy 'dp' has none",
    ),
    "neither batch": ({"global_batch": None}, "give either global_batch (strong scaling) or batch_per_device"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_machine_can_run_is_refused_naming_sweep_and_row(case: str) -> None:
    settings, words = REFUSED[case]
    with pytest.raises(UserError) as refused:
        planned({"devices": 2} | settings)
    assert str(refused.value).startswith("s.yaml: sweep 's', case 1")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "tp"}, "'tp' cannot split model 'mobilenet_v2' (it does not say how its layers are cut). Models "
         "that can be: vit, llama."),
        ({"strategy": "cp"}, "(its attention cannot be replaced). Models that can be: llama."),
        ({"strategy": "pp", "evaluate_every": 10}, "strategy pp evaluates nothing"),
        ({"evaluate_every": 50}, "evaluate_every 50 is past the last of 40 updates, so nothing would be evaluated."),
    ],
)  # fmt: skip
def test_a_model_that_does_not_offer_what_a_strategy_needs_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        planned({"devices": 2} | settings, workload=IMAGES)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"headline": ["ddp"]}, "s.yaml: headline: unknown sweep 'ddp'. Known: s."),
        ({"target_accuracy": 0.98}, "s.yaml: target_accuracy 0.98 needs runs that measure their accuracy."),
    ],
)
def test_a_study_that_asks_for_what_it_does_not_have_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        planned({"devices": 2}, **change)
    assert str(refused.value).startswith(words)


def test_two_nodes_are_refused() -> None:
    with pytest.raises(UserError, match="16 devices are 2 nodes of 8, and this version measures within one node"):
        planned({"devices": 16}, machine=Machine("cuda", "a GPU", 8, 2))
