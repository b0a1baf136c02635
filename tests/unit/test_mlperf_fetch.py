"""Cloning a round: one commit's results and systems from a repository made here, whole or not at all."""

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from breakeven.mlperf.fetch import LOCK, MARKER, check_commit, check_repository, fetch
from breakeven.schema.errors import UserError

UNKNOWN = "0123456789abcdef0123456789abcdef01234567"
LOG = "Here/results/one_node/bert/result_0.txt"


@dataclass(frozen=True, slots=True)
class Published:
    """A bare repository of two commits."""

    path: Path
    older: str
    newer: str

    @property
    def url(self) -> str:
        return self.path.as_uri()


def git(folder: Path, *arguments: str) -> str:
    who = {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in (("NAME", "n"), ("EMAIL", "e"))
    }
    answer = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=folder,
        env=os.environ | who | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.strip()


def commit(folder: Path, log: str) -> str:
    (folder / LOG).write_text(log)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", log)
    return git(folder, "rev-parse", "HEAD")


def publish(tmp_path: Path, *, partial: bool = True) -> Published:
    work, bare = tmp_path / "work", tmp_path / "published.git"
    for path in (LOG, "Here/systems/one_node.json", "Here/benchmarks/bert/run.sh", "README.md"):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("{}\n")
    git(work, "init", "--quiet")
    older, newer = commit(work, "first"), commit(work, "second")
    git(tmp_path, "clone", "--quiet", "--bare", str(work), str(bare))
    git(bare, "config", "uploadpack.allowFilter", str(partial).lower())
    git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
    return Published(bare, older, newer)


@pytest.fixture
def published(tmp_path: Path) -> Published:
    return publish(tmp_path)


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_clone_is_the_results_and_systems_of_one_commit_and_nothing_else(
    published: Published, tmp_path: Path
) -> None:
    output = tmp_path / "results" / "repository"
    fetch(published.url, published.older, output)
    assert files(output) == {LOG, "Here/systems/one_node.json", MARKER}
    assert (output / LOG).read_text() == "first"
    assert json.loads((output / MARKER).read_text()) == {"repository": published.url, "commit": published.older}
    assert left_over(output.parent) == []


