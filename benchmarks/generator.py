"""Makes a store of a chosen size, byte for byte as a broker of 5.3.x would have written and cleanly stopped it.

8 topics with 8 queues each; every message has one tag, one key and a unique key, and the properties that clients and brokers add.
Templates of the records come from the declarations; compiled code fills in what differs from message to message.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import kernels
from benchmarks.kernels import Full
from rmqstore.formats import checkpoint, consumequeue, index, lock, record
from rmqstore.formats.javahash import java_hash
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import record_head
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.formats.properties import CLUSTER, KEYS, TAGS, UNIQ_KEY, WAIT, build_properties

FIRST_TIMESTAMP = 1_700_000_000_000
LOG_FILE_SIZE = 1 << 30
TOPICS = ("orders", "payments", "shipments", "inventory-changes", "user-events", "audit_log", "notifications", "clicks")
TAG_NAMES = ("created", "paid", "TagA", "TagB", "cancelled", "eu", "retry-later", "bulk_import")
STORE_HOST = "10.20.0.5:10911"
_KEY = "order-" + "0" * kernels.KEY_DIGITS
_BODIES = 4096
_BUFFER = 8 << 20

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Shape:
    """What store to make. All sizes in bytes: `size` is an upper limit of the commit log; slots and items are those of an index file."""

    size: int
    body_length: int
    log_file_size: int = LOG_FILE_SIZE
    queue_file_size: int = consumequeue.DEFAULT_FILE_SIZE
    slots: int = index.DEFAULT_HASH_SLOT_NUM
    items: int = index.DEFAULT_INDEX_NUM

    def set_options(self) -> list[str]:
        """The words of a command line that give `settings`."""
        return [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]

    @property
    def settings(self) -> dict[str, str]:
        """broker.conf entries for the sizes that are not the broker's defaults."""
        sizes = {
            "mappedFileSizeCommitLog": (self.log_file_size, LOG_FILE_SIZE),
            "mappedFileSizeConsumeQueue": (self.queue_file_size, consumequeue.DEFAULT_FILE_SIZE),
            "maxHashSlotNum": (self.slots, index.DEFAULT_HASH_SLOT_NUM),
            "maxIndexNum": (self.items, index.DEFAULT_INDEX_NUM),
        }
        return {name: str(value) for name, (value, default) in sizes.items() if value != default}


@dataclass(frozen=True, slots=True)
class Made:
    """A store that was made: `log_bytes` up to the end of the last record, `seconds` of wall time."""

    root: Path
    shape: Shape
    records: int
    log_bytes: int
    keys: int
    seconds: float

    @property
    def log_files(self) -> list[Path]:
        return sorted((self.root / "commitlog").iterdir())


