"""The delay levels of schedule messages: the text of `messageDelayLevel` as milliseconds per level.

Source: fact sheets commitlog §2.9, queues §2.3, timer §2 (all releases).
"""

from __future__ import annotations

from collections.abc import Sequence

from rmqstore.formats.javahash import LONG_MAX, LONG_MIN, java_long, parse_java_integer

DEFAULT_DELAY_LEVEL_TEXT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNIT_MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the delay in ms of level 1, 2, …; raises ValueError for a text that makes a broker refuse to start."""
    levels = []
    # Java's split drops empty strings at the end only; an empty string at any other place is a bad level.
    for item in text.rstrip(" ").split(" "):
        number = parse_java_integer(item[:-1], LONG_MIN, LONG_MAX)
        if item[-1:] not in UNIT_MILLISECONDS or number is None:
            raise ValueError(f"{item!r} is not a delay level")
        levels.append(java_long(number * UNIT_MILLISECONDS[item[-1]]))
    return tuple(levels)


DEFAULT_DELAY_LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVEL_TEXT)


def deliver_timestamp(store_timestamp: int, level: int, levels: Sequence[int]) -> int | None:
    """Return when a message of `level` is due (ms since epoch): a level above the table counts as the highest; None below 1."""
    level = min(level, len(levels))
    return java_long(store_timestamp + levels[level - 1]) if level > 0 else None
