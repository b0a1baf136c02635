"""A strategy of one's own is one file: it is planned, measured and held to one device's losses without another edit."""

import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.conftest import copy_project, run_snakemake

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores"),
]

#: The document's own example, so that what it shows is what was run.
DOCUMENT = Path(__file__).parents[2] / "docs/strategies.md"
OWN = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)[0]

STUDY = {
    "source": "measured",
    "title": "A strategy of one's own",
    "workload": {
        "model": "resnet",
        "config": {
            "norm": "group",
            "embedding_size": 16,
            "hidden_sizes": [16, 32],
            "depths": [1, 1],
            "layer_type": "basic",
        },
        "image_size": 16,
    },
    "defaults": {"global_batch": 16, "updates": 8, "min_warmup": 2, "optimizer": "sgd", "learning_rate": 0.005},
    "sweeps": {
        "baseline": {"cases": [{"strategy": "single", "devices": 1}]},
        "own": {
            "cases": [
                {"strategy": "by_hand", "devices": 2},
                {"strategy": "by_hand", "devices": 2, "strategy_options": {"pause": True}},
            ]
        },
    },
    "repeats": 1,
}


def files(project: Path) -> dict[Path, bytes]:
    package = project / "workflow"
    return {path: path.read_bytes() for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the file, and a study that asks for it; no file that was there is another."""
    found = copy_project(tmp_path_factory.mktemp("own"))
    before = files(found)
    (found / "workflow/breakeven/strategies/by_hand.py").write_text(OWN)
    assert {path: content for path, content in files(found).items() if path in before} == before
    (found / "config/studies/own.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    (found / "config/config.yaml").write_text("studies: [own]\n")
    return found


def test_it_is_planned_and_its_mistakes_are_told(project: Path) -> None:
    plan = run_snakemake(project, "-n")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    assert re.search(r"measure_run +3\n", plan.stdout), plan.stdout
    study = yaml.safe_load((project / "config/studies/own.yaml").read_text())
    study["sweeps"]["own"] = {"cases": [{"strategy": "by_hand*ddp", "devices": 2}]}
    (project / "config/studies/wrong.yaml").write_text(yaml.safe_dump(study))
    refused = run_snakemake(project, "-n", "--config", "studies=[wrong]")
    assert refused.returncode != 0
    assert "split the same thing (data)" in refused.stdout + refused.stderr


def test_one_that_lacks_a_part_is_refused_by_its_file_before_anything_runs(project: Path) -> None:
    half = project / "workflow/breakeven/strategies/half.py"
    study = STUDY | {"sweeps": {"own": {"cases": [{"strategy": "half", "devices": 2}]}}}
    (project / "config/studies/half.yaml").write_text(yaml.safe_dump(study))
    for text, words in (
        (OWN.replace("by_hand", "half").replace("def state", "def stat"), "half.py: has no function 'state'"),
        (OWN[: OWN.index("META")] + "def (", "half.py is no strategy: no line of it begins with 'META ='"),
        (OWN + "\ndef (", "half.py: cannot be read (SyntaxError"),
    ):
        half.write_text(text)
        refused = run_snakemake(project, "-n", "--config", "studies=[half]")
        assert refused.returncode != 0
        assert f"strategies/{words}" in refused.stdout + refused.stderr
    half.unlink()


@pytest.mark.slow
def test_it_is_measured_and_trains_as_one_device_does(project: Path) -> None:
    answer = run_snakemake(project)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    same = pd.read_csv(project / "results/studies/own/tables/equivalence.csv")
    own = same[same["strategy"] == "by_hand"]
    assert len(own) == 2
    assert (own["max_abs_loss_difference"] <= 1e-5).all()
    records = [json.loads(path.read_text()) for path in project.glob("results/runs/*by_hand*/r1/record.json")]
    assert len(records) == 2
    for record in records:
        assert record["status"] == "ok"
        assert record["state_bytes"] == record["expected_state_bytes"]
