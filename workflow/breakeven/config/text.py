"""What a person may write as a title or a name: it becomes a heading, a line of a table and part of a file name."""

import re
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from breakeven.schema.spec import slug

#: A name that becomes a folder.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: A round of MLPerf Training: it becomes a folder too.
ROUND = re.compile(r"v[0-9]{1,3}\.[0-9]{1,3}")
COMMIT = re.compile(r"[0-9a-f]{40}")
#: File systems end at 255 bytes, and a name gets suffixes.
MAX_NAME = 100
#: Control characters, lone surrogates, line and paragraph separators: they break a CSV, a figure or a file.
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


def is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and NAME.fullmatch(text) is not None


def one_line(text: str) -> str:
    for character in text:
        if unicodedata.category(character) in _UNPRINTABLE:
            raise ValueError(f"holds the character U+{ord(character):04X}; write one line of printable characters")
    return text


def with_slug(text: str) -> str:
    if not slug(text):
        raise ValueError("needs a letter a-z or a digit, because files are named after it")
    return text


def round_name(value: Any) -> Any:
    if not isinstance(value, str) or not ROUND.fullmatch(value):
        raise ValueError("should be the name of a round, such as v4.1")
    return value


def commit(value: Any) -> Any:
    if not isinstance(value, str) or not COMMIT.fullmatch(value):
        raise ValueError("should be a commit: 40 hex digits (0-9, a-f), in quotes where all are digits")
    return value


#: One printable line.
Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(one_line)]
#: An entry of 'studies': a name, or a path of any sensible length.
Entry = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(one_line)]
#: A line that files can be named after.
Title = Annotated[Line, AfterValidator(with_slug)]
