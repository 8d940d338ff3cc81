"""What consumers get from a store, according to the real store code: every queue pulled from its minimum, lookups by key and by offset
message id, then some new messages, a clean stop and a second start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.broker.harness import Answer, Harness

Line = Mapping[str, Any]
QueueKey = tuple[str, int]
"""Topic and queue id."""

NEW_MESSAGES = 4
_PRE_BLANK_SIZE = 0x7FFFFFFF
_DATA = ("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index", "checkpoint")
"""Messages, the ways to them and how far they got, as beginnings of paths; the rest, as configuration, every start and stop may write."""

_JOB_MILLIS = 90_000


class NotServed(Exception):
    """The store code did not come to the end of a start; the text says why."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start, as a consumer sees it: pulled messages in order, queue units of messages that are not expired, lookups, and the files
    that are different after the stop."""

    pulled: Mapping[QueueKey, tuple[Line, ...]]
    units: Mapping[QueueKey, Mapping[int, int]]
    by_key: Mapping[tuple[str, str], tuple[int, ...]]
    by_id: Mapping[str, int | None]
    new: tuple[Line, ...]
    changed: tuple[str, ...]
    caught_up: bool
    abort_left: bool

    def offsets(self, queue: QueueKey) -> list[int]:
        """Physical offsets that a consumer of the queue gets, in order; -1 where it cannot decode what it gets."""
        return [line.get("physicalOffset", -1) for line in self.pulled.get(queue, ())]


@dataclass(frozen=True, slots=True)
class Served:
    """Three starts: one that only reads, one that also stores new messages, and one behind it."""

    first: Start
    storing: Start
    second: Start


@dataclass(frozen=True, slots=True)
class Questions:
    """What to look up: keys as (topic, key), offset message ids, and the queues in RocksDB, which have to be asked for by name."""

    keys: Sequence[tuple[str, str]] = ()
    ids: Sequence[str] = ()
    queues: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Broker:
    """A store as its broker opens it: place, settings (those that the release does not have are left out), attributes of topics."""

    harness: Harness
    root: Path
    settings: Mapping[str, str]
    topics: Mapping[str, Any]

    def start(self, questions: Questions, new_messages: int = 0) -> Start:
        """Starts, reads, stores so many new messages, and stops. Raises NotServed, JvmDied."""
        job = {
            "command": "read",
            "dir": str(self.root),
            "profile": "default",
            "set": {f"?{name}": value for name, value in self.settings.items()},
            "topics": self.topics,
            "keys": [f"{topic}:{key}" for topic, key in questions.keys],
            "ids": list(questions.ids),
            "queues": list(questions.queues),
            "put": new_messages,
            "fork": "storeType" in self.settings,
            "timeoutMillis": _JOB_MILLIS,
        }
        return _start(self.harness.ask(job), self._data)

    @property
    def _data(self) -> tuple[str, ...]:
        """What no start may change; RocksDB writes files at every start, whatever is in it."""
        return tuple(name for name in _DATA if name != "consumequeue" or "storeType" not in self.settings)

    def serve(self, questions: Questions) -> Served:
        """Starts three times. Raises NotServed, JvmDied."""
        return Served(self.start(questions), self.start(questions, NEW_MESSAGES), self.start(questions))


def _start(answer: Answer, data: tuple[str, ...]) -> Start:
    if "failed" in answer:
        raise NotServed(str(answer["failed"]))
    if not answer["loadOk"]:
        raise NotServed("load() failed: " + "; ".join(f"{entry.get('level')} {entry.get('text')}" for entry in answer["log"])[:1000])
    lines = answer.get("lines", [])
    expired_below = answer["state"]["minPhyOffset"]
    return Start(
        pulled={queue: tuple(of_queue) for queue, of_queue in by_queue(lines, "message").items()},
        units={
            queue: {
                unit["queueOffset"]: unit["physicalOffset"]
                for unit in of_queue
                if unit["size"] != _PRE_BLANK_SIZE and unit["physicalOffset"] >= expired_below
            }
            for queue, of_queue in by_queue(lines, "unit").items()
        },
        by_key={(line["topic"], line["key"]): tuple(line["physicalOffsets"]) for line in lines if line["kind"] == "key"},
        by_id={line["id"]: line["physicalOffset"] for line in lines if line["kind"] == "id"},
        new=tuple(line for line in lines if line["kind"] == "new"),
        changed=tuple(path for path in answer["changed"] if path.startswith(data) and not path.endswith("/")),
        caught_up=answer["caughtUp"],
        abort_left=answer["abortAfterStop"],
    )


def by_queue(lines: Iterable[Line], kind: str) -> dict[QueueKey, list[Line]]:
    """The lines of one kind, by the queue that they are about."""
    found: dict[QueueKey, list[Line]] = {}
    for line in lines:
        if line["kind"] == kind:
            found.setdefault((line["queueTopic"], line["queue"]), []).append(line)
    return found
