"""Where the results of each MLPerf round come from, decided before Snakemake builds its graph."""

import functools
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from breakeven.config.load import closest
from breakeven.config.models import Mlperf
from breakeven.config.places import Place
from breakeven.head.sources import PACKAGE
from breakeven.mlperf.fetch import check_repository
from breakeven.mlperf.rules import Round, known_rounds, load_round
from breakeven.schema.errors import UserError

RESULTS = "results"
ROUNDS = f"{RESULTS}/mlperf"
FACTS = PACKAGE / "mlperf" / "facts"
#: A round's archive in a folder of the user's, most wanted first.
ARCHIVES = (".tar.xz", ".tar.gz", ".tar")

Source = Literal["facts", "files", "repository"]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """One round, ready for rules. ``path`` is the table of runs that comes with the project, the tree or archive of the
    user's, or the clone that is to be made."""

    rules: Round
    source: Source
    path: str
    repository: str = ""
    commit: str = ""

    @property
    def anomalies(self) -> str:
        """The table of anomalies that comes with the project."""
        return self.path.removesuffix("_runs.csv") + "_anomalies.csv"

    @property
    def origin(self) -> str:
        """Where the results come from, in words for whoever reads of them."""
        if self.source == "facts":
            return f"{self.rules.repository} at commit {self.rules.commit[:12]}"
        stated = f"{self.repository} at commit {self.commit[:12]}" if self.repository and self.commit else ""
        return stated or f"the folder {Path(self.path).parent.name or '.'} of whoever ran this"

    def state(self) -> str:
        """What the files of a tree look like from outside: Snakemake sees a folder's own date alone."""
        return tree_state(self.path) if self.source == "files" and Path(self.path).is_dir() else ""


