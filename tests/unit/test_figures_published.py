"""Figures of published results: which submissions they show, and what they say."""

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from breakeven.figures.__main__ import OF_SCORES, OF_SERIES, render, render_published
from breakeven.figures.kinds import KINDS, kinds
from breakeven.figures.labels import ENVELOPE_NOTE, note_of
from breakeven.figures.losses import UNSPLIT, bars
from breakeven.figures.published import (
    Published,
    best_by_round,
    compared_size,
    front,
    published,
    round_order,
    spreads,
)
from breakeven.figures.theme import theme
from breakeven.figures.view import View, read_table, view
from breakeven.schema.errors import UserError
from tests.study_tables import Tables
from tests.study_tables import published as bert_study

#: Columns of scores.csv, in order.
SCORE_COLUMNS = """
    round benchmark workload submitter system system_name accelerator accelerator_family nodes accelerators_per_node
    devices division system_status global_batch runs runs_required runs_converged runs_compliant scaling_factor
    time_to_train_min time_to_train_strict_min time_raw_min time_min_min time_max_min samples_to_converge
    reference_samples time_reference_min throughput throughput_per_device step_throughput step_throughput_note
    evaluation_min startup_min device_hours energy_kj duplicate_of log_months old_logs result_id repository commit note
    strict_note
""".split()  # noqa: SIM905
FACTORS = ("efficiency_stat", "efficiency_step", "efficiency_overhead", "efficiency_residual")


def score(
    submitter: str, devices: int, minutes: float | None, family: str = "H100-SXM", **others: object
) -> dict[str, Any]:
    """A row of scores.csv; its fastest run took 0.95 of the score, its slowest 1.1."""
    row: dict[str, Any] = {
        "round": "v4.1",
        "benchmark": "ssd",
        "workload": "retinanet",
        "submitter": submitter,
        "system": f"{devices}x{family}",
        "accelerator_family": family,
        "devices": devices,
        "division": "closed",
        "system_status": "Available on-premise",
        "global_batch": 256,
        "scaling_factor": 1.0,
        "time_to_train_min": minutes,
        "time_min_min": None if minutes is None else minutes * 0.95,
        "time_max_min": None if minutes is None else minutes * 1.1,
        "samples_to_converge": 4.7e6,
        "device_hours": None if minutes is None else minutes * devices / 60,
        "duplicate_of": "",
        "note": "" if minutes else "no logs in the archive (5 runs required)",
    }
    return dict.fromkeys(SCORE_COLUMNS) | row | others


#: RetinaNet of v4.1 on H100-SXM and H200-SXM as published, a preview, a duplicate, a set without a score.
ROWS = [
    score("Fujitsu", 4, 69.812),
    score("NVIDIA", 8, 35.700),
    score("Dell", 8, 36.607),
    score("Dell", 8, 36.607, system="8x-POWER", duplicate_of="Dell/8xH100-SXM"),
    score("Dell", 32, 12.088, global_batch=512, samples_to_converge=5.85e6),
    score("NVIDIA", 64, 5.996),
    score("Clemson", 64, None),
    score("NVIDIA", 2528, 0.778, global_batch=2528, samples_to_converge=1.01e7),
    score("Supermicro", 8, 32.928, "H200-SXM"),
    score("Lenovo", 8, 34.259, "H200-SXM"),
    score("NVIDIA", 8, 22.513, "B200-SXM", system_status="Preview"),
    score("Anybody", 8, 1.0, division="open"),
    score("Haste", 8, 1.0, note="3 of 5 required runs"),
]
NEXT_ROUND = [
    score("Supermicro", 8, 21.474, "B200-SXM", round="v5.1", benchmark="retinanet"),
    score("NVIDIA", 512, 1.394, "GB200", round="v5.1", benchmark="retinanet"),
]
REFERENCE = [(256, 4.68e6, 0.0), (1024, 7.1e6, 1e5), (4096, 1.76e7, 5e5)]


def scores(rows: Sequence[dict[str, Any]] = ROWS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=SCORE_COLUMNS)


