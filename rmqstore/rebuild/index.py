"""Rebuild of index files: batches of records with their keys in log order → headers, hash slots and entries (fact sheet queues §6).

Memory is the slots of one open file, and a block of entries: those are written consecutively. Their content is computed in
`kernels_items`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from rmqstore.formats import index as declared
from rmqstore.rebuild.kernels_items import AHEAD, HEADER_DTYPE, put_items
from rmqstore.rebuild.requests import QueueOf, requests_of
from rmqstore.rebuild.result import IndexResult, RebuiltIndexFile
from rmqstore.rebuild.settings import Mode, Settings
from rmqstore.rebuild.sink import Bytes, Sink
from rmqstore.scan.walk import Batch
from rmqstore.versions import Profile

_BLOCK = 16_384
"""Entries that are written at a time: they stay in the cache of a processor until then."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class IndexBuilder:
    """Builds all index files in one pass."""

    def __init__(
        self,
        queue_of: QueueOf,
        settings: Settings,
        profile: Profile,
        sink: Sink,
        *,
        mode: Mode = Mode.USEFUL,
        zone: tzinfo | None = None,
        follows: tuple[int, int] = (0, 0),
        single: bool = False,
    ) -> None:
        """`queue_of` = the scanner's `queue`; `zone` is that of the broker's clock, by which files are named, without it this machine's;
        `follows` = end timestamp (ms) and end offset of the full file before the first one, zeros without one; `single`: what
        does not go into the first file is left out.

        The scan must deliver keys. Raises UsageError for a `max_index_num` that no entry fits into.
        """
        self._queue_of = queue_of
        self._mode = mode
        self._slots = settings.max_hash_slot_num
        self._items = settings.index_capacity + 1
        self._single = single
        self._tags = int(profile.indexes_tags)
        self._flushes = profile.flushes_index
        self._counts_used_slots = profile.counts_used_slots
        self._builds = settings.builds_index(profile)
        self._sink = sink
        self._zone = zone
        self._inherited = follows
        self._header = np.zeros(1, HEADER_DTYPE)
        self._scratch = np.zeros(AHEAD, np.int32)
        self._block = np.zeros(_BLOCK * declared.ITEM_SIZE, np.uint8)
        self._written = 0  # number of the first entry in the block
        self._memory: Bytes | None = None
        self._name = ""
        self._files: list[RebuiltIndexFile] = []
        self._full_until = 0
        self._refused = 0

    def put(self, batch: Batch) -> None:
        """Index the next records of the log. The batch is not needed any more afterwards."""
        if not self._builds:
            return
        batch, refused = requests_of(batch, self._mode, self._queue_of)
        self._refused += refused
        records, keys = batch.records, batch.keys
        if not len(records) or self.done:
            return
        memory: Bytes | None = self._writable(batch, 0)
        key = 0
        while memory is not None:
            key = put_items(
                records.ctypes.data,
                keys.ctypes.data,
                key,
                len(keys),
                self._tags,
                memory.ctypes.data + declared.HEADER_SIZE,
                self._slots,
                self._block.ctypes.data - self._written * declared.ITEM_SIZE,
                min(self._items, self._written + _BLOCK),
                self._header.ctypes.data,
                self._scratch.ctypes.data,
            )
            if self._written + _BLOCK == self._header["index_count"][0]:
                self._write_block()
            if key < len(keys) and not self._is_full:
                continue
            row = None if self.done else self._next_to_ask(batch, key)
            memory = self._writable(batch, row) if row is not None else None

    @property
    def done(self) -> bool:
        """Return whether more records would change nothing."""
        return self._single and self._is_full

    def _next_to_ask(self, batch: Batch, key: int) -> int | None:
        """Return the record that needs another file, None if the open one is not full or no record of the batch is left.

        A broker ensures a file for every record, even one without keys (§6.5), and again for each key; `key` is the next one.
        """
        header, records, keys = self._header[0], batch.records, batch.keys
        if not self._is_full:
            return None
        last = int(np.searchsorted(records["position"], header["end_phy_offset"], side="right")) - 1
        row = last if key < len(keys) and keys["record"][key] == last else last + 1
        return row if row < len(records) else None

    def finish(self) -> IndexResult:
        """Close the last file and return the result."""
        self._close()
        return IndexResult(tuple(self._files), self._refused, self._full_until)

    @property
    def _is_full(self) -> bool:
        return self._memory is not None and bool(self._header["index_count"][0] >= self._items)

    def _writable(self, batch: Batch, row: int) -> Bytes:
        """Return the file for the entries of a record: the open one unless it is full."""
        header = self._header[0]
        if self._memory is not None and not self._is_full:
            return self._memory
        if self._memory is not None:
            self._close()
            self._inherited = max(0, int(header["end_timestamp"])), max(0, int(header["end_phy_offset"]))
            self._full_until = self._inherited[0] or self._full_until
        end_time, end_offset = self._inherited
        self._header[0] = (end_time, end_time, end_offset, end_offset, 0, 1)
        self._name = self._next_name(int(batch.records["store_timestamp"][row]))
        self._written = 1
        self._memory = self._sink.open(f"index/{self._name}", declared.file_size(self._slots, self._items))
        return self._memory

    def _next_name(self, store_timestamp: int) -> str:
        """Return a name from the record's time, because the time of the broker's clock is not in the log; names rise (§6.9)."""
        try:
            name = _wall_clock(store_timestamp, self._zone)
        except (OverflowError, ValueError):
            name = ""
        return next_index_file_name(name, self._name)

    def _write_block(self) -> None:
        count = int(self._header["index_count"][0]) - self._written
        if not count:
            return
        position = declared.item_position(self._written, self._slots)
        self._sink.write(f"index/{self._name}", position, self._block[: count * declared.ITEM_SIZE])
        self._written += count

    def _close(self) -> None:
        if self._memory is None:
            return
        self._write_block()
        values = {name: int(self._header[name][0]) for name in HEADER_DTYPE.names or ()}
        if not self._counts_used_slots:
            values["hash_slot_count"] = values["index_count"] - 1
        if values["index_count"] == 1 and not self._flushes:
            # The number reaches the file with the first entry, or with a flush.
            values["index_count"] = 0
        self._memory[: declared.HEADER_SIZE] = np.frombuffer(declared.HEADER.build(values), np.uint8)
        path = f"index/{self._name}"
        self._memory = None
        self._sink.close(path)
        self._files.append(RebuiltIndexFile(path, **values))


def _wall_clock(milliseconds: int, zone: tzinfo | None) -> str:
    """Return `yyyyMMddHHmmssSSS` of a time (ms since epoch). Raises OverflowError or ValueError for a time that no calendar has."""
    return _name_of((_EPOCH + timedelta(milliseconds=milliseconds)).astimezone(zone))


def next_index_file_name(name: str, before: str) -> str:
    """Return the name, or the one after `before` if the name is not greater; `before` is empty for the first file."""
    return name if name > before else following_name(before)


def following_name(name: str) -> str:
    """Return the name one millisecond later; of no name, that of the first moment that brokers can have seen."""
    if not name:
        return _name_of(_EPOCH)
    moment = datetime.strptime(name[:14], "%Y%m%d%H%M%S").replace(microsecond=int(name[14:]) * 1000)
    return _name_of(moment + timedelta(milliseconds=1))


def _name_of(moment: datetime) -> str:
    return f"{moment.year:04d}{moment:%m%d%H%M%S}{moment.microsecond // 1000:03d}"
