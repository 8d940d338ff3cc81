"""Make stores that are large in another dimension than bytes: queues, files, groups, multi-dispatch queues.

Records come from one template that the declaration built; the fields that differ are patched. The files are those of a broker of 5.3.x
that stopped cleanly: log, consume queues, index, checkpoint, configuration.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import generator, kernels
from rmqstore.formats import consumequeue, record
from rmqstore.formats.javahash import java_hash
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import record_head
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, KEYS, TAGS, UNIQ_KEY, build_properties

_TAG = "TagA"
_UNIT = struct.Struct(">qiq")
_KEY_DIGITS = 10
_BATCH = 1 << 16
_LIGHT_QUEUES = 8


@dataclass(frozen=True, slots=True)
class WideShape:
    """The store to make: each queue has `messages` messages with bodies of `body` bytes, and each light queue one.

    `log_files` and `queue_files` are the numbers of files of the log and of each queue; `light` light message queues (`%LMQ%`) get
    entries from further messages, 8 each; `groups` consumer groups have an offset in each queue.
    """

    topics: int
    queues: int = 8
    messages: int = 2
    body: int = 64
    log_files: int = 1
    queue_files: int = 1
    light: int = 0
    groups: int = 0

    @property
    def records(self) -> int:
        """Return the number of records of the log."""
        return self.topics * self.queues * self.messages + self.light // _LIGHT_QUEUES


@dataclass(frozen=True, slots=True)
class WideStore:
    """A store that was made: sizes of its files in bytes, and the broker settings that name them."""

    root: Path
    shape: WideShape
    log_file_size: int
    queue_file_size: int

    @property
    def settings(self) -> list[str]:
        """Return the words of a command line that pass the settings."""
        values = {
            "mappedFileSizeCommitLog": self.log_file_size,
            "mappedFileSizeConsumeQueue": self.queue_file_size,
            "maxHashSlotNum": 1 << 16,
            "maxIndexNum": 1 << 18,
        }
        if self.shape.light:
            values |= {"enableLmq": "true", "enableMultiDispatch": "true"}
        return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def topic_name(number: int) -> str:
    """Return the name of a topic, of 12 characters."""
    return f"topic-{number:06d}"


def light_name(number: int) -> str:
    """Return the name of a light message queue."""
    return f"%LMQ%client-{number:07d}"


class _Template:
    """A record whose fields are patched; `extra` are further properties, of equal length in all its records."""

    def __init__(self, body: bytes, extra: dict[str, str]) -> None:
        layout = fixed_layout(record_head())
        unique = "0A14000A2A0018B4AAC2" + "0" * 12
        properties = {UNIQ_KEY: unique, TAGS: _TAG, KEYS: "k" + "0" * _KEY_DIGITS, **extra}
        fields = {
            "magic_code": record.MESSAGE_MAGIC_V1,
            "body_crc": zlib.crc32(body) & 0x7FFF_FFFF,
            "queue_id": 0,
            "flag": 0,
            "queue_offset": 0,
            "physical_offset": 0,
            "sys_flag": 0,
            "born_timestamp": generator.FIRST_TIMESTAMP,
            "born_host": "10.20.0.16:40000",
            "store_timestamp": generator.FIRST_TIMESTAMP,
            "store_host": generator.STORE_HOST,
            "reconsume_times": 0,
            "prepared_transaction_offset": 0,
            "body": body,
            "topic": topic_name(0).encode(),
            "properties": build_properties(properties),
        }
        self.data = bytes(record.MESSAGE.build(fields))
        self.unique = unique
        self.places = {name: layout[name].offset for name in ("queue_id", "queue_offset", "physical_offset", "store_timestamp")}
        self.topic = self.data.index(topic_name(0).encode())
        self.unique_at = self.data.index(unique.encode())
        self.key_at = self.data.index(b"k" + b"0" * _KEY_DIGITS)


def make_wide_store(root: Path, shape: WideShape) -> WideStore:
    """Write the store below `root`, in memory proportional to its messages."""
    plain, light = _Template(bytes(shape.body), {}), _light_template(shape)
    total = shape.records
    length = max(len(plain.data), len(light.data))
    per_file = -(-total // shape.log_files)
    log_file_size = -(-(per_file * length + 4096) // 4096) * 4096
    units: dict[tuple[str, int], bytearray] = {}
    keys = np.zeros(2 * total, kernels.KEY_DTYPE)
    log = _Log(root / "commitlog", log_file_size, per_file)
    for number, (template, topic, queue_id, queue_offset, names) in enumerate(_messages(shape, plain, light)):
        offset = log.reserve(len(template.data))
        data = _patched(template, topic, queue_id, queue_offset, offset, number, names)
        log.write(data)
        unit = _UNIT.pack(offset, len(data), java_hash(_TAG))
        units.setdefault((topic, queue_id), bytearray()).extend(unit)
        for name in names:
            units.setdefault((name, 0), bytearray()).extend(unit)
        for place, (begin, size) in enumerate(((template.unique_at, 32), (template.key_at, 1 + _KEY_DIGITS))):
            key = data[begin : begin + size].decode()
            hashed = abs(java_hash(f"{topic}#{key}"))
            keys[2 * number + place] = (hashed if hashed < 1 << 31 else 0, offset, _timestamp(number))
    log.close()
    entries = -(-shape.messages // shape.queue_files)
    queue_file_size = max(entries, 1) * consumequeue.UNIT.sizeof()
    for (topic, queue_id), data in units.items():
        _write_queue(root / "consumequeue" / topic / str(queue_id), bytes(data), queue_file_size)
    index = generator.IndexWriter(root / "index", generator.Shape(0, 0, slots=1 << 16, items=1 << 18), 2 * _BATCH)
    for begin in range(0, keys.size, _BATCH):
        index.put(keys[begin : begin + _BATCH])
    index.close()
    generator.write_small_files(root, _timestamp(total - 1), index.full_until)
    _write_configuration(root / "config", shape)
    return WideStore(root, shape, log_file_size, queue_file_size)


def _light_template(shape: WideShape) -> _Template:
    names = ",".join(light_name(0) for _ in range(_LIGHT_QUEUES))
    return _Template(bytes(shape.body), {INNER_MULTI_DISPATCH: names, INNER_MULTI_QUEUE_OFFSET: ",".join("0" * _LIGHT_QUEUES)})


def _timestamp(number: int) -> int:
    return generator.FIRST_TIMESTAMP + number // kernels.MESSAGES_PER_MS


def _messages(shape: WideShape, plain: _Template, light: _Template) -> Iterator[tuple[_Template, str, int, int, list[str]]]:
    for queue_offset in range(shape.messages):
        for topic in range(shape.topics):
            for queue_id in range(shape.queues):
                yield plain, topic_name(topic), queue_id, queue_offset, []
    for number in range(shape.light // _LIGHT_QUEUES):
        names = [light_name(number * _LIGHT_QUEUES + place) for place in range(_LIGHT_QUEUES)]
        yield light, topic_name(shape.topics), 0, number, names


def _patched(template: _Template, topic: str, queue_id: int, queue_offset: int, offset: int, number: int, names: list[str]) -> bytes:
    data = bytearray(template.data)
    places = template.places
    struct.pack_into(">i", data, places["queue_id"], queue_id)
    struct.pack_into(">q", data, places["queue_offset"], queue_offset)
    struct.pack_into(">q", data, places["physical_offset"], offset)
    struct.pack_into(">q", data, places["store_timestamp"], _timestamp(number))
    data[template.topic : template.topic + len(topic)] = topic.encode()
    data[template.unique_at + 20 : template.unique_at + 32] = f"{number:012X}".encode()
    data[template.key_at + 1 : template.key_at + 1 + _KEY_DIGITS] = f"{number:0{_KEY_DIGITS}d}".encode()
    if names:
        first = data.index(light_name(0).encode())
        joined = ",".join(names).encode()
        data[first : first + len(joined)] = joined
    return bytes(data)


class _Log:
    """The files of the log, `per_file` records each."""

    def __init__(self, directory: Path, file_size: int, per_file: int) -> None:
        directory.mkdir(parents=True)
        self._directory, self._size, self._per_file = directory, file_size, per_file
        self._buffer = bytearray()
        self._start = self._count = 0

    def reserve(self, length: int) -> int:
        if self._count == self._per_file:
            left = self._size - len(self._buffer)
            self._buffer += record.BLANK.build({"total_size": left, "magic_code": record.BLANK_MAGIC})
            self.close()
            self._start += self._size
            self._buffer, self._count = bytearray(), 0
        self._count += 1
        return self._start + len(self._buffer)

    def write(self, data: bytes) -> None:
        self._buffer += data

    def close(self) -> None:
        path = self._directory / offset_to_file_name(self._start)
        path.write_bytes(self._buffer)
        os.truncate(path, self._size)


def _write_queue(directory: Path, units: bytes, file_size: int) -> None:
    directory.mkdir(parents=True)
    for begin in range(0, len(units), file_size):
        path = directory / offset_to_file_name(begin)
        path.write_bytes(units[begin : begin + file_size].ljust(file_size, b"\0"))


def _write_configuration(directory: Path, shape: WideShape) -> None:
    directory.mkdir()
    names = [topic_name(number) for number in range(shape.topics + bool(shape.light))]
    topics = {
        name: {"order": False, "perm": 6, "readQueueNums": shape.queues, "topicFilterType": "SINGLE_TAG", "topicName": name,
               "topicSysFlag": 0, "writeQueueNums": shape.queues}
        for name in names
    }  # fmt: skip
    groups = [f"group-{number}" for number in range(shape.groups)]
    offsets = {f"{name}@{group}": {str(queue): shape.messages for queue in range(shape.queues)} for name in names for group in groups}
    version = {"counter": 1, "stateVersion": 0, "timestamp": generator.FIRST_TIMESTAMP}
    files = {
        "topics.json": {"dataVersion": version, "topicConfigTable": topics},
        "consumerOffset.json": {"dataVersion": version, "offsetTable": offsets},
        "subscriptionGroup.json": {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": {
            group: {"consumeEnable": True, "groupName": group, "retryQueueNums": 1, "retryMaxTimes": 16}
            for group in ["TOOLS_CONSUMER", *groups]
        }},
        "delayOffset.json": {"dataVersion": version, "offsetTable": {}},
    }  # fmt: skip
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
