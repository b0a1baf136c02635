"""The page in a real browser, from a file, without a network: nothing is wider than the screen."""

import os
import re
import shutil
import struct
import subprocess
from html import escape
from pathlib import Path

import pytest

from breakeven.figures.__main__ import render as draw
from breakeven.figures.__main__ import render_settings
from breakeven.figures.view import read_table, view, workloads
from breakeven.report.page import render
from breakeven.report.study import read_studies
from breakeven.schema.files import write_text
from breakeven.schema.spec import slug
from tests.study_tables import published, with_settings

pytestmark = [pytest.mark.slow, pytest.mark.integration]

WIDTHS = (1280, 390)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # no proxy answers: the page has to do without a network
    *("--disable-quic", "--proxy-server=127.0.0.1:9"),
]
#: Writes what the browser laid out into the outer page, where --dump-dom can read it.
PROBE = """<script>
const wide = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && e.getClientRects().length
  && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + "." + e.className);
const root = document.documentElement, labels = document.querySelectorAll("figure svg text").length;
top.document.body.setAttribute("data-probe", [innerWidth, root.scrollWidth, labels, wide.join(" ")].join("|"));
</script>"""


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is missing, and CI must look at the page: apt-get install chromium")
        pytest.skip("needs chromium")
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("page")
    named = []
    for tables in (published(), with_settings("RuntimeError: " + "a_very_long_name_without_a_break" * 8)):
        folder = tables.write(root / tables.study)
        frames = [read_table(folder / "tables" / f"{name}.csv") for name in ("points", "efficiency", "breakeven")]
        for workload in workloads(frames[1]):
            for kind in ("time", "efficiency"):
                write_text(folder / "figures" / slug(workload) / f"{kind}.svg", draw(kind, view(workload, *frames)))
            if "comparison" in tables.others:
                compared = read_table(folder / "tables" / "comparison.csv")
                write_text(folder / "figures" / slug(workload) / "settings.svg", render_settings(workload, compared))
        named.append((tables.study, folder))
    html = render(read_studies(named, {}))
    write_text(root / "report.html", html)
    probed = html.replace("<details>", "<details open>").replace("</body>", f"{PROBE}</body>")
    for width in WIDTHS:  # a frame, because a headless window is never narrower than 500 pixels
        frame = f'<iframe style="width:{width}px;height:1600px;border:0" srcdoc="{escape(probed)}"></iframe>'
        write_text(root / f"probed-{width}.html", f"<!DOCTYPE html><body>{frame}</body>")
    return root / "report.html"


def browse(chromium: str, page: Path, width: int, *flags: str) -> str:
    profile = page.parent / f"profile-{page.stem}-{width}"
    size = f"--window-size={width},1600"
    command = [chromium, *FLAGS, f"--user-data-dir={profile}", size, *flags, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(chromium: str, page: Path, width: int) -> None:
    dom = browse(chromium, page.with_name(f"probed-{width}.html"), width, "--dump-dom")
    probed = re.search(r'data-probe="([^"]*)"', dom)
    assert probed, dom[:500]
    inner, content, labels, wide = probed[1].split("|")
    assert int(inner) == width
    assert int(content) <= width, wide
    assert wide == ""
    assert int(labels) > 40


@pytest.mark.parametrize("width", WIDTHS)
def test_a_screenshot_of_the_page_as_it_is(chromium: str, page: Path, width: int) -> None:
    shot = page.with_name(f"{width}.png")
    browse(chromium, page, width, f"--screenshot={shot}")
    content = shot.read_bytes()
    assert struct.unpack(">I", content[16:20])[0] == width
    assert len(content) > 30_000  # an empty page of this size is a few kilobytes
