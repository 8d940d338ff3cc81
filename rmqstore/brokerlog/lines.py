"""Lines of a log file of any size, one by one, with time, level, and the stack trace and further text that follow."""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rmqstore.errors import UnreadableError
from rmqstore.store.mapped import unreadable

STANDARD_INPUT = Path("-")
LONGEST_LINE = 64 * 1024
"""Characters of a line that are kept; the rest is read and dropped."""
_LONGEST_TRACE = 100
_BUFFER = 1 << 18
_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

# Other programs (containers, the system's own log) put their text before the broker's.
_HEAD = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) +"
    r"(?:\[[^\]]{0,99}\] +)?(?P<level>TRACE|DEBUG|INFO|WARN|ERROR) +(?P<thread>.{0,250}?) - (?P<message>.*)",
    re.DOTALL,
)
_HEAD_WITHIN = 400

# Lines of clients, of other logging patterns and lines that lost their date: `WARN Name - …`, `[date] WARN …`, `15-10-15 … WARN …`.
_OTHER_HEAD = re.compile(
    r"[\W_]{0,3}(?:(?P<time>(?:\d{4}|\d\d)[-/.]\d\d?[-/.]\d\d?[ T]\d\d:\d\d(?::\d\d)?(?:[.,:]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)[\])\s|,]*(?:\[[^\]]{0,99}\]\s*|[\w.$-]{1,80}\s+)?)?"
    r"[\[<(]?(?P<level>TRACE|DEBUG|INFO|WARN|ERROR)(?:ING)?[\]>)]?(?:\s*[:|]|\s)\s*(?P<rest>\S.*)",
    re.DOTALL,
)
_MOST_WORDS_OF_A_NAME = 5
FRAME = re.compile(r"\s*(?P<frame>at [\w.$/<>@-]+\([^)]{0,200}\))")
_LEVELS = ("INFO", "WARN", "ERROR", "DEBUG", "TRACE")
_TRACE = re.compile(
    r"\s+at |\s*\.\.\. \d+ (?:more|common frames)|Caused by: |\s*Suppressed: |For more information, please visit |See https?://"
)
_EXCEPTION = re.compile(r"(?:Caused by: )?(?P<exception>(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b.*)", re.DOTALL)


@dataclass(slots=True)
class Line:
    """One entry of a log: the line itself, and the exceptions and frames of stacks below it.

    `time` is as printed, `level` None if the line has none. `rest`: all text after the level, where the message may begin later.
    """

    message: str
    time: str | None = None
    level: str | None = None
    exceptions: list[str] = field(default_factory=list)
    lines: int = 1
    rest: str | None = None
    frames: list[str] = field(default_factory=list)


def split_head(text: str) -> Line:
    """Return a text as a line of a log; without time and level it is all message."""
    text = _unwrapped(text.strip("\r\n\0"))
    head = _HEAD.match(text) or (_HEAD.search(text) if _may_have_head(text) else None)
    if head is None:
        return _other(text)
    return Line(head["message"].strip(), head["time"], head["level"])


def _other(text: str) -> Line:
    """Return a text without the head of a broker's log as a line."""
    head = _OTHER_HEAD.match(text)
    if head is None:
        return Line(text.strip())
    rest = head["rest"].strip()
    name, _, message = rest.partition(" - ")
    if not message or len(name.split()) > _MOST_WORDS_OF_A_NAME:
        message = rest
    return Line(message.strip(), head["time"], head["level"], rest=rest)


def _unwrapped(text: str) -> str:
    """Return the line in a line of JSON, as containers write it; any other text as it is."""
    if not text.startswith("{") or len(text) > LONGEST_LINE:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    inner = [value[name] for name in ("log", "message", "msg") if isinstance(value, dict) and isinstance(value.get(name), str)]
    return inner[0].strip("\r\n") if inner else text


def entries(texts: Iterable[str]) -> Iterator[Line]:
    """Yield the entries that lines of text make up: a line without time and level belongs to the one before that has them.

    In a text where no line has them (an excerpt of a log), every line is an entry, and only stack traces belong to the
    line before.
    """
    current: Line | None = None
    with_heads = False
    for text in texts:
        line = split_head(text)
        with_heads = with_heads or line.level is not None
        exception = _EXCEPTION.match(line.message) if line.level is None else None
        belongs = line.level is None and (with_heads or exception is not None or _TRACE.match(text) is not None or not line.message)
        frame = FRAME.match(text)
        if current is not None and belongs:
            current.lines += 1
            if frame is not None and len(current.frames) < _LONGEST_TRACE:
                current.frames.append(frame["frame"])
            if exception is not None and len(current.exceptions) < _LONGEST_TRACE:
                current.exceptions.append(exception["exception"])
            continue
        if current is not None:
            yield current
        current = line
    if current is not None:
        yield current


class LogFile:
    """A log file that is read once from its beginning: plain or gzip, UTF-8 or UTF-16; bytes that are no text become escapes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = 0
        self.broken: str | None = None
        self._raw: io.BufferedReader | None = None

    def open(self) -> None:
        """Open the file. Raises UnreadableError if it cannot be opened, and for a directory."""
        if self.path == STANDARD_INPUT:
            self._raw = io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
            return
        try:
            status = self.path.stat()
            if stat.S_ISDIR(status.st_mode):
                hint = "Give one of its files: store.log, broker.log, storeerror.log."
                raise UnreadableError(f"{self.path} is a directory, not a log file.", hint)
            self.length = status.st_size
            self._raw = self.path.open("rb")
        except OSError as error:
            raise unreadable(self.path, error) from error

    @property
    def position(self) -> int:
        """Bytes of the file read so far, 0 if not known."""
        return self._raw.tell() if self._raw is not None and self.length else 0

    def texts(self) -> Iterator[str]:
        """Yield the lines. Reading ends where a compressed file is damaged or the disk fails; then `broken` says why."""
        if self._raw is None:
            self.open()
        assert self._raw is not None
        with self._raw as raw:
            try:
                with _decoded(raw) as decoded:
                    yield from _limited_lines(decoded)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                self.broken = f"the compressed file is damaged: {error}"
            except OSError as error:
                self.broken = f"reading failed: {error.strerror or error}"


def _may_have_head(text: str) -> bool:
    """Return whether the text can have time and level: a level is near its beginning."""
    beginning = text[:_HEAD_WITHIN]
    return " - " in text and any(f" {level} " in beginning for level in _LEVELS)


def _decoded(raw: io.BufferedReader) -> io.TextIOWrapper:
    stream = raw
    if raw.peek(2)[:2] == _GZIP_MAGIC:
        stream = io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER)
    encoding = "utf-16" if stream.peek(2)[:2] in _UTF16_MARKS else "utf-8-sig"
    return io.TextIOWrapper(stream, encoding=encoding, errors="backslashreplace", newline="\n")


def _limited_lines(stream: io.TextIOWrapper) -> Iterator[str]:
    while text := stream.readline(LONGEST_LINE):
        yield text
        while text and not text.endswith("\n") and len(text) == LONGEST_LINE:
            text = stream.readline(LONGEST_LINE)
