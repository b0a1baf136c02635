"""Files of a results repository: the same from a tree and an archive, and nothing read that lies outside."""

import contextlib
import errno
import io
import os
import random
import tarfile
from pathlib import Path

import pytest

from breakeven.mlperf.source import Oddity, Source
from breakeven.schema.errors import UserError
from tests.mlperf_repository import add_link, repository, snapshot, write_tar, write_tree

BENCHMARKS = {"Someone/benchmarks/bert/data.json": b"{}", "Someone/benchmarks/results/a/b/c/d.txt": b""}


def contents(path: Path) -> tuple[dict[str, bytes], list[Oddity]]:
    """Path inside the repository → content, of the files that count."""
    source, found = Source(path), {}
    for file in source.files():
        with file.read() as stream:
            found[file.top, file.place.path] = stream.read(1 << 20)
    return {name: content for (top, name), content in found.items() if top == source.top}, source.oddities


def oddities(path: Path) -> set[tuple[str, str]]:
    return {(oddity.kind, "/".join(oddity.parts)) for oddity in contents(path)[1]}


@pytest.mark.parametrize("top", ["", "repository/", "training_results_v4.1-main/", "./", "./top folder/"])
def test_at_the_top_or_under_one_leading_folder(tmp_path: Path, top: str) -> None:
    files = repository()
    tree = write_tree(tmp_path / "tree", {top + name: content for name, content in (files | BENCHMARKS).items()})
    assert contents(tree) == (files, [])
    for mode in ("w", "w:gz", "w:xz", "w:bz2"):
        assert contents(write_tar(tmp_path / "archive", files | BENCHMARKS, top, mode)) == (files, [])


def test_every_kind_of_file_and_no_other(tmp_path: Path) -> None:
    folder = "A/results/s/bert"
    wanted = {
        f"{folder}/result_1.txt": b"log",
        f"{folder}/scaling.json": b"{}",
        f"{folder}/power/result_1/node_0.txt": b"node",
        f"{folder}/power/result_1/sw_0.txt": b"switch",
        "A/systems/s.json": b"{}",
        "B/results/s + ü/b\nb/result_\n.txt": b"odd names",
    }
    other = {
        f"{folder}/result_1.log": b"",
        f"{folder}/more/result_2.txt": b"",
        f"{folder}/power/sw_0.txt": b"",
        "A/results/README.md": b"",
        "A/systems/more/t.json": b"",
        "LICENSE.md": b"",
        "summary.json": b"",
    }
    assert contents(write_tree(tmp_path / "tree", wanted | other)) == (wanted, [])
    assert contents(write_tar(tmp_path / "archive.tar", wanted | other)) == (wanted, [])


def test_a_benchmarks_folder_is_never_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, listed = write_tree(tmp_path, repository() | BENCHMARKS), []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(os.path.relpath(path, tree)) or listdir(path))
    contents(tree)
    assert "Someone/results" in listed
    assert not [path for path in listed if "benchmarks" in path]


def linked(root: Path) -> None:
    """Links of every kind beside the set of ``repository``."""
    (root / "outside.txt").write_bytes(b"outside")
    inside = root / "inside"
    (inside / "Someone/results/box_2/llama2_70b_lora").mkdir(parents=True)
    for name, target in LINKS.items():
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).symlink_to(target)


LINKS = {
    "Someone/results/box_2/llama2_70b_lora/result_0.txt": "../../box_1/llama2_70b_lora/result_3.txt",
    "Someone/results/box_2/llama2_70b_lora/result_1.txt": "../../../../../outside.txt",
    "Someone/results/box_2/llama2_70b_lora/result_2.txt": "/etc/passwd",
    "Someone/results/box_2/llama2_70b_lora/result_3.txt": "result_4.txt",
    "Someone/results/box_2/llama2_70b_lora/result_4.txt": "result_3.txt",
    "Someone/results/box_2/llama2_70b_lora/result_5.txt": "nothing.txt",
    "Someone/results/box_3": "box_1",  # a folder
    "Someone/results/loop": ".",
    "Other": "Someone",
    "top": ".",
}