def reference() -> pd.DataFrame:
    rows = [
        {"global_batch": batch, "runs": 20, "samples_mean": mean, "samples_sd": sd, "kept": batch != 1024}
        for batch, mean, sd in REFERENCE
    ]
    return pd.DataFrame([{"round": "v4.1", "benchmark": "ssd", "workload": "retinanet", **row} for row in rows])


def critical(**numbers: object) -> pd.DataFrame:
    row = {
        "round": "v4.1",
        "benchmark": "ssd",
        "workload": "retinanet",
        "of": "reference",
        "points": 3,
        "batch_min": 256,
        "batch_max": 4096,
        "samples_min": 3.8e6,
        "critical_batch": 1285.0,
        "critical_batch_low": 1100.0,
        "critical_batch_high": 1500.0,
        "rmse_percent": 7.5,
        "note": "",
    }
    return pd.DataFrame([row | numbers])


def results(*tables: pd.DataFrame, **others: Any) -> Published:
    known = {"family": "H100-SXM", "reference": reference(), "critical": critical()}
    return published("RetinaNet", "ssd", list(tables) or [scores()], **(known | others))


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def texts_of_axis(svg: str) -> list[str]:
    """The numbers that stand alone."""
    return [text for text in texts(svg) if re.fullmatch(r"[\d.,]+", text)]


def said(kind: str, what: Published) -> str:
    return " ".join(texts(render_published(kind, what, "mlperf-v4.1")))


def own_series(factors: Sequence[dict[str, float | str | None]], folder: Path) -> View:
    """NVIDIA's RetinaNet on 8, 64 and 2528, with these columns of efficiency.csv at each."""
    tables = Tables("mlperf-v4.1")
    times = [(8, 35.7, "NVIDIA: n1"), (64, 5.996, "NVIDIA: n8"), (2528, 0.778, "NVIDIA: n316")]
    tables.add("RetinaNet", "RetinaNet, NVIDIA H100-SXM", times, scaling="free", device="H100-SXM", unit_s=60.0)
    for row, known in zip(tables.efficiency, factors, strict=True):
        row.update(known)
    tables.write(folder)
    return view(
        "RetinaNet", *(read_table(folder / "tables" / f"{n}.csv") for n in ("points", "efficiency", "breakeven"))
    )


def factors_of(*values: float | None, note: str = "") -> dict[str, float | str | None]:
    known = dict(zip(FACTORS, values, strict=True))
    return {**known, "efficiency_sys": 0.7, "decomposition_note": note}


SPLIT = [factors_of(1, 1, 1, 1), factors_of(1, 0.8, 1.3, 0.85), factors_of(0.46, None, 0.9, None, note="no step rate")]


def test_a_benchmark_is_found_by_its_folder_or_its_workload_in_every_round() -> None:
    for name in ("ssd", "retinanet"):
        what = published("RetinaNet", name, [scores(), scores(NEXT_ROUND)])
        assert what.rounds == ("v4.1", "v5.1")
        assert set(what.scores["round"]) == {"v4.1", "v5.1"}


def test_an_unknown_benchmark_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"No benchmark 'bert' in the scores. They have: retinanet"):
        published("BERT", "bert", [scores()])


def test_what_has_no_score_or_may_not_be_compared_is_left_out() -> None:
    own = results().own
    assert len(own) == len(ROWS) - 4
    assert not {"Clemson", "Anybody", "Haste"} & set(own["submitter"])
    assert (own["duplicate_of"] == "").all()


def test_the_front_is_what_nobody_beats_in_time_and_in_device_hours() -> None:
    own = results().own
    found = front(own[own["accelerator_family"] == "H100-SXM"])
    # 32 devices took 6.45 device-hours where 64, twice as fast, took 6.40
    assert found["devices"].tolist() == [2528, 64, 8, 4]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=30))
