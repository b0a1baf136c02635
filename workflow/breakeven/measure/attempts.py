"""Starts of a run that left no record, one JSON object per line, beside the record. A killed run must be tried again,
but one that is killed the same way twice is a result."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from breakeven.schema.spec import Json


@dataclass(frozen=True, slots=True)
class Attempts:
    path: Path

    def begin(self) -> int:
        """Notes a start; returns how many there were since the last record, this one included."""
        self._add({"event": "start"})
        return sum(event["event"] == "start" for event in self._open())

    def killed(self, signal_name: str, rank: int | None) -> bool:
        """Notes a kill from outside; returns whether the one before it was the same."""
        earlier = [event["signal"] for event in self._open() if event["event"] == "killed"]
        self._add({"event": "killed", "signal": signal_name, "rank": rank})
        return bool(earlier) and earlier[-1] == signal_name

    def end(self) -> None:
        """A record is written. It holds the count; a history of kills is kept, anything less is not worth a file."""
        if any(event["event"] == "killed" for event in self._all()):
            self._add({"event": "record"})
        else:
            self.path.unlink(missing_ok=True)

    def _open(self) -> list[Json]:
        """Events since the last record."""
        events = self._all()
        last = max((i for i, event in enumerate(events) if event["event"] == "record"), default=-1)
        return events[last + 1 :]

    def _all(self) -> list[Json]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]

    def _add(self, event: Json) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self.path.open("a") as stream:
            stream.write(json.dumps({"at": stamp, **event}) + "\n")
