"""What several tests share: a copy of the project to run Snakemake in, and the way to run it."""

import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
#: What a working copy needs to run the workflow; results and environments stay behind.
PARTS = ("Snakefile", "config", "workflow", "profiles", "envs")

# On a busy machine any single example may take long; that is no defect.
settings.register_profile("breakeven", deadline=None)
settings.load_profile("breakeven")

# Tests send Ctrl-C to what they start, and a background job of a script inherits it as ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

Snakemake = Callable[..., subprocess.CompletedProcess[str]]


def copy_project(parent: Path) -> Path:
    """A fresh copy of the workflow, without results."""
    folder = parent / "project"
    folder.mkdir()
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(source, folder / part)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_project(tmp_path)


def environment() -> dict[str, str]:
    """This interpreter's own commands first, as `make` has it; never a cluster's or another test's settings."""
    drop = ("SNAKEMAKE_PROFILE", "BREAKEVEN_FAULT", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if name not in drop}
    # A developer's machine may submit to Slurm too; the tests are meant to measure on it.
    env["BREAKEVEN_MEASURE_HERE"] = "1"
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    return env


def run_snakemake(
    folder: Path, *arguments: str, timeout: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def snakemake(project: Path) -> Snakemake:
    """Run `snakemake` in the copy: ``snakemake("-n", "report")``; keyword arguments are environment variables."""
    return functools.partial(run_snakemake, project)
