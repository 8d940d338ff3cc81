"""The messages of revive topics: check points of messages that a group popped, and acknowledgements of some of them.

Source: fact sheet timer and config §5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_"
"""The beginning of the names of revive topics, before that of the cluster."""

Key = tuple[str, str, int, int, int, str]
"""Topic, group, queue id, first queue offset, time of the pop (ms), broker: an acknowledgement has that of its check point."""


@dataclass(frozen=True, slots=True)
class CheckPoint:
    """Messages that were popped at once: due again at `due` (ms); `offsets`: those that were not acknowledged when it was stored."""

    key: Key
    due: int
    offsets: frozenset[int]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Queue offsets of messages of the check point with that key."""

    key: Key
    offsets: frozenset[int]


def parsed(body: bytes) -> CheckPoint | Acknowledgement | None:
    """Return what the body of a message of a revive topic says, None for one that no broker wrote."""
    try:
        fields = json.loads(body)
        key = str(fields["t"]), str(fields["c"]), int(fields["q"]), int(fields["so"]), int(fields["pt"]), str(fields["bn"])
        if "it" in fields:
            return CheckPoint(key, int(fields["pt"]) + int(fields["it"]), _popped(fields))
        return Acknowledgement(key, frozenset(fields.get("aol") or [fields["ao"]]))
    except (ValueError, KeyError, TypeError):
        return None


def _popped(fields: Mapping[str, Any]) -> frozenset[int]:
    relative = fields.get("d") or range(int(fields["n"]))
    return frozenset(int(fields["so"]) + offset for number, offset in enumerate(relative) if not int(fields["bm"]) >> number & 1)