def test_every_submission_is_on_the_front_or_beaten_by_one_that_is(places: list[tuple[int, int]]) -> None:
    rows = pd.DataFrame(places, columns=["time_to_train_min", "device_hours"])
    found = front(rows)
    assert found["time_to_train_min"].is_monotonic_increasing
    assert found["device_hours"].is_monotonic_decreasing
    for time, hours in places:
        assert ((found["time_to_train_min"] <= time) & (found["device_hours"] <= hours)).any()


def test_the_spread_is_how_much_longer_the_slowest_took() -> None:
    fastest, second, third = spreads(results().scores, 8)
    assert [s.family for s in (fastest, second, third)] == ["B200-SXM", "H200-SXM", "H100-SXM"]
    assert (fastest.previews, second.previews) == (1, 0)
    assert second.percent == pytest.approx(4.04, abs=0.01)
    assert third.percent == pytest.approx(2.54, abs=0.01)
    assert third.submissions == 2
    assert [(line.name, line.duplicate) for line in third.lines] == [
        ("NVIDIA", False),
        ("Dell, 8x-POWER", True),  # shown, not counted
        ("Dell, 8xH100-SXM", False),
    ]


def test_a_submission_reaches_from_its_fastest_to_its_slowest_run_scaled_as_its_score() -> None:
    scaled, unknown = (
        score("A", 8, 10.5, time_min_min=9.0, time_max_min=12.0, scaling_factor=1.05),
        score("B", 8, 11.0, time_min_min=None, time_max_min=None),
    )
    (found,) = spreads(results(scores([scaled, unknown])).scores, 8)
    runs = [(line.fastest_run_min, line.slowest_run_min) for line in found.lines]
    assert runs == [(pytest.approx(9.45), pytest.approx(12.6)), (11.0, 11.0)]


def test_eight_devices_are_compared_else_the_commonest_size() -> None:
    assert compared_size(results().scores) == 8
    large = scores([score("A", 64, 5.0), score("B", 64, 6.0), score("B", 16, 9.0), score("C", 512, 1.0)])
    assert compared_size(large) == 64
    assert compared_size(scores([score("A", 64, 5.0), score("C", 512, 1.0)])) == 64


def test_the_best_of_every_round_at_a_size_and_at_any() -> None:
    both = results(scores(), scores(NEXT_ROUND)).scores
    assert [(b.round, b.time_min, b.family, b.preview) for b in best_by_round(both, 8)] == [
        ("v4.1", 22.513, "B200-SXM", True),
        ("v5.1", 21.474, "B200-SXM", False),
    ]
    assert [(b.time_min, b.devices) for b in best_by_round(both)] == [(0.778, 2528), (1.394, 512)]


def test_rounds_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["v10.0", "v4.1", "v0.7", "v4.0"], key=round_order) == ["v0.7", "v4.0", "v4.1", "v10.0"]


def test_losses_of_a_size_add_up_to_the_loss_of_its_efficiency(tmp_path: Path) -> None:
    _, at_64, at_2528 = bars(own_series(SPLIT, tmp_path).headlines[0])
    assert at_64.losses["efficiency_overhead"] == pytest.approx(-math.log(1.3))
    assert sum(at_64.losses.values()) == pytest.approx(-math.log(1 * 0.8 * 1.3 * 0.85))
    assert set(at_2528.factors) == {"efficiency_stat", UNSPLIT}
    assert at_2528.note == "no step rate"


def test_the_decomposition_says_its_parts_and_why_one_is_not_split(tmp_path: Path) -> None:
    shown = texts(render("decomposition", own_series(SPLIT, tmp_path)))
    assert {"more samples needed", "slower steps", "evaluation and start-up", "unexplained"} <= set(shown)
    assert "throughput (not split)" in shown
    assert "Throughput not split at 2528: no step rate." in shown
    assert {"× 0.80", "× 1.30", "× 0.46", "reference"} <= set(shown)
    assert "efficiency: losses less gains" in shown


