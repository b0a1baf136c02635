"""A round's results and system descriptions from its public repository, as one commit has them and nothing else of it.

``python -m breakeven.mlperf.fetch --repository URL --commit SHA --output FOLDER``
"""

import argparse
import fcntl
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text

#: What is checked out: the submitters' code (``benchmarks/``) is most of a repository's files and not ours to read.
PATTERNS = ("/*/results/", "/*/systems/")
#: Beside the tree: what was cloned, for a person and for the next call.
MARKER = "breakeven.json"
#: In the folder of a run that is under way.
LOCK = "breakeven.lock"
#: Helpers such as ``ext::`` run commands, so only what moves files is let through.
PROTOCOLS = ("file", "http", "https", "ssh")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=//|:)")
#: Words of git's own (LC_ALL=C) and what they mean to a person, most particular first.
_REASONS = (
    (r"unadvertised object", "its server gives out the newest commit of a branch alone, not {commit}"),
    (r"not our ref|unable to parse|no such remote ref", "it has no commit {commit}"),
    (r"not a tree|not a commit", "{commit} names something else than a commit there"),
    (r"could not read Username|Repository not found|not appear to be a git repository|does not exist|not found",
     "there is no repository that may be read without a password"),
    (r"not resolve|unable to access|Connection|connect|timed out|Network is unreachable|too slow",
     "it cannot be reached from here"),
)  # fmt: skip


def check_repository(url: str) -> None:
    """Raises ValueError for what is no URL or path of a repository, in words that end a sentence about it."""
    if not url or url != url.strip() or not url.isprintable():
        raise ValueError("is no URL of a repository")
    if url.startswith("-"):
        raise ValueError("starts with '-', which git would take for an option")
    scheme = _SCHEME.match(url)
    if "::" in url.split("/")[0] or (scheme and scheme[1].lower() not in PROTOCOLS):
        raise ValueError(f"is of a protocol that is not let through; use {', '.join(PROTOCOLS)} or a path")


def check_commit(commit: str) -> None:
    """Raises ValueError for what is no full name of a commit."""
    if not _COMMIT.fullmatch(commit):
        raise ValueError("is no commit: 40 hex digits (0-9, a-f) name one; a branch or tag may move")


def fetch(repository: str, commit: str, output: Path) -> None:
    """Make ``output`` the tree ``<submitter>/results|systems`` of one commit, whole or not at all.

    Raises UserError without git, for a repository that cannot be reached, a commit it does not have, and an ``output``
    that is there and was not made by this.
    """
    for what, check in ((repository, check_repository), (commit, check_commit)):
        try:
            check(what)
        except ValueError as error:
            raise UserError(f"{what!r} {error}.") from None
    if shutil.which("git") is None:
        raise UserError(
            "git is not on PATH, and cloning needs it. Install it, or unpack the round's results into a folder and "
            "name that folder in mlperf.source."
        )
    try:
        # Behind a link lies what is meant: the link itself is not ours to replace.
        _make(repository, commit, Path(os.path.realpath(output)))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"{output}: cannot be made ({reason}). Name a folder where you may write.") from error


def _make(repository: str, commit: str, output: Path) -> None:
    if output.exists() and not _is_ours(output):
        raise UserError(f"{output} is there and is no clone of ours. Move it away, or name another folder.")
    output.parent.mkdir(parents=True, exist_ok=True)
    _clear_left(output)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=_work_prefix(output)) as work, _held(Path(work)):
        # Inside of the private folder, so that the tree itself gets the rights that umask gives.
        tree = Path(work) / "tree"
        tree.mkdir()
        _check_out(repository, commit, tree)
        # The tree is all that is wanted: a repository's own files would double it.
        shutil.rmtree(tree / ".git")
        if not any(tree.glob("*/results")):
            raise UserError(
                f"{repository}, commit {commit}: no <submitter>/results/ in it. Is it a repository of results?"
            )
        if os.path.lexists(tree / MARKER):
            raise UserError(f"{repository}, commit {commit}: holds '{MARKER}', which is to name what was cloned.")
        write_text(tree / MARKER, json.dumps({"repository": repository, "commit": commit}, indent=1) + "\n")
        if output.exists():
            output.rename(Path(work) / "before")
        tree.rename(output)


