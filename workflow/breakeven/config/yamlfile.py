"""YAML files read safely, with the line of every key at hand so that an error can name it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from breakeven.schema.errors import UserError

Location = Sequence[int | str]


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
            self._root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data: Any = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
            raise UserError(f"{where}: not valid YAML: {error.problem or error.context}.") from None
        except yaml.YAMLError as error:
            raise UserError(f"{path}: not valid YAML: {error}.") from None
        if self._root is not None:
            self._refuse_duplicates(self._root)
        if not isinstance(self.data, dict):
            raise UserError(f"{path}: expected keys with values ('title: ...'), found {type(self.data).__name__}.")

    def _refuse_duplicates(self, node: yaml.Node) -> None:
        # YAML lets the last of two equal keys win in silence, which loses half of a sweep.
        if isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.value in seen:
                    raise UserError(
                        f"{self.path}, line {line}: key '{key.value}' stands here a second time "
                        f"(first in line {seen[key.value]}). Keep one."
                    )
                seen[key.value] = line
                self._refuse_duplicates(value)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._refuse_duplicates(item)

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
