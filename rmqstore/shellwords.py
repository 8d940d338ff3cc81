"""Commands that can be pasted into a shell, whatever characters their arguments hold."""

from __future__ import annotations

import shlex
from pathlib import Path

from rmqstore.terminal import printable

_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF  # the surrogates for bytes of a name that is not UTF-8


def quoted(word: Path | str) -> str:
    """Return one word for a shell; characters that are unsafe on a terminal are escaped in `$'...'`, as bash, zsh and ksh read them."""
    text = str(word)
    if printable(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def command(*words: Path | str) -> str:
    """Return the words as one line."""
    return " ".join(map(quoted, words))


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if printable(character) == character:
        return character
    code = ord(character)
    data = bytes([code - 0xDC00]) if _FIRST_BYTE <= code <= _LAST_BYTE else character.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
