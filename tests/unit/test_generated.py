"""Where two places must agree, one is generated from the other, and this holds them together."""

import json
import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from breakeven.config.document import fill, schema

ROOT = Path(__file__).resolve().parents[2]
#: conda-forge's name of a package where it differs from PyPI's.
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base", "snakemake": "snakemake-minimal"}


def lock(name: str) -> dict[str, str]:
    lines = (ROOT / f"envs/{name}.txt").read_text().splitlines()
    pins = [line.split("#")[0].strip() for line in lines]
    return {canonicalize_name(pin.split("==")[0]): pin.split("==")[1] for pin in pins if pin}


def asked_for(name: str) -> dict[str, str]:
    text = (ROOT / f"envs/{name}.txt").read_text()
    named = text.split("# asked for")[1].split("# what these bring")[0]
    pins = re.findall(r"^([\w.-]+)==(\S+)", named, flags=re.M)
    return {canonicalize_name(package): version for package, version in pins}


def test_schema_and_key_tables_are_what_the_models_say() -> None:
    message = "run: python -m breakeven.config.document"
    assert json.loads((ROOT / "config/schema.json").read_text()) == schema(), message
    readme = (ROOT / "config/README.md").read_text()
    assert fill(readme) == readme, message


@pytest.mark.parametrize("name", ["analysis", "measure", "test"])
def test_every_pin_is_exact_and_every_file_names_the_same_version(name: str) -> None:
    assert all(re.fullmatch(r"[\w.+]+", version) for version in lock(name).values())
    for other in {"analysis", "measure", "test"} - {name}:
        for package, version in lock(name).items():
            assert lock(other).get(package, version) == version, f"{package} in {name}.txt and {other}.txt"


@pytest.mark.parametrize("name", ["analysis", "measure"])
def test_conda_files_name_the_packages_of_the_locks_at_their_versions(name: str) -> None:
    document = yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())
    assert document["channels"][-1] == "nodefaults"
    found: dict[str, str] = {}
    for entry in document["dependencies"]:
        for pin in entry["pip"] if isinstance(entry, dict) else [entry]:
            package, _, version = pin.partition("=")
            found[package.strip()] = version.strip(" =")
    expected = {CONDA_NAMES.get(package, package): version for package, version in asked_for(name).items()}
    assert {p: v for p, v in found.items() if p not in ("python", "pip")} == expected


@pytest.mark.parametrize("name", ["analysis", "measure", "test"])
def test_the_locks_hold_everything_that_their_packages_ask_for(name: str) -> None:
    from importlib.metadata import PackageNotFoundError, requires

    held = lock("analysis") | lock("measure") | lock("test")
    for package in lock(name):
        if package == "torch":
            continue  # its CUDA libraries are fixed by torch's own metadata and differ by platform
        try:
            requirements = requires(package) or []
        except PackageNotFoundError:
            pytest.fail(f"{package} is in {name}.txt and not installed: run `make test`")
        for text in requirements:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted = canonicalize_name(requirement.name)
                assert wanted in held or wanted in ("setuptools", "pip"), f"{package} asks for {wanted}"
                if wanted in held:
                    assert requirement.specifier.contains(held[wanted], prereleases=True), f"{package}: {text}"


def test_the_oldest_torch_accepted_and_the_pin_are_as_documented() -> None:
    assert lock("measure")["torch"] == "2.13.0"
    assert "OLDEST_TORCH = (2, 11)" in (ROOT / "envs/setup.py").read_text()


def test_the_study_in_the_readme_is_at_most_fifteen_lines_and_valid(tmp_path: Path) -> None:
    from breakeven.config.load import load_study

    for name in ("README.md", "config/README.md"):
        block = re.search(r"```yaml\n(# config/studies/.*?)```", (ROOT / name).read_text(), flags=re.S)
        assert block is not None
        assert len(block[1].strip().splitlines()) <= 15
        path = tmp_path / "mine.yaml"
        path.write_text(block[1])
        study, _ = load_study(str(path), ROOT / "config/studies")
        assert study.workload.technique == "lora"