def make_store(root: Path, shape: Shape, advance: Callable[[int], None] = lambda count: None) -> Made:
    """Writes the store below `root`; `advance` is told the bytes of the log as they are written."""
    started = time.perf_counter()
    templates, shapes, head = _templates(shape.body_length)
    bodies = np.random.default_rng(0).integers(0, 256, (_BODIES, shape.body_length), np.uint8)
    crcs = np.array([zlib.crc32(body.tobytes()) & 0x7FFF_FFFF for body in bodies], np.uint32)
    queue_count = len(TOPICS) * kernels.QUEUES_PER_TOPIC
    most = _BUFFER // int(shapes["size"].min()) + 1
    units = np.zeros((queue_count, most, kernels.UNIT_BYTES), np.uint8)
    unit_counts = np.zeros(queue_count, np.int64)
    queue_offsets = np.zeros(queue_count, np.int64)
    keys = np.zeros(2 * most, kernels.KEY_DTYPE)
    state = np.zeros(2, np.int64)
    buffer = np.zeros(_BUFFER, np.uint8)

    log = _Files(root / "commitlog", shape.log_file_size)
    queues = [
        _Files(root / "consumequeue" / topic / str(queue_id), shape.queue_file_size)
        for topic in TOPICS
        for queue_id in range(kernels.QUEUES_PER_TOPIC)
    ]
    index_files = IndexWriter(root / "index", shape, 2 * most)
    reason = Full.BUFFER
    while reason is not Full.LIMIT:
        file_end = (log.end // shape.log_file_size + 1) * shape.log_file_size
        length, key_count, stop = kernels.write_records(
            buffer,
            state,
            file_end,
            shape.size,
            FIRST_TIMESTAMP,
            templates,
            shapes,
            head,
            bodies,
            crcs,
            queue_offsets,
            units,
            unit_counts,
            keys,
        )
        reason = Full(stop)
        log.append(buffer[:length])
        if reason is Full.FILE and file_end < shape.size:
            left = file_end - log.end
            log.append(np.frombuffer(record.BLANK.build({"total_size": left, "magic_code": record.BLANK_MAGIC}), np.uint8))
            log.end = file_end
            state[0] = file_end
        elif reason is Full.FILE:
            reason = Full.LIMIT
        for number, queue in enumerate(queues):
            queue.append(units[number, : unit_counts[number]].reshape(-1))
        unit_counts[:] = 0
        index_files.put(keys[:key_count])
        advance(length)
    last_timestamp = FIRST_TIMESTAMP + (int(state[1]) - 1) // kernels.MESSAGES_PER_MS
    for files in (log, *queues):
        files.close()
    index_files.close()
    write_small_files(root, last_timestamp, index_files.full_until)
    return Made(root, shape, int(state[1]), log.end, 2 * int(state[1]), time.perf_counter() - started)


def settle(made: Made) -> None:
    """Waits until the store is on disk, so that nothing is written back while something is measured."""
    for path in made.root.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def write_small_files(root: Path, last_timestamp: int, indexed_until: int) -> None:
    fields = {
        "physic_msg_timestamp": last_timestamp,
        "logics_msg_timestamp": last_timestamp,
        "index_msg_timestamp": indexed_until,
        "master_flushed_offset": 0,
        "confirm_phy_offset": 0,
        "logics_physical_offset": 0,
    }
    (root / "checkpoint").write_bytes(checkpoint.CHECKPOINT.build(fields))
    (root / "lock").write_bytes(lock.LOCK.build({}))


def _templates(body_length: int) -> tuple[Bytes, npt.NDArray[np.void], npt.NDArray[np.void]]:
    """A record of every topic and tag with zeros as body, built by the declaration, and where it is patched."""
    layout = fixed_layout(record_head())
    head = np.zeros(1, kernels.HEAD_DTYPE)
    for name in kernels.HEAD_DTYPE.names or ():
        head[name] = layout["body_length"].end if name == "body" else layout[name].offset
    built: list[bytes] = []
    shapes = np.zeros(len(TOPICS) * len(TAG_NAMES), kernels.TEMPLATE_DTYPE)
    for client, topic in enumerate(TOPICS):
        # Address, process and class loader of the client, then the digits that count: 32 characters in all.
        unique_key = f"0A1400{0x10 + client:02X}{0x2A00 + client:04X}18B4AAC2" + "0" * (
            kernels.UNIQUE_TIME_DIGITS + kernels.UNIQUE_COUNTER_DIGITS
        )
        for tag in TAG_NAMES:
            data = _template(topic, tag, unique_key, f"10.20.0.{0x10 + client}:{40000 + client}", body_length)
            shape = shapes[len(built)]
            shape["size"] = len(data)
            for name, value in (("unique", unique_key), ("key", _KEY)):
                shape[f"{name}_start"] = data.index(value.encode())
                shape[f"{name}_end"] = data.index(value.encode()) + len(value)
            shape["topic_hash"] = java_hash(f"{topic}#") & 0xFFFF_FFFF
            shape["tags_code"] = java_hash(tag)
            built.append(data)
    width = max(map(len, built))
    return np.frombuffer(b"".join(data.ljust(width, b"\0") for data in built), np.uint8).reshape(-1, width), shapes, head


def _template(topic: str, tag: str, unique_key: str, born_host: str, body_length: int) -> bytes:
    # Names and order as a send through a client leaves them in the store of a broker.
    properties = {
        "MSG_REGION": "DefaultRegion",
        UNIQ_KEY: unique_key,
        CLUSTER: "DefaultCluster",
        TAGS: tag,
        KEYS: _KEY,
        WAIT: "true",
        "TRACE_ON": "true",
    }
    fields = {
        "magic_code": record.MESSAGE_MAGIC_V1,
        "body_crc": 0,
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 0,
        "physical_offset": 0,
        "sys_flag": 0,
        "born_timestamp": 0,
        "born_host": born_host,
        "store_timestamp": 0,
        "store_host": STORE_HOST,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": bytes(body_length),
        "topic": topic.encode(),
        "properties": build_properties(properties),
    }
    return bytes(record.MESSAGE.build(fields))


class _Files:
    """A mapped-file queue that is written from offset 0 on: files of one length, sparse behind what was written."""

    def __init__(self, directory: Path, file_size: int) -> None:
        self.end = 0
        self._directory = directory
        self._file_size = file_size
        self._descriptor = -1

    def append(self, data: Bytes) -> None:
        done = 0
        while done < data.size:
            position = self.end % self._file_size
            if position == 0:
                self._open()
            count = min(self._file_size - position, data.size - done)
            _write(self._descriptor, data[done : done + count], position)
            self.end += count
            done += count

    def _open(self) -> None:
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._descriptor = _create(self._directory / offset_to_file_name(self.end), self._file_size)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class IndexWriter:
    """The index files: items are written as they come, header and slots when a file is full or the last one."""

    def __init__(self, directory: Path, shape: Shape, most: int) -> None:
        self.full_until = 0  # endTimestamp of the last full file, 0 without one
        self._directory = directory
        self._shape = shape
        self._items = np.zeros((most, kernels.ITEM_BYTES), np.uint8)
        self._slots = np.zeros(shape.slots, np.int32)
        self._header = np.zeros(6, np.int64)
        self._descriptor = -1

    def put(self, keys: npt.NDArray[np.void]) -> None:
        done = 0
        while done < keys.size:
            if self._descriptor < 0 or self._header[5] >= self._shape.items:
                self._roll(int(keys["store_timestamp"][done]))
            position = index.item_position(int(self._header[5]), self._shape.slots)
            count = int(kernels.put_keys(self._items, self._slots, self._header, keys[done:], self._shape.items))
            _write(self._descriptor, self._items[:count].reshape(-1), position)
            done += count

    def _roll(self, now: int) -> None:
        if self._descriptor >= 0:
            self.close()
            self.full_until = int(self._header[1])
        # A new file begins with the end of the full one, in time and in the log.
        self._header[0], self._header[2] = self._header[1], self._header[3]
        self._header[4:] = 0, 1
        self._slots[:] = 0
        self._directory.mkdir(parents=True, exist_ok=True)
        name = f"{datetime.fromtimestamp(now // 1000, UTC):%Y%m%d%H%M%S}{now % 1000:03d}"
        self._descriptor = _create(self._directory / name, index.file_size(self._shape.slots, self._shape.items))

    def close(self) -> None:
        if self._descriptor < 0:
            return
        values = dict(zip((member.name for member in index.HEADER.subcons), self._header.tolist(), strict=True))
        _write(self._descriptor, np.frombuffer(index.HEADER.build(values), np.uint8), 0)
        _write(self._descriptor, self._slots.astype(">i4").view(np.uint8), index.slot_position(0))
        os.close(self._descriptor)
        self._descriptor = -1


def _create(path: Path, length: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    os.ftruncate(descriptor, length)
    return descriptor


def _write(descriptor: int, data: Bytes, position: int) -> None:
    view = memoryview(np.ascontiguousarray(data))
    while view:
        count = os.pwrite(descriptor, view, position)
        view = view[count:]
        position += count
