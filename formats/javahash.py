"""Java's operations on strings: decoding of malformed UTF-8, `String.hashCode`, `String.split`, `Integer.parseInt`.

Source: fact sheets queues §1 (malformed UTF-8), §2.3 (hash), §6.3 (index key hash); commitlog §2.9 (integers in properties).
"""

from __future__ import annotations

import codecs
import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_HANDLER = "rmqstore-java"
_INTEGER = re.compile(r"[+-]?\d+")


def _java_replacement(error: UnicodeError) -> tuple[str, int]:
    # Java replaces an encoded surrogate (ED A0..BF xx) as one character; Python replaces each of its bytes. Everything else agrees.
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == 0xED and start + 1 < len(data) and 0xA0 <= data[start + 1] <= 0xBF:
        third_continues = start + 2 < len(data) and 0x80 <= data[start + 2] <= 0xBF
        return REPLACEMENT, start + (3 if third_continues else 2)
    return REPLACEMENT, error.end


codecs.register_error(_HANDLER, _java_replacement)


def decode_java_utf8(data: bytes | bytearray | memoryview) -> str:
    """Return `new String(data, UTF_8)`: malformed parts become U+FFFD by the rules of the JDK. Never raises."""
    return bytes(data).decode("utf-8", _HANDLER)


def java_hash(text: str) -> int:
    """Return `String.hashCode()`: h = 31·h + unit over the UTF-16 units, 32-bit wrap, signed."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFF_FFFF
    return value - 2**32 if value > INT_MAX else value


def index_key_hash(topic: str, key: str) -> int:
    """Return the hash of the index key `topic#key`: the absolute Java hash, and 0 if that does not fit (`Integer.MIN_VALUE`)."""
    value = java_hash(f"{topic}#{key}")
    return 0 if value == INT_MIN else abs(value)


def java_split(text: str, separator: str) -> list[str]:
    """Return `String.split` at a plain separator: empty strings at the end are dropped; the empty text is one empty string."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def java_long(value: int) -> int:
    """Return `value` wrapped to a `long`: sums and products that are too large wrap around."""
    return (value - LONG_MIN) % 2**64 + LONG_MIN


def parse_java_integer(text: str, low: int = INT_MIN, high: int = INT_MAX) -> int | None:
    """Return `Integer.parseInt` (with LONG_MIN and LONG_MAX: `Long.parseLong`), None where Java throws NumberFormatException."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if low <= value <= high else None
