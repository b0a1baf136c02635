"""What the report says of published results alone, on tables whose numbers are known."""

import math
from dataclasses import replace

import pandas as pd

from breakeven.figures.view import BreakEven, Curve, View
from breakeven.report import published
from breakeven.report.published import Round
from tests.study_tables import critical_batch, round_scores


def curve(**columns: list[object]) -> Curve:
    rows = pd.DataFrame({"devices": [8, 64], "label": ["NVIDIA: a", "NVIDIA: b"], **columns})
    return Curve("BERT, NVIDIA H100", "NVIDIA", "free", "H100", True, 8, "", rows, pd.DataFrame(), (), False)


def test_shares_of_the_loss_are_logarithms_and_add_up() -> None:
    # 0.5 = 0.8 * (0.7813 * 0.8 * 1.0): ln 0.8 / ln 0.5 = 32 %, ln 0.78125 / ln 0.5 = 36 %, 32 %
    what = curve(
        efficiency=[1.0, 0.5],
        efficiency_stat=[1.0, 0.8],
        efficiency_sys=[1.0, 0.625],
        efficiency_step=[1.0, 0.625 / 0.8],
        efficiency_overhead=[1.0, 0.8],
        efficiency_residual=[1.0, 1.0],
    )
    assert published.lost_to(what) == (
        "Of the loss at 64 (as ln(1/E)), 32 % is due to samples (1.2 times as many), 36 % to step speed (× 0.78) and "
        "32 % to evaluation and start-up (× 0.80)."
    )


def test_a_part_that_gains_is_told_apart_from_the_loss() -> None:
    what = curve(
        efficiency=[1.0, 0.55],
        efficiency_stat=[1.0, 1.1],
        efficiency_sys=[1.0, 0.5],
        efficiency_step=[1.0, 0.5],
        efficiency_overhead=[1.0, 1.0],
        efficiency_residual=[1.0, 1.0],
    )
    assert published.lost_to(what) == (
        "Of the loss at 64 (as ln(1/E)), 100 % is due to step speed (× 0.50); gained by samples (× 1.10)."
    )


def test_without_step_throughput_the_loss_has_two_parts() -> None:
    what = curve(
        efficiency=[1.0, 0.25],
        efficiency_stat=[1.0, 0.5],
        efficiency_sys=[1.0, 0.5],
        efficiency_step=[1.0, math.nan],
        efficiency_overhead=[1.0, 0.9],
        efficiency_residual=[1.0, math.nan],
    )
    assert published.lost_to(what) == (
        "Of the loss at 64 (as ln(1/E)), 50 % is due to samples (2.0 times as many) and 50 % to throughput per device "
        "(× 0.50)."
    )


def test_no_loss_no_sentence() -> None:
    assert published.lost_to(curve(efficiency=[1.0, 1.02], efficiency_stat=[1, 1.02], efficiency_sys=[1, 1])) == ""


def test_the_two_scores_are_counted_and_their_differences_listed_with_the_reason() -> None:
    assert (
        "The two agree on 1 of 2 result sets that have both; 1 of 3 has no official score."
        in published.modes_sentence(round_scores())
    )
    rows = [[cell.text for cell in row] for row in published.modes_table(round_scores()).rows]
    assert rows == [
        ["bert", "NVIDIA", "b", "64", "0.90000", "0.90200", "+0.22", "result_1.txt: a damaged line"],
        ["bert", "Clemson", "c", "56", "", "", "", "no logs"],
    ]


def test_old_logs_are_named_with_their_month() -> None:
    what = curve(efficiency=[1.0, 0.5])
    assert (
        published.old_logs(what, round_scores()) == "Logs of 64 (2023-05) are from before this round: older software."
    )


def test_the_critical_batch_is_where_samples_double() -> None:
    critical = critical_batch()
    assert published.critical_batch_sentence(critical, "llama2_70b_lora") == (
        "By MLPerf's reference runs, the samples needed double at a global batch of 41.1 (95 % interval 35 to 48.2): "
        "D = 2,770 (1 + B / 41.1), within 3.6 %."
    )
    assert published.critical_batch_sentence(critical, "bert") == ""


def test_a_round_is_three_tables() -> None:
    assert Round("v4.1", round_scores(), pd.DataFrame(), pd.DataFrame()).name == "v4.1"


def test_every_reason_for_not_splitting_the_throughput_is_told_once() -> None:
    notes = ["a: no step rate", "b: no step rate; a: no step rate"]
    what = curve(efficiency=[1.0, 0.5], decomposition_note=notes)
    assert published.not_split(what) == ["a: no step rate", "b: no step rate"]
    assert published.not_split(curve(efficiency=[1.0, 0.5])) == []


def test_result_sets_that_no_curve_is_drawn_through_are_named() -> None:
    sets = round_scores().assign(accelerator_family="H100", duplicate_of="", workload="bert")
    assert published.left_out(sets, "bert", "H100") == "Left out: Clemson c (56 devices: no logs)."
    assert published.left_out(sets, "bert", "H200") == ""


def envelope(**columns: list[object]) -> Curve:
    found = curve(**columns)
    return replace(found, series="BERT, best H100 submission per size", short="best submission per size")


def test_where_nobody_tested_two_sizes_the_envelope_says_what_it_is() -> None:
    only = envelope(efficiency=[1.0, 0.5])
    assert only.envelope
    view = View("s", "BERT", (only,), (), True)
    assert published.beside_the_envelope(view, only) == (
        "No submitter tested two sizes here, so this is the best of all at each (8: NVIDIA: a; 64: NVIDIA: b): no one "
        "experiment, and flattered wherever more of them submitted."
    )


def break_even(series: str, devices: float) -> BreakEven:
    return BreakEven(series, "efficiency >= t", 0.7, devices, None, None, None, "")


def test_beside_the_envelope_only_what_a_curve_can_be_compared_with_is_said() -> None:
    own, best = curve(efficiency=[1.0, 0.9]), envelope(efficiency=[1.0, 0.9])
    best = replace(best, headline=False)
    same = View("s", "BERT", (own, best), (break_even(own.series, 64), break_even(best.series, 64)), True)
    assert published.beside_the_envelope(same, own).endswith("would not be at its break-even either.")
    lower = View("s", "BERT", (own, best), (break_even(own.series, 8), break_even(best.series, 64)), True)
    assert published.beside_the_envelope(lower, own).endswith("would instead say 64.")
    single = replace(own, rows=own.rows.iloc[:1])
    assert published.beside_the_envelope(same, single) == ""
