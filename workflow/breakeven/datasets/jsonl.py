"""A file of the user's own: one JSON object per line, ``{"prompt": …, "response": …}`` or ``{"text": …}``."""

import hashlib
import json
from pathlib import Path

from breakeven.datasets.conversations import Conversation
from breakeven.schema.errors import UserError

FORMS = '{"prompt": "…", "response": "…"} or {"text": "…"}'


def read_jsonl(path: Path, sha256: str | None = None) -> list[Conversation]:
    """Samples in the file's order; blank lines are skipped. ``sha256`` pins the file to what the run's name says."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}). Give a JSONL file, each line {FORMS}.") from None
    found = hashlib.sha256(raw).hexdigest()
    if sha256 is not None and found != sha256:
        raise UserError(
            f"{path}: its sha256 is {found}, but the run is named for {sha256}. Plan again to use it as it is."
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8. Save the file as UTF-8.") from None
    # Not splitlines(): it breaks at U+2028 too, which JSON strings may hold.
    lines = enumerate(text.split("\n"), start=1)
    samples = [_sample(line, f"{path}, line {number}") for number, line in lines if line.strip()]
    if not samples:
        raise UserError(f"{path}: holds no sample. Each line is to be {FORMS}.")
    return samples


def _sample(line: str, where: str) -> Conversation:
    try:
        row = json.loads(line)
    except RecursionError:
        raise UserError(f"{where}: nested too deeply. Each line is to be {FORMS}.") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{where}: not JSON ({error.msg} at column {error.colno}). Each line is to be {FORMS}."
        ) from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: a JSON {type(row).__name__}, not an object. Each line is to be {FORMS}.")
    keys = ("prompt", "response") if "prompt" in row or "response" in row else ("text",)
    for key in keys:
        value = row.get(key)
        if key not in row:
            raise UserError(f"{where}: key {key!r} is missing. Each line is to be {FORMS}.")
        if not isinstance(value, str):
            raise UserError(f"{where}: {key!r} holds {type(value).__name__}, not text. Each line is to be {FORMS}.")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise UserError(
                f"{where}: {key!r} holds half of a surrogate pair, which is no text. Mend it, or drop the line."
            )
        if not value.strip() and key != "prompt":
            raise UserError(f"{where}: {key!r} is empty, so the sample bears no loss. Fill it, or drop the line.")
    if keys == ("text",):
        return Conversation("", row["text"])
    return Conversation(row["prompt"], row["response"])
