"""What the report says of published results alone, on tables whose numbers are known."""

import math

import pandas as pd

from breakeven.figures.view import Curve
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
        "At 64 the loss is 32 % more samples needed, 36 % slower steps and 32 % evaluation and start-up "
        "(shares of ln(1/E))."
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
        "At 64 the loss is 50 % more samples needed and 50 % less throughput per device (shares of ln(1/E))."
    )


def test_no_loss_no_sentence() -> None:
    assert published.lost_to(curve(efficiency=[1.0, 1.02], efficiency_stat=[1, 1.02], efficiency_sys=[1, 1])) == ""


def test_the_two_scores_are_counted_and_their_differences_listed_with_the_reason() -> None:
    assert (
        "The two agree on 1 of 2 result sets that have both; 1 of 3 have no official score."
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
