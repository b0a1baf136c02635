"""Set up the project's own virtual environment from the locks beside this file.

    python3 envs/setup.py [--venv .venv] [--tests]

Safe to run again: it does nothing where the environment already is what the locks say. Run by another interpreter, it
makes the environment anew with that one. An interpreter that already has torch (2.11 or newer) keeps it: the site's
torch is used instead of the pin, and everything else is installed around it.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ENVS = Path(__file__).resolve().parent
ROOT = ENVS.parent
OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 11)
STAMP = "breakeven.json"

FIND_TORCH = """
import importlib.util, json, pathlib
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    print("null")
else:
    from importlib.metadata import version
    print(json.dumps({"version": version("torch"), "path": str(pathlib.Path(spec.origin).resolve().parents[1])}))
"""


def newer_python() -> str | None:
    """A Python this project runs on, from PATH, for a caller that is older."""
    for minor in (13, 12, 11, 14):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", ""], check=False).returncode == 0:
            return found
    return None


def site_torch(python: str) -> dict[str, str] | None:
    """The torch that an interpreter already has, where it is new enough."""
    # -I would hide a site's PYTHONPATH, which is how modules of a cluster provide torch.
    answer = subprocess.run([python, "-c", FIND_TORCH], capture_output=True, text=True, check=False)
    try:
        found = json.loads(answer.stdout)
    except ValueError:
        return None
    if found is None:
        return None
    release = tuple(int(part) for part in found["version"].split("+")[0].split(".")[:2])
    if release < OLDEST_TORCH:
        print(f"{python} has torch {found['version']}, older than 2.11: the pinned one is installed instead.")
        return None
    return found


def requirements(tests: bool) -> list[Path]:
    return [ENVS / name for name in ("analysis.txt", "measure.txt", *(("test.txt",) if tests else ()))]


def wanted(python: str, tests: bool, torch: dict[str, str] | None) -> dict[str, object]:
    digest = hashlib.sha256()
    for path in [*requirements(tests), ROOT / "pyproject.toml"]:
        digest.update(path.read_bytes())
    # The same interpreter has many names (python3, python3.11, a link): the real file counts.
    base = os.path.realpath(python)
    return {"python": python, "base": base, "torch": torch, "tests": tests, "locks": digest.hexdigest()}


def install(venv: Path, python: str, tests: bool, torch: dict[str, str] | None, anew: bool) -> None:
    if anew:
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    pins = [line for path in requirements(tests) for line in path.read_text().splitlines()]
    if torch:
        packages = next(venv.glob("lib/python*/site-packages"))
        # After the environment's own packages on sys.path, so that only what it lacks comes from the site.
        (packages / "zz-site-torch.pth").write_text(torch["path"] + "\n")
        pins = [line for line in pins if not line.startswith("torch==")]
        # Everything but torch and what torch itself brought is in the locks, so nothing is left to resolve; and what
        # the site happens to have beside its torch does not count as installed.
        pip += ["--no-deps", "--ignore-installed"]
        print(f"using torch {torch['version']} of {python}")
    lock = venv / "requirements.txt"
    lock.write_text("\n".join(dict.fromkeys(pins)) + "\n")
    subprocess.run([*pip, "-r", str(lock)], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Set up the virtual environment from envs/*.txt.")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--tests", action="store_true", help="also what tests and linters need")
    parser.add_argument("--keep", action="store_true", help="keep the interpreter of an environment that is there")
    args = parser.parse_args()
    stamp = args.venv / STAMP
    try:
        have = json.loads(stamp.read_text())
    except (OSError, ValueError):
        have = {}
    python = sys.executable
    if Path(python).is_relative_to(args.venv.absolute()):
        # called from the environment that may be about to be made anew
        python = str(sys._base_executable)
    if args.keep and have.get("python") and Path(have["python"]).exists():
        python = have["python"]
    # An environment with the tests' packages serves without them too.
    tests = args.tests or bool(have.get("tests"))
    want = wanted(python, tests, site_torch(python))
    same = all(have.get(key) == want[key] for key in want if key != "python")
    if same and (args.venv / "bin" / "snakemake").exists():
        return
    print(f"setting up {os.path.relpath(args.venv)} with {python} (some minutes) ...", flush=True)
    # Until it is whole again it is nobody's: an interrupted set-up starts over.
    stamp.unlink(missing_ok=True)
    anew = have.get("base") != want["base"] or have.get("torch") != want["torch"]
    try:
        install(args.venv, python, tests, site_torch(python), anew)
    except subprocess.CalledProcessError as error:
        sys.exit(f"setting up {args.venv} failed: {' '.join(map(str, error.cmd))}")
    stamp.write_text(json.dumps(want, indent=1))


if __name__ == "__main__":
    if sys.version_info < OLDEST_PYTHON:
        found = newer_python()
        if found is None:
            sys.exit("Breakeven needs Python 3.11 or newer. Name one: make PYTHON=/path/to/python3.11")
        os.execv(found, [found, *sys.argv])  # noqa: S606  the same script, by a newer Python
    main()