def test_links_are_followed_inside_the_source_and_nowhere_else(tmp_path: Path) -> None:
    files = repository(runs=4)
    linked(tmp_path)
    tree = write_tree(tmp_path / "inside", files)
    archive = write_tar(tmp_path / "archive.tar", files)
    with tarfile.open(archive, "a") as appended:
        for name, target in LINKS.items():
            add_link(appended, name, target)
    from_tree, from_archive = contents(tree), contents(archive)
    assert from_archive[0] == from_tree[0]
    third = files["Someone/results/box_1/llama2_70b_lora/result_3.txt"]
    assert from_tree[0]["Someone/results/box_2/llama2_70b_lora/result_0.txt"] == third
    assert from_tree[0]["Other/results/box_3/llama2_70b_lora/result_3.txt"] == third
    assert b"outside" not in from_tree[0].values()
    bad = {f"{who}/results/box_2/llama2_70b_lora/result_{n}.txt" for who in ("Someone", "Other") for n in range(1, 6)}
    for path in (tree, archive):
        assert {name for kind, name in oddities(path) if kind == "link_not_followed"} >= bad
    assert {(it.kind, it.parts) for it in from_tree[1]} == {(it.kind, it.parts) for it in from_archive[1]}


def test_hard_links_in_an_archive_are_the_file_they_name(tmp_path: Path) -> None:
    files = repository(runs=2)
    archive = write_tar(tmp_path / "archive.tar", files, top="top/")
    first, again = (f"Someone/results/box_1/llama2_70b_lora/result_{n}.txt" for n in (0, 7))
    with tarfile.open(archive, "a") as appended:
        add_link(appended, f"top/{again}", f"top/{first}", tarfile.LNKTYPE)
    assert contents(archive) == ({**files, again: files[first]}, [])


def test_entries_that_no_repository_needs_are_listed_and_not_read(tmp_path: Path) -> None:
    files = repository()
    log = "Someone/results/box_1/llama2_70b_lora/result_0.txt"
    archive = write_tar(tmp_path / "archive.tar", files)
    with tarfile.open(archive, "a") as appended:
        for name in (f"/{log}", f"../{log}", f"Someone/../../{log}", f"/tmp/{log}"):
            member = tarfile.TarInfo(name)
            member.size = 4
            appended.addfile(member, io.BytesIO(b"evil"))
        for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(log)
            member.type = kind
            appended.addfile(member)
    before = snapshot(tmp_path)
    found, odd = contents(archive)
    assert found == files
    assert {oddity.kind for oddity in odd} == {"unsafe_path"}
    assert len({(oddity.parts, oddity.detail) for oddity in odd}) == 5
    assert snapshot(tmp_path) == before


def test_the_later_of_two_entries_with_one_name_comes_last(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "archive.tar", repository())
    name = "Someone/systems/box_1.json"
    with tarfile.open(archive, "a") as appended:
        member = tarfile.TarInfo(name)
        member.size = 3
        appended.addfile(member, io.BytesIO(b"new"))
    assert contents(archive)[0][name] == b"new"


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, repository())
    folder = tree / "Someone/results/box_1/llama2_70b_lora"
    os.mkfifo(folder / "result_10.txt")  # opening it would wait for ever
    (folder / "result_11.txt").mkdir()
    (tree / "Someone/results/box_1/bert").write_text("a file where a folder is expected")
    (tree / "Nobody").mkdir()
    (tree / "Nobody/results").write_text("")
    found, odd = contents(tree)
    assert found == repository()
    assert [(oddity.kind, oddity.parts[-1], oddity.detail) for oddity in odd] == [
        ("unreadable_file", "result_10.txt", "is no regular file"),
        ("unreadable_file", "result_11.txt", "is a folder"),
    ]


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = write_tree(tmp_path, repository() | repository(submitter="Closed"))
    listdir = os.listdir

    def refused(path: str) -> list[str]:  # as the system does for anybody but root
        if str(path).endswith("Closed/results"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refused)
    found, odd = contents(tree)
    assert set(found) == {*repository(), "Closed/systems/box_1.json"}
    assert [(oddity.kind, oddity.parts) for oddity in odd] == [("unreadable_file", ("Closed", "results"))]


