"""The areas of a store that a verdict is about, and the effects of the next start on each, as values.

An effect is one thing that a start does, that prevents a start, or that was not checked. What the next start does not cause,
such as damage in bytes that it does not read, is no effect.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum, StrEnum
from typing import Any

_LONGEST_NAME = 48


class Area(StrEnum):
    """An area of a store, in the order in which areas are shown."""

    COMMIT_LOG = "commit log"
    QUEUES = "queues"
    INDEX = "index"
    PROGRESS = "consumer progress"
    DELAYED = "delayed and timed messages"
    TRANSACTIONS = "transactions"
    TOPICS = "topics and groups"
    OTHER = "other parts"
    MACHINE = "machine"


class State(StrEnum):
    """The result for an area, the worst first."""

    STOPS = "does not start"
    LOSES = "loses or repeats"
    NOT_CHECKED = "not checked"
    OK = "ok"


class Harm(IntEnum):
    """The kind of a loss, the worst first; it decides which loss the headline names."""

    NOT_MOUNTED = -1
    """Files are not where the settings say; everything else that is found follows from that."""
    LOST = 0
    """Messages are gone for good."""
    INVISIBLE = 1
    """Messages are in the log, and consumers do not get them."""
    REUSED = 2
    """Queue offsets are given to other messages."""
    SKIPPED = 3
    """Consumers pass over messages."""
    REPEATED = 4
    """Messages are delivered again."""
    SETTINGS = 5
    """Settings of topics or groups are gone."""
    UNREACHABLE = 6
    """Queries by key or id do not find messages; consumers do."""
    OTHER = 7
    """A finding of severity error gives details."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect. `text` continues the words of its class, `STARTS, BUT ` for a loss; `count`: messages, or what the text counts."""

    area: Area
    state: State
    text: str
    harm: Harm = Harm.OTHER
    count: int | None = None


@dataclass(frozen=True, slots=True)
class AreaReport:
    """The result for one area, and the reason; `count` is None where nothing is counted."""

    area: Area
    state: State
    count: int | None
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the object in `areas` of `doctor --format json`."""
        return {**asdict(self), "area": str(self.area), "state": str(self.state)}


def short_queue(topic: str, queue_id: int) -> str:
    """Return `topic/queueId`, without the middle of a long topic, to leave space in a headline."""
    name = topic if len(topic) <= _LONGEST_NAME else f"{topic[: _LONGEST_NAME // 2]}…{topic[-_LONGEST_NAME // 2 + 1 :]}"
    return f"{name}/{queue_id}"
