"""The MLLOG lines of a log, read as a stream: a log is whatever a job printed, of any size and encoding."""

import codecs
from collections.abc import Iterator
from typing import Protocol

MARK = ":::MLLOG"

#: Every byte is a latin-1 character: seven ssd logs of v4.1 are not UTF-8, and nothing read here needs more than ASCII.
ENCODING = "latin-1"

#: Longer lines are skipped unread; the longest MLLOG line of v4.1 and v5.1 has 1,056 bytes.
MAX_LINE_BYTES = 1 << 20

_BLOCK_BYTES = 1 << 18


class ByteStream(Protocol):
    """What a log is read from: a binary file, also one in an archive."""

    def read(self, size: int, /) -> bytes: ...


class LogLines:
    """The lines of a stream that hold the MLLOG mark, in order, and what was odd about all lines, known once they are
    read. Lines end where Python's text files end them: a progress bar's carriage return ends one too."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.overlong_lines = 0
        """Lines of more than ``MAX_LINE_BYTES``, skipped."""
        self.non_utf8 = False
        """There are bytes that are not UTF-8."""
        self._utf8 = codecs.getincrementaldecoder("utf-8")()

    def __iter__(self) -> Iterator[str]:
        begun = b""  # of a line whose end is yet to come
        skipping = False  # it is too long already
        while block := self._stream.read(_BLOCK_BYTES):
            self._note_encoding(block)
            first = _line_end(block)
            if not first:
                begun = b"" if skipping else begun + block
                if len(begun) > MAX_LINE_BYTES:
                    begun, skipping = b"", True
                    self.overlong_lines += 1
                continue
            if not skipping and len(begun) + first > MAX_LINE_BYTES:
                self.overlong_lines += 1
                skipping = True
            last = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            whole = block[first:last] if skipping else begun + block[:last]
            begun, skipping = block[last:], False
            yield from _marked(whole)
        self._note_encoding(b"", final=True)
        yield from _marked(begun)

    def _note_encoding(self, block: bytes, final: bool = False) -> None:
        if self.non_utf8 or (block.isascii() and not final and not self._utf8.getstate()[0]):
            return
        try:
            self._utf8.decode(block, final)
        except UnicodeDecodeError:
            self.non_utf8 = True


def read_lines(stream: ByteStream) -> LogLines:
    """The MLLOG lines of a stream, for ``run_facts``. Holds at most about two megabytes of it."""
    return LogLines(stream)


def _line_end(block: bytes) -> int:
    """Just past the end of the first line; 0 if none ends."""
    ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
    return min(ends, default=-1) + 1


def _marked(data: bytes) -> Iterator[str]:
    text = data.decode(ENCODING)
    at = text.find(MARK)
    if at < 0:
        return
    if "\r" in text:
        text = text.replace("\r", "\n")
        at = text.find(MARK)
    while at >= 0:
        end = text.find("\n", at)
        if end < 0:
            end = len(text)
        yield text[text.rfind("\n", 0, at) + 1 : end]
        at = text.find(MARK, end)
