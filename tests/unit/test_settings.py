"""The figure of settings and its place on the page: what is compared with what, and what could not be."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.transforms import Bbox

from breakeven.figures import settings_figure
from breakeven.figures.__main__ import render, render_settings
from breakeven.figures.kinds import kinds
from breakeven.figures.theme import theme
from breakeven.figures.view import LEGIBLE, read_table, view, workloads
from breakeven.report.page import render as page_of
from breakeven.report.settings import data_bound, setting_tables
from breakeven.report.study import read_studies
from breakeven.report.tables import accuracy_table, same_work_sentence
from breakeven.schema.files import write_text
from breakeven.schema.spec import slug
from tests.study_tables import Tables, with_settings

WORKLOAD = "MobileNetV2"


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.fixture
def comparison(tmp_path: Path) -> pd.DataFrame:
    return read_table(with_settings().write(tmp_path) / "tables" / "comparison.csv")


def test_a_panel_names_its_setting_what_it_is_against_and_its_values(comparison: pd.DataFrame) -> None:
    shown = texts(render_settings(WORKLOAD, comparison, "CPU core"))
    assert {"precision", "against fp32; ddp", "bf16", "synthetic", "against off; ddp", "on"} <= set(shown)
    assert {"1 CPU core", "2 CPU cores"} <= set(shown)
    assert "fp32" not in shown  # the baseline is the line at 1, and no line of its own


def test_a_value_that_is_unsupported_everywhere_is_told_once(comparison: pd.DataFrame) -> None:
    assert texts(render_settings(WORKLOAD, comparison)).count("unsupported") == 1
    comparison.loc[(comparison["value"] == "tf32") & (comparison["devices"] == 2), "status"] = "oom"
    shown = texts(render_settings(WORKLOAD, comparison))
    assert (shown.count("unsupported"), shown.count("oom")) == (1, 1)


def test_the_dots_stand_at_the_speed_ups(comparison: pd.DataFrame) -> None:
    with theme():
        figure = settings_figure.draw(WORKLOAD, comparison)
    (precision, _) = figure.axes
    dots = sorted(float(line.get_xdata()[0]) for line in precision.lines if line.get_marker() in ("o", "s"))
    # one and two devices of the headline, and the same at 300 pixels behind them
    assert dots == pytest.approx([0.25, 0.4, 0.4, 0.5])


def test_without_a_pair_to_compare_the_figure_says_so(comparison: pd.DataFrame) -> None:
    shown = " ".join(texts(render_settings(WORKLOAD, comparison.iloc[:0])))
    assert "No two runs of the study differ in one setting alone." in shown


def test_legend_and_panels_of_many_settings_keep_clear_of_each_other(comparison: pd.DataFrame) -> None:
    many = pd.concat([comparison.assign(setting=f"{name} of a long name") for name in "abcdefg"], ignore_index=True)
    many.loc[many["value"] == "bf16", "value"] = "a value with a name that is far too long for its room"
    with theme():
        figure = settings_figure.draw(WORKLOAD, many, "NVIDIA H100 80GB HBM3")
        figure.canvas.draw()
        panels = [axes.get_tightbbox() for axes in figure.axes if axes.axison]
        legend = [one.get_window_extent() for one in figure.legends]
        lines = [text.get_window_extent() for text in figure.texts]
        width, height = figure.canvas.get_width_height()
    assert len(panels) == 7
    assert not any(Bbox.intersection(a, b) for at, a in enumerate(panels) for b in panels[at + 1 :])
    stacked = [*lines[:2], Bbox.union(panels), *legend, *lines[2:]]
    assert all(upper.y0 >= lower.y1 - 1 for upper, lower in pairwise(stacked))
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in stacked)


def test_only_a_study_that_varies_a_setting_has_the_figure() -> None:
    assert "settings" not in kinds("measured")
    assert kinds("measured", settings=True) == ("time", "efficiency", "settings")
    assert "settings" not in kinds("mlperf", 2)


def test_command_line(tmp_path: Path) -> None:
    table = with_settings().write(tmp_path) / "tables" / "comparison.csv"
    output = tmp_path / "settings.svg"
    command = [sys.executable, "-m", "breakeven.figures", "--kind=settings", f"--workload={WORKLOAD}"]
    done = subprocess.run([*command, f"--output={output}"], capture_output=True, text=True)
    assert (done.returncode, "--comparison" in done.stderr) == (2, True)
    subprocess.run([*command, f"--comparison={table}", "--device=CPU core", f"--output={output}"], check=True)
    assert "2 CPU cores" in texts(output.read_text())


@pytest.mark.parametrize("kind", ["time", "efficiency"])
def test_more_series_than_colours_leave_the_curves_or_the_headline_alone(kind: str, tmp_path: Path) -> None:
    core = {"scaling": "strong", "device": "CPU core"}

    def drawn(curves: int) -> list[str]:
        tables = Tables("many")
        for at in range(LEGIBLE + 1):
            sizes = [(1, 10.0, ""), (2, 6.0, "")][: 2 if at < curves else 1]
            tables.add("M", f"M, ddp, v{at}, strong", sizes, headline=at == 1, **core)
        tables.write(tmp_path)
        frames = [read_table(tmp_path / "tables" / f"{name}.csv") for name in ("points", "efficiency", "breakeven")]
        return [t for t in texts(render(kind, view("M", *frames))) if t.startswith("ddp")]

    assert drawn(2) == ["ddp, v1", "ddp, v0"]
    assert drawn(LEGIBLE + 1) == ["ddp, v1"]


def test_the_synthetic_twin_is_told_in_a_sentence(comparison: pd.DataFrame) -> None:
    assert data_bound(comparison, WORKLOAD, "CPU core").startswith(
        "Due to data, of the step time of ddp: 20 % on 1 CPU core (95 % interval 17 to 23 %) and 20 % on 2 CPU cores "
        "(17 to 23 %). That is 1 − t(synthetic) / t(real)"
    )
    assert data_bound(comparison[comparison["setting"] != "synthetic"], WORKLOAD, "CPU core") == ""


def test_the_tables_keep_every_value_with_its_status(comparison: pd.DataFrame) -> None:
    precision, synthetic = setting_tables(comparison, WORKLOAD, "CPU core")
    assert (precision.caption, synthetic.caption) == ("precision", "synthetic")
    rows = [[cell.text for cell in row] for row in precision.rows]
    assert len(rows) == 8
    assert ["unsupported" in row for row in rows].count(True) == 2
    assert any("0.250" in row for row in rows)


def test_the_page_has_the_figure_the_tables_and_a_short_list_of_what_is_not_supported(tmp_path: Path) -> None:
    folder = with_settings().write(tmp_path)
    frames = [read_table(folder / "tables" / f"{name}.csv") for name in ("points", "efficiency", "breakeven")]
    for workload in workloads(frames[1]):
        for kind in ("time", "efficiency"):
            write_text(folder / "figures" / slug(workload) / f"{kind}.svg", render(kind, view(workload, *frames)))
        compared = read_table(folder / "tables" / "comparison.csv")
        write_text(folder / "figures" / slug(workload) / "settings.svg", render_settings(workload, compared))
    page = page_of(read_studies([("images-quick", folder)], {}))
    text = re.sub(r"<[^>]*>", " ", page)
    assert page.count("<figure>") == 3
    assert "--kind settings --workload MobileNetV2" in text
    assert "Due to data, of the step time of ddp" in text
    assert "Not supported here" in text
    cannot = re.findall(r"tf32: a CPU has none</td>\s*<td[^>]*>(\d+)</td>\s*<td[^>]*>([^<]*)<", page)
    assert cannot == [("2", "s1; s2")]
    assert text.count("RuntimeError: loss is &lt;nan&gt; &amp; gone") == 1


def test_accuracy_is_told_per_series_with_how_many_runs_reached_the_target() -> None:
    runs = pd.DataFrame({
        "series": ["a", "a", "b"], "devices": [2, 2, 1], "accuracy": [0.97, 0.99, None],
        "accuracy_best": [0.98, 0.99, None],
        "epochs_to_target": [None, 12.0, None], "time_to_target_s": [None, 30.0, None],
    })  # fmt: skip
    (row,) = accuracy_table(runs).rows
    assert [cell.text for cell in row] == ["a", "2", "2", "98.0", "98.5", "1", "12.0", "30.0"]


def test_the_largest_difference_of_losses_that_is_not_by_design_is_told() -> None:
    table = pd.DataFrame({
        "max_abs_loss_difference": [2.4e-7, 0.2, None],
        "note": ["", "bf16 rounds otherwise: losses differ by design", "no"],
    })  # fmt: skip
    assert same_work_sentence(table) == "2 runs are compared; the largest difference that is not by design is 2.4e-07."
