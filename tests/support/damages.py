"""The table of named damages: a name, and the operations it comes to on a given undamaged store.

A damage is planned on the undamaged store and depends on its bytes alone:

    operations = DAMAGES["body-flip-mid"](StoreView(root, settings))
    apply(operations, root)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import TypeVar

from rmqstore.formats import checkpoint, consumequeue, index
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.formats.record import BLANK_MAGIC, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, SysFlag
from tests.support.operations import Copy, Create, Delete, Flip, MakeDirectory, Move, Noise, Op, Resize, Write, WriteField, Zero, apply
from tests.support.storeview import UNIT_SIZE, LogRecord, StoreView, Unit

__all__ = ["DAMAGES", "apply"]

Plan = Callable[[StoreView], list[Op]]
Key = TypeVar("Key")
DAMAGES: dict[str, Plan] = {}

FAR_FUTURE = 4_102_444_800_000  # 2100-01-01 in ms since the epoch
NO_SUCH_OFFSET = 1 << 40
HUGE_SIZE = 0x7FFFFFF0
_CHECKPOINT = fixed_layout(checkpoint.CHECKPOINT)
_INDEX_HEADER = fixed_layout(index.HEADER)
_INDEX_ITEM = fixed_layout(index.ITEM)


def damage(name: str) -> Callable[[Plan], Plan]:
    """Enters one plan under one name."""

    def enter(plan: Plan) -> Plan:
        DAMAGES[name] = plan
        return plan

    return enter


def family(template: str, values: Iterable[Key]) -> Callable[[Callable[[StoreView, Key], list[Op]]], Callable[[StoreView, Key], list[Op]]]:
    """Enters one plan once per value; `{}` in the template stands for the value."""

    def enter(plan: Callable[[StoreView, Key], list[Op]]) -> Callable[[StoreView, Key], list[Op]]:
        for value in values:
            DAMAGES[template.format(value)] = lambda view, value=value: plan(view, value)  # type: ignore[misc]
        return plan

    return enter


def combined(*names: str) -> None:
    """Enters several damages as one; they do not disturb each other's places."""
    DAMAGES["+".join(names)] = lambda view: [operation for name in names for operation in DAMAGES[name](view)]


@damage("none")
def _none(view: StoreView) -> list[Op]:
    return []


# ---- one field of one record


def set_field(target: LogRecord, name: str, value: int) -> Write:
    """Writes a two's complement integer of the field's width."""
    place = target.fields[name]
    return Write(target.path, place.offset, (value % (1 << 8 * place.width)).to_bytes(place.width, "big"))


def set_field_of(target: LogRecord, name: str, value: int) -> Op:
    """Writes a field of a record, unless an earlier damage moved the record away."""
    write = set_field(target, name, value)
    return WriteField(write.path, write.position, write.data, target.fields["physical_offset"].offset, target.record.physical_offset)


def flip_field(target: LogRecord, name: str) -> Op:
    """Inverts the lowest bit of the field."""
    place = target.fields[name]
    return Flip(target.path, place.offset + place.width - 1, 1)


FIELDS = {
    "totalsize": "total_size",
    "magic": "magic_code",
    "bodycrc": "body_crc",
    "queueid": "queue_id",
    "flag": "flag",
    "queueoffset": "queue_offset",
    "physicaloffset": "physical_offset",
    "sysflag": "sys_flag",
    "borntimestamp": "born_timestamp",
    "storetimestamp": "store_timestamp",
    "bodylen": "body_length",
    "topiclen": "topic_length",
    "proplen": "properties_length",
}


