"""Where things lie in an undamaged store: just enough to place damages and to say which record or unit they hit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rmqstore.formats import consumequeue, index, record
from rmqstore.formats.layout import Field, fixed_layout
from rmqstore.formats.record import Record

UNIT_SIZE = consumequeue.UNIT.sizeof()
DEFAULT_SIZES = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record where it lies; `fields` are absolute byte ranges in its file."""

    path: str
    position: int
    offset: int
    record: Record
    fields: Mapping[str, Field]

    @property
    def size(self) -> int:
        return self.record.size

    @property
    def end(self) -> int:
        return self.position + self.size

    def field_at(self, position: int) -> str:
        """The name of the field that holds a byte of the record's file."""
        return next(name for name, field in self.fields.items() if field.offset <= position < field.offset + field.width)


@dataclass(frozen=True, slots=True)
class LogFile:
    """One commit log file: its records in order and the position of its BLANK, if it has one."""

    path: str
    start: int
    records: tuple[LogRecord, ...]
    blank: int | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A used consume queue unit."""

    path: str
    position: int
    physical_offset: int
    size: int
    tags_code: int


def record_fields(buffer: bytes, position: int) -> dict[str, Field]:
    """Byte range of every field of the valid record at `position`."""
    parsed = record.MESSAGE.parse(buffer[position:])
    head = record.record_head(bool(parsed.sys_flag & record.SysFlag.BORN_HOST_V6), bool(parsed.sys_flag & record.SysFlag.STORE_HOST_V6))
    fields = {name: Field(position + field.offset, field.width) for name, field in fixed_layout(head).items()}
    at = position + head.sizeof()
    for name, width in (
        ("body", len(parsed.body)),
        ("topic_length", 2 if parsed.magic_code == record.MESSAGE_MAGIC_V2 else 1),
        ("topic", len(parsed.topic)),
        ("properties_length", 2),
        ("properties", len(parsed.properties)),
    ):
        fields[name] = Field(at, width)
        at += width
    return fields


class StoreView:
    """An undamaged store with file queues below one directory, read record by record."""

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None) -> None:
        self.root = root
        sizes = {key: int((settings or {}).get(key, default)) for key, default in DEFAULT_SIZES.items()}
        self.log_file_size = sizes["mappedFileSizeCommitLog"]
        self.queue_file_size = -(-sizes["mappedFileSizeConsumeQueue"] // UNIT_SIZE) * UNIT_SIZE
        self.slots = sizes["maxHashSlotNum"]
        self.items = sizes["maxIndexNum"]
        self.slots_position = index.HEADER.sizeof()
        self.items_position = self.slots_position + index.SLOT.sizeof() * self.slots
        self.log_files = [self._log_file(name) for name in self._list("commitlog")]
        self.data_files = [file for file in self.log_files if file.records]
        self.records = [item for file in self.data_files for item in file.records]
        self.end = self.records[-1].offset + self.records[-1].size if self.records else 0
        self.index_files = [f"index/{name}" for name in self._list("index")]

    # places

    def file_at(self, place: str) -> LogFile:
        """A log file that holds records: first, early (second), mid (third last), prev, last."""
        count = len(self.data_files)
        index_of = {"first": 0, "early": min(1, count - 1), "mid": max(0, count - 3), "prev": max(0, count - 2), "last": count - 1}
        return self.data_files[index_of[place]]

    def record_at(self, place: str) -> LogRecord:
        """A record: zero (the first), lastrec, head and headprev (first of the last and last but one file), or one inside `file_at`."""
        match place:
            case "zero":
                return self.records[0]
            case "lastrec":
                return self.records[-1]
            case "head":
                return self.data_files[-1].records[0]
            case "headprev":
                return self.data_files[max(0, len(self.data_files) - 2)].records[0]
        records = self.file_at(place).records
        start = 2 if place == "first" else len(records) // 2
        wanted = (r for r in records[start:] + records[:start] if r.fields["body"].width >= 16 and r.fields["properties"].width >= 20)
        return next(wanted, records[min(start, len(records) - 1)])

    def tail(self) -> tuple[str, int]:
        """File and position right behind the last record."""
        last = self.records[-1]
        return last.path, last.end

    # queues

    @cached_property
    def queues(self) -> dict[tuple[str, str], list[str]]:
        """Files of every consume queue, by topic and queue id."""
        found = {}
        for topic in self._list("consumequeue"):
            for queue in self._list(f"consumequeue/{topic}"):
                directory = f"consumequeue/{topic}/{queue}"
                if names := self._list(directory):
                    found[topic, queue] = [f"{directory}/{name}" for name in names]
        return found

    def units(self, key: tuple[str, str]) -> list[Unit]:
        """Every used unit of a queue, in order."""
        return [unit for path in self.queues[key] for unit in self._units(path)]

    def longest_queue(self) -> tuple[str, str]:
        return max(self.queues, key=lambda key: (len(self.units(key)), key))

    def queue_of_last(self) -> tuple[str, str]:
        """The queue that holds the last message of the log."""
        return max(self.queues, key=lambda key: max((unit.physical_offset for unit in self.units(key)), default=-1))

    def other_queue(self) -> tuple[str, str]:
        """A queue with some units that does not hold the last message."""
        top = self.queue_of_last()
        others = [key for key in self.queues if key != top and len(self.units(key)) > 2]
        return others[len(others) // 2] if others else top

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def _list(self, path: str) -> list[str]:
        directory = self.root / path
        return sorted(entry.name for entry in directory.iterdir()) if directory.is_dir() else []

    def _log_file(self, name: str) -> LogFile:
        path, start = f"commitlog/{name}", int(name)
        buffer = self.read(path)
        records: list[LogRecord] = []
        position = 0
        while True:
            head = record.BLANK.parse(buffer[position : position + record.BLANK.sizeof()])
            if head.magic_code == record.BLANK_MAGIC:
                return LogFile(path, start, tuple(records), position)
            if head.magic_code not in (record.MESSAGE_MAGIC_V1, record.MESSAGE_MAGIC_V2):
                return LogFile(path, start, tuple(records), None)
            try:
                parsed = record.decode_record(buffer, position)
            except record.RecordError:  # what a killed broker was writing
                return LogFile(path, start, tuple(records), None)
            records.append(LogRecord(path, position, start + position, parsed, record_fields(buffer, position)))
            position += parsed.size

    def _units(self, path: str) -> Iterator[Unit]:
        buffer = self.read(path)
        for position in range(0, len(buffer) - UNIT_SIZE + 1, UNIT_SIZE):
            unit = consumequeue.UNIT.parse(buffer[position : position + UNIT_SIZE])
            if unit.size > 0:
                yield Unit(path, position, unit.physical_offset, unit.size, unit.tags_code)
