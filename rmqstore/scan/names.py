"""Topics and queues as dense numbers: learned once each, then found by compiled code in a table of cache lines.

The walker looks up (topic bytes, queue id) for every record. An entry of the table holds the last 32 bytes of the topic, so most lookups
are one cache line and no loop; the walker leaves names that it does not find to `QueueRegistry.learn`, and continues.
"""

from __future__ import annotations

import numpy as np

from rmqstore.formats.javahash import decode_java_utf8, java_hash
from rmqstore.formats.naming import SCHEDULE_TOPIC, is_legal_topic
from rmqstore.scan.kernels.layout import LAYOUT_COUNT, LAYOUT_DTYPE

ENTRY_DTYPE = np.dtype(
    [
        ("tail", "i8", (4,)),  # the last 32 bytes of the topic, zeros before a shorter one
        ("length_and_queue", "i8"),  # length of the topic in bytes, above it the queue id
        ("text", "i8"),  # address of all bytes of a topic that is longer than its tail
        ("topic", "i4"),  # dense number
        ("queue", "i4"),  # dense number of (topic, queue id); -1: the entry is free
        ("hash", "i4"),  # Java hash of `topic#`, where the hash of an index key begins
        ("marks", "i4"),  # TopicMark bits
    ]
)
TAIL = 32

# Exchanged between walker and scanner: int64 words.
TABLE, MASK, FREE, TOPIC_START, TOPIC_LENGTH, FAULTS, MARKS, ODDITIES, LAST_TIME, LAST_HOST, LAYOUTS = range(11)

SCHEDULED_TOPIC = 1
ILLEGAL_TOPIC = 2
MALFORMED_TOPIC = 4

_SCHEDULE = SCHEDULE_TOPIC.encode("ascii")
_CACHE_LINE = 64


class QueueRegistry:
    """Interned topics and queues of one scanner, and the state it shares with the walker."""

    def __init__(self, capacity: int = 1024) -> None:
        self.state = np.zeros(LAYOUTS + 1, np.int64)
        self.layouts = np.zeros(LAYOUT_COUNT, LAYOUT_DTYPE)
        self.state[LAYOUTS] = self.layouts.ctypes.data
        self.topics: list[bytes] = []
        self.queues: list[tuple[int, int]] = []  # (number of the topic, queue id)
        self._topic_numbers: dict[bytes, int] = {}
        self._queue_numbers: dict[tuple[int, int], int] = {}
        self._hashes: list[int] = []
        self._marks: list[int] = []
        self._clear(capacity)

    def learn(self, topic: bytes, queue_id: int) -> None:
        """Enter the name that the walker did not find at its place; a table that is half full is emptied into a larger one instead."""
        if self._used * 2 >= self._table.size:
            self._clear(self._table.size * 2)
            return
        queue = self.number(topic, queue_id)
        number = self.queues[queue][0]
        kept = self.topics[number]
        entry = self._table[int(self.state[FREE])]
        entry["tail"] = np.frombuffer(kept[-TAIL:].rjust(TAIL, b"\0"), np.int64)
        entry["length_and_queue"] = len(kept) | queue_id << 32
        entry["text"] = np.frombuffer(kept, np.uint8).ctypes.data if kept else 0
        entry["topic"], entry["queue"] = number, queue
        entry["hash"], entry["marks"] = self._hashes[number], self._marks[number]
        self._used += 1

    def number(self, topic: bytes, queue_id: int) -> int:
        """Return the dense number of a queue, a new one if it was not seen before."""
        number = self._topic_numbers.setdefault(topic, len(self.topics))
        if number == len(self.topics):
            self.topics.append(topic)
            self._hashes.append(java_hash(decode_java_utf8(topic) + "#"))
            self._marks.append(_marks(topic))
        key = (number, queue_id)
        queue = self._queue_numbers.setdefault(key, len(self.queues))
        if queue == len(self.queues):
            self.queues.append(key)
        return queue

    def _clear(self, capacity: int) -> None:
        memory = np.zeros(capacity * ENTRY_DTYPE.itemsize + _CACHE_LINE, np.uint8)
        start = -memory.ctypes.data % _CACHE_LINE
        self._table = memory[start : start + capacity * ENTRY_DTYPE.itemsize].view(ENTRY_DTYPE)
        self._table["queue"] = -1
        self._used = 0
        self.state[TABLE] = self._table.ctypes.data
        self.state[MASK] = capacity - 1


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