def test_a_gain_too_small_to_see_leaves_the_efficiency_over_the_stack(tmp_path: Path) -> None:
    small = [factors_of(1, 1, 1, 1), factors_of(0.9, 0.8, 1.01, 1), factors_of(0.46, 0.5, 0.9, 1)]
    assert "efficiency: losses less gains" not in texts(render("decomposition", own_series(small, tmp_path)))


def test_the_legend_lists_the_parts_that_some_bar_has(tmp_path: Path) -> None:
    no_step = [factors_of(1, 1, 1, 1), factors_of(0.9, 1, 0.8, 1), factors_of(0.46, 1, 0.9, 0.9999)]
    shown = texts(render("decomposition", own_series(no_step, tmp_path)))
    assert {"more samples needed", "evaluation and start-up"} <= set(shown)
    assert not {"slower steps", "unexplained", "throughput (not split)"} & set(shown)


@pytest.mark.parametrize("kind", ["efficiency", "decomposition"])
def test_a_single_size_says_that_there_is_nothing_to_compare(kind: str, tmp_path: Path) -> None:
    tables = Tables("mlperf-v4.1")
    tables.add(
        "RetinaNet", "RetinaNet, A H100-SXM", [(8, 35.7, "A: n1")], scaling="free", device="H100-SXM", unit_s=60.0
    )
    tables.efficiency[0].update(factors_of(1, 1, 1, 1))
    tables.write(tmp_path)
    frames = [read_table(tmp_path / "tables" / f"{n}.csv") for n in ("points", "efficiency", "breakeven")]
    shown = texts(render(kind, view("RetinaNet", *frames), "mlperf", results()))
    assert "Only one size has a time: nothing to compare." in shown
    assert "MLPerf Training v4.1, closed division" in " ".join(shown)


def test_reasons_that_several_sizes_share_are_told_once(tmp_path: Path) -> None:
    base = "NVIDIA: n1, 8 x H100-SXM: no step rate"
    lacking = [factors_of(1, None, None, None, note=note) for note in (base, f"NVIDIA: n8: none; {base}", base)]
    shown = " ".join(texts(render("decomposition", own_series(lacking, tmp_path))))
    assert f"Throughput not split at 64 and 2528: NVIDIA: n8: none; {base}." in shown


