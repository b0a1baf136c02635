"""Files of rules: ours and a user's, found by name, read fast, and named with their line where something is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import yaml

from breakeven.config.yamlfile import YamlFile
from breakeven.mlperf.requirements import RuleProblem, as_text
from breakeven.schema.errors import UserError

HERE = Path(__file__).parent / "rules"

Kind = Literal["rounds", "benchmarks"]

T = TypeVar("T")

#: PyYAML's loader in C where it is built in: rule files are read whenever the command line starts.
_FAST_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def rule_files(kind: Kind, extra: Path | None) -> dict[str, Path]:
    """Name → file. One in the user's folder ``extra`` wins over ours of the same name."""
    found: dict[str, Path] = {}
    for folder in (HERE, extra):
        if folder is not None:
            found |= {path.stem: path for path in sorted((folder / kind).glob("*.yaml"))}
    return found


def read_rules(kind: Kind, path: Path, extra: Path | None, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The file's keys, and for what it leaves out those of the file that it says it is ``like``."""
    raw = _read(path)
    if "like" not in raw:
        return raw
    other = read_in(path, lambda: as_text(raw.pop("like"), "like"))
    # A file may be like the one of ours that it replaces.
    known = rule_files(kind, None) | {name: at for name, at in rule_files(kind, extra).items() if at != path}
    if other not in known or known[other] in above:
        refuse(path, RuleProblem(f"is {other!r}; expected one of {', '.join(sorted(known))}.", "like"))
    return read_rules(kind, known[other], extra, (*above, path)) | raw


def merged(base: Any, changes: Any) -> Any:
    """Mappings merge key by key, null takes a key away; anything else replaces."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    both = base | {key: merged(base.get(key), value) for key, value in changes.items()}
    return {key: value for key, value in both.items() if value is not None}


def read_in(path: Path, read: Callable[[], T]) -> T:
    """What ``read`` gives. A problem it finds becomes a message that names the file and the line."""
    try:
        return read()
    except RuleProblem as problem:
        refuse(path, problem)


def refuse(path: Path, problem: RuleProblem) -> NoReturn:
    key = ".".join(problem.place)
    raise UserError(f"{YamlFile(path).where(problem.place)}: {key}{' ' if key else ''}{problem}") from problem


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            raw = yaml.load(file, Loader=_FAST_LOADER)  # noqa: S506  a SafeLoader
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, LookupError, TypeError, RecursionError):
        raw = None
    # The slow way has the place of what is wrong, and is the one that decides.
    return dict(raw) if isinstance(raw, dict) else dict(YamlFile(path).data)
