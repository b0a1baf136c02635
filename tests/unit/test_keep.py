"""An expanded study is kept, so that a batch job does not expand it again, and only as long as it is true."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from breakeven.head import keep, plan
from breakeven.head.keep import Kept
from breakeven.head.plan import Plan, make_plan
from breakeven.head.study import StudyPlan

STUDY: dict[str, Any] = {
    "source": "measured",
    "title": "t",
    "platform": "four",
    "workload": {"model": "llama", "data": {"file": "mine.jsonl"}},
    "defaults": {"global_batch": 8},
    "sweeps": {
        "ddp": {"grid": {"devices": "auto", "precision": ["fp32", "bf16"]}},
        "split": {"cases": [{"strategy": "fsdp*tp", "degrees": {"tp": 2}}, {"devices": 2, "learning_rate": 0.1}]},
    },
}
KEPT = Path("results/.plan/s.json")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config/studies").mkdir(parents=True)
    Path("config/platforms").mkdir()
    Path("config/config.yaml").write_text("studies: [s]\n")
    write_study()
    write_platform(4)
    Path("mine.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')


def write_study(**changes: Any) -> None:
    Path("config/studies/s.yaml").write_text(yaml.safe_dump(STUDY | changes, sort_keys=False))


def write_platform(cores: int) -> None:
    Path("config/platforms/four.yaml").write_text(
        f"title: four\ndevice_kind: cpu\ndevice_model: a CPU\ndevices_per_node: {cores}\n"
    )


def planned(*, writes: bool = True) -> Plan:
    return make_plan({"studies": ["s"]}, kept=Kept(KEPT.parent, writes))


@pytest.fixture
def expanded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the studies that are expanded from here on."""
    names: list[str] = []
    expand = plan.expand

    def noted(entry: str, name: str, *rest: Any) -> StudyPlan:
        names.append(name)
        return expand(entry, name, *rest)

    monkeypatch.setattr(plan, "expand", noted)
    return names


def test_what_is_kept_is_what_was_expanded(expanded: list[str]) -> None:
    first, second = planned(), planned(writes=False)
    assert expanded == ["s"]
    assert second.specs == first.specs
    assert [second.spec_json(run) for run in second.specs] == [first.spec_json(run) for run in first.specs]
    assert second.studies["s"].cells == first.studies["s"].cells
    assert second.data_arguments(next(iter(second.data_runs()))) == first.data_arguments(next(iter(first.data_runs())))
    assert second.studies["s"].document["settings"] == first.studies["s"].document["settings"]


def test_a_job_writes_nothing() -> None:
    planned(writes=False)
    assert not KEPT.exists()


CHANGES: dict[str, Callable[[], Any]] = {
    "the study": lambda: write_study(title="another"),
    "the platform": lambda: write_platform(2),
    "the data's size": lambda: Path("mine.jsonl").write_text('{"text": "one"}\n'),
    "the data's date": lambda: os.utime("mine.jsonl", ns=(0, 1)),
    "a byte of what is kept": lambda: KEPT.write_text(KEPT.read_text().replace('"seed":0', '"seed":1', 1)),
    "the end of what is kept": lambda: KEPT.write_text(KEPT.read_text()[:-100]),
    "nothing left of it": lambda: KEPT.write_text(""),
    "no text": lambda: KEPT.write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_anything_it_is_made_of_expands_anew(change: str, expanded: list[str]) -> None:
    planned()
    CHANGES[change]()
    planned()
    assert expanded == ["s", "s"]
    planned()
    assert expanded == ["s", "s"]


def test_another_version_of_the_code_expands_anew(expanded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    planned()
    monkeypatch.setattr(keep, "code_digest", lambda: "another")
    planned()
    assert expanded == ["s", "s"]


def test_a_folder_that_cannot_be_written_to_stops_no_plan() -> None:
    Path("results").write_text("a file where the folder should be")
    assert planned().specs
