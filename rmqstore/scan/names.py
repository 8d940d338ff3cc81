"""Topics and queues as dense numbers, entered once each and found by compiled code in a table of cache lines (`kernels/registry.py`).

Compiled code enters names of legal topics itself; it leaves all others, and a table that is half full, to `QueueRegistry.learn`.
"""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from rmqstore.formats.javahash import decode_java_utf8, java_hash
from rmqstore.formats.naming import SCHEDULE_TOPIC, is_legal_topic
from rmqstore.scan.kernels.layout import LAYOUT_COUNT, LAYOUT_DTYPE
from rmqstore.scan.kernels.registry import (
    ENTRY_DTYPE,
    ILLEGAL_TOPIC,
    LAYOUTS,
    MALFORMED_TOPIC,
    MASK,
    QUEUE_NAME_DTYPE,
    QUEUE_NAMES,
    QUEUES,
    SCHEDULED_TOPIC,
    STATE_WORDS,
    TABLE,
    TEXT,
    TEXT_END,
    TOPIC_NAME_DTYPE,
    TOPIC_NAMES,
    TOPICS,
    USED,
    enter_queue,
    move_entries,
)

_SCHEDULE = SCHEDULE_TOPIC.encode("ascii")
_CACHE_LINE = 64
_TEXTS = 1 << 16
"""Bytes of memory for topics that is added at a time."""
_BEFORE = 32
"""Bytes before a topic that compiled code reads."""


class QueueRegistry:
    """Interned topics and queues of one scanner, and the state it shares with compiled code."""

    def __init__(self, capacity: int = 1024) -> None:
        """`capacity` = entries of the first table, a power of two."""
        self.state = np.zeros(STATE_WORDS, np.int64)
        self.layouts = np.zeros(LAYOUT_COUNT, LAYOUT_DTYPE)
        self.state[LAYOUTS] = self.layouts.ctypes.data
        self._table = np.zeros(0, ENTRY_DTYPE)
        self._queue_names = np.zeros(0, QUEUE_NAME_DTYPE)
        self._topic_names = np.zeros(0, TOPIC_NAME_DTYPE)
        self._texts: list[npt.NDArray[np.uint8]] = []  # entries hold addresses in all of them
        self._topics: list[bytes] = []
        self._queues: list[tuple[int, int]] = []
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._grow(capacity)

    @property
    def topic_count(self) -> int:
        """Return the number of topics entered so far."""
        return int(self.state[TOPICS])

    @property
    def queue_count(self) -> int:
        """Return the number of queues entered so far."""
        return int(self.state[QUEUES])

    @property
    def topics(self) -> list[bytes]:
        """Return the bytes of all topics, by number."""
        if len(self._topics) < self.topic_count:
            more = self._topic_names[len(self._topics) : self.topic_count].tolist()
            self._topics += [ctypes.string_at(text, length) for text, length in more]
        return self._topics

    @property
    def queues(self) -> list[tuple[int, int]]:
        """Return (number of the topic, queue id) of all queues, by number."""
        if len(self._queues) < self.queue_count:
            self._queues += self._queue_names[len(self._queues) : self.queue_count].tolist()
        return self._queues

    def number(self, topic: bytes, queue_id: int) -> int:
        """Return the dense number of a queue, a new one if it was not seen before."""
        known = self._numbers.get((topic, queue_id))
        if known is None:
            self._make_room(len(topic))
            text = np.frombuffer(bytes(_BEFORE) + topic, np.uint8)
            place, topic_hash = text.ctypes.data + _BEFORE, java_hash(decode_java_utf8(topic) + "#")
            known = enter_queue(self.state.ctypes.data, place, len(topic), queue_id, topic_hash, _marks(topic))
            self._numbers[topic, queue_id] = known
        return known

    def _make_room(self, length: int) -> None:
        """Make room for a queue with a topic of so many bytes, and that compiled code needs for the next ones."""
        if (int(self.state[USED]) + 2) * 2 > self._table.size:
            self._grow(self._table.size * 2)
        if int(self.state[TEXT]) + length + 8 > int(self.state[TEXT_END]):
            self._texts.append(np.empty(max(_TEXTS, length + 8), np.uint8))
            self.state[TEXT] = self._texts[-1].ctypes.data
            self.state[TEXT_END] = self.state[TEXT] + self._texts[-1].size

    def _grow(self, capacity: int) -> None:
        """Move all entries into a larger table."""
        before = self._table
        memory = np.zeros(capacity * ENTRY_DTYPE.itemsize + _CACHE_LINE, np.uint8)
        start = -memory.ctypes.data % _CACHE_LINE
        self._table = memory[start : start + capacity * ENTRY_DTYPE.itemsize].view(ENTRY_DTYPE)
        self._table["queue"] = -1
        self.state[TABLE] = self._table.ctypes.data
        self.state[MASK] = capacity - 1
        if before.size:
            move_entries(self.state.ctypes.data, before.ctypes.data, before.size)
        # At most half of the entries are used, and each topic and each queue uses one.
        self._queue_names = np.concatenate([self._queue_names, np.zeros(capacity // 2 - self._queue_names.size, QUEUE_NAME_DTYPE)])
        self._topic_names = np.concatenate([self._topic_names, np.zeros(capacity // 2 - self._topic_names.size, TOPIC_NAME_DTYPE)])
        self.state[QUEUE_NAMES] = self._queue_names.ctypes.data
        self.state[TOPIC_NAMES] = self._topic_names.ctypes.data


def _marks(topic: bytes) -> int:
    if topic == _SCHEDULE:
        return SCHEDULED_TOPIC
    if is_legal_topic(topic):
        return 0
    try:
        topic.decode("utf-8")
    except UnicodeDecodeError:
        return ILLEGAL_TOPIC | MALFORMED_TOPIC
    return ILLEGAL_TOPIC