def whole_archives(folder: Path) -> dict[str, bytes]:
    files = repository() | {"Someone/results/box_1/llama2_70b_lora/result_10.txt": random.Random(0).randbytes(300_000)}
    return {
        mode: write_tar(folder / "whole", files, "repository/", mode).read_bytes() for mode in ("w", "w:gz", "w:xz")
    }


@pytest.mark.parametrize("kept", [0.0005, 0.01, 0.3, 0.6, 0.9, 0.99999])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_cut_short(tmp_path: Path, mode: str, kept: float) -> None:
    whole, cut = whole_archives(tmp_path)[mode], tmp_path / "cut"
    # The last block of a tar is padding: what is cut there is not missed.
    end = len(whole) - (9 * 1024 if mode == "w" else 1)
    cut.write_bytes(whole[: int(end * kept)])
    with pytest.raises(UserError, match=r"(?s)cut: (cannot be read as|is not) a.* archive.*Expected .*result_\*\.txt"):
        contents(cut)


def test_a_tar_cut_between_two_entries_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "archive.tar", repository())
    with tarfile.open(archive) as opened:
        fourth = opened.getmembers()[4].offset
    archive.write_bytes(archive.read_bytes()[:fourth])
    with pytest.raises(UserError, match=r"archive\.tar: cannot be read as an archive .*cut short"):
        contents(archive)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_damaged_archives_end_with_a_message_or_are_read(tmp_path: Path, mode: str) -> None:
    whole, damaged, chance = whole_archives(tmp_path)[mode], tmp_path / "damaged", random.Random(1)
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(3):
            content[chance.randrange(len(content))] = chance.randrange(256)
        damaged.write_bytes(content)
        with contextlib.suppress(UserError):  # any other exception is a defect
            contents(damaged)


