"""Times as text: UTC, to the millisecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def time_text(milliseconds: int | None) -> str | None:
    """Return a time (ms since epoch) as `2026-11-21 09:41:46.595Z`; the number itself if there is no such date."""
    if milliseconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def time_range(begin: int | None, end: int | None) -> str:
    """Return `begin to end`, `none` if there is neither."""
    return "none" if begin is None and end is None else f"{time_text(begin) or '?'} to {time_text(end) or '?'}"
