"""A store builder that writes what a broker would have written, byte for byte, from the declarations.

    StoreBuilder(tmp_path, log_file_size=4096).message(topic="TopicA", tags="TagA", keys="k1 k2", body=b"hello").build()

Records go to the commit log with BLANKs where a file is full, units to the queues with pre-blanks where a queue does not start at a
file border, items to the index files, as the dispatchers of a broker do it (fact sheets commitlog §2, queues §2.4, §2.5, §6.4, §6.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rmqstore.formats import checkpoint, consumequeue, index, record
from rmqstore.formats.crc import body_crc
from rmqstore.formats.delay import DEFAULT_DELAY_LEVELS
from rmqstore.formats.javahash import decode_java_utf8, index_key_hash
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.formats.properties import (
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    KEYS,
    TAGS,
    UNIQ_KEY,
    build_properties,
    parse_properties,
)
from rmqstore.formats.record import SysFlag

FIRST_TIMESTAMP = 1_700_000_000_000
V1_TOPIC_LIMIT = 127
NO_UNIT = (SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK)


@dataclass(slots=True)
class _Queue:
    """A consume queue in memory: files by start, and the byte position of the next unit."""

    files: dict[int, bytearray] = field(default_factory=dict)
    end: int = 0


@dataclass(slots=True)
class _IndexFile:
    """An index file in memory; `count` is the number of the next item."""

    name: str
    header: dict[str, int]
    slots: dict[int, int] = field(default_factory=dict)
    items: list[dict[str, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.items) + 1


class StoreBuilder:
    """Collects messages in the order of their puts; `build()` writes the files and returns the root."""

    def __init__(
        self,
        root: Path,
        *,
        log_file_size: int = 64 * 1024,
        queue_file_size: int = 100 * consumequeue.UNIT_SIZE,
        slots: int = 50,
        items: int = 400,
        first_offset: int = 0,
        index_tags: bool = False,
        trailing_separator: bool = True,
        delay_levels: Sequence[int] = DEFAULT_DELAY_LEVELS,
    ) -> None:
        """Sizes in bytes, `slots` and `items` per index file, `first_offset` the start of the log; `index_tags` as releases from 5.4.0."""
        self.root = root
        self.log_file_size = log_file_size
        self.queue_file_size = consumequeue.file_size(queue_file_size)
        self.slots = slots
        self.items = items
        self.index_tags = index_tags
        self.trailing_separator = trailing_separator
        self.delay_levels = delay_levels
        self.offset = first_offset
        self.store_timestamp = FIRST_TIMESTAMP
        self.log: dict[int, bytearray] = {}
        self.queues: dict[tuple[str, int], _Queue] = {}
        self.index: list[_IndexFile] = []
        self._next: dict[tuple[str, int], int] = {}
        self._extra: dict[str, bytes] = {}

    @property
    def settings(self) -> dict[str, str]:
        """broker.conf entries for the sizes."""
        return {
            "mappedFileSizeCommitLog": str(self.log_file_size),
            "mappedFileSizeConsumeQueue": str(self.queue_file_size),
            "maxHashSlotNum": str(self.slots),
            "maxIndexNum": str(self.items),
        }

    # what goes in

    def message(
        self,
        topic: str = "TopicA",
        body: bytes = b"body",
        *,
        queue_id: int = 0,
        tags: str | None = None,
        keys: str | None = None,
        unique_key: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_offset: int | None = None,
        store_timestamp: int | None = None,
        born_timestamp: int = FIRST_TIMESTAMP,
        sys_flag: int = 0,
        born_host: str = "10.1.2.3:50000",
        store_host: str = "10.9.8.7:10911",
        flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> StoreBuilder:
        """One put; without a queue offset or a store time the next of the queue and one millisecond more."""
        named = {KEYS: keys, TAGS: tags, UNIQ_KEY: unique_key}
        block = build_properties({**(properties or {}), **{name: value for name, value in named.items() if value}}, self.trailing_separator)
        queue = (topic, queue_id)
        offset = self._next.get(queue, 0) if queue_offset is None else queue_offset
        self._next[queue] = offset + 1
        return self.put(
            {
                "magic_code": record.MESSAGE_MAGIC_V2 if len(topic) > V1_TOPIC_LIMIT else record.MESSAGE_MAGIC_V1,
                "body_crc": body_crc(body),
                "queue_id": queue_id,
                "flag": flag,
                "queue_offset": offset,
                "sys_flag": sys_flag
                | (SysFlag.BORN_HOST_V6 if "[" in born_host else 0)
                | (SysFlag.STORE_HOST_V6 if "[" in store_host else 0),
                "born_timestamp": born_timestamp,
                "born_host": born_host,
                "store_timestamp": self.store_timestamp + 1 if store_timestamp is None else store_timestamp,
                "store_host": store_host,
                "reconsume_times": reconsume_times,
                "prepared_transaction_offset": prepared_transaction_offset,
                "body": body,
                "topic": topic.encode(),
                "properties": block,
            }
        )

    def put(self, fields: Mapping[str, Any]) -> StoreBuilder:
        """One record of the given fields (names of the MESSAGE declaration, lengths and physical offset left out), dispatched."""
        encoded = record.MESSAGE.build({**fields, "physical_offset": self.offset})
        if len(encoded) + record.BLANK_SIZE > self._left():
            self._roll()
            encoded = record.MESSAGE.build({**fields, "physical_offset": self.offset})
        self.store_timestamp = fields["store_timestamp"]
        self._dispatch(fields, len(encoded))
        self._append(encoded)
        return self

    def stop(self) -> StoreBuilder:
        """The marks of a clean stop: the lock file, a checkpoint up to the last record."""
        self._extra |= {"lock": b"lock", "checkpoint": self.checkpoint()}
        return self

    def crash(self) -> StoreBuilder:
        """The marks of a killed broker: `abort`, and a pre-allocated zero file behind the last one."""
        self.stop()
        self._extra["abort"] = b""
        self.log[max(self.log, default=-self.log_file_size) + self.log_file_size] = bytearray(self.log_file_size)
        return self

    def file(self, path: str, data: bytes) -> StoreBuilder:
        """Any other file, by its path below the root."""
        self._extra[path] = data
        return self

    # what comes out

    def build(self) -> Path:
        """Writes the store; without `stop()` or `crash()` it ends like a clean stop."""
        if "checkpoint" not in self._extra:
            self.stop()
        for path, data in self.contents().items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return self.root

    def contents(self) -> dict[str, bytes]:
        """Bytes of every file by its path below the root."""
        files = {f"commitlog/{offset_to_file_name(start)}": bytes(data) for start, data in self.log.items()}
        for (topic, queue_id), queue in self.queues.items():
            files |= {f"consumequeue/{topic}/{queue_id}/{offset_to_file_name(start)}": bytes(data) for start, data in queue.files.items()}
        files |= {f"index/{file.name}": self._index_bytes(file) for file in self.index}
        return files | self._extra

    def checkpoint(self) -> bytes:
        """Log and queues written up to the last record, no full index file."""
        fields = {"physic_msg_timestamp": self.store_timestamp, "logics_msg_timestamp": self.store_timestamp, "index_msg_timestamp": 0}
        later = {"master_flushed_offset": 0, "confirm_phy_offset": 0, "logics_physical_offset": 0}
        return bytes(checkpoint.CHECKPOINT.build({**fields, **later}))

    # commit log

    def _left(self) -> int:
        return self.log_file_size - self.offset % self.log_file_size

    def _append(self, data: bytes) -> None:
        start = self.offset - self.offset % self.log_file_size
        file = self.log.setdefault(start, bytearray(self.log_file_size))
        file[self.offset - start : self.offset - start + len(data)] = data
        self.offset += len(data)

    def _roll(self) -> None:
        left = self._left()
        if left == self.log_file_size:
            raise ValueError("the record does not fit into an empty file")
        self._append(record.BLANK.build({"total_size": left, "magic_code": record.BLANK_MAGIC}))
        self.offset += left - record.BLANK_SIZE

    # dispatch

    def _dispatch(self, fields: Mapping[str, Any], size: int) -> None:
        topic, properties = decode_java_utf8(fields["topic"]), parse_properties(fields["properties"])
        transaction = fields["sys_flag"] & SysFlag.TRANSACTION_MASK
        tags_code = record.tags_code(topic, properties, fields["store_timestamp"], self.delay_levels)
        if transaction not in NO_UNIT:
            unit = consumequeue.UNIT.build({"physical_offset": self.offset, "size": size, "tags_code": tags_code})
            self._append_unit((topic, fields["queue_id"]), fields["queue_offset"], unit)
            if INNER_MULTI_QUEUE_OFFSET in properties:  # LMQ: further entries of the same record, all in queue 0
                names, offsets = properties[INNER_MULTI_DISPATCH].split(","), properties[INNER_MULTI_QUEUE_OFFSET].split(",")
                for name, queue_offset in zip(names, offsets, strict=True):
                    self._append_unit((name, 0), int(queue_offset), unit)
        self._index_message(topic, properties, fields["store_timestamp"], indexed=transaction != SysFlag.TRANSACTION_ROLLBACK)

    def _append_unit(self, key: tuple[str, int], queue_offset: int, unit: bytes) -> None:
        queue = self.queues.setdefault(key, _Queue())
        if not queue.files:
            wanted = queue_offset * consumequeue.UNIT_SIZE
            queue.end = wanted - wanted % self.queue_file_size
            for _ in range((wanted - queue.end) // consumequeue.UNIT_SIZE):
                self._write_unit(queue, consumequeue.PRE_BLANK)
        if queue_offset == 0 or queue_offset * consumequeue.UNIT_SIZE >= queue.end:  # else the place is taken, and the unit is dropped
            self._write_unit(queue, unit)

    def _write_unit(self, queue: _Queue, unit: bytes) -> None:
        start = queue.end - queue.end % self.queue_file_size
        file = queue.files.setdefault(start, bytearray(self.queue_file_size))
        file[queue.end - start : queue.end - start + len(unit)] = unit
        queue.end += len(unit)

    def _index_message(self, topic: str, properties: Mapping[str, str], store_timestamp: int, *, indexed: bool) -> None:
        file = self._writable_index(store_timestamp)
        if not indexed or self.offset < file.header["end_phy_offset"]:
            return
        for key in index.message_keys(properties, self.index_tags):
            file = self._writable_index(store_timestamp)
            self._put_key(file, index_key_hash(topic, key), store_timestamp)

    def _writable_index(self, now: int) -> _IndexFile:
        """The last index file, or a new one that takes over the end of the full one."""
        if self.index and self.index[-1].count < self.items:
            return self.index[-1]
        full = self.index[-1].header if self.index else {}
        begin, phy = full.get("end_timestamp", 0), full.get("end_phy_offset", 0)
        header = {"begin_timestamp": begin, "end_timestamp": begin, "begin_phy_offset": phy, "end_phy_offset": phy, "hash_slot_count": 0}
        self.index.append(_IndexFile(self._index_name(now), header))
        return self.index[-1]

    def _index_name(self, now: int) -> str:
        """`yyyyMMddHHmmssSSS` of the creation; a later name for the files of one millisecond."""
        while True:
            moment = datetime.fromtimestamp(now / 1000, UTC)
            name = f"{moment:%Y%m%d%H%M%S}{now % 1000:03d}"
            if all(file.name < name for file in self.index):
                return name
            now += 1

    def _put_key(self, file: _IndexFile, key_hash: int, store_timestamp: int) -> None:
        begin, slot, number = file.header["begin_timestamp"], key_hash % self.slots, file.count
        previous = file.slots.get(slot, 0)
        difference = max(0, (store_timestamp - begin) // 1000) if begin > 0 else 0
        file.items.append({"key_hash": key_hash, "phy_offset": self.offset, "time_diff": difference, "prev_index": previous})
        file.slots[slot] = number
        if number == 1:  # only now: the time difference of the first item of a rolled file counts from the end of the file before
            file.header |= {"begin_phy_offset": self.offset, "begin_timestamp": store_timestamp}
        file.header["hash_slot_count"] += previous == 0
        file.header |= {"end_phy_offset": self.offset, "end_timestamp": store_timestamp}

    def _index_bytes(self, file: _IndexFile) -> bytes:
        data = bytearray(index.file_size(self.slots, self.items))
        pieces = {0: index.HEADER.build({**file.header, "index_count": file.count})}
        pieces |= {index.slot_position(slot): index.SLOT.build({"item_number": number}) for slot, number in file.slots.items()}
        pieces |= {index.item_position(number, self.slots): index.ITEM.build(item) for number, item in enumerate(file.items, start=1)}
        for position, piece in pieces.items():
            data[position : position + len(piece)] = piece
        return bytes(data)
