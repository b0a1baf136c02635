"""Who wrote a value of the merged config: the command line, a file of ``--configfile``, or ``config/config.yaml``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from breakeven.config.yamlfile import Location, YamlFile

#: Stands for a value that is not there: None is a value.
_NOTHING = object()


class Place(Protocol):
    """What tells where a value stands."""

    def where(self, location: Location) -> str: ...


@dataclass(frozen=True, slots=True)
class Places:
    """``raw`` is the merged config, ``files`` what it was merged from, the most binding first."""

    raw: Mapping[str, Any]
    files: Sequence[YamlFile]
    default: str
    """What is named where nothing says who wrote a value."""
    command_line: Mapping[str, Any]
    """The keys of ``--config``."""

    @classmethod
    def of(
        cls, raw: Mapping[str, Any], paths: Sequence[Path], command_line: Mapping[str, Any] | None = None
    ) -> "Places":
        """``paths``: the files of ``--configfile`` from last to first, then the workflow's own."""
        return cls(raw, [YamlFile(path) for path in paths if path.is_file()], str(paths[-1]), command_line or {})

    def where(self, location: Location) -> str:
        value = _at(self.raw, location)
        if _at(self.command_line, location) is not _NOTHING:
            return f"--config {location[0]}"
        for file in self.files:
            if value is not _NOTHING and _at(file.data, location) == value:
                return file.where(location)
        if value is _NOTHING and self.files:
            return self.files[-1].where(location)  # a key that nobody wrote: where one would write it
        return self.default


def _at(data: Any, location: Location) -> Any:
    for part in location:
        if not isinstance(data, Mapping | list):
            return _NOTHING
        try:
            data = data[part]  # type: ignore[index]
        except (LookupError, TypeError):
            return _NOTHING
    return data
