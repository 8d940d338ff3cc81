"""Text that is safe on a terminal: characters that control it, or that reorder or hide their neighbours, become visible escapes."""

from __future__ import annotations

import re
import sys
from typing import BinaryIO, Protocol, TextIO

# C0 and DEL, C1, the bidirectional controls, line and paragraph separators, and lone surrogates, which are bytes that are not UTF-8.
_STEERING = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    """Return `text` as one line without characters that control a terminal."""
    return _STEERING.sub(_escape, text)


def printable_json(lines: str) -> str:
    """Return JSON lines of the same values in which such characters are JSON escapes."""
    return _STEERING.sub(_json_escape, lines)


def warn(text: str) -> None:
    """Write one line to standard error."""
    sys.stderr.write(printable(text) + "\n")


class LineSink(Protocol):
    """Destination of finished lines as bytes."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Write whole lines."""

    def flush(self) -> None:
        """Flush all lines."""


def line_sink(stream: TextIO) -> LineSink:
    """Return the destination of finished JSON lines, which bypass `Output` because there are many of them."""
    stream.flush()
    return _TerminalLines(stream.buffer) if stream.isatty() else stream.buffer


class _TerminalLines:
    """JSON lines on a terminal."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, data: bytes | memoryview, /) -> None:
        self._stream.write(printable_json(str(data, "utf-8", "surrogateescape")).encode())

    def flush(self) -> None:
        self._stream.flush()


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _json_escape(found: re.Match[str]) -> str:
    return found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}"
