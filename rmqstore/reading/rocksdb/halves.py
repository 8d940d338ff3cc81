"""Half messages of transactions that a broker keeps in RocksDB (`transRocksDBEnable`, from 5.4.0 on), by their records in the log.

They are records of a topic of their own if transWriteOriginTransHalfEnable is false. A commit or a rollback writes a record to a second
topic that names the physical offset of the half message (sheet of the newer releases §7.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rmqstore.formats.naming import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC
from rmqstore.formats.properties import REAL_TOPIC, TRANS_OFFSET, TRANSACTION_ID
from rmqstore.formats.rocksdb import HALF_ENTRY, HALF_KEY, LAST_OFFSET_KEY
from rmqstore.reading.entries import units
from rmqstore.reading.records import record_at
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.store.ends import queue_ends
from rmqstore.store.rocksdb.streams import pairs_of_database
from rmqstore.store.root import Store

FAMILY = "trans"
_LONG = 8
HALF_TOPICS = frozenset({ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC})


@dataclass(frozen=True, slots=True)
class Half:
    """A half message for `topic`: the place of its record, and the id of the transaction, None for a damaged one."""

    physical_offset: int
    size: int
    topic: str | None
    transaction: str | None

    def is_named_by(self, key: bytes, value: bytes) -> bool:
        """Return whether this is its entry, whatever the number of questions to the producer is."""
        return key == self.key and len(value) == HALF_ENTRY.sizeof() and HALF_ENTRY.parse(value).size == self.size

    @property
    def key(self) -> bytes:
        """Return the key of its entry in the family `trans`."""
        name = f"@{self.topic}@{self.transaction}".encode("utf-8", "surrogateescape")
        key: bytes = HALF_KEY.build({"physical_offset": self.physical_offset, "rest": name})
        return key

    def value(self, checks: int) -> bytes:
        """Return the value of its entry, for a producer that was asked so often."""
        value: bytes = HALF_ENTRY.build({"check_times": checks, "size": self.size})
        return value


@dataclass(slots=True)
class Halves:
    """The half messages of records that were taken by now: those without an answer, and the last of all (-1 without any)."""

    open: dict[int, Half] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    last: int = -1

    def take(self, topic: str, physical_offset: int, size: int, properties: Mapping[str, str]) -> None:
        """Take a record of one of the two topics; a half message comes before its answer."""
        if topic == ROCKSDB_HALF_TOPIC:
            self.open[physical_offset] = Half(physical_offset, size, properties.get(REAL_TOPIC), properties.get(TRANSACTION_ID))
            self.last = max(self.last, physical_offset)
            return
        named = properties.get(TRANS_OFFSET, "")
        if named.isdecimal():
            self.answered.add(int(named))
            self.open.pop(int(named), None)


def halves_of(store: Store) -> Halves:
    """Return the half messages that the queues of the two topics name. Raises UnreadableError, OSError."""
    found = Halves()
    for topic in (ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC):  # answers after what they answer
        for queue in store.queue_directories(topic):
            ends = queue_ends(queue.files)
            for entry in units(queue.files, ends.min_offset, ends.max_offset) if queue.topic == topic else ():
                record = record_at(store.message_log, entry.physical_offset)
                if record is not None and record.topic == topic:
                    found.take(topic, record.physical_offset, record.size, record.properties)
    return found


def place_of(key: bytes) -> int | None:
    """Return the physical offset in the key of an entry, None for a key of another form."""
    return int.from_bytes(key[:_LONG], "big", signed=True) if key[_LONG : _LONG + 1] == b"@" else None


def last_half(store: Store) -> int | None:
    """Return the physical offset of the last half message that a database has read, None without one. Raises UnreadableError, OSError."""
    database = message_database(store, limit=0)
    if database is None:
        return None
    pairs = (pair for _, pair in pairs_of_database(database, FAMILY) if pair is not None)
    return next((int.from_bytes(value, "big", signed=True) for key, value in pairs if key == LAST_OFFSET_KEY), None)
