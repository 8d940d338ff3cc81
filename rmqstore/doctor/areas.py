"""The areas of a store that a verdict is about, and what the next start does to each, as values.

An effect is one thing that a start does, or that keeps it from starting, or that was not looked at. What is not the effect of
the next start, such as damage in bytes that it does not read, is none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum, StrEnum
from typing import Any

_LONGEST_NAME = 48


class Area(StrEnum):
    """What people look for, in the order in which it is shown."""

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
    """What becomes of an area, the worst first."""

    STOPS = "does not start"
    LOSES = "loses or repeats"
    NOT_CHECKED = "not checked"
    OK = "ok"


class Harm(IntEnum):
    """What a loss is, the worst first; it decides which one the headline names."""

    NOT_MOUNTED = -1
    """Files are not where the settings say; whatever else is found follows from that."""
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
    """A finding of severity error says more."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect. `text` goes on behind the words of its class, `STARTS, BUT ` for a loss; `count`: messages, or what the text counts."""

    area: Area
    state: State
    text: str
    harm: Harm = Harm.OTHER
    count: int | None = None


@dataclass(frozen=True, slots=True)
class AreaReport:
    """What becomes of one area, and why; `count` is None where nothing is counted."""

    area: Area
    state: State
    count: int | None
    reason: str

    def as_json(self) -> dict[str, Any]:
        """The object in `areas` of `doctor --format json`."""
        return {**asdict(self), "area": str(self.area), "state": str(self.state)}


def counted(count: int, noun: str) -> str:
    """Return `1 queue`, `2 queues`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def short_queue(topic: str, queue_id: int) -> str:
    """Return `topic/queueId`, with the middle of a long topic left out, so that a headline has room for what happens to it."""
    name = topic if len(topic) <= _LONGEST_NAME else f"{topic[: _LONGEST_NAME // 2]}…{topic[-_LONGEST_NAME // 2 + 1 :]}"
    return f"{name}/{queue_id}"
