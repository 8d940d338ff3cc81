"""JSON as brokers read it: bare integer keys, comments, zero bytes, byte order mark, trailing commas; and which of these it needed.

Source: fact sheet timer §3.1, sheet of the newer releases §8.1. What every release rejects (truncated text, text after the object) is
rejected here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Leniency(StrEnum):
    """A departure from the JSON standard that was needed to read a text."""

    INTEGER_KEYS = "integer keys without quotes"
    COMMENTS = "comments"
    TRAILING_COMMAS = "trailing commas"
    BYTE_ORDER_MARK = "a byte order mark"
    ZERO_BYTES_AROUND = "zero bytes before or after the text"
    ZERO_BYTES_INSIDE = "zero bytes inside the text"  # rejected by 5.4.0, accepted by all others
    MALFORMED_UTF8 = "bytes that are no UTF-8"


@dataclass(frozen=True, slots=True)
class TolerantJson:
    """A parsed text. `leniencies` is empty for standard JSON; for the files of a broker `INTEGER_KEYS` is the normal case."""

    value: Any
    leniencies: frozenset[Leniency]


_TOKEN = re.compile(
    r"""
      (?P<string>"[^"\\]*(?:\\.[^"\\]*)*")
    | (?P<comment>/\*.*?\*/|//[^\n]*)
    | (?P<zero>\0+)
    | (?P<comma>,)
    | (?P<close>[}\]])
    | (?P<open>[{\[:])
    | (?P<space>[\ \t\r\n]+)
    | (?P<word>[^\s\0,{}\[\]:"/]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"-?[0-9]+")
_BYTE_ORDER_MARK = "\ufeff"


def parse(data: bytes) -> TolerantJson:
    """Return the value of a text that a broker would accept. Raises ValueError with the reason for any other text."""
    leniencies: set[Leniency] = set()
    text = decode(data, leniencies)
    try:
        value = load(text)
    except ValueError:
        # Only now, because reading token by token takes many times longer.
        value = load(_standard(text, leniencies))
    return TolerantJson(value, frozenset(leniencies))


def with_integers(data: bytes, changes: Mapping[tuple[str, ...], int]) -> bytes:
    """Return a text that `parse` accepts with other integers at some paths of object keys; every other byte is unchanged."""
    text = data.decode("latin-1")  # one character per byte, so that bytes that are no UTF-8 are unchanged too
    pieces: list[str] = []
    path: list[str] = []
    last = ""
    for kind, token in tokens(text):
        if token == ":":
            path[-1] = _key(last)
        elif kind == "open":
            path.append("")
        elif kind == "close":
            path.pop()
        elif kind == "word" and last == ":" and tuple(path) in changes:
            token = str(changes[tuple(path)])
        if kind not in ("space", "comment", "zero"):
            last = token
        pieces.append(token)
    return "".join(pieces).encode("latin-1")


def _key(token: str) -> str:
    return str(load(token.encode("latin-1").decode("utf-8", "replace"))) if token.startswith('"') else token


def is_blank(data: bytes) -> bool:
    """Return whether a text consists of white space only; zero bytes are no white space."""
    return not data.strip(b" \t\r\n\f")


def decode(data: bytes, leniencies: set[Leniency]) -> str:
    """Return the characters of a text without zero bytes around it and byte order mark, which are added to `leniencies`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        leniencies.add(Leniency.MALFORMED_UTF8)
        text = data.decode("utf-8", "replace")
    stripped = text.strip("\0")
    if stripped != text:
        leniencies.add(Leniency.ZERO_BYTES_AROUND)
    if stripped.startswith(_BYTE_ORDER_MARK):
        leniencies.add(Leniency.BYTE_ORDER_MARK)
        stripped = stripped.removeprefix(_BYTE_ORDER_MARK)
    return stripped


def _standard(text: str, leniencies: set[Leniency]) -> str:
    """Return the text with every leniency written as in the standard. Contents of strings are never changed."""
    pieces: list[str] = []
    last = ""  # the last token that counts, for keys: the one before a colon
    last_at = -1
    for kind, token in tokens(text):
        if kind == "comment":
            leniencies.add(Leniency.COMMENTS)
            continue
        if kind == "zero":
            leniencies.add(Leniency.ZERO_BYTES_INSIDE)
            continue
        if kind == "close" and last == ",":
            leniencies.add(Leniency.TRAILING_COMMAS)
            pieces[last_at] = ""
        elif token == ":" and _INTEGER.fullmatch(last):
            leniencies.add(Leniency.INTEGER_KEYS)
            pieces[last_at] = f'"{last}"'
        if kind != "space":
            last, last_at = token, len(pieces)
        pieces.append(token)
    return "".join(pieces)


def tokens(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield the tokens in order, with the name of their group. Raises ValueError."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unexpected character at {position}")
        yield match.lastgroup, match[0]
        position = match.end()


def load(text: str) -> Any:
    """Return the value of a text of standard JSON. Raises ValueError."""
    try:
        return json.loads(text, strict=False, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


# The readable beginning of a text that is cut off, as by a crash, or damaged further on


@dataclass(frozen=True, slots=True)
class ReadablePart:
    """The beginning of a text up to where it cannot be read: the members of its object, and the keys that lead to where it ends.

    Objects on the way there are incomplete; every other value is complete.
    """

    value: dict[str, Any]
    cut: tuple[str, ...]


def readable_part(data: bytes) -> ReadablePart:
    """Return what can be read of a text that is cut off or damaged; no members where it does not begin with an object."""
    root: dict[str, Any] = {}
    stack: list[tuple[Any, str]] = []  # containers that are not closed, and in objects the key of the member in the making
    last: Any = None  # a value that is complete once a comma or a closing bracket follows
    waits = False
    # A text without an end ends here; one that is damaged does so at the first token that does not fit.
    with suppress(ValueError):
        for kind, token in tokens(decode(data, set())):
            if kind in ("space", "comment", "zero"):
                continue
            if token in "{[" and not waits:
                made: Any = root if not stack else {} if token == "{" else []
                if (not stack and (root or token == "[")) or (stack and isinstance(stack[-1][0], dict) and not stack[-1][1]):
                    break
                _put(stack, made)
                stack.append((made, ""))
            elif token == ":" and waits and stack and isinstance(stack[-1][0], dict):
                stack[-1] = stack[-1][0], str(last)
                waits = False
            elif kind in ("comma", "close") and stack:
                if waits:
                    _put(stack, last)
                container, waits = stack[-1][0], False
                stack[-1] = container, ""
                if kind == "close":
                    if (token == "}") != isinstance(container, dict):
                        break
                    stack.pop()
                    if not stack:
                        break
            elif kind in ("string", "word") and stack and not waits:
                last, waits = load(token), True
            else:
                break
    return ReadablePart(root, tuple(key for _, key in stack if key))


def _put(stack: list[tuple[Any, str]], value: Any) -> None:
    if not stack:
        return
    container, key = stack[-1]
    if isinstance(container, list):
        container.append(value)
    elif key:
        container[key] = value
    else:
        raise ValueError("a value without a key")
