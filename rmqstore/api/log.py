"""The commit log as records and as Arrow batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqstore.errors import UnreadableError
from rmqstore.formats.record import Record
from rmqstore.reading.progress import silent

if TYPE_CHECKING:
    import pyarrow

    from rmqstore.dump.items import Value
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of the log that holds no record: `offset` in the log and `length` in bytes, `reason` as in `rmqstore dump`."""

    offset: int
    length: int
    reason: str
    message: str


class DamageWarning(UserWarning):
    """A part of the log was left out, because it holds no record."""


def warn(damage: Damage) -> None:
    """Issue a DamageWarning."""
    text = f"{damage.length} bytes at offset {damage.offset} hold no record and were left out: {damage.message}"
    warnings.warn(text, DamageWarning, stacklevel=3)


class Log:
    """The records of a store by physical offset; those of DLedger, if it keeps the log."""

    def __init__(self, store: Store, at: StoreAt) -> None:
        self._store = store
        self._at = at

    @property
    def min_offset(self) -> int:
        """Return the physical offset at which the first file begins."""
        return self._store.message_log.min_offset

    @property
    def max_offset(self) -> int:
        """Return the physical offset at which the last file ends. The last record ends before it, because files have their full length."""
        return self._store.message_log.max_offset

    def records(
        self,
        begin: int | None = None,
        end: int | None = None,
        *,
        topic: str | None = None,
        on_damage: Callable[[Damage], None] = warn,
    ) -> Iterator[Record]:
        """Yield the records that begin in [begin, end) in the order of the log, with their bodies.

        `on_damage` is called for each part of the log that holds no record; by default it issues a DamageWarning. Records whose body does
        not match its checksum are yielded, too: see `Record.body_crc_matches`. `batches` is many times faster.

        Raises UnreadableError, StoreChangedError.
        """
        from rmqstore.dump.log import LogDump
        from rmqstore.dump.request import Filters, Request

        request = Request(Filters(topic=topic, from_offset=begin, to_offset=end))
        log = LogDump(self._store.message_log.files, lambda file: self._store.relative(file.path), request, (), make_message=_kept)
        for value in self._dledger(request) if self._store.dledger is not None else log.items(slow_records=None):
            assert isinstance(value, dict)  # compiled code, which makes lines, is not used
            if value["type"] == "damage":
                on_damage(Damage(value["physical_offset"], value["length"], value["reason"], value["message"]))
            elif value["type"] == "message":
                yield value["record"]

    def _dledger(self, request: Any) -> Iterator[Value]:
        from rmqstore.dump.dledger import dledger_log

        for value in dledger_log(self._store.message_log.files, lambda file: self._store.relative(file.path), _kept):
            message = value["message"] if value["type"] == "dledger_entry" else value
            if message is not None and (message["type"] == "damage" or request.filters.accept(message)):
                yield message

    def record_at(self, offset: int) -> Record:
        """Return the record that begins at a physical offset. Raises UnreadableError, also where no record begins."""
        from rmqstore.reading.records import record_at

        found = record_at(self._store.message_log, offset)
        if found is None:
            raise UnreadableError(f"No record begins at offset {offset} of the log.", "`Store.verify()` reports what is damaged.")
        return found

    def batches(
        self, columns: Sequence[str] | None = None, *, topics: Sequence[str] | None = None, begin: int | None = None, end: int | None = None
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield the records that begin in [begin, end) as Arrow batches in the order of the log.

        `columns` are those of the table `messages` (docs/tables.md); None for all of them, bodies included. `topics`: only records of
        these. Parts of the log that hold no record are left out; `Store.verify` reports them.

        Raises UsageError, UnreadableError, StoreChangedError.
        """
        from rmqstore.pipeline.tables.messages import TABLE
        from rmqstore.pipeline.tables.selection import Condition, Selection
        from rmqstore.pipeline.tables.table import schema

        conditions = {}
        if topics is not None:
            conditions["topic"] = Condition(among=frozenset(topics))
        if begin is not None or end is not None:
            conditions["position"] = Condition(begin, None if end is None else end - 1)
        selection = Selection(tuple(schema(TABLE, columns).names), conditions)
        for part in TABLE.parts(self._at, selection):
            yield from TABLE.read(part, selection, silent)


def _kept(record: Record, position: int) -> Value:
    """Return a record as filters need it."""
    return {"type": "message", "topic": record.topic, "position": position, "record": record}
