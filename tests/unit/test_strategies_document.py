"""docs/strategies.md says what the strategies say of themselves, and shows a verdict for every check there is."""

from pathlib import Path

from breakeven.head.strategies_document import current, equivalence, fill, keys, listed
from breakeven.metrics.equivalence import KEY
from breakeven.schema.strategies import known_strategies, strategy_meta

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/strategies.md").read_text()


def test_the_document_is_what_the_strategies_say() -> None:
    assert fill(DOCUMENT) == DOCUMENT, "run: python -m breakeven.head.strategies_document"
    for name in known_strategies():
        assert f"### {name}\n" in DOCUMENT
        assert all(f"`{option}`" in DOCUMENT for option in strategy_meta(name).options)


def test_its_table_has_every_current_check_and_no_other_and_none_fails() -> None:
    message = (
        "run: snakemake equivalence; python -m breakeven.head.strategies_document --table results/equivalence/table.csv"
    )
    assert listed(DOCUMENT) == keys(current()), message
    table = DOCUMENT.partition("<!-- equivalence -->")[2]
    assert "| fail |" not in table
    assert "| not run |" not in table


def test_a_table_is_read_back_as_it_was_written() -> None:
    row = dict.fromkeys(KEY, "") | {"strategy": "ddp", "workload": "llama", "devices": "2", "options": "hook=fp16"}
    more = {"max_abs_loss_difference": "1e-06", "tolerance": "1e-05", "bytes": "ok", "verdict": "pass", "note": ""}
    table = equivalence([row | more], "two cores")
    document = fill("<!-- equivalence -->\n<!-- end -->", table)
    assert listed(document) == [("ddp", "llama", "2", "", "hook=fp16", "")]
    assert "| 1.0e-06 | 1.0e-05 | ok | pass |" in document