def test_a_decomposition_needs_its_columns(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no column efficiency_step, .*run snakemake"):
        render("decomposition", own_series([{}, {}, {}], tmp_path))


def test_times_without_a_target_have_nothing_to_take_apart(tmp_path: Path) -> None:
    unknown = [dict.fromkeys([*FACTORS, "efficiency_sys", "decomposition_note"])] * 3
    assert "Nothing to take apart" in " ".join(texts(render("decomposition", own_series(unknown, tmp_path))))


def test_samples_tell_the_critical_batch_its_interval_and_the_curve() -> None:
    text = said("samples", results())
    assert "critical batch 1,280 (1,100 to 1,500): twice the fewest samples" in text
    assert "reference runs follow 3.80 million × (1 + batch / 1,280), within 7.5 %" in text
    assert "samples to converge (million)" in text
    assert "reference, not used by the checker" in text


def test_a_critical_batch_that_is_bounded_on_one_side_says_so() -> None:
    text = said("samples", results(critical=critical(critical_batch_high=None)))
    assert "critical batch 1,280 (at least 1,100)" in text


def test_a_critical_batch_far_from_any_batch_leaves_the_axis_alone() -> None:
    far = critical(critical_batch=1e6, critical_batch_low=1e5, critical_batch_high=None)
    text = said("samples", results(critical=far))
    assert "critical batch 1,000,000 (at least 100,000): twice the fewest samples, beyond this axis" in text
    assert "20,000" not in text


def test_a_critical_batch_that_cannot_be_told_is_no_number() -> None:
    unknown: dict[str, Any] = dict.fromkeys(
        ("samples_min", "critical_batch", "critical_batch_low", "critical_batch_high", "rmse_percent")
    )
    lost = critical(**unknown, note="not identifiable: 2 batches, of 3 a fit needs")
    text = said("samples", results(critical=lost))
    assert "critical batch not identifiable: 2 batches, of 3 a fit needs" in text
    assert "twice the fewest" not in text


def test_one_reference_run_written_down_wrongly_does_not_flatten_the_rest() -> None:
    wild = reference().assign(samples_sd=[0.0, 3e7, 5e5])
    shown = texts(render_published("samples", results(reference=wild), "x"))
    assert "20" in shown  # million, at the top of the axis
    assert not {"50", "100"} & set(shown)


def test_samples_without_a_reference_are_the_submissions_alone() -> None:
    text = said("samples", results(reference=reference().iloc[:0], critical=critical().iloc[:0]))
    assert "no fit" in text
    assert "reference runs" not in text


def test_the_front_is_named_with_its_devices(tmp_path: Path) -> None:
    series = own_series(SPLIT, tmp_path).headlines[0]
    shown = texts(render_published("pareto", results(headline=series), "mlperf-v4.1"))
    assert {"2528", "64", "8", "4"} <= set(shown)
    assert "MLPerf Training v4.1 · 2528 H100-SXM are 89.7 times as fast as 4, for 7.0 times the device-hours" in shown
    assert "NVIDIA, with its devices" in shown
    assert "no size tested between" in shown


def test_the_front_is_of_its_family_alone() -> None:
    shown = texts(render_published("pareto", results(), "mlperf-v4.1"))
    assert "front: no H100-SXM submission beats it in both" in shown
    assert not [text for text in shown if "nobody" in text]


def test_a_family_without_a_score_still_gives_a_figure() -> None:
    text = said("pareto", results(family="TPU-v5p"))
    assert "No submission on TPU-v5p has a score. Accelerators that have: B200-SXM, H100-SXM and H200-SXM." in text


def test_submitters_of_one_accelerator_are_told_apart() -> None:
    shown = texts(render_published("vendors", results(), "mlperf-v4.1"))
    assert "RetinaNet: 8 devices, by accelerator and submitter" in shown
    assert "2 submissions · 32.9 to 34.3 min · spread 4.0 %" in shown
    assert "1 submission, preview · 22.5 min" in shown
    assert {"NVIDIA", "Dell, 8xH100-SXM", "Dell, 8x-POWER", "repeats another's runs"} <= set(shown)


@pytest.mark.parametrize("shortest", [0.119, 5.394, 35.7, 9_999.0, 123_456.0])
def test_times_that_hardly_differ_still_have_numbers_on_their_axis(shortest: float) -> None:
    alike = [score("A", 8, shortest), score("B", 8, shortest * 1.005)]
    for row in alike:
        row.update(time_min_min=row["time_to_train_min"], time_max_min=row["time_to_train_min"])
    labels = [
        float(text.replace(",", "")) for text in texts_of_axis(render_published("vendors", results(scores(alike)), "x"))
    ]
    assert len(set(labels)) >= 2
    assert all(shortest * 0.9 < value < shortest * 2 for value in labels)


def test_another_size_than_eight_is_in_the_title() -> None:
    large = results(scores([score("A", 64, 5.0), score("B", 64, 6.0)]))
    assert "RetinaNet: 64 devices, by accelerator and submitter" in said("vendors", large)


def test_rounds_name_times_accelerators_and_devices() -> None:
    shown = texts(render_published("rounds", results(scores(), scores(NEXT_ROUND)), "mlperf-v4.1"))
    assert {"22.5 min", "B200-SXM (preview)", "2528 × H100-SXM", "512 × GB200", "v4.1", "v5.1"} <= set(shown)
    assert (
        "from v4.1 to v5.1: 22.5 to 21.5 min with 8 devices (4.6 % less time), "
        "0.778 to 1.39 min with any number (1.8 times as slow)" in shown
    )


@pytest.mark.parametrize(
    ("minutes", "change"),
    [
        (22.513, "no faster"),
        (22.51, "no faster"),  # 0.01 %
        (22.4, "0.50 % less time"),
        (24.0, "6.6 % more time"),
        (11.0, "2.0 times as fast"),
        (40.0, "1.8 times as slow"),
    ],
)
def test_a_small_change_between_rounds_is_a_percentage(minutes: float, change: str) -> None:
    later = scores([score("NVIDIA", 8, minutes, "B200-SXM", round="v5.1")])
    assert f"with 8 devices ({change})" in said("rounds", results(scores(), later))


def test_the_footer_names_rounds_in_their_order_and_others_name_their_own() -> None:
    both = results(scores(NEXT_ROUND), scores())  # of v5.1, compared with the round before
    assert "MLPerf Training v4.1 and v5.1, closed division" in said("rounds", both)
    assert "MLPerf Training v5.1, closed division" in said("vendors", both)


def test_one_round_is_not_enough() -> None:
    with pytest.raises(UserError, match=r"needs two or more, and the scores are of v4.1 alone"):
        said("rounds", results())


def test_a_round_without_a_score_leaves_nothing_to_compare() -> None:
    nobody = scores([score("Clemson", 8, None, round="v5.1")])
    assert "rounds with a scored submission: v4.1" in said("rounds", results(scores(), nobody))


@pytest.mark.parametrize("kind", [k for k in KINDS if "scores" in KINDS[k].needs])
def test_every_figure_of_scores_carries_the_notice_and_is_the_same_twice(kind: str) -> None:
    what = results(scores(), scores(NEXT_ROUND))
    assert "closed division" in said(kind, what)
    assert "not verified by MLCommons Association" in said(kind, what)
    assert render_published(kind, what, "x") == render_published(kind, what, "x")


@pytest.mark.parametrize("kind", [k for k in KINDS if "scores" in KINDS[k].needs])
def test_one_lone_submission_is_drawn_too(kind: str) -> None:
    lone = scores([score("A", 1, 5.0, "CPU")])
    what = published("Tiny", "ssd", [lone, scores(NEXT_ROUND)], family="CPU")
    assert "Tiny" in said(kind, what)


TRADEMARK = "The MLPerf name and logo are registered and unregistered trademarks of MLCommons Association."


@pytest.mark.parametrize("kind", kinds("mlperf", 2))
def test_every_published_figure_names_suite_version_division_and_trademark(kind: str, tmp_path: Path) -> None:
    what = results(scores(), scores(NEXT_ROUND))
    series = kind in ("time", "efficiency", "decomposition")
    text = " ".join(texts(render(kind, own_series(SPLIT, tmp_path), "mlperf", what))) if series else said(kind, what)
    named = "v4.1 and v5.1" if kind == "rounds" else "v4.1"
    assert f"Results from MLCommons, MLPerf Training {named}, closed division. " in text
    assert TRADEMARK in text
    assert note_of(kind, "mlperf").endswith(TRADEMARK)


def figure_of(kind: str, folder: Path) -> Figure:
    what = results(scores(), scores(NEXT_ROUND))
    note = note_of(kind, "mlperf", ["v4.1"])
    if kind in OF_SERIES:
        return OF_SERIES[kind](own_series(SPLIT, folder), f"{ENVELOPE_NOTE}\n{note}", what)
    return OF_SCORES[kind](what, note)


@pytest.mark.parametrize("kind", kinds("mlperf", 2))
def test_legend_and_notes_keep_clear_of_everything(kind: str, tmp_path: Path) -> None:
    with theme():
        figure = figure_of(kind, tmp_path)
        figure.canvas.draw()
        panels = [axes.get_tightbbox() for axes in figure.axes]
        legend = [one.get_window_extent() for one in figure.legends]
        lines = [text.get_window_extent() for text in figure.texts]
        width, height = figure.canvas.get_width_height()
    stacked = [*lines[:2], Bbox.union([box for box in panels if box]), *legend, *lines[2:]]  # from the top down
    assert all(upper.y0 >= lower.y1 - 1 for upper, lower in pairwise(stacked))
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in stacked)


