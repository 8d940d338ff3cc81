"""Cells that a spreadsheet would execute: it takes a text that begins with one of a few characters for a formula (OWASP, CSV injection)."""

from __future__ import annotations

import re

STARTS = "[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""The first character of a formula, as a regular expression (also of RE2)."""
NUMBER = "-(?:[0-9]+(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|inf)"
"""A whole text that begins so and is a number all the same: nothing is executed."""
MARK = "'"
"""What in front of a text makes it one for a spreadsheet."""

_FORMULA = re.compile(f"(?!(?:{NUMBER})\\Z){STARTS}")


def defused(text: str) -> str:
    """Return the text of a cell, with a mark in front if a spreadsheet would execute it."""
    return MARK + text if _FORMULA.match(text) else text
