"""Timed messages that a broker keeps in RocksDB (`timerRocksDBEnable`, from 5.4.0 on), beside or in place of the timer wheel."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rmqstore.formats.rocksdb import DELIVERED_KEY, SCANNED_KEY, TIMELINE_ENTRY
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.store.rocksdb.databases import DatabaseUse, databases
from rmqstore.store.rocksdb.library import probe
from rmqstore.store.rocksdb.streams import pairs_of_database
from rmqstore.store.root import Store

FAMILY = "timer"
_LONG = struct.Struct(">q")
_ENTRY = struct.Struct(">iq")
assert _ENTRY.size == TIMELINE_ENTRY.sizeof()


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One message: when it is due (ms), its unique key, and the place of its record."""

    due: int
    unique_key: str
    size: int
    physical_offset: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The column family. `scanned`: the next queue offset of the timer's topic, `delivered`: all due before then (ms) were delivered [R].

    Both are None where the broker did not write them. Delivered entries stay for a while. `odd`: entries of another form.
    """

    scanned: int | None
    delivered: int | None
    entries: tuple[TimelineEntry, ...]
    odd: int

    @property
    def pending(self) -> list[TimelineEntry]:
        """Return the messages that were not delivered, by time."""
        return [entry for entry in self.entries if self.delivered is None or entry.due >= self.delivered]


def may_have_timeline(store: Store) -> bool:
    """Return whether a database has timed messages, or cannot be read. Raises OSError."""
    database = next(databases(store, DatabaseUse.MESSAGES), None)
    if database is None or not database.may_have_entries:
        return False
    report = probe(database)
    return not report.sound or any(one.name == FAMILY and one.entries for one in report.families)


def timeline_of(store: Store) -> Timeline | None:
    """Return the timed messages in RocksDB, None without any, and where a broker uses the database or the library cannot read it.

    Raises UnreadableError if the library fails, OSError.
    """
    database = message_database(store, family=FAMILY)
    if database is None:
        return None
    numbers: dict[bytes, int] = {}
    entries: list[TimelineEntry] = []
    odd = 0
    for _, pair in pairs_of_database(database, FAMILY):
        if pair is None:
            continue
        key, value = pair
        if key in (SCANNED_KEY, DELIVERED_KEY) and len(value) == _LONG.size:
            numbers[key] = _LONG.unpack(value)[0]
        elif len(key) > _LONG.size and len(value) == _ENTRY.size:
            size, offset = _ENTRY.unpack(value)
            entries.append(TimelineEntry(_LONG.unpack_from(key)[0], key[_LONG.size :].decode("utf-8", "replace"), size, offset))
        else:
            odd += 1
    return Timeline(numbers.get(SCANNED_KEY), numbers.get(DELIVERED_KEY), tuple(entries), odd)
