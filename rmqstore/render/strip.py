"""The commit log as a strip of characters: one for each part of it, with the worst that is in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

WIDTH: Final = 50
STATES: Final = {
    "damaged": "x",
    "discarded": "!",
    "moved out": "#",
    "written": "+",
    "zeroed": "0",
    "not read": "-",
    "valid": "=",
    "unchanged": "=",
    "empty": "_",
}
"""States of a range and their characters, those that matter most first."""

_ORDER = list(STATES)


def strip(ranges: Iterable[tuple[int, int, str]], width: int = WIDTH) -> str:
    """Return the strip of ranges (begin, end, state), with the offsets at its ends and the meaning of its characters.

    A range has at least one character, whatever its length, and of several states in the place of a character the worst is shown. The empty
    text without ranges.
    """
    known = [one for one in ranges if one[0] < one[1]]
    if not known:
        return ""
    begin, end = min(one[0] for one in known), max(one[1] for one in known)
    worst = [len(_ORDER)] * width
    for first, last, state in known:
        level = _ORDER.index(state)
        low, high = (first - begin) * width // (end - begin), -(-(last - begin) * width // (end - begin))
        for place in range(low, max(high, low + 1)):
            worst[place] = min(worst[place], level)
    cells = "".join(" " if level == len(_ORDER) else STATES[_ORDER[level]] for level in worst)
    shown = [f"{STATES[state]} {state}" for number, state in enumerate(_ORDER) if number in worst]
    return f"|{cells}| {begin} to {end} ({', '.join(shown)})"


def span(begin: int, end: int, longest: int, width: int = 20) -> str:
    """Return a bar for [begin, end) on a scale from 0 to `longest`: dots up to its begin; no text for an empty range."""
    if begin >= end:
        return ""
    low = min(begin * width // longest, width - 1)
    return "." * low + "=" * max(1, -(-end * width // longest) - low)
