"""Sizes as text with units."""

from __future__ import annotations


def size_text(count: int) -> str:
    """Return bytes in the unit that leaves at most four digits before the point."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