def test_a_path_is_one_from_where_the_caller_stands(
    published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    fetch("../published.git", published.older, Path("clone"))
    assert (tmp_path / "here/clone" / LOG).read_text() == "first"


@pytest.mark.parametrize("partial", [True, False])
def test_a_server_that_cannot_leave_out_files_gives_the_same(partial: bool, tmp_path: Path) -> None:
    published = publish(tmp_path, partial=partial)
    fetch(published.url, published.older, tmp_path / "clone")
    assert files(tmp_path / "clone") == {LOG, "Here/systems/one_node.json", MARKER}
    assert (tmp_path / "clone" / LOG).read_text() == "first"


def test_another_commit_takes_the_place_of_the_one_before(published: Published, tmp_path: Path) -> None:
    for which, log in ((published.older, "first"), (published.newer, "second")):
        fetch(published.url, which, tmp_path / "clone")
        assert (tmp_path / "clone" / LOG).read_text() == log


def test_what_a_killed_clone_left_is_cleared_away(published: Published, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    left = folder / ".repository.breakeven-clone.killed"
    (left / "tree").mkdir(parents=True)
    (left / LOCK).touch()
    fetch(published.url, published.older, folder / "repository")
    assert [path.name for path in folder.iterdir()] == ["repository"]


def test_nothing_of_anybody_elses_is_cleared_away(published: Published, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    mine = [".repository.notes", ".repository.breakeven-clone.mine", ".a.b", ".a.breakeven-clone.b"]
    for name in mine:
        (folder / name / "precious").mkdir(parents=True)
    (folder / ".a.breakeven-clone.b" / LOCK).touch()
    for name in ("repository", "*", "?"):
        fetch(published.url, published.older, folder / name)
    assert {path.name for path in folder.iterdir()} == {*mine, "repository", "*", "?"}


def test_a_clone_that_is_under_way_is_left_alone(published: Published, tmp_path: Path) -> None:
    work = tmp_path / ".repository.breakeven-clone.other"
    work.mkdir()
    with (work / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fetch(published.url, published.older, tmp_path / "repository")
    assert (work / LOCK).exists()


def test_two_at_the_same_time_both_end_and_one_clone_is_there(published: Published, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "breakeven.mlperf.fetch", "--repository", published.url, "--output", "clone"]
    both = [
        subprocess.Popen([*command, "--commit", published.older], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [each.communicate(timeout=60)[1] for each in both]
    assert 0 in [each.returncode for each in both]
    assert not [words for words in said if "Traceback" in words]
    assert LOG in files(tmp_path / "clone")
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("output", ["file", "file/below", "/proc/breakeven", "x" * 300, "a\0b"])
def test_a_folder_that_cannot_be_made_is_a_message(output: str, published: Published, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"cannot be made \(|is there and is no clone of ours"):
        fetch(published.url, published.older, tmp_path / output)
    assert (tmp_path / "file").read_text() == "mine"
    assert left_over(tmp_path) == []


def test_behind_a_link_the_clone_is_made_and_the_link_stays(published: Published, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("folder")
    fetch(published.url, published.older, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / LOG).is_file()


def test_a_repository_with_a_folder_of_the_markers_name(published: Published, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / MARKER / "results" / "s").mkdir(parents=True)
    (work / MARKER / "results" / "s" / "x").touch()
    newest = commit(work, "third")
    with pytest.raises(UserError, match=r"holds 'breakeven\.json'"):
        fetch(str(work), newest, tmp_path / "clone")
    assert not (tmp_path / "clone").exists()


def test_files_are_byte_for_byte_what_was_submitted(tmp_path: Path) -> None:
    content = b"$Id$\r\n\xe9\n"
    work = tmp_path / "work"
    log = work / LOG
    log.parent.mkdir(parents=True)
    git(work, "init", "--quiet")
    log.write_bytes(content)
    git(work, "add", "--all")
    for attributes in (work / ".gitattributes", log.with_name(".gitattributes")):
        attributes.write_text("*.txt text eol=crlf ident\n")
    git(work, "add", "*.gitattributes")
    git(work, "commit", "--quiet", "--message", "first")
    fetch(str(work), git(work, "rev-parse", "HEAD"), tmp_path / "clone")
    assert (tmp_path / "clone" / LOG).read_bytes() == content


def test_a_folder_that_is_not_ours_is_left_alone(published: Published, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years")
    for content in (None, "{}", "[]", "[" * 100_000, '{"repository": "x"}'):
        if content is not None:
            (mine / MARKER).write_text(content)
        with pytest.raises(UserError, match="is no clone of ours"):
            fetch(published.url, published.older, mine)
    assert files(mine) == {"thesis.tex", MARKER}


def test_a_commit_that_is_not_there_is_refused_and_nothing_is_left(published: Published, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"it has no commit {UNKNOWN} \(git: .*Correct mlperf\.repository"):
        fetch(published.url, UNKNOWN, tmp_path / "out" / "clone")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_name_of_something_else_than_a_commit_is_refused(published: Published, tmp_path: Path) -> None:
    blob = git(published.path, "rev-parse", f"{published.older}:{LOG}")
    with pytest.raises(UserError, match=f"{blob} names something else than a commit"):
        fetch(published.url, blob, tmp_path / "clone")
    assert not (tmp_path / "clone").exists()


def test_a_repository_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.git: there is no repository that may be read"):
        fetch((tmp_path / "none.git").as_uri(), UNKNOWN, tmp_path / "clone")


def test_a_repository_with_a_name_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no repository"):
        fetch("x" * 400, UNKNOWN, tmp_path / "clone")


def test_a_host_that_is_not_there_is_refused(tmp_path: Path) -> None:
    # port 9 of this machine: nobody listens, and no name is looked up
    with pytest.raises(UserError, match="it cannot be reached from here"):
        fetch("http://127.0.0.1:9/results.git", UNKNOWN, tmp_path / "clone")


def test_a_repository_of_something_else_is_refused(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "README.md").write_text("no results")
    git(work, "init", "--quiet")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "first")
    with pytest.raises(UserError, match="no <submitter>/results/ in it"):
        fetch(str(work), git(work, "rev-parse", "HEAD"), tmp_path / "clone")


def test_without_git_the_message_says_what_else_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"git is not on PATH.*mlperf\.source"):
        fetch("https://example.org/r.git", UNKNOWN, tmp_path / "clone")


def test_no_hook_of_a_person_runs(published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "post-checkout").chmod(0o755)
    (tmp_path / "gitconfig").write_text(f"[core]\n\thooksPath = {hooks}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    fetch(published.url, published.older, tmp_path / "clone")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("url", ["--upload-pack=touch x", "ext::sh -c true", "fd::7", "ftp://h/r", "", " x", "a\nb"])
def test_what_git_could_take_for_something_else_is_no_repository(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is no URL|starts with '-'|is of a protocol"):
        check_repository(url)
    with pytest.raises(UserError):
        fetch(url, UNKNOWN, tmp_path / "clone")


@pytest.mark.parametrize(
    "url", ["https://h/r.git", "http://h/r", "ssh://git@h/r", "git@h:o/r.git", "/a/b", "file:///a", "../r"]
)
def test_urls_and_paths_are_repositories(url: str) -> None:
    check_repository(url)


@pytest.mark.parametrize("commit", ["main", "v4.1", UNKNOWN[:12], UNKNOWN.upper(), UNKNOWN + "0", "-" * 40, ""])
def test_a_commit_has_forty_hex_digits(commit: str) -> None:
    with pytest.raises(ValueError, match="40 hex digits"):
        check_commit(commit)
