"""What the figures say, read from their SVG: text is kept as text."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from breakeven.figures import marks, words
from breakeven.figures.__main__ import render
from breakeven.figures.theme import styles
from breakeven.figures.ticks import doublings, labelled_sizes, log_ticks, size_limits
from breakeven.figures.view import View, read_table, view
from breakeven.scaling.breakeven import crossing
from breakeven.schema.errors import UserError
from tests.study_tables import BERT, Tables, published, two_cores


def view_of(tables: Tables, folder: Path) -> View:
    tables.write(folder)
    frames = [read_table(folder / "tables" / f"{name}.csv") for name in ("points", "efficiency", "breakeven")]
    return view(str(frames[1]["workload"].iloc[0]), *frames)


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_the_same_tables_give_the_same_bytes(tmp_path: Path) -> None:
    what = view_of(published(), tmp_path)
    assert render("time", what) == render("time", what)
    assert "<dc:date>" not in render("time", what)


def test_device_ticks_are_the_tested_sizes_as_plain_numbers(tmp_path: Path) -> None:
    shown = texts(render("efficiency", view_of(published(), tmp_path)))
    assert [t for t in shown if t in {str(n) for n, _, _ in BERT}] == ["4", "8", "16", "48", "64", "3472"]
    assert "H100-SXM devices" in shown


def test_speed_ups_start_on_the_ideal_line_and_efficiencies_at_one(tmp_path: Path) -> None:
    what = view_of(published(), tmp_path)
    against = "batch chosen per size · against 4 H100-SXM; other series "
    assert f"{against}start on the ideal line of this reference" in texts(render("time", what))
    assert f"{against}each against its own smallest size" in texts(render("efficiency", what))


def test_the_break_even_is_named_with_its_interval_and_crossing(tmp_path: Path) -> None:
    shown = texts(render("efficiency", view_of(published(), tmp_path)))
    assert "break-even 64 (48 to 64), crosses 0.70 near 28" in shown


def test_a_threshold_kept_everywhere_is_not_called_reached(tmp_path: Path) -> None:
    shown = texts(render("efficiency", view_of(two_cores(), tmp_path)))
    assert shown.count("break-even not reached up to 2") == 2


def test_weak_and_strong_scaling_have_panels_of_their_own(tmp_path: Path) -> None:
    shown = texts(render("efficiency", view_of(two_cores(), tmp_path)))
    assert "weak scaling: fixed batch per device" in shown
    assert "strong scaling: fixed global batch" in shown


@pytest.mark.parametrize("kind", ["time", "efficiency"])
def test_cpu_cores_are_never_called_anything_else(kind: str, tmp_path: Path) -> None:
    svg = render(kind, view_of(two_cores(), tmp_path))
    assert "CPU cores" in texts(svg)
    assert "gpu" not in svg.lower()


def test_a_size_without_a_time_is_marked_with_its_status(tmp_path: Path) -> None:
    what = view_of(two_cores(), tmp_path)
    assert "zero1: failed" in texts(render("time", what))


def test_one_size_and_no_time_at_all_are_drawn_too(tmp_path: Path) -> None:
    lone, dead = Tables("lone"), Tables("dead")
    core = {"scaling": "strong", "device": "CPU core"}
    lone.add("Tiny", "Tiny, ddp, strong", [(4, 0.01, "")], **core)
    dead.add("Tiny", "Tiny, ddp, strong", [(1, None, ""), (2, None, "")], status="oom", **core)
    assert "against 4 CPU cores" in " ".join(texts(render("time", view_of(lone, tmp_path / "lone"))))
    assert texts(render("efficiency", view_of(dead, tmp_path / "dead"))).count("oom") == 2


def test_published_results_carry_their_notice(tmp_path: Path) -> None:
    what = view_of(published(), tmp_path)
    assert "not verified by MLCommons Association" in " ".join(texts(render("efficiency", what, "mlperf")))
    assert "not verified" in " ".join(texts(render("efficiency", what)))
    assert "MLCommons" not in render("efficiency", what, "measured")


def test_ids_of_two_figures_never_meet(tmp_path: Path) -> None:
    what = view_of(published(), tmp_path)
    found = [set(re.findall(r'\bid="([^"]+)"', render(kind, what))) for kind in ("time", "efficiency")]
    assert found[0]
    assert not found[0] & found[1]


def test_every_reference_inside_a_figure_has_its_target(tmp_path: Path) -> None:
    svg = render("efficiency", view_of(published(), tmp_path))
    ids = set(re.findall(r'\bid="([^"]+)"', svg))
    assert set(re.findall(r'href="#([^"]+)"', svg)) | set(re.findall(r"url\(#([^)]+)\)", svg)) <= ids


def test_repeats_are_quoted_for_the_work_of_their_size(tmp_path: Path) -> None:
    tables = Tables("rates")
    tables.add(
        "Tiny", "Tiny, ddp, strong", [(1, 10.0, ""), (2, 5.0, "")], scaling="strong", device="CPU core", runs=(1, 1.1)
    )
    for point in tables.points:  # half the work in half the time: the same rate, so the same quoted time
        point["samples"], point["time_s"] = 500.0, float(str(point["time_s"])) / 2
    (curve,) = view_of(tables, tmp_path).curves
    assert curve.repeats["time_s"].tolist() == pytest.approx([10.0, 11.0, 5.0, 5.5])
    assert curve.repeats["efficiency"].tolist() == pytest.approx([1, 1 / 1.1, 1, 1 / 1.1])


def test_an_unknown_workload_names_the_known_ones(tmp_path: Path) -> None:
    tables = published()
    tables.write(tmp_path)
    frames = [read_table(tmp_path / "tables" / f"{name}.csv") for name in ("points", "efficiency", "breakeven")]
    with pytest.raises(UserError, match=r"No workload 'GPT'.*It has: BERT"):
        view("GPT", *frames)


def test_command_line_writes_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    published().write(tmp_path)
    tables = [f"--{name}={tmp_path}/tables/{name}.csv" for name in ("points", "efficiency", "breakeven")]
    output = tmp_path / "figures" / "bert" / "time.svg"
    command = [
        sys.executable,
        "-m",
        "breakeven.figures",
        "--kind=time",
        "--workload=BERT",
        *tables,
        f"--output={output}",
    ]
    subprocess.run(command, check=True)
    assert output.read_text().endswith("</svg>\n")
    assert list(output.parent.iterdir()) == [output]


def test_the_line_of_the_efficiency_runs_through_the_crossing(tmp_path: Path) -> None:
    tables = Tables("tiny")
    tables.add("Tiny", "Tiny, ddp, strong", [(1, 10.0, ""), (16, 5.0, "")], scaling="strong", device="CPU core")
    what = view_of(tables, tmp_path)
    axes = Figure().add_axes((0, 0, 1, 1))
    (curve,) = what.curves
    marks.curve(axes, curve.rows["devices"], curve.rows["efficiency"], styles(what.curves)[curve.series], points=25)
    x, y = axes.lines[0].get_data()
    meets = crossing(curve.sizes, curve.rows["efficiency"].tolist(), 0.7)
    assert float(np.interp(np.log(meets), np.log(x), y)) == pytest.approx(0.7, abs=0.002)


@pytest.mark.parametrize("kind", ["time", "efficiency"])
def test_every_tested_size_is_labelled_in_both_figures(kind: str, tmp_path: Path) -> None:
    shown = texts(render(kind, view_of(published(), tmp_path)))
    assert {str(n) for n, _, _ in BERT} <= set(shown)


@pytest.mark.parametrize("kind", ["time", "efficiency"])
def test_any_label_is_drawn_as_text(kind: str, tmp_path: Path) -> None:
    tables = Tables("odd")
    times = [(1, 10.0, "a\x07b"), (2, 5.2, "c\x00d")]
    tables.add("$x$ costs $5_3", "$x$ costs $5_3, d\x01p, strong", times, scaling="strong", device="CPU core")
    svg = render(kind, view_of(tables, tmp_path))
    assert any("$x$ costs $5_3" in text for text in texts(svg))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", svg)


@pytest.mark.parametrize("kind", ["time", "efficiency"])
def test_devices_that_nobody_named_are_just_devices(kind: str, tmp_path: Path) -> None:
    tables = Tables("my-timings")
    tables.add("my-timings", "my-timings, strong", [(4, 10.0, ""), (8, 5.2, "")], scaling="strong", device="device")
    shown = texts(render(kind, view_of(tables, tmp_path)))
    assert "devices" in shown
    assert "my-timings" in shown
    assert "against 4 devices" in " ".join(shown)
    assert "device device" not in " ".join(shown)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "", "is empty"),
        (lambda text: text[: text.index("efficiency_low")], "is missing"),
        (lambda text: text + 'mlperf,"BERT', "is damaged"),
        (lambda text: text + "mlperf,BERT,more\n", "no number of devices"),
        (lambda text: text.replace("10.188", "x").replace("611.28", "x"), "time_s must be a number; found"),
        (lambda text: "\0\0\0", "is missing"),
    ],
)
def test_a_damaged_table_is_named(damage: Callable[[str], str], message: str, tmp_path: Path) -> None:
    path = published().write(tmp_path) / "tables" / "efficiency.csv"
    path.write_text(damage(path.read_text()))
    with pytest.raises(UserError, match=message) as raised:
        read_table(path)
    assert str(path) in str(raised.value)


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    path = published().write(tmp_path) / "tables" / "points.csv"
    path.write_bytes(path.read_bytes().replace(b"Clemson", b"Cl\xed\xa0\x80\x00mson"))
    assert "\N{REPLACEMENT CHARACTER}" in "".join(read_table(path)["label"])


def test_short_names_leave_out_what_stands_beside_them(tmp_path: Path) -> None:
    names = [c.name for c in view_of(published(), tmp_path).curves]
    assert names == ["best submission per size", "NVIDIA", "Lambda", "Dell"]


def test_ticks() -> None:
    assert log_ticks(0.1, 10) == pytest.approx([0.1, 0.2, 0.5, 1, 2, 5, 10])
    assert doublings(0.9, 9) == [1, 2, 4, 8]
    assert log_ticks(5.16, 5.31) == [5.2, 5.25, 5.3]
    assert labelled_sizes([4, 48, 64, 3472], 2.0, 3, 5000) == [4, 64, 3472]


@given(st.floats(1e-3, 1e6), st.floats(1.001, 1e3), st.integers(5, 11))
def test_an_axis_has_two_ticks_at_least_and_they_lie_on_it(low: float, reach: float, at_most: int) -> None:
    ticks = log_ticks(low, low * reach, at_most)
    assert len(ticks) >= 2
    assert len({words.tick(t) for t in ticks}) >= 2
    assert all(low * (1 - 1e-6) <= t <= low * reach * (1 + 1e-6) for t in ticks)


@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=12), st.floats(1, 8))
def test_labelled_sizes_keep_both_ends_apart_and_were_tested(sizes: list[int], width_in: float) -> None:
    low, high = size_limits(sizes)
    assert low < min(sizes) <= max(sizes) < high
    labels = labelled_sizes(sizes, width_in, low, high)
    assert labels[0] == min(sizes)
    assert set(labels) <= set(sizes)


def test_words() -> None:
    assert words.devices_word(["CPU core"]) == "CPU cores"
    assert words.devices_word(["H100-SXM", "H100-SXM"]) == "H100-SXM devices"
    assert words.devices_word(["CPU core"], 1) == "CPU core"
    assert words.devices_word(["device"]) == "devices"
    assert words.count_of("CPU core", 1) == "1 CPU core"
    assert words.count_of("device", 4) == "4 devices"
    assert words.work(60597.0, "tokens") == "60,597 tokens"
    assert words.work(0.5, "work units") == "0.5 work units"
    assert words.time_unit([611.3, 323.7, 197.3, 80.0, 53.9, 7.14]) == (60.0, "min")
    assert [words.significant(v) for v in (0.0988, 5.394, 85.42, 6130.4)] == ["0.0988", "5.39", "85.4", "6130"]


def test_rounding_never_lifts_a_value_over_the_threshold() -> None:
    assert words.efficiency(0.698, 0.7) == "0.698"
    assert words.efficiency(0.6999, 0.7) == "0.6999"
    assert words.efficiency(0.7049, 0.7) == "0.70"
    assert words.efficiency(0.0042) == "0.004"
