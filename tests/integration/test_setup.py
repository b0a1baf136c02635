"""The set-up script: a site's own torch is kept, and a second call does nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def set_up(venv: Path) -> str:
    command = [sys.executable, str(ROOT / "envs/setup.py"), "--venv", str(venv)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_an_interpreter_that_has_torch_keeps_it_and_gets_everything_else_of_its_own(tmp_path: Path) -> None:
    import torch

    venv = tmp_path / "venv"
    said = set_up(venv)
    assert f"using torch {torch.__version__}" in said
    code = "import torch, pandas, transformers; print(torch.__file__, pandas.__file__, transformers.__file__)"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run([venv / "bin/python", "-c", code], check=True, capture_output=True, text=True, env=env)
    of_torch, of_pandas, of_transformers = map(Path, run.stdout.split())
    assert of_torch == Path(torch.__file__)
    assert of_pandas.is_relative_to(venv)
    assert of_transformers.is_relative_to(venv)
    assert set_up(venv) == ""