@functools.cache
def tree_state(root: str) -> str:
    """A digest of the names, sizes and dates below a folder. No file is read."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        # Submitters' code is most of a repository's files, and no result.
        folders[:] = sorted(name for name in folders if name not in (".git", "benchmarks"))
        for name in sorted(files):
            path = os.path.join(folder, name)
            try:
                seen = os.lstat(path)
            except OSError:
                continue
            digest.update(
                f"{os.path.relpath(path, root)}\0{seen.st_size}\0{seen.st_mtime_ns}\n".encode(errors="replace")
            )
    return digest.hexdigest()[:16]


@dataclass(slots=True)
class Rounds:
    """The rounds of one invocation, found as they are asked for. ``places`` knows where the user wrote what."""

    mlperf: Mlperf
    places: Place
    found: dict[str, RoundPlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("source", "rules"):
            if set("{}") & set(path := getattr(self.mlperf, key)):
                raise UserError(
                    f"{self.where(key)}: mlperf.{key}: {path}: Snakemake takes braces for a wildcard. Rename it."
                )
            if path.startswith("~"):
                self._without_tilde(key, path)
        if self.mlperf.rules:
            _refuse_no_rules(self.rules_folder, f"{self.where('rules')}: mlperf.rules: {self.mlperf.rules}")
        for number, name in enumerate(self.mlperf.rounds):
            self.named(name, self.where("rounds", number))

    def where(self, *keys: str | int) -> str:
        return self.places.where(["mlperf", *keys])

    def _without_tilde(self, key: str, path: str) -> Path:
        try:
            return Path(path).expanduser()
        except RuntimeError:
            raise UserError(
                f"{self.where(key)}: mlperf.{key}: {path}: no home folder of such a user. Write the path out."
            ) from None

    @property
    def rules_folder(self) -> Path | None:
        return Path(self.mlperf.rules).expanduser() if self.mlperf.rules else None

    def named(self, name: str, place: str) -> RoundPlan:
        """The round that ``place`` names. Raises UserError where its rules or its results are not to be had."""
        if name not in self.found:
            known = known_rounds(self.rules_folder)
            if name not in known:
                raise UserError(
                    f"{place}: no rules of round '{name}'. {closest(name, known)} A folder of your own rule files "
                    "(mlperf.rules) adds a round."
                )
            self.found[name] = self._plan(load_round(name, self.rules_folder), place)
        return self.found[name]

    def _plan(self, rules: Round, place: str) -> RoundPlan:
        facts = FACTS / f"{rules.name}_runs.csv"
        source = self.mlperf.source
        # With rounds named, `source` is theirs: what a study names beside them need not be there too.
        elsewhere = bool(self.mlperf.rounds) and rules.name not in self.mlperf.rounds and facts.is_file()
        if source in ("", "facts") or elsewhere:
            if not facts.is_file():
                raise UserError(
                    f"{place}: no facts of round '{rules.name}' come with the project (only of "
                    f"{', '.join(shipped()) or 'none'}). Set mlperf.source to a folder that holds its results, or to "
                    "'repository'."
                )
            return RoundPlan(rules, "facts", os.path.relpath(facts))
        if source == "repository":
            return self._clone(rules, place)
        return self._files(rules, Path(source).expanduser())

    def _clone(self, rules: Round, place: str) -> RoundPlan:
        url = self._url(rules)
        try:
            check_repository(url)
        except ValueError as error:
            raise UserError(f"{self.where('repository')}: mlperf.repository: '{url}' {error}.") from None
        commit = self.mlperf.commits.get(rules.name) or rules.commit
        if not commit:
            raise UserError(
                f"{place}: no commit of round '{rules.name}' is pinned, so what is cloned could change. Name it: "
                f"mlperf.commits: {{{rules.name}: <40 hex digits>}}."
            )
        return RoundPlan(rules, "repository", f"{ROUNDS}/{rules.name}/repository", url, commit)

    def _files(self, rules: Round, folder: Path) -> RoundPlan:
        at = f"{self.where('source')}: mlperf.source: {folder}"
        if os.path.isfile(folder):  # unlike Path's, no error for a name that is too long
            raise UserError(f"{at}: a file. Name the folder that it lies in.")
        if not os.path.isdir(folder):
            raise UserError(
                f"{at}: no such folder (paths start where you run snakemake). Besides a folder, 'facts' and "
                "'repository' are sources."
            )
        archive = f"training_results_{rules.name}"
        names = [rules.name, archive, *(archive + suffix for suffix in ARCHIVES)]
        path = next((folder / name for name in names if os.path.exists(folder / name)), None)
        if path is None:
            raise UserError(
                f"{at}: no results of round '{rules.name}' in it. Looked for a tree '{rules.name}/' and an archive "
                f"'{archive}{ARCHIVES[0]}' (or {', '.join(ARCHIVES[1:])})."
            )
        if _shares(path, RESULTS):
            raise UserError(
                f"{at}: {path} and '{RESULTS}/', where this workflow writes, lie one inside the other: outputs would "
                "be read as results. Move the results to a folder of their own."
            )
        commit = self.mlperf.commits.get(rules.name, "")
        return RoundPlan(rules, "files", str(path), self._url(rules) if commit else "", commit)

    def _url(self, rules: Round) -> str:
        return self.mlperf.repository.replace("{round}", rules.name) or rules.repository


def shipped() -> list[str]:
    """The rounds whose facts come with the project."""
    return sorted(path.name.removesuffix("_runs.csv") for path in FACTS.glob("*_runs.csv"))


def rule_files(folder: Path | None) -> list[str]:
    """The user's rule files, so that a change of one is seen."""
    return sorted(str(path) for path in folder.rglob("*") if path.suffix in (".yaml", ".csv")) if folder else []


def _shares(path: Path, folder: str) -> bool:
    """Whether one is the other, or lies in it, links followed."""
    real, other = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([real, other]) in (real, other)


def _refuse_no_rules(folder: Path | None, at: str) -> None:
    if folder is None or not os.path.isdir(folder):
        raise UserError(f"{at}: no such folder (paths start where you run snakemake).")
    if not any(os.path.isdir(folder / name) for name in ("rounds", "benchmarks")):
        raise UserError(f"{at}: holds neither a folder 'rounds' nor a folder 'benchmarks' with rule files.")
