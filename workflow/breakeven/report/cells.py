"""A table as the page shows it: heads with units, cells already in words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from breakeven.figures import words


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    detail: str = ""
    """An interval or a remark, shown smaller behind the text."""
    mark: str = ""
    """``bad`` where something went wrong, ``key`` for the row that the answer quotes."""

    def __bool__(self) -> bool:
        return bool(self.text or self.detail)


@dataclass(frozen=True, slots=True)
class Column:
    head: str
    unit: str = ""
    number: bool = True
    wrap: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(default=())

    def without_empty(self) -> "Table":
        """Without the columns of which no row says anything."""
        keep = [i for i in range(len(self.columns)) if any(row[i] for row in self.rows)]
        return Table(
            self.caption,
            tuple(self.columns[i] for i in keep),
            tuple(tuple(row[i] for i in keep) for row in self.rows),
        )


Maker = Callable[["pd.Series[Any]"], Cell]


def table(caption: str, frame: pd.DataFrame, columns: Sequence[tuple[Column, Maker]]) -> Table:
    rows = tuple(tuple(make(row) for _, make in columns) for _, row in frame.iterrows())
    return Table(caption, tuple(column for column, _ in columns), rows).without_empty()


def known(row: "pd.Series[Any]", name: str) -> bool:
    return name in row and not pd.isna(row[name]) and row[name] != ""  # type: ignore[call-overload]


def yes(value: object) -> bool:
    """A cell of a column of truth values, however the table spells them."""
    return str(value).lower() in ("true", "1", "1.0")


def text(name: str) -> Maker:
    return lambda row: Cell(str(row[name])) if known(row, name) else Cell("")


def whole(name: str) -> Maker:
    return lambda row: Cell(f"{number(row, name):.0f}") if known(row, name) else Cell("")


def significant(name: str, digits: int = 3, per: float = 1.0) -> Maker:
    return lambda row: Cell(words.significant(number(row, name) / per, digits)) if known(row, name) else Cell("")


def between(name: str, show: Callable[[float], str]) -> Maker:
    """A value with its interval from the columns ``_low`` and ``_high``."""

    def make(row: "pd.Series[Any]") -> Cell:
        if not known(row, name):
            return Cell("")
        interval = ""
        if known(row, f"{name}_low") and known(row, f"{name}_high"):
            low, high = show(number(row, f"{name}_low")), show(number(row, f"{name}_high"))
            interval = f"{low}–{high}" if low != high else ""
        return Cell(show(number(row, name)), interval)

    return make


def number(row: "pd.Series[Any]", name: str) -> float:
    return float(row[name])  # type: ignore[arg-type]


def distinct(frame: pd.DataFrame, name: str) -> list[str]:
    """Values of a column in words, without blanks, in order of appearance."""
    if name not in frame:
        return []
    values: Iterable[object] = frame[name].dropna()
    shown = (f"{v:g}" if isinstance(v, float) else str(v) for v in values)
    return [v for v in dict.fromkeys(shown) if v]