def test_headers_that_claim_the_impossible(tmp_path: Path) -> None:
    for size in (-512, 1 << 62):
        archive = tmp_path / f"{size}.tar"
        member = tarfile.TarInfo("a")
        block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
        block[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
        block[156:157] = tarfile.GNUTYPE_LONGNAME
        block[148:156] = b"%06o\0 " % (256 + sum(block[:148]) + sum(block[156:]))
        archive.write_bytes(bytes(block) + bytes(1024))
        with pytest.raises(UserError, match=r"\.tar: (cannot be read as an|is not a tar) archive"):
            contents(archive)


def header(kind: bytes, size: int, name: str = "a") -> bytearray:
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    block[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
    block[156:157] = kind
    return block


def summed(block: bytearray) -> bytes:
    block[148:156] = b"%06o\0 " % (256 + sum(block[:148]) + sum(block[156:]))
    return bytes(block)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_thousand_headers_of_headers(tmp_path: Path, kind: bytes) -> None:
    content = {tarfile.XHDTYPE: b"9 path=a\n", tarfile.GNUTYPE_LONGNAME: b"a\0"}[kind]
    archive = tmp_path / "chain.tar"
    archive.write_bytes((summed(header(kind, len(content))) + content.ljust(512, b"\0")) * 1000 + bytes(1024))
    with pytest.raises(UserError, match="cannot be read as an archive"):
        contents(archive)


def test_a_header_longer_than_any_name_is_not_read(tmp_path: Path) -> None:
    archive = tmp_path / "digits.tar"
    first = summed(header(tarfile.REGTYPE, 0))
    archive.write_bytes(first + summed(header(tarfile.XHDTYPE, 102_400)) + b"1" * 102_400 + bytes(1024))
    with pytest.raises(UserError, match="a header claims 102400 bytes"):
        contents(archive)


PAX_SPARSE = {
    "0.0": {"GNU.sparse.size": "9", "GNU.sparse.numblocks": "1", "GNU.sparse.offset": "0", "GNU.sparse.numbytes": "4"},
    "0.1": {"GNU.sparse.size": "9", "GNU.sparse.map": "0,4," * 9 + "x"},
    "1.0": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "4"},
}


@pytest.mark.parametrize("version", PAX_SPARSE)
def test_sparse_files_are_listed_and_not_read(tmp_path: Path, version: str) -> None:
    files = repository()
    archive = write_tar(tmp_path / "archive.tar", files)
    with tarfile.open(archive, "a", format=tarfile.PAX_FORMAT) as appended:
        member = tarfile.TarInfo("Someone/results/box_1/llama2_70b_lora/result_99.txt")
        member.size, member.pax_headers = 4, PAX_SPARSE[version]
        appended.addfile(member, io.BytesIO(b"evil"))
    found, [odd] = contents(archive)
    assert (found, odd.kind, odd.detail) == (files, "unsafe_path", "a sparse file")


def test_an_old_sparse_file_with_a_map_of_any_length(tmp_path: Path) -> None:
    files = repository()
    log = "Someone/results/box_1/llama2_70b_lora/result_99.txt"
    sparse = header(tarfile.GNUTYPE_SPARSE, 4, log)
    sparse[482] = 1
    more, last = bytearray(512), bytes(512)
    more[504] = 1
    member = summed(sparse) + bytes(more) * 50 + last + b"evil".ljust(512, b"\0")
    archive = write_tar(tmp_path / "archive.tar", files)
    archive.write_bytes(member + archive.read_bytes())
    found, [odd] = contents(archive)
    assert (found, odd.kind, odd.detail) == (files, "unsafe_path", "a sparse file")


def test_a_file_larger_than_all_logs_is_listed_and_not_read(tmp_path: Path) -> None:
    files, size = repository(), 16 << 30
    archive = write_tar(tmp_path / "archive.tar", files)
    whole = archive.read_bytes()
    with archive.open("wb") as file:  # a hole, which costs no space
        file.write(summed(header(tarfile.REGTYPE, size, "Someone/results/box_1/llama2_70b_lora/result_99.txt")))
        file.seek(size, os.SEEK_CUR)
        file.write(whole)
    found, [odd] = contents(archive)
    assert (found, odd.kind, odd.detail) == (files, "unsafe_path", f"a file of {size} bytes")


@pytest.mark.parametrize("is_archive", [False, True])
def test_links_that_lead_to_one_folder_again_and_again_are_followed_a_number_of_times(
    tmp_path: Path, is_archive: bool
) -> None:
    tree = write_tree(tmp_path / "tree", repository())
    for name in [*(f"l{n}" for n in range(40)), "results", "systems", "llama2_70b_lora"]:
        (tree / name).symlink_to(".")
    (tree / "result_0.txt").touch()
    path = tree
    if is_archive:
        path = tmp_path / "archive.tar"
        with tarfile.open(path, "w") as archive:
            archive.add(tree, ".")
    found, odd = contents(path)
    assert set(repository()) <= set(found)
    assert len(found) < 200
    [told] = [it.detail for it in odd if it.kind == "link_not_followed" and "64 links" in it.detail]
    assert told == "64 links before it lead to the same folder; neither are more of them"


@pytest.mark.parametrize(
    "content", [b"", b"not a tar archive", b"PK\3\4" + bytes(600), random.Random(2).randbytes(5000)]
)
def test_a_file_that_is_no_archive(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.tar"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"(?s)notes\.tar: is not a tar archive.*Expected"):
        contents(file)


def test_a_source_without_results(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"(?s)nowhere: No such file or directory.*Expected"):
        contents(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds no results"):
        contents(write_tree(tmp_path / "tree", {"a/b/c/d/e.txt": b"", "Someone/results/README": b""}))
    with pytest.raises(UserError, match="holds no results"):
        contents(write_tar(tmp_path / "empty.tar", {}))
    with pytest.raises(UserError, match="holds no results"):
        contents(write_tree(tmp_path / "deep", {f"a/b/{name}": content for name, content in repository().items()}))
    both = {f"{top}/{name}": content for top in ("v4.1", "v5.1") for name, content in repository().items()}
    write_tree(tmp_path / "both", both)
    with pytest.raises(UserError, match=r"holds several repositories \(v4\.1, v5\.1\); give one of them"):
        contents(tmp_path / "both")


def test_a_source_that_is_a_link_or_a_special_file(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", repository())
    (tmp_path / "link").symlink_to(tree)
    assert contents(tmp_path / "link") == (repository(), [])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe: is neither a folder nor a file"):
        contents(tmp_path / "pipe")
