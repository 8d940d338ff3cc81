"""Arithmetic of Java where a damaged number makes it differ from Python's: wrapping longs, remainders with the sign of the dividend."""

from __future__ import annotations

_LONG = 1 << 64
_SIGN = 1 << 63


def to_long(value: int) -> int:
    """Return `value` wrapped to a signed 64-bit number."""
    return (value + _SIGN) % _LONG - _SIGN


def remainder(dividend: int, divisor: int) -> int:
    """Return `dividend % divisor` of Java: the sign is that of the dividend."""
    rest = abs(dividend) % divisor
    return -rest if dividend < 0 else rest


def quotient(dividend: int, divisor: int) -> int:
    """Return `dividend / divisor` of Java: rounded toward zero."""
    whole = abs(dividend) // divisor
    return -whole if dividend < 0 else whole


def offset_name(offset: int) -> str:
    """Return the file name of an offset as Java's NumberFormat writes it: 20 digits, after a minus sign if the offset is negative."""
    return f"{'-' if offset < 0 else ''}{abs(offset):020d}"


INT_RANGE = range(-(2**31), 2**31)
LONG_RANGE = range(-(2**63), 2**63)


def parse_long(text: str, allowed: range = LONG_RANGE) -> int | None:
    """Return `Long.parseLong` (with INT_RANGE `Integer.parseInt`) of a file name: None where Java throws NumberFormatException."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal() or len(digits) > 40:
        return None
    value = int(text)
    return value if value in allowed else None