def test_submissions_stand_behind_the_times_of_a_series(tmp_path: Path) -> None:
    what = own_series(SPLIT, tmp_path)
    assert "every H100-SXM submission" in texts(render("time", what, "mlperf", results()))
    assert "time to target (min)" not in texts(render("time", what, "mlperf"))


def test_the_best_of_all_submitters_is_called_an_envelope(tmp_path: Path) -> None:
    tables = bert_study()
    tables.write(tmp_path)
    frames = [read_table(tmp_path / "tables" / f"{n}.csv") for n in ("points", "efficiency", "breakeven")]
    for kind in ("time", "efficiency"):
        shown = texts(render(kind, view("BERT", *frames)))
        assert "best of all submitters per size" in shown
        assert "the more submit at a size, the better its best" in " ".join(shown)


def test_a_study_has_the_kinds_of_its_source() -> None:
    assert kinds("measured") == kinds("points", 2) == ("time", "efficiency")
    assert kinds("mlperf", 1) == ("time", "efficiency", "decomposition", "samples", "pareto", "vendors")
    assert kinds("mlperf", 2) == (*kinds("mlperf", 1), "rounds")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_caption_of_one_sentence(kind: str) -> None:
    assert KINDS[kind].caption.endswith(".")
    assert KINDS[kind].caption.count(". ") == 0


