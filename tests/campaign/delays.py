"""Offsets of delay levels: one that lies beyond the end of its queue may be set back, but not so that a pending message is skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.storeview import StoreView

_PATH = "config/delayOffset.json"
_TOPIC = "SCHEDULE_TOPIC_XXXX"


def pending(damaged: Path, sample: StoreView) -> Mapping[str, int]:
    """For each level whose offset lies beyond the end of its queue, the queue offset of the first message that was not due when the sample
    was stopped. The tag code of a unit of such a queue is the time at which its message is delivered."""
    stopped = max((record.record.store_timestamp for record in sample.records), default=0)
    found = {}
    for level, offset in _offsets(damaged).items():
        key = (_TOPIC, str(int(level) - 1))
        units = sample.units(key) if key in sample.queues else []
        not_due = [number for number, unit in enumerate(units) if unit.tags_code > stopped]
        if not_due and isinstance(offset, int) and offset > len(units):
            found[level] = not_due[0]
    return found


def skipped(repaired: Path, first: Mapping[str, int]) -> Iterator[str]:
    """Levels that lead past their first pending message after the repair."""
    for level, offset in _offsets(repaired).items():
        if level in first and offset > first[level]:
            yield f"level {level} is at {offset}, the first pending message is at {first[level]}"


def _offsets(root: Path) -> Mapping[str, Any]:
    """Offset by level, as the file says, empty where it cannot be read."""
    path = root / _PATH
    try:
        table = json.loads(path.read_text()) if path.is_file() else {}
    except ValueError:
        return {}
    offsets = table.get("offsetTable") if isinstance(table, dict) else None
    return {level: offset for level, offset in offsets.items() if level.isdecimal()} if isinstance(offsets, dict) else {}
