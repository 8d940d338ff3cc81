"""Counts by hour as an unbroken sequence of hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

_HOUR = timedelta(hours=1)
_LONGEST = 24 * 366 * 10


def hours(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return (hour, bytes) from the first to the last hour of `rows`, objects of type `stats`; hours without messages have 0 bytes.

    If hours are many years apart, or outside of the calendar, some clock was wrong: then only the hours that have messages.
    """
    known = {str(row["value"]): int(row["bytes"]) for row in rows if row["value"] is not None}
    try:
        times = [datetime.fromisoformat(hour) for hour in known]
    except ValueError:
        return list(known.items())
    span = (max(times) - min(times)) // _HOUR + 1 if times else 0
    if span > _LONGEST:
        return list(known.items())
    every = ((min(times) + number * _HOUR).isoformat(timespec="hours") for number in range(span))
    return [(hour, known.get(hour, 0)) for hour in every]
