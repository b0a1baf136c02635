"""YAML files read safely, with the line of every key at hand so that an error can name it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from breakeven.schema.errors import UserError

Location = Sequence[int | str]

#: Ours nest five deep; far below Python's own limit, so that whatever walks the data can.
MAX_DEPTH = 50
#: Aliases spelt out: ten lines of them can stand for more values than a machine holds.
MAX_NODES = 1_000_000


class _Loader(yaml.SafeLoader):
    """A SafeLoader whose every failure has a place: PyYAML lets Python's own errors through, without one."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                problem=f"lists or keys nested more than {MAX_DEPTH} deep", problem_mark=mark
            )
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
            kind = node.tag.rsplit(":", 1)[-1]
            shown = f"'{node.value[:50]}'" if isinstance(node.value, str) else "this"
            _fail(f"{shown} is no {kind} (put it in quotes if it is text)", node)


def _fail(problem: str, node: yaml.Node) -> NoReturn:
    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


def _read(text: str) -> tuple[yaml.Node | None, Any]:
    """The tree of nodes and the data. Raises YAMLError."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, None
        _measure(root, (), {})
        # Before construction, which merges '<<' into the nodes: that may rightly bring a key that is there.
        _refuse_duplicates(root, set())
        return root, loader.construct_document(root)
    finally:
        loader.dispose()


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _measure(node: yaml.Node, above: tuple[yaml.Node, ...], known: dict[yaml.Node, int]) -> int:
    """How many nodes stand here with every alias spelt out. Fails where that has no end, or none in reach."""
    if node in above:
        _fail("an alias (*) inside of what it stands for", node)
    if node not in known:
        known[node] = 1 + sum(_measure(child, (*above, node), known) for child in _children(node))
        if known[node] > MAX_NODES:
            _fail(f"aliases (*) that stand for more than {MAX_NODES} values", node)
    return known[node]


def _refuse_duplicates(node: yaml.Node, done: set[yaml.Node]) -> None:
    """YAML lets the last of two equal keys win in silence, which loses half of a sweep."""
    if node in done:
        return
    done.add(node)
    seen: dict[str, int] = {}
    keys = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
    for key in keys:
        if not isinstance(key, yaml.ScalarNode):
            _fail("a list or keys cannot be a key", key)
        if key.value in seen:
            _fail(f"key '{key.value}' stands here a second time (first in line {seen[key.value]}). Keep one", key)
        seen[key.value] = key.start_mark.line + 1
    for child in _children(node):
        _refuse_duplicates(child, done)


class YamlFile:
    """A YAML file's data and the place of each value in the text.

    Raises UserError when the file is missing, is not YAML, holds a key twice or is not a mapping.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"{path}: no such file.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read: {error}.") from None
        try:
            self._root, self.data = _read(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
            raise UserError(f"{where}: not valid YAML: {error.problem or error.context}.") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise UserError(f"{path}, line {line}: not valid YAML: a character that is not printable.") from None
        except yaml.YAMLError as error:
            raise UserError(f"{path}: not valid YAML: {error}.") from None
        if not isinstance(self.data, dict):
            raise UserError(f"{path}: expected keys with values ('title: ...'), found {type(self.data).__name__}.")

    def where(self, location: Location) -> str:
        """``path, line N`` of the deepest part of a location that is in the file."""
        node, line = self._root, None
        for part in location:
            found: yaml.Node | None = None
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == str(part):
                        found, line = value, key.start_mark.line + 1
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                found = node.value[part]
                line = found.start_mark.line + 1
            if found is None:
                # pydantic names the union member it tried between two keys of ours: skip that.
                continue
            node = found
        return f"{self.path}, line {line}" if line else str(self.path)
