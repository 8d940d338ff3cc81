"""Times as text: UTC or the chosen zone, to the millisecond."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

_zone: tzinfo = UTC
_EARLIEST_MS = 100_000_000_000
_LATEST_MS = 253_402_300_799_999
_NAMES_OF_TIMES = re.compile(r"(^|[a-z_ ])(timestamp|store_time|write_time|read_time_ms)$", re.IGNORECASE)


def set_zone(name: str) -> None:
    """Choose the zone of all times of this process. Raises ZoneInfoNotFoundError (a KeyError), ValueError, OSError."""
    global _zone  # noqa: PLW0603  -- an option of the command line, like the locale of a process
    if name == "UTC":
        _zone = UTC
        return
    from zoneinfo import ZoneInfo

    _zone = ZoneInfo(name)


def time_text(milliseconds: int | None) -> str | None:
    """Return a time (ms since epoch) as `2026-11-21 09:41:46.595Z`; the number itself if there is no such date."""
    if milliseconds is None:
        return None
    try:
        moment = (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)).astimezone(_zone)
    except (OverflowError, ValueError):
        return str(milliseconds)
    zone = "Z" if _zone is UTC else moment.isoformat()[-6:]
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d}{zone}"


def timed(name: str, value: Any) -> Any:
    """Return a value of a member or column, a plausible time (ms) of which as text: names as `store_timestamp` are those of times."""
    is_time = type(value) is int and _EARLIEST_MS <= value <= _LATEST_MS and _NAMES_OF_TIMES.search(name) is not None
    return time_text(value) if is_time else value


def time_range(begin: int | None, end: int | None) -> str:
    """Return `begin to end`, `none` if there is neither."""
    return "none" if begin is None and end is None else f"{time_text(begin) or '?'} to {time_text(end) or '?'}"
