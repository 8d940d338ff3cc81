"""Cells that a spreadsheet would execute: a text that begins with one of a few characters is a formula (OWASP, CSV injection)."""

from __future__ import annotations

import re

STARTS = "[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""The first character of a formula, as a regular expression (also of RE2)."""
NUMBER = "-(?:[0-9]+(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|inf)"
"""A whole text that begins with such a character but is a number: nothing is executed."""
MARK = "'"
"""The prefix that makes a spreadsheet read a cell as text."""

_FORMULA = re.compile(f"(?!(?:{NUMBER})\\Z){STARTS}")


def defused(text: str) -> str:
    """Return the text of a cell, with the mark as prefix if a spreadsheet would execute it."""
    return MARK + text if _FORMULA.match(text) else text
