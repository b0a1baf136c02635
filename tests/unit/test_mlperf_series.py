"""Which submissions make a curve: one submitter's own, the best of all beside it, and every other submitter's."""

import pandas as pd
import pytest

from breakeven.points.mlperf import Series, series_of
from breakeven.schema.errors import UserError

Sets = list[tuple[str, int, float]]


def scored(sets: Sets) -> pd.DataFrame:
    """Scores of one benchmark: submitter, devices, minutes."""
    rows = [
        {"round": "v4.1", "benchmark": "bert", "submitter": who, "system": f"{who}-{n}-{minutes}", "devices": n,
         "time_to_train_min": minutes}
        for who, n, minutes in sets
    ]  # fmt: skip
    return pd.DataFrame(rows)


def told(series: list[Series]) -> dict[str, list[tuple[str, int]]]:
    return {one.name: list(zip(one.sets["submitter"], one.sets["devices"], strict=True)) for one in series}


def headline(sets: Sets, submitter: str = "auto") -> str:
    first, *context = series_of(scored(sets), "BERT", "H100-SXM", submitter)
    assert first.headline
    assert not any(one.headline for one in context)
    return first.name


WIDE = [("A", 8, 10.0), ("A", 64, 2.0), ("B", 4, 15.0), ("B", 8, 9.0), ("B", 16, 5.0), ("C", 1024, 1.0)]


def test_the_submitter_whose_sizes_span_most_is_the_headline_and_the_best_of_all_is_context() -> None:
    assert told(series_of(scored(WIDE), "BERT", "H100-SXM")) == {
        "BERT, A H100-SXM": [("A", 8), ("A", 64)],
        "BERT, best H100-SXM submission per size": [("B", 4), ("B", 8), ("B", 16), ("A", 64), ("C", 1024)],
        "BERT, B H100-SXM": [("B", 4), ("B", 8), ("B", 16)],
    }
    assert headline(WIDE) == "BERT, A H100-SXM"


def test_span_is_a_ratio_then_sizes_count_then_the_name() -> None:
    # 4 to 32 is eight times, 512 to 1024 twice, however many devices lie between
    assert headline([("A", 512, 1.0), ("A", 1024, 0.9), ("B", 4, 60.0), ("B", 32, 9.0)]) == "BERT, B H100-SXM"
    even = [("A", 8, 9.0), ("A", 64, 2.0), ("B", 8, 9.5), ("B", 64, 2.5)]
    assert headline(even) == "BERT, A H100-SXM"
    assert headline([*even, ("B", 16, 5.0)]) == "BERT, B H100-SXM"


def test_a_submitter_named_is_the_headline_whatever_its_span() -> None:
    assert headline(WIDE, "B") == "BERT, B H100-SXM"
    assert headline(WIDE, "C") == "BERT, C H100-SXM"
    assert "BERT, A H100-SXM" in told(series_of(scored(WIDE), "BERT", "H100-SXM", "B"))


def test_an_unknown_submitter_is_named_with_those_known() -> None:
    with pytest.raises(UserError, match=r"No scored submission of BERT on H100-SXM by 'nvidia'.*: A, B, C; or 'auto'"):
        series_of(scored(WIDE), "BERT", "H100-SXM", "nvidia")


def test_of_several_submissions_of_one_size_a_submitters_best_is_on_its_curve() -> None:
    first, *_ = series_of(scored([("A", 8, 10.0), ("A", 8, 9.0), ("A", 16, 6.0)]), "BERT", "H100-SXM")
    assert first.sets["time_to_train_min"].tolist() == [9.0, 6.0]


def test_where_nobody_tested_two_sizes_the_best_per_size_is_the_headline() -> None:
    assert told(series_of(scored([("A", 8, 10.0), ("B", 16, 6.0), ("C", 8, 9.0)]), "BERT", "H100-SXM")) == {
        "BERT, best H100-SXM submission per size": [("C", 8), ("B", 16)]
    }
    assert headline([("A", 8, 10.0)]) == "BERT, best H100-SXM submission per size"


def test_the_best_per_size_is_not_drawn_twice_where_one_submitter_has_them_all() -> None:
    google = [("Google", n, 400.0 / n) for n in (8, 64, 512)] + [("Other", 8, 99.0)]
    assert list(told(series_of(scored(google), "BERT", "TPU-v5p"))) == ["BERT, Google TPU-v5p"]