def figure(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "breakeven.figures", "--workload=RetinaNet", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_command_line_draws_from_tables_and_names_what_is_missing(tmp_path: Path) -> None:
    own_series(SPLIT, tmp_path)
    for name, frame in (("scores", scores()), ("reference", reference()), ("critical_batch", critical())):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = [f"--{name}={tmp_path}/tables/{name}.csv" for name in ("points", "efficiency", "breakeven")]
    given = ["--scores", f"{tmp_path}/scores.csv", f"--reference={tmp_path}/reference.csv", "--benchmark=ssd"]
    output = tmp_path / "samples.svg"

    lacking = figure("--kind=samples", *given, f"--output={output}")
    assert lacking.returncode == 2
    assert "--kind samples also needs --critical-batch" in lacking.stderr
    assert not output.exists()

    critical_batch = f"--critical-batch={tmp_path}/critical_batch.csv"
    drawn = figure("--kind=samples", *tables, *given, critical_batch, f"--output={output}")
    assert drawn.returncode == 0, drawn.stderr
    assert 'id="mlperf-v4-1-retinanet-samples-figure_1"' in output.read_text()


def test_what_stands_in_place_of_absent_results_names_their_round_too(tmp_path: Path) -> None:
    own_series(SPLIT, tmp_path)
    scores([score("A", 8, 5.0, benchmark="bert", workload="bert")]).to_csv(tmp_path / "scores.csv", index=False)
    tables = [f"--{name}={tmp_path}/tables/{name}.csv" for name in ("points", "efficiency", "breakeven")]
    absent = ["--kind=time", "--workload=GPT", "--source=mlperf", "--benchmark=gpt", f"--scores={tmp_path}/scores.csv"]
    drawn = figure(*tables, *absent, f"--output={tmp_path}/time.svg")
    assert drawn.returncode == 0, drawn.stderr
    shown = " ".join(texts((tmp_path / "time.svg").read_text()))
    assert "These results hold no scored submission of GPT." in shown
    assert "MLPerf Training v4.1, closed division" in shown


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("scores", {"device_hours": "x"}, "device_hours must be a number; found 'x'"),
        ("reference", {"samples_mean": "many"}, "samples_mean must be a number; found 'many'"),
    ],
)
def test_a_damaged_table_of_a_round_is_named(name: str, damage: dict[str, str], message: str, tmp_path: Path) -> None:
    frame = (scores() if name == "scores" else reference()).astype(object)
    path = tmp_path / f"{name}.csv"
    frame.assign(**damage).to_csv(path, index=False)
    with pytest.raises(UserError, match=message):
        read_table(path)
    frame.drop(columns="workload").to_csv(path, index=False)
    with pytest.raises(UserError, match="column workload is missing"):
        read_table(path)
