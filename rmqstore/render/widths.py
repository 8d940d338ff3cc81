"""Text in a given width: folded between words, shortened in the middle; commands to paste stay as they are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

ELLIPSIS = "…"
_LEAST = 24
"""Characters that a shortened cell keeps, and that a folded one has at least."""
_COMMAND = re.compile(r"(rmqstore|cp|chmod|chown|echo|sudo|ls) \S")
_WORD = re.compile(r"[^\s`]*`[^`]*`[^\s`]*|\S+")  # a command in backquotes is one word


def width_of(stream: TextIO) -> int | None:
    """Return the width of text: COLUMNS, else that of the terminal, else None (unlimited)."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def cells(text: str) -> int:
    """Return how many cells of a terminal a text without control characters takes: wide characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return text with blanks up to `width` cells, before it if `right`."""
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks


def is_command(text: str) -> bool:
    """Return whether text is a command to paste, which is never folded."""
    return _COMMAND.match(text) is not None


def shortened(text: str, width: int) -> str:
    """Return text with at most `width` cells: the middle is left out, as in a path whose ends say most."""
    room = max(width - 1, 2)
    if cells(text) <= width:
        return text
    begin, end = room // 2, room - room // 2
    while cells(text[:begin]) > room // 2:
        begin -= 1
    while cells(text[len(text) - end :]) > room - room // 2:
        end -= 1
    return text[:begin] + ELLIPSIS + text[len(text) - end :]


def folded(text: str, width: int | None, following: str = "") -> Iterator[tuple[int, int]]:
    """Yield the ranges [begin, end) of text for lines of `width`; lines after the first have `following` before them.

    Lines break between words only; a word that is longer than a line is a line of its own.
    """
    if width is None or cells(text) <= width:
        yield 0, len(text)
        return
    begin, end, room = 0, 0, width
    for word in _WORD.finditer(text):
        if cells(text[begin : word.end()]) > room and end > begin:
            yield begin, end
            begin, room = word.start(), width - len(following)
        end = word.end()
    if end > begin:
        yield begin, end


def columns_fitting(widths: Mapping[str, int], texts: Sequence[str], paths: Sequence[str], width: int | None) -> dict[str, int] | None:
    """Return the widths of the columns of a table that fits into `width`, or None where it cannot.

    First cells of `paths` are shortened, then the last one of `texts`, which is folded; `widths` are those of the longest cells.
    """
    fitting = dict(widths)
    if width is None:
        return fitting
    for name in (*paths, *texts[-1:]):
        excess = sum(fitting.values()) + 2 * (len(fitting) - 1) - width
        if excess <= 0:
            break
        fitting[name] = max(min(_LEAST, fitting[name]), fitting[name] - excess)
    return fitting if sum(fitting.values()) + 2 * (len(fitting) - 1) <= width else None
