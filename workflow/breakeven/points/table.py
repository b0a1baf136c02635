"""Tables of points: their columns, reading and writing, and the refusal to mix what must not be mixed."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.point import HOMOGENEOUS, POINT_COLUMNS, Point

TEXT = ("study", "workload", "series", "scaling", "device", "status", "unit", "aggregate", "label", "source",
        "device_model", "driver", "torch_version", "step_rate_note")  # fmt: skip


def points_frame(points: Iterable[Point]) -> pd.DataFrame:
    return pd.DataFrame(
        [{name: getattr(point, name) for name in POINT_COLUMNS} for point in points], columns=POINT_COLUMNS
    )


def read_points(path: Path) -> pd.DataFrame:
    """points.csv as written by ``write_points``: empty text cells are empty strings, empty numbers NaN."""
    return read_table(path, POINT_COLUMNS, TEXT)


def each_run_once(points: pd.DataFrame) -> pd.DataFrame:
    """Points less the further ones of a run that stands in several series. One without a source is a run of its own."""
    again = points.duplicated(["label", "source", "devices", "repeat"])
    return points[~again | points["source"].fillna("").eq("")]


def read_table(path: Path, columns: Sequence[str], text: Sequence[str]) -> pd.DataFrame:
    """A table that another rule wrote. Raises UserError naming a file that is missing, damaged or another table."""
    try:
        # index_col: where rows are longer than the header, pandas takes their first column for an index
        frame = pd.read_csv(path, dtype=dict.fromkeys(text, "string"), index_col=False)
    except (OSError, ValueError) as error:  # what pandas finds wrong with a table is a ValueError
        raise UserError(f"{path}: not a readable table ({error}). Delete it: snakemake makes it again.") from None
    if missing := [name for name in columns if name not in frame]:
        raise UserError(f"{path}: no column '{missing[0]}' in it. Delete it: snakemake makes it again.")
    for column in text:
        frame[column] = frame[column].fillna("").astype(object)
    return frame


def write_points(frame: pd.DataFrame, path: Path) -> None:
    """Raises UserError where a series mixes machines or software (``refuse_mixtures``)."""
    refuse_mixtures(frame)
    write_text(path, frame[POINT_COLUMNS].to_csv(index=False))


def refuse_mixtures(frame: pd.DataFrame) -> None:
    """A curve over two device models, drivers, torch versions or power limits shows their mixture, not scaling."""
    for name, series in frame.groupby("series", sort=False):
        for column in HOMOGENEOUS:
            # Rows that do not say are taken to agree: a table of one's own need not know every fact.
            known = series[series[column].notna() & (series[column] != "")]
            groups = known.groupby(column, sort=True)
            if groups.ngroups > 1:
                listed = "; ".join(f"{value} ({_sources(group)})" for value, group in groups)
                raise UserError(
                    f"series '{name}' mixes {column}: {listed}. "
                    "One series is one device model, driver, torch version and power limit: "
                    "measure the odd ones again, or make them a series of their own."
                )


def _sources(group: pd.DataFrame) -> str:
    sources = list(dict.fromkeys(group["source"]))
    return ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