def _is_ours(folder: Path) -> bool:
    """Whether a folder may be replaced: it is empty, or says that this made it."""
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    try:
        said = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.keys() == {"repository", "commit"}


def _work_prefix(output: Path) -> str:
    # A part of the name is enough: the whole might be too long with what is added to it.
    return f".{output.name[:40]}.breakeven-clone."


def _clear_left(output: Path) -> None:
    """Remove what killed runs left: folders of our name with a lock of ours that nobody holds."""
    for left in output.parent.glob(f"{glob.escape(_work_prefix(output))}*"):
        with suppress(OSError), (left / LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _held(work: Path) -> Iterator[None]:
    """Hold the lock of a work folder, which ends with this process however that ends."""
    unnamed = work / "lock"
    with unnamed.open("w") as lock:
        with suppress(OSError):  # a file system without locks: nobody clears anything there
            fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(work / LOCK)  # held before anybody can see it
        yield


def _check_out(repository: str, commit: str, tree: Path) -> None:
    def git(*arguments: str) -> str:
        return _git(tree, repository, commit, *arguments)

    git("init", "--quiet", "--template=")
    # A path is one from where the caller stands, and git runs in the tree.
    git("config", "remote.origin.url", os.path.abspath(repository) if os.path.exists(repository) else repository)
    git("config", "core.sparseCheckout", "true")
    git("config", "core.sparseCheckoutCone", "false")
    info = tree / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "sparse-checkout").write_text("\n".join(PATTERNS) + "\n")
    # The bytes as they were submitted, whatever a .gitattributes among them would make of lines, links and encodings.
    (info / "attributes").write_text("* -text -ident -filter !eol !working-tree-encoding\n")
    # A server that cannot leave out files sends them all with a warning, and the checkout is the same.
    git("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--filter=blob:none", "origin", commit)
    git("checkout", "--quiet", "--detach", "FETCH_HEAD")
    if (head := git("rev-parse", "HEAD").strip()) != commit:
        raise UserError(f"{repository}: asked for commit {commit}, got {head}. Is that the name of a commit?")


def _git(tree: Path, repository: str, commit: str, *arguments: str) -> str:
    """Run git in the tree, never through a shell, and never waiting for somebody to answer it."""
    settings = {
        "core.hooksPath": os.devnull,
        "core.autocrlf": "false",
        "core.fsmonitor": "false",
        "advice.detachedHead": "false",
        # A connection that hangs ends instead of holding the workflow.
        "http.lowSpeedLimit": "1000",
        "http.lowSpeedTime": "60",
    }
    environment = {name: value for name, value in os.environ.items() if name not in _OTHER_REPOSITORY} | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
        "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    answer = subprocess.run(
        ["git", *options, *arguments],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if answer.returncode:
        raise UserError(_why(answer.stderr, repository, commit))
    return answer.stdout


#: What a caller inside of another repository (a hook, say) would have git look at instead of the tree.
_OTHER_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")


def _why(said: str, repository: str, commit: str) -> str:
    lines = [line.strip() for line in said.splitlines() if re.match(r"(fatal|error):", line.strip())]
    first = lines[0] if lines else " ".join(said.split()) or "no reason given"
    for pattern, meaning in _REASONS:
        if re.search(pattern, said):
            first = f"{meaning.format(commit=commit)} (git: {first})"
            break
    return (
        f"{repository}: {first}. Correct mlperf.repository or mlperf.commits, or name a folder that holds the round's "
        "results in mlperf.source."
    )


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m breakeven.mlperf.fetch", description=__doc__)
    parser.add_argument("--repository", required=True, help="URL or path of a repository of results")
    parser.add_argument("--commit", required=True, help="40 hex digits")
    parser.add_argument("--output", type=Path, required=True, help="the folder to make")
    args = parser.parse_args()
    print(f"cloning results and systems of {args.repository} at {args.commit[:12]} ...", file=sys.stderr, flush=True)
    fetch(args.repository, args.commit, args.output)


if __name__ == "__main__":
    main()
