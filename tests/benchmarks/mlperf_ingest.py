"""How fast published results are read, and in how much memory, beside MLCommons' own tool: a table for the docs.

``python tests/benchmarks/mlperf_ingest.py --v4.1 TREE_OR_ARCHIVE --v5.1 ARCHIVE``

Both tools score the same v4.1 tree, taking turns: mlperf-logging's ``result_summarizer`` on a copy of its own each
time, because it writes into what it reads; ours as two commands, extract and score, whose times are added. Memory is
the sum over all processes of a command, sampled: resident pages, those that processes share counted in each.
``--quick`` is a smoke run on the small subset of v4.1, given as ``--v4.1`` and ``--v5.1`` alike.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_S = 0.01


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took: wall seconds, and the most MiB of all its processes at one moment."""

    wall_s: float
    peak_mib: float

    def then(self, other: "Cost") -> "Cost":
        return Cost(self.wall_s + other.wall_s, max(self.peak_mib, other.peak_mib))


def cost(command: Sequence[str], folder: Path) -> Cost:
    """Run a command to its end. Raises SystemExit with what it said if it fails."""
    said = folder / "said.txt"
    with said.open("w") as output:
        start = time.perf_counter()
        running = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        root, peak = psutil.Process(running.pid), 0
        while running.poll() is None:
            peak = max(peak, resident(root))
            time.sleep(SAMPLE_S)
        wall_s = time.perf_counter() - start
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {running.returncode}:\n{said.read_text()[-2000:]}")
    return Cost(wall_s, peak / (1 << 20))


def resident(root: psutil.Process) -> int:
    """Bytes resident in a process and its descendants now."""
    total = 0
    try:
        for process in [root, *root.children(recursive=True)]:
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass  # one ended in the meantime; the next sample is soon
    return total


def ours(source: Path, round_name: str, folder: Path) -> Cost:
    """Extract and score."""
    runs = str(folder / "runs.csv")
    module = [sys.executable, "-m"]
    extract = [*module, "breakeven.mlperf.extract", str(source), "--round", round_name, "--runs", runs]
    extract += ["--anomalies", str(folder / "anomalies.csv")]
    score = [*module, "breakeven.mlperf.score", "--runs", runs, "--scores", str(folder / "scores.csv")]
    score += ["--critical-batch", str(folder / "critical.csv"), "--reference", str(folder / "reference.csv")]
    return cost(extract, folder).then(cost(score, folder))


def official(tree: Path, folder: Path) -> Cost:
    """The result summarizer, on a copy, the copying not counted."""
    copy = Path(tempfile.mkdtemp(dir=folder)) / "tree"
    shutil.copytree(tree, copy, symlinks=True)
    submitters = ",".join(sorted(path.name for path in copy.iterdir() if (path / "results").is_dir()))
    every = f"{copy}/{{{submitters}}}" if "," in submitters else f"{copy}/{submitters}"
    command = [sys.executable, "-m", "mlperf_logging.result_summarizer", every, "training", "4.1.0"]
    try:
        return cost([*command, "--csv", str(folder / "official.csv")], folder)
    finally:
        shutil.rmtree(copy.parent)


def as_tree(source: Path, folder: Path) -> Path:
    """The folder whose children are submitters: the source, or its contents unpacked."""
    if source.is_file():
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        source = folder
    tops = {path.parent.parent for pattern in ("*/results", "*/*/results") for path in source.glob(pattern)}
    if len(tops) != 1:
        raise SystemExit(f"{source}: expected one results repository, found {len(tops)}.")
    return tops.pop()


def table(v4_1: list[tuple[Cost, Cost]], v5_1: list[Cost], names: tuple[str, str]) -> str:
    """Medians over the turns, and the ratio turn by turn."""
    ratios = [theirs.wall_s / ours_.wall_s for theirs, ours_ in v4_1]
    theirs, mine = zip(*v4_1, strict=True)
    rows = [
        (f"mlperf-logging's result_summarizer, {names[0]}", theirs, "1"),
        (f"breakeven, {names[0]}", mine, f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"),
        (f"breakeven, {names[1]}", v5_1, ""),
    ]
    lines = ["| tool and source | wall time (s) | peak resident memory, all processes (MiB) | times as fast |"]
    lines.append("| --- | ---: | ---: | ---: |")
    for name, costs, ratio in rows:
        wall_s = statistics.median(it.wall_s for it in costs)
        lines.append(f"| {name} | {wall_s:.2f} | {max(it.peak_mib for it in costs):.0f} | {ratio} |")
    return "\n".join(lines)


def version(package: str) -> str:
    from importlib.metadata import version as of

    return of(package)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--v4.1", dest="v4_1", type=Path, required=True, help="the v4.1 repository: tree or tar archive"
    )
    parser.add_argument("--v5.1", dest="v5_1", type=Path, required=True, help="the v5.1 repository as a tar archive")
    parser.add_argument("--turns", type=int, default=3, help="how often each tool runs (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a smoke run: one turn, v4.1's subset in both places")
    args = parser.parse_args()
    turns = 1 if args.quick else args.turns
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "tree").mkdir()
        tree = as_tree(args.v4_1.resolve(), folder / "tree")
        ours(tree, "v4.1", folder)  # so that neither tool is the first to read the files
        alternating = [(official(tree, folder), ours(tree, "v4.1", folder)) for _ in range(turns)]
        newer = "v4.1" if args.quick else "v5.1"
        archive = args.v5_1.resolve()
        names = ("v4.1 subset, tree", "v4.1 subset, archive") if args.quick else ("v4.1, tree", "v5.1, tar.xz")
        rounds = [ours(archive, newer, folder) for _ in range(turns)]
    print(table(alternating, rounds, names))
    cores = len(os.sched_getaffinity(0))
    print(f"\n{cores} cores, Python {platform.python_version()}, mlperf-logging {version('mlperf-logging')}; median of "
          f"{turns} turns, memory the highest; load average before the end {os.getloadavg()[0]:.1f}.")  # fmt: skip


if __name__ == "__main__":
    main()