@family("body-flip-{}", ["zero", "first", "early", "mid", "prev", "head", "last", "lastrec"])
def _body_flip(view: StoreView, place: str) -> list[Op]:
    target = view.record_at(place)
    body = target.fields["body"]
    if body.width == 0:  # nothing to flip but the stored CRC, which nobody compares for an empty body
        return [flip_field(target, "body_crc")]
    return [Flip(target.path, body.offset + body.width // 2, 0x20)]


@family("property-flip-{}", ["mid", "last"])
def _property_flip(view: StoreView, place: str) -> list[Op]:
    target = view.record_at(place)
    properties = target.fields["properties"]
    return [Flip(target.path, properties.offset + properties.width - 3, 1)]


@family("field-{}-last", FIELDS)
def _field_last(view: StoreView, name: str) -> list[Op]:
    return [flip_field(view.record_at("last"), FIELDS[name])]


@family("field-{}-mid", ["totalsize", "magic", "queueid", "queueoffset", "physicaloffset", "topiclen"])
def _field_mid(view: StoreView, name: str) -> list[Op]:
    return [flip_field(view.record_at("mid"), FIELDS[name])]


# name: place, field, value from the view and the record
FIELD_VALUES: dict[str, tuple[str, str, Callable[[StoreView, LogRecord], int]]] = {
    "totalsize-zero": ("last", "total_size", lambda view, r: 0),
    "totalsize-negative": ("last", "total_size", lambda view, r: -r.size),
    "totalsize-huge": ("last", "total_size", lambda view, r: HUGE_SIZE),
    "totalsize-pastfile": ("last", "total_size", lambda view, r: view.log_file_size - r.position + 100),
    "totalsize-half-gib": ("last", "total_size", lambda view, r: 1 << 29),
    "totalsize-small": ("last", "total_size", lambda view, r: 60),
    "bodylen-negative": ("last", "body_length", lambda view, r: -1),
    "bodylen-huge": ("last", "body_length", lambda view, r: (1 << 31) - 1),
    "bodylen-plus1": ("last", "body_length", lambda view, r: r.fields["body"].width + 1),
    "proplen-negative": ("last", "properties_length", lambda view, r: -1),
    "topiclen-negative": ("last", "topic_length", lambda view, r: -1),
    "magic-v2": ("last", "magic_code", lambda view, r: MESSAGE_MAGIC_V2),
    "sysflag-bornv6": ("mid", "sys_flag", lambda view, r: r.record.sys_flag ^ SysFlag.BORN_HOST_V6),
    "sysflag-rollback": ("mid", "sys_flag", lambda view, r: r.record.sys_flag | SysFlag.TRANSACTION_ROLLBACK),
    "sysflag-prepared": ("mid", "sys_flag", lambda view, r: r.record.sys_flag | SysFlag.TRANSACTION_PREPARED),
    "physicaloffset-far": ("last", "physical_offset", lambda view, r: r.offset + 10 * view.log_file_size),
    "physicaloffset-zero": ("last", "physical_offset", lambda view, r: 0),
    "queueoffset-jump": ("last", "queue_offset", lambda view, r: r.record.queue_offset + 1000),
    "queueoffset-zero": ("last", "queue_offset", lambda view, r: 0),
    "queueid-new": ("last", "queue_id", lambda view, r: 77),
    # the first record of a file decides where an abnormal recovery starts
    "head-storetime-zero": ("head", "store_timestamp", lambda view, r: 0),
    "head-storetime-future": ("head", "store_timestamp", lambda view, r: FAR_FUTURE),
    "headprev-storetime-future": ("headprev", "store_timestamp", lambda view, r: FAR_FUTURE),
    "head-physicaloffset-future": ("head", "physical_offset", lambda view, r: view.end + 100 * view.log_file_size),
    "storetime-last-ahead": ("lastrec", "store_timestamp", lambda view, r: FAR_FUTURE),
    "record-to-blank-mid": ("mid", "magic_code", lambda view, r: BLANK_MAGIC),
    "record-to-blank-last": ("last", "magic_code", lambda view, r: BLANK_MAGIC),
}


@family("{}", FIELD_VALUES)
def _field_value(view: StoreView, name: str) -> list[Op]:
    place, field, value = FIELD_VALUES[name]
    target = view.record_at(place)
    return [set_field(target, field, value(view, target))]


@damage("head-magic")
def _head_magic(view: StoreView) -> list[Op]:
    return [flip_field(view.record_at("head"), "magic_code")]


@damage("record-to-blank-oversize")
def _record_to_blank_oversize(view: StoreView) -> list[Op]:
    target = view.record_at("mid")
    return [set_field(target, "magic_code", BLANK_MAGIC), set_field(target, "total_size", view.log_file_size)]


@family("topic-{}", ["slash", "bad-utf8"])
def _topic(view: StoreView, how: str) -> list[Op]:
    target = view.record_at("last")
    return [Write(target.path, target.fields["topic"].offset, {"slash": b"/", "bad-utf8": b"\xff"}[how])]


# ---- ranges of the log


@family("zero-200-{}", ["early", "mid", "last"])
def _zero_200(view: StoreView, place: str) -> list[Op]:
    target = view.record_at(place)
    return [Zero(target.path, target.position, 200)]


@damage("zero-4k-mid")
def _zero_page(view: StoreView) -> list[Op]:
    target = view.record_at("mid")
    page = target.position // 4096 * 4096
    return [Zero(target.path, page, min(4096, view.log_file_size - page))]


@damage("zero-record-mid")
def _zero_record(view: StoreView) -> list[Op]:
    target = view.record_at("mid")
    return [Zero(target.path, target.position, target.size)]


@family("garbage-300-{}", ["early", "mid", "last"])
def _garbage_300(view: StoreView, place: str) -> list[Op]:
    target = view.record_at(place)
    start = target.position + 20
    return [Noise(target.path, start, min(300, view.log_file_size - start))]


@damage("garbage-file-mid")
def _garbage_file(view: StoreView) -> list[Op]:
    return [Noise(view.file_at("mid").path, 0, view.log_file_size)]


@family("zero-file-{}", ["mid", "last"])
def _zero_file(view: StoreView, place: str) -> list[Op]:
    return [Zero(view.file_at(place).path, 0, view.log_file_size)]


# ---- the end of the log

_TORN_AFTER: dict[str, Callable[[LogRecord], int]] = {"half": lambda last: last.size // 2, "header": lambda last: 30, "4": lambda last: 4}


@family("torn-tail-{}", _TORN_AFTER)
def _torn_tail(view: StoreView, how: str) -> list[Op]:
    """The last record was copied only up to some byte."""
    last = view.records[-1]
    kept = _TORN_AFTER[how](last)
    return [Zero(last.path, last.position + kept, last.size - kept)]


@damage("tail-cut-3")
def _tail_cut(view: StoreView) -> list[Op]:
    first, last = view.records[-3], view.records[-1]
    end = last.end if last.path == first.path else view.log_file_size
    return [Zero(first.path, first.position, end - first.position)]


@damage("stale-tail-record")
def _stale_record(view: StoreView) -> list[Op]:
    path, position = view.tail()
    old = view.record_at("early")
    return [Move(path, position, old.path, old.position, old.size)]


@damage("stale-tail-run")
def _stale_run(view: StoreView) -> list[Op]:
    """Whole old records behind the end: everything about them is valid but PHYSICALOFFSET."""
    path, position = view.tail()
    old = view.file_at("early").records[:6]
    return [Move(path, position, old[0].path, old[0].position, min(sum(r.size for r in old), view.log_file_size - position - 8))]


@damage("stale-tail-garbage")
def _stale_garbage(view: StoreView) -> list[Op]:
    path, position = view.tail()
    return [Noise(path, position, min(500, view.log_file_size - position))]


@family("undispatched-{}", ["record", "two"])
def _undispatched(view: StoreView, how: str) -> list[Op]:
    """Valid records with the right PHYSICALOFFSET and the next QUEUEOFFSETs behind the end, unknown to queues and index."""
    path, position = view.tail()
    last = view.records[-1]
    operations: list[Op] = []
    for number in range({"record": 1, "two": 2}[how]):
        start = position + number * last.size
        if start + last.size + 8 <= view.log_file_size:
            copy = bytearray(view.read(last.path)[last.position : last.end])
            for name, value in (
                ("queue_offset", last.record.queue_offset + 1 + number),
                ("physical_offset", view.end + number * last.size),
            ):
                field = last.fields[name]
                copy[field.offset - last.position : field.offset - last.position + field.width] = value.to_bytes(field.width, "big")
            operations.append(Write(path, start, bytes(copy)))
    return operations


# ---- BLANK

_BLANK_CHANGES: dict[str, Callable[[StoreView, str, int], Op]] = {
    "magic": lambda view, path, at: Flip(path, at + 7, 1),
    "size-small": lambda view, path, at: Write(path, at, (8).to_bytes(4, "big")),
    "size-big": lambda view, path, at: Write(path, at, (view.log_file_size - at + 1).to_bytes(4, "big")),
    "size-negative": lambda view, path, at: Write(path, at, (-16).to_bytes(4, "big", signed=True)),
    "zero": lambda view, path, at: Zero(path, at, 8),
    "to-record-magic": lambda view, path, at: Write(path, at + 4, MESSAGE_MAGIC_V1.to_bytes(4, "big")),
}


@family("blank-{}", _BLANK_CHANGES)
def _blank(view: StoreView, how: str) -> list[Op]:
    """The BLANK of the last file that has one."""
    for file in reversed(view.data_files):
        if file.blank is not None:
            return [_BLANK_CHANGES[how](view, file.path, file.blank)]
    return []


# ---- files of the log


def _log_path(offset: int) -> str:
    return f"commitlog/{offset_to_file_name(offset)}"


def _from_last_data_file(view: StoreView) -> list[str]:
    return [file.path for file in view.log_files if file.start >= view.data_files[-1].start]


@damage("file-missing-first")
def _file_missing_first(view: StoreView) -> list[Op]:
    return [Delete(view.log_files[0].path)]


@damage("file-missing-middle")
def _file_missing_middle(view: StoreView) -> list[Op]:
    return [Delete(view.file_at("mid").path)]


@damage("file-missing-last")
def _file_missing_last(view: StoreView) -> list[Op]:
    return [Delete(path) for path in _from_last_data_file(view)]


@damage("file-missing-lastdata")
def _file_missing_lastdata(view: StoreView) -> list[Op]:
    """Only the last file that holds records is gone; a pre-allocated zero file behind it stays, or appears."""
    last = view.data_files[-1]
    return [Delete(last.path), Create(_log_path(last.start + view.log_file_size), length=view.log_file_size)]


@damage("file-last-empty")
def _file_last_empty(view: StoreView) -> list[Op]:
    return [Resize(view.log_files[-1].path, 0)]


@damage("file-lastdata-empty")
def _file_lastdata_empty(view: StoreView) -> list[Op]:
    first, *later = _from_last_data_file(view)
    return [*(Delete(path) for path in later), Resize(first, 0)]


@damage("file-extra-empty")
def _file_extra_empty(view: StoreView) -> list[Op]:
    return [Create(_log_path(view.log_files[-1].start + view.log_file_size))]


@damage("file-middle-empty")
def _file_middle_empty(view: StoreView) -> list[Op]:
    return [Resize(view.file_at("mid").path, 0)]


@damage("file-last-short")
def _file_last_short(view: StoreView) -> list[Op]:
    return [Resize(view.log_files[-1].path, view.log_file_size // 2)]


@damage("file-middle-long")
def _file_middle_long(view: StoreView) -> list[Op]:
    return [Resize(view.file_at("mid").path, view.log_file_size + 4096)]


@family("file-extra-zero-{}", [1, 2])
def _file_extra_zero(view: StoreView, count: int) -> list[Op]:
    size = view.log_file_size
    return [Create(_log_path(view.log_files[-1].start + size * number), length=size) for number in range(1, count + 1)]


@damage("file-extra-gap-zero")
def _file_extra_gap_zero(view: StoreView) -> list[Op]:
    return [Create(_log_path(view.log_files[-1].start + view.log_file_size * 5), length=view.log_file_size)]


@damage("file-foreign-hidden")
def _file_foreign_hidden(view: StoreView) -> list[Op]:
    return [Create("commitlog/.DS_Store", b"foreign")]


@damage("file-foreign-empty-last")
def _file_foreign_empty(view: StoreView) -> list[Op]:
    return [Create("commitlog/zzz")]


@damage("file-foreign-samesize")
def _file_foreign_samesize(view: StoreView) -> list[Op]:
    path = view.log_files[0].path
    return [Copy(f"{path}.bak", path)]


@damage("file-subdir")
def _file_subdir(view: StoreView) -> list[Op]:
    return [MakeDirectory("commitlog/sub")]


@damage("file-last-is-copy")
def _file_last_is_copy(view: StoreView) -> list[Op]:
    early, last = view.file_at("early").path, view.data_files[-1].path
    return [Copy(last, early)] if early != last else []


@damage("log-emptied")
def _log_emptied(view: StoreView) -> list[Op]:
    return [Delete(file.path) for file in view.log_files]


@damage("log-dir-removed")
def _log_removed(view: StoreView) -> list[Op]:
    return [Delete("commitlog")]


# ---- consume queues


def _directory(key: tuple[str, str]) -> str:
    return f"consumequeue/{key[0]}/{key[1]}"


def _unit(physical_offset: int, size: int, tags_code: int) -> bytes:
    return bytes(consumequeue.UNIT.build({"physical_offset": physical_offset, "size": size, "tags_code": tags_code}))


def _clear(units: Iterable[Unit]) -> list[Op]:
    return [Zero(unit.path, unit.position, UNIT_SIZE) for unit in units]


def _next_file(view: StoreView, path: str) -> str:
    current = PurePosixPath(path)
    return str(current.with_name(offset_to_file_name(int(current.name) + view.queue_file_size)))


def _append_unit(view: StoreView, key: tuple[str, str], unit: bytes) -> list[Op]:
    """The unit behind the last used one, in a new file where the last is full."""
    last = view.units(key)[-1]
    if last.position + 2 * UNIT_SIZE <= view.queue_file_size:
        return [Write(last.path, last.position + UNIT_SIZE, unit)]
    path = _next_file(view, view.queues[key][-1])
    return [Create(path, length=view.queue_file_size), Write(path, 0, unit)]


@damage("cq-queue-removed")
def _cq_queue_removed(view: StoreView) -> list[Op]:
    return [Delete(_directory(view.other_queue()))]


@damage("cq-queue-of-last-removed")
def _cq_queue_of_last_removed(view: StoreView) -> list[Op]:
    return [Delete(_directory(view.queue_of_last()))]


@damage("cq-topic-removed")
def _cq_topic_removed(view: StoreView) -> list[Op]:
    return [Delete(f"consumequeue/{view.other_queue()[0]}")]


@damage("cq-all-removed")
def _cq_all_removed(view: StoreView) -> list[Op]:
    return [Delete("consumequeue")]


@family("cq-tail-zero-{}", [1, 2, 5])
def _cq_tail_zero(view: StoreView, count: int) -> list[Op]:
    return _clear(view.units(view.queue_of_last())[-count:])


@family("cq-other-tail-zero-{}", [1, 3])
def _cq_other_tail_zero(view: StoreView, count: int) -> list[Op]:
    return _clear(view.units(view.other_queue())[-count:])


@damage("cq-all-tails-zero-3")
def _cq_all_tails_zero(view: StoreView) -> list[Op]:
    return _clear(unit for key in view.queues for unit in view.units(key)[-3:])


@damage("cq-all-behind-half")
def _cq_all_behind_half(view: StoreView) -> list[Op]:
    """Every queue ends at the middle of the log, as if restored from an older backup."""
    return _clear(unit for key in view.queues for unit in view.units(key) if unit.physical_offset >= view.end // 2)


@damage("cq-tail-beyond-log")
def _cq_tail_beyond_log(view: StoreView) -> list[Op]:
    return _append_unit(view, view.other_queue(), _unit(view.end + 1000, 200, 5))


@damage("cq-tail-far-beyond-log")
def _cq_tail_far_beyond_log(view: StoreView) -> list[Op]:
    return _append_unit(view, view.other_queue(), _unit(view.end + 50 * view.log_file_size, 200, 5))


@damage("cq-tail-duplicate")
def _cq_tail_duplicate(view: StoreView) -> list[Op]:
    key = view.queue_of_last()
    last = view.units(key)[-1]
    return _append_unit(view, key, _unit(last.physical_offset, last.size, last.tags_code))


_UNIT_CHANGES: dict[str, Callable[[Unit], bytes]] = {
    "offset": lambda unit: _unit(unit.physical_offset + 7, unit.size, unit.tags_code),
    "size": lambda unit: _unit(unit.physical_offset, unit.size + 9, unit.tags_code),
    "tags": lambda unit: _unit(unit.physical_offset, unit.size, unit.tags_code ^ 0x55),
    "huge-offset": lambda unit: _unit(unit.physical_offset + NO_SUCH_OFFSET, unit.size, unit.tags_code),
    "negative-offset": lambda unit: _unit(-1, unit.size, unit.tags_code),
    "zero": lambda unit: bytes(UNIT_SIZE),
    "size-zero": lambda unit: _unit(unit.physical_offset, 0, unit.tags_code),
}


@family("cq-unit-{}", _UNIT_CHANGES)
def _cq_unit(view: StoreView, how: str) -> list[Op]:
    """The fourth unit from the end of the longest queue."""
    units = view.units(view.longest_queue())
    unit = units[-min(4, len(units))]
    return [Write(unit.path, unit.position, _UNIT_CHANGES[how](unit))]


@damage("cq-hole-first-file")
def _cq_hole(view: StoreView) -> list[Op]:
    return _clear(view.units(view.longest_queue())[1:2])


@damage("cq-last-file-zeroed")
def _cq_last_file_zeroed(view: StoreView) -> list[Op]:
    return [Zero(view.queues[view.longest_queue()][-1], 0, view.queue_file_size)]


@damage("cq-extra-zero-file")
def _cq_extra_zero_file(view: StoreView) -> list[Op]:
    return [Create(_next_file(view, view.queues[view.longest_queue()][-1]), length=view.queue_file_size)]


_QUEUE_FILE_CHANGES: dict[str, Callable[[StoreView, list[str]], Op]] = {
    "first-missing": lambda view, files: Delete(files[0]),
    "middle-missing": lambda view, files: Delete(files[len(files) // 2]),
    "last-missing": lambda view, files: Delete(files[-1]),
    "last-empty": lambda view, files: Resize(files[-1], 0),
    "last-short": lambda view, files: Resize(files[-1], view.queue_file_size - UNIT_SIZE),
    "garbage": lambda view, files: Noise(files[-1], 0, view.queue_file_size),
    "bak": lambda view, files: Copy(f"{files[-1]}.bak", files[-1]),
}


@family("cq-file-{}", _QUEUE_FILE_CHANGES)
def _cq_file(view: StoreView, how: str) -> list[Op]:
    return [_QUEUE_FILE_CHANGES[how](view, view.queues[view.longest_queue()])]


@damage("cq-preblank-only")
def _cq_preblank_only(view: StoreView) -> list[Op]:
    """A new queue that holds nothing but one pre-blank unit."""
    path = f"{_directory(('GhostTopic', '0'))}/{offset_to_file_name(0)}"
    return [Create(path, length=view.queue_file_size), Write(path, 0, consumequeue.PRE_BLANK)]


@damage("cq-ghost-topic")
def _cq_ghost_topic(view: StoreView) -> list[Op]:
    """A queue that no record belongs to, pointing at the first record."""
    path = f"{_directory(('GhostTopic', '3'))}/{offset_to_file_name(0)}"
    first = view.records[0]
    return [Create(path, length=view.queue_file_size), Write(path, 0, _unit(first.offset, first.size, 0))]


@damage("cq-odd-entries")
def _cq_odd_entries(view: StoreView) -> list[Op]:
    return [
        MakeDirectory("consumequeue/TopicA/notanumber"),
        Create("consumequeue/plainfile", b"\0"),
        Create("consumequeue/TopicA/plainfile", b"\0"),
    ]


# ---- index

_INDEX_CHANGES: dict[str, Callable[[StoreView, str], Op]] = {
    "header-garbage": lambda view, path: Noise(path, 0, view.slots_position),
    "slots-garbage": lambda view, path: Noise(path, view.slots_position, min(view.items_position - view.slots_position, 400)),
    "items-garbage": lambda view, path: Noise(path, _item(view, 1), 400),
    "short": lambda view, path: Resize(path, 100),
    "long": lambda view, path: Resize(path, len(view.read(path)) + 77),
    "empty": lambda view, path: Resize(path, 0),
    "end-ahead": lambda view, path: Write(path, _INDEX_HEADER["end_timestamp"].offset, FAR_FUTURE.to_bytes(8, "big")),
    "end-zero": lambda view, path: Zero(path, _INDEX_HEADER["end_timestamp"].offset, 8),
    "count-zero": lambda view, path: Zero(path, _INDEX_HEADER["index_count"].offset, 4),
    "count-full": lambda view, path: Write(path, _INDEX_HEADER["index_count"].offset, view.items.to_bytes(4, "big")),
    "loop": lambda view, path: Write(path, _item(view, 5) + _INDEX_ITEM["prev_index"].offset, (5).to_bytes(4, "big")),
}


def _item(view: StoreView, number: int) -> int:
    """Position of an index item; item 0 is never used."""
    return int(view.items_position + number * index.ITEM.sizeof())


@family("index-{}", _INDEX_CHANGES)
def _index(view: StoreView, how: str) -> list[Op]:
    return [_INDEX_CHANGES[how](view, view.index_files[-1])] if view.index_files else []


@damage("index-all-removed")
def _index_all_removed(view: StoreView) -> list[Op]:
    return [Delete("index")]


@damage("index-first-removed")
def _index_first_removed(view: StoreView) -> list[Op]:
    return [Delete(path) for path in view.index_files[:1]]


@damage("index-foreign-name")
def _index_foreign_name(view: StoreView) -> list[Op]:
    return [Create("index/readme.txt", b"x")]


@damage("index-numeric-dir")
def _index_numeric_dir(view: StoreView) -> list[Op]:
    return [MakeDirectory("index/20200101000000000")]


@damage("index-extra-zero-file")
def _index_extra_zero_file(view: StoreView) -> list[Op]:
    return [Create("index/20990101000000000", length=_item(view, view.items))]


# ---- checkpoint, abort, lock


def _checkpoint_longs(first: str, *values: int) -> Op:
    return Write("checkpoint", _CHECKPOINT[first].offset, b"".join(value.to_bytes(8, "big") for value in values))


_CHECKPOINT_CHANGES: dict[str, Callable[[StoreView], list[Op]]] = {
    "missing": lambda view: [Delete("checkpoint")],
    "zero": lambda view: [Zero("checkpoint", 0, 48)],
    "ahead": lambda view: [_checkpoint_longs("physic_msg_timestamp", FAR_FUTURE, FAR_FUTURE, FAR_FUTURE)],
    "short-20": lambda view: [Resize("checkpoint", 20)],
    "empty": lambda view: [Resize("checkpoint", 0)],
    "garbage": lambda view: [Noise("checkpoint", 0, 4096)],
    "long": lambda view: [Resize("checkpoint", 8192)],
    "directory": lambda view: [Delete("checkpoint"), MakeDirectory("checkpoint")],
    "one": lambda view: [_checkpoint_longs("physic_msg_timestamp", 1, 1, 1)],
    "index-zero": lambda view: [_checkpoint_longs("index_msg_timestamp", 0)],
    "index-ahead": lambda view: [_checkpoint_longs("index_msg_timestamp", FAR_FUTURE)],
    "logics-zero": lambda view: [_checkpoint_longs("logics_msg_timestamp", 0)],
    "confirm-far": lambda view: [_checkpoint_longs("master_flushed_offset", NO_SUCH_OFFSET, NO_SUCH_OFFSET)],
    # the long at 40 is used by 5.5.x only
    "logicsphy-zero": lambda view: [_checkpoint_longs("logics_physical_offset", 0)],
    "logicsphy-half": lambda view: [_checkpoint_longs("logics_physical_offset", view.end // 2)],
    "logicsphy-far": lambda view: [_checkpoint_longs("logics_physical_offset", NO_SUCH_OFFSET)],
    "logicsphy-one": lambda view: [_checkpoint_longs("logics_physical_offset", 1)],
}


@family("checkpoint-{}", _CHECKPOINT_CHANGES)
def _checkpoint(view: StoreView, how: str) -> list[Op]:
    return _CHECKPOINT_CHANGES[how](view)


@damage("abort-is-directory")
def _abort_is_directory(view: StoreView) -> list[Op]:
    return [Delete("abort"), MakeDirectory("abort")]


@damage("lock-missing")
def _lock_missing(view: StoreView) -> list[Op]:
    return [Delete("lock")]


# ---- in the way


@damage("cq-subdir")
def _cq_subdir(view: StoreView) -> list[Op]:
    return [MakeDirectory(f"{_directory(view.other_queue())}/sub")]


@damage("cq-queue-negative")
def _cq_queue_negative(view: StoreView) -> list[Op]:
    """Brokers read the name as a number, and load the queue."""
    return [Create(f"consumequeue/{view.other_queue()[0]}/-1/{offset_to_file_name(0)}", b"x")]


@damage("cq-topic-is-file")
def _cq_topic_is_file(view: StoreView) -> list[Op]:
    topic = f"consumequeue/{view.other_queue()[0]}"
    return [Delete(topic), Create(topic, b"x")]


# ---- combinations

combined("checkpoint-missing", "body-flip-zero")
combined("checkpoint-missing", "body-flip-first")
combined("checkpoint-missing", "body-flip-early")
combined("checkpoint-missing", "cq-all-removed")
combined("checkpoint-missing", "cq-queue-removed")
combined("checkpoint-missing", "file-missing-first")
combined("checkpoint-missing", "file-missing-middle")
combined("checkpoint-missing", "index-all-removed")
combined("cq-all-removed", "body-flip-mid")
combined("cq-all-removed", "field-physicaloffset-last")
combined("cq-all-removed", "file-missing-first")
combined("cq-tail-zero-2", "body-flip-last")
combined("checkpoint-ahead", "body-flip-prev")
combined("log-emptied", "checkpoint-missing")


@family("properties-torn-{}", ["mid", "last"])
def _properties_torn(view: StoreView, place: str) -> list[Op]:
    """A slave that was killed while it received a record has zeros in the place of the rest, as a lost page leaves them."""
    target = view.record_at(place)
    properties = target.fields["properties"]
    return [Zero(target.path, properties.offset + properties.width // 2, properties.width - properties.width // 2)]
