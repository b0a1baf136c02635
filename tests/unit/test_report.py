"""The page: self-contained, the answer first, nothing hidden, nothing that changes by itself."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from breakeven.figures.__main__ import render as draw
from breakeven.figures.view import read_table, view, workloads
from breakeven.report.page import render
from breakeven.report.study import read_studies
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.spec import slug
from tests.study_tables import Tables, published, two_cores, write_round

ERROR = 'RuntimeError: <script>alert("x")</script> & gone'


def study_folder(tables: Tables, folder: Path) -> Path:
    """Tables and figures, as the rules leave them."""
    tables.write(folder)
    frames = [read_table(folder / "tables" / f"{name}.csv") for name in ("points", "efficiency", "breakeven")]
    for workload in workloads(frames[1]):
        for kind in ("time", "efficiency"):
            svg = draw(kind, view(workload, *frames))
            write_text(folder / "figures" / slug(workload) / f"{kind}.svg", svg)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    results = tmp_path_factory.mktemp("results")
    write_round(results)
    return {t.study: study_folder(t, results / "studies" / t.study) for t in (published(), two_cores(ERROR))}


@pytest.fixture(scope="module")
def page(folders: dict[str, Path]) -> str:
    return render(read_studies(list(folders.items()), {}))


@pytest.fixture(scope="module")
def cpu_page(folders: dict[str, Path]) -> str:
    return render(read_studies([("images-quick", folders["images-quick"])], {}))


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text of the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    tags = Elements(page).tags
    assert not {"script", "link", "iframe", "img", "object", "embed", "base"} & {tag for tag, _ in tags}
    for tag, attributes in tags:
        assert "src" not in attributes
        if tag != "a":
            assert all(v.startswith("#") for k, v in attributes.items() if k.endswith("href"))
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)'\"]*)", page))
    assert "@import" not in page


def test_the_answer_stands_before_the_first_figure(page: str) -> None:
    assert page.index("64 is the largest size tested that keeps at least 0.70") < page.index("<figure>")
    assert page.index("MobileNetV2 on CPU cores (ddp, strong scaling, against ddp on 1 CPU core)") < page.index(
        "<figure>"
    )
    assert page.count("<figure>") == 4


def test_ids_are_unique_over_all_figures(page: str) -> None:
    ids = [attributes["id"] for _, attributes in Elements(page).tags if "id" in attributes]
    assert len(ids) > 100
    assert len(ids) == len(set(ids))


def test_links_inside_the_page_arrive(page: str) -> None:
    tags = Elements(page).tags
    ids = {attributes["id"] for _, attributes in tags if "id" in attributes}
    assert {a["href"][1:] for tag, a in tags if tag == "a" and a["href"].startswith("#")} <= ids


def test_a_failed_run_is_shown_with_rank_error_and_log(page: str) -> None:
    assert "<script" not in page
    assert "RuntimeError: &lt;script&gt;" in page
    assert ERROR in Elements(page).text
    assert "results/runs/x/r0/run.log" in page


def test_a_study_on_cores_never_says_gpu(cpu_page: str) -> None:
    assert "gpu" not in cpu_page.lower()
    assert "MLCommons" not in cpu_page
    assert "Core-hours" in cpu_page


def test_mixed_measure_versions_are_noted(cpu_page: str) -> None:
    assert "Mixed measure versions: 1 and 2." in cpu_page


def test_platform_and_idle_check(cpu_page: str) -> None:
    text = Elements(cpu_page).text
    assert "2.11.0" in text
    assert "7 of 7 runs started on an idle machine; busiest moment 0.040 cores used by others" in text


def test_the_card_does_not_sell_the_largest_size_as_the_optimum(cpu_page: str) -> None:
    verdict = re.sub(r"<[^>]*>", "", re.findall(r'<p class="verdict">.*</p>', cpu_page)[0])
    assert verdict == "not reached up to 2 CPU cores, the largest size tested, which still keeps an efficiency of 0.70"


def test_one_core_is_no_cores(tmp_path: Path) -> None:
    tables = Tables("tiny")
    tables.add("Tiny", "Tiny, ddp, strong", [(1, 2.0, ""), (2, 1.9, "")], scaling="strong", device="CPU core")
    tables.break_even("Tiny", "Tiny, ddp, strong", 1, crossing=1.5)
    page = render(read_studies([("tiny", study_folder(tables, tmp_path))], {}))
    assert "<b>1</b> <span>CPU core, the largest size tested that keeps an efficiency of 0.70" in page
    assert "1 CPU cores" not in Elements(page).text


def test_times_say_what_they_are_times_of(page: str, tmp_path: Path) -> None:
    assert "Time to target" in page
    assert "Time for one pass over the data (1,437 samples)" in page
    tables = Tables("my-timings")
    tables.add("my-timings", "my-timings, strong", [(1, 2.0, ""), (2, 1.1, "")], scaling="strong", device="device")
    for row in tables.points:
        row["target_work"] = None
    own = render(read_studies([("my-timings", study_folder(tables, tmp_path))], {}))
    assert "Time for 1,000 samples" in own
    assert "device device" not in own


def test_what_failed_lists_injected_faults_and_runs_never_measured(tmp_path: Path) -> None:
    tables = two_cores()
    runs = tables.others["runs"]
    tables.others["runs"] = runs[runs["status"] == "ok"].assign(faults=["nan_loss", *[""] * 5])
    tables.points = [p for p in tables.points if p["status"] == "ok"]
    tables.points[0] |= {"status": "not_measured", "time_s": None, "label": "away", "source": "skipped: no such GPU"}
    tables.points[1] |= {
        "status": "not_measured",
        "time_s": None,
        "label": "gone",
        "source": "results/runs/x/record.json",
    }
    page = Elements(render(read_studies([("images-quick", study_folder(tables, tmp_path))], {}))).text
    assert "Nothing: every run ended ok" not in page
    assert "faults injected on purpose: nan_loss" in page
    assert "skipped: no such GPU" in page
    assert "no record" in page
    assert "2 of 15 runs gave no time (not measured)." in page


def test_equivalence_is_shown(cpu_page: str) -> None:
    assert "2.4e-07" in cpu_page


def test_published_results_are_attributed_and_marked_unverified(page: str) -> None:
    text = Elements(page).text
    assert "The MLPerf name and logo are registered and unregistered trademarks of MLCommons Association" in text
    assert "unverified: not verified by MLCommons Association" in text


def test_the_same_input_gives_the_same_bytes(folders: dict[str, Path], page: str) -> None:
    assert render(read_studies(list(folders.items()), {})) == page


def test_a_workload_named_like_markup_is_only_text(tmp_path: Path) -> None:
    tables = Tables("odd")
    tables.add("<b>x</b>", "<b>x</b>, ddp, strong", [(1, 2.0, ""), (2, 1.1, "")], scaling="strong", device="CPU core")
    page = render(read_studies([("odd", study_folder(tables, tmp_path))], {}))
    assert "<b>x</b>" not in page


def test_a_missing_figure_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"figures/bert/time\.svg: no such figure"):
        render(read_studies([("mlperf-v4.1", published().write(tmp_path))], {}))


def test_a_study_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="odd: given twice"):
        read_studies([("odd", tmp_path), ("odd", tmp_path)], {})


def command(plan: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    outputs = [f"--page={folder / 'report.html'}", f"--answer={folder / 'answer.txt'}"]
    arguments = [sys.executable, "-m", "breakeven.report", "--plan", str(plan), *outputs]
    return subprocess.run(arguments, capture_output=True, text=True)


def test_command_line_with_plans(folders: dict[str, Path], tmp_path: Path) -> None:
    plan = {
        "study": "mlperf-v4.1",
        "title": "MLPerf Training v4.1 on H100",
        "source": "mlperf",
        "settings": {"round": "v4.1", "family": "H100-SXM", "workloads": {"llama2_70b_lora": "BERT"}},
        "machine": None,
    }
    path = folders["mlperf-v4.1"] / "plan.json"
    path.write_text(json.dumps(plan))
    done = command(path, tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    assert "MLPerf Training v4.1 on H100" in page
    assert "The two agree on 1 of 2 result sets that have both" in page
    assert "result_1.txt: a damaged line" in page
    assert "results/mlperf/v4.1/anomalies.csv" in page
    assert "the samples needed double at a global batch of 41.1" in page


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("", "not a readable plan"),
        ("{", "not a readable plan"),
        ("[]", "not a study's plan"),
        ('{"study": "x", "title": "x"}', "not a study's plan (no 'source' in it)"),
        ('{"study": "x", "title": "x", "source": "hearsay"}', "source 'hearsay' is unknown"),
    ],
)
def test_a_damaged_plan_is_one_message(plan: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan)
    done = command(tmp_path / "plan.json", tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path}/plan.json: {message}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_lone_surrogate_in_a_title_does_not_stop_the_page(folders: dict[str, Path], tmp_path: Path) -> None:
    plan = folders["mlperf-v4.1"] / "plan.json"
    plan.write_text('{"study": "mlperf-v4.1", "title": "a\\ud800b\\u0000c", "source": "mlperf"}')
    done = command(plan, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c" in (tmp_path / "report.html").read_text()


def test_a_user_mistake_is_one_message(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"study": "none", "title": "none", "source": "points"}')
    done = command(plan, tmp_path)
    assert done.returncode == 2
    assert "no such table" in done.stderr
    assert "Traceback" not in done.stderr
