"""Consequences of a predicted start: queues cut, reset or shifted, index time ranges lost, consumers beyond the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rmqstore.errors import RmqstoreError
from rmqstore.prediction.outcome import Outcome, QueueState
from rmqstore.prediction.places import places_of
from rmqstore.store import fastjson
from rmqstore.store.root import Store
from rmqstore.store.window import read_if_file

_LARGEST_OFFSETS_FILE = 256 << 20


class QueueOutcome(StrEnum):
    """The result of the start for a queue."""

    CUT = "cut"
    RESET = "reset"
    SHIFTED = "shifted"


@dataclass(frozen=True, slots=True)
class QueueFate:
    """A queue that the start changes: queue offsets from `after` to below `before` are reused. `shift` in units."""

    topic: str
    queue_id: int
    fate: QueueOutcome
    before: int
    after: int
    shift: int


@dataclass(frozen=True, slots=True)
class ConsumerBeyond:
    """A consumer group whose committed queue offset is after the end of the queue after the start."""

    group: str
    topic: str
    queue_id: int
    offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class IndexLoss:
    """An index file that is deleted: the store times (ms) of its entries, and their number."""

    name: str
    begin_timestamp: int
    end_timestamp: int
    items: int


@dataclass(frozen=True, slots=True)
class Consequences:
    """All consequences beyond the state itself. Empty if the queues cannot be known."""

    queues: tuple[QueueFate, ...]
    index: tuple[IndexLoss, ...]
    consumers: tuple[ConsumerBeyond, ...]
    index_items_lost: int
    """Entries of deleted index files, minus those that the start indexes again. A damaged number counts as a full file at most."""

    @property
    def given_twice(self) -> int:
        """Return the number of queue offsets that will be reused for new messages."""
        return sum(max(0, queue.before - queue.after) for queue in self.queues)

    def as_json(self) -> dict[str, Any]:
        """Return the members of the JSON object."""
        return {
            "queues_harmed": [{**asdict(queue), "fate": str(queue.fate)} for queue in self.queues],
            "index_deleted": [asdict(file) for file in self.index],
            "index_items_lost": self.index_items_lost,
            "consumers_beyond": [asdict(consumer) for consumer in self.consumers],
        }


def consequences_of(store: Store, outcome: Outcome) -> Consequences:
    """Compare the queues after the start with those before, and with the consumers' offsets."""
    state = outcome.after_start or outcome.after_load
    after = state.queues or {}
    queues = tuple(_fates(outcome.queue_ends, after)) if state.queues is not None else ()
    capacity = places_of(store).index_items if outcome.index_deleted else 0
    index = tuple(
        IndexLoss(file.name, file.begin_timestamp, file.end_timestamp, min(max(0, file.index_count - 1), capacity))
        for file in outcome.index_deleted
        if file.name is not None
    )
    again = sum(max(0, file.index_count - 1) for file in state.index_files or () if file.name is None)
    return Consequences(queues, index, tuple(_beyond(store, after)), max(0, sum(file.items for file in index) - again))


def _fates(before: Mapping[tuple[str, int], int], after: Mapping[str, QueueState]) -> Iterator[QueueFate]:
    for (topic, queue_id), old in sorted(before.items()):
        now = after.get(f"{topic}/{queue_id}")
        new = 0 if now is None else now.max_offset
        if new < old:
            yield QueueFate(topic, queue_id, QueueOutcome.RESET if new == 0 else QueueOutcome.CUT, old, new, 0)
    for name, state in sorted(after.items()):
        if state.shifted:
            topic, _, number = name.rpartition("/")
            yield QueueFate(topic, int(number), QueueOutcome.SHIFTED, before.get((topic, int(number)), 0), state.max_offset, state.shifted)


def _beyond(store: Store, after: Mapping[str, QueueState]) -> Iterator[ConsumerBeyond]:
    path = store.config_path / "consumerOffset.json"
    try:
        table = fastjson.parse(read_if_file(path, _LARGEST_OFFSETS_FILE) or b"{}").value
    except (RmqstoreError, ValueError, OSError):
        return
    offsets = table.get("offsetTable") if isinstance(table, dict) else None
    for place, by_queue in sorted(offsets.items()) if isinstance(offsets, dict) else ():
        topic, _, group = place.partition("@")
        for queue_id, offset in by_queue.items() if isinstance(by_queue, dict) else ():
            state = after.get(f"{topic}/{queue_id}")
            if state is not None and isinstance(offset, int) and offset > state.max_offset:
                yield ConsumerBeyond(group, topic, int(queue_id), offset, state.max_offset)
