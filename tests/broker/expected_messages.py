"""What a repaired store has to serve: the messages of the sample, without those that the plan gives up – and it may only give up
messages whose own bytes were damaged. Everything is worked out from the sample, the damage and the plan, nothing from the repaired store.

Messages of files that are missing at the beginning of the log count as expired: nobody can tell them from those that a broker deleted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from rmqstore.formats.batchconsumequeue import UNIT_SIZE as BATCH_UNIT_SIZE
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.formats.properties import property_crc_matches
from rmqstore.formats.record import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, RecordError, decode_record
from rmqstore.repair.log.fillers import FILLER_TOPIC, PLACEHOLDER_PROPERTIES
from tests.broker.consumed_messages import Line, Questions, QueueKey, Served, Start
from tests.broker.sent_messages import Message, sent
from tests.support.operations import Op, Write
from tests.support.stores import Case

_LOG_DIRECTORIES = ("commitlog", "commitlog2")
_MAGICS = {magic.to_bytes(4, "big") for magic in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)}
_BLOCK = 512
_BORN_HOST = 48  # bytes before it in a record
_PIECE = 64
_QUEUE_ID = re.compile("[0-9]{1,10}")
_MOST_HITS = 64
"""A lookup by key gives no more."""


class LogBytes:
    """The bytes of a log by physical offset."""

    def __init__(self, root: Path, file_size: int) -> None:
        self._file_size = file_size
        self._everything = {
            path: path.read_bytes() for name in _LOG_DIRECTORIES for path in sorted((root / name).glob("*")) if path.is_file()
        }
        self._files = {path.name: content for path, content in self._everything.items() if path.name.isdecimal()}

    @property
    def is_empty(self) -> bool:
        """Whether there is no file."""
        return not self._files

    @property
    def start(self) -> int:
        """The physical offset that the first file begins at; without files, one that nothing lies behind."""
        return min(map(int, self._files), default=sys.maxsize)

    def hold(self, data: bytes) -> bool:
        """Whether the bytes are somewhere in a file of the log directories, whatever its name."""
        return any(data in content for content in self._everything.values())

    def hold_with_another_time(self, record: bytes) -> bool:
        """Whether a record is there with another STORETIMESTAMP as well, which no checksum covers."""
        after_time = record.index(decode_record(record).store_timestamp.to_bytes(8, "big"), _BORN_HOST) + 8
        return sum(content.count(record[after_time:]) - content.count(record) for content in self._everything.values()) > 0

    def changed_blocks(self, other: LogBytes) -> frozenset[int]:
        """Numbers of the blocks of this log, counted from physical offset 0, that are not the same in another one."""
        return frozenset(
            start // _BLOCK
            for name in self._files
            for start in range(int(name), int(name) + self._file_size, _BLOCK)
            if self.at(start, _BLOCK) != other.at(start, _BLOCK)
        )

    def at(self, offset: int, size: int) -> bytes:
        """`size` bytes from a physical offset on, fewer where the file ends or is missing. No record crosses a file end."""
        position = offset % self._file_size
        return self._files.get(offset_to_file_name(offset - position), b"")[position : position + size]


@dataclass(frozen=True, slots=True)
class Lost:
    """What a plan gives up, as its JSON says: objects of LostMessage. `repaired`: it changes something."""

    items: Sequence[Mapping[str, Any]]
    repaired: bool = False

    def gives_up(self, message: Message) -> bool:
        """Whether the message is listed, or lies in a listed range of which nothing else is known.

        Of messages whose position is in doubt, a range that extends to the next known position may have held another one as well.
        """
        return any(names(item, message) or (item.get("doubt") == "position" and _within(message, item)) for item in self.items)

    def without_reason(self, damaged: Sequence[Message], planted: Sequence[int], changed: Container[int]) -> list[Mapping[str, Any]]:
        """Items that are no damaged message of the sample, and nothing that the damage itself brought in.

        `changed`: numbers of the blocks of the log that are not as they were. In such a place nothing may tell that there was no message.
        """
        return [
            item
            for item in self.items
            if not any(names(item, message) for message in damaged)
            and item.get("physical_offset") not in planted
            and not (item.get("topic") is None and any(block in changed for block in _blocks(item)))
        ]


def _within(message: Message, item: Mapping[str, Any]) -> bool:
    start, size = item.get("physical_offset"), item.get("size")
    return start is not None and size is not None and start <= message.start and message.end <= start + size


def _blocks(item: Mapping[str, Any]) -> range:
    """Numbers of the blocks that a listed range lies in."""
    start, size = item.get("physical_offset"), item.get("size")
    return range(0) if start is None or size is None else range(start // _BLOCK, (start + size - 1) // _BLOCK + 1)


def names(item: Mapping[str, Any], message: Message) -> bool:
    """Whether an object of a plan's lost messages is about a message."""
    if item.get("topic") is None:
        start = item["physical_offset"]
        return bool(start < message.end and message.start < start + item.get("size", 1))
    if item.get("physical_offset") is not None:
        same_place = item.get("doubt") == "position" and ((item["topic"], item["queue_id"]), item["queue_offset"]) in message.places
        return bool(item["physical_offset"] == message.start) or same_place
    return ((item["topic"], item["queue_id"]), item["queue_offset"]) in message.places


class Promise:
    """What the store `damaged` has to serve after a repair; `sample` is the same store before the damage."""

    def __init__(self, case: Case, sample: Path, damaged: Path, operations: Sequence[Op]) -> None:
        self._case = case
        file_size = int(case.settings(sample)["mappedFileSizeCommitLog"])
        before, after = LogBytes(sample, file_size), LogBytes(damaged, file_size)
        messages = sent(case, sample)
        there = [message for message in messages if before.at(message.start, message.line["size"])]
        gone = any((sample / name).is_dir() and not (damaged / name).is_dir() for name in _LOG_DIRECTORIES)
        self.refused = gone or (after.is_empty and not before.is_empty)
        """Whether a directory of the log or all that was in it is gone: it may lie elsewhere, so nothing may be repaired, or the rest
        would be thrown away."""
        self.changed = before.changed_blocks(after)
        self._rocksdb = "storeType" in case.data["settings"]
        self._root = damaged
        self._starts_as_after_crash = False
        self.in_place: list[Message] = []
        self.moved: list[Message] = []
        """Messages whose bytes are complete in the log directories, but not at their place.

        Where a copy differs from a sound record only in bytes that no checksum covers, nothing tells which one is right.
        """
        self.damaged: list[Message] = []
        for message in there:
            data = before.at(message.start, message.line["size"])
            found = after.at(message.start, len(data))
            moved = after.hold(data) and not _looks_valid(found, data) and not after.hold_with_another_time(data)
            (self.in_place if found == data else self.moved if moved else self.damaged).append(message)
        self.intact = sorted([*self.in_place, *self.moved], key=lambda message: message.start)
        in_intact = (message.start - message.start % file_size for message in self.moved)
        self._start = min([after.start, *in_intact])
        self._of_the_very_first = {queue for message in messages for queue, _ in message.places if message.start == 0 < self._start}
        """The queues of the message at physical offset 0, if it is expired.

        Every release takes its bytes from whatever file is the first one, and until a minute after the start, when the cleaning service
        has run, the queue still has its unit: a consumer that asks for it gets bytes that are no message. A queue whose messages have all
        expired or are lost keeps that unit for good.
        """
        self._without_trace = _without_trace(self.damaged, self._intact_end, before, after, damaged)
        self.planted = _planted(operations, case.max_phy_offset)
        self.torn = [case.max_phy_offset] if "torn" in case.data else []
        """The record that the broker was writing when it was killed: it may be listed as lost."""

    def note_repair(self) -> None:
        """Look at the repaired store before a broker does: where it builds queues in RocksDB, the first start changes the index as well."""
        self._starts_as_after_crash = self._rocksdb and (self._root / "abort").exists()

    @cached_property
    def _intact_end(self) -> int:
        """Behind the last message that is not damaged. What lay behind it, only queues tell, and those in RocksDB are not read."""
        return max((message.end for message in self.intact), default=0)

    @cached_property
    def questions(self) -> Questions:
        """Every key and id of the intact messages, and the queues of all messages: a damaged one may be served all the same."""
        of_all = (*self.intact, *self.damaged)
        return Questions(
            keys=sorted({key for message in self.intact for key in message.keys}),
            ids=[message.line["offsetMsgId"] for message in self.intact],
            queues=sorted({f"{topic}/{queue}" for message in of_all for (topic, queue), _ in message.places}) if self._rocksdb else (),
        )

    def cannot_be_listed(self, message: Message) -> bool:
        """Whether nothing tells of a lost message: it is expired, or lay behind the end of the log and no queue unit leads to it."""
        return message.start < self._start or message.start in self._without_trace

    def broken(self, served: Served, lost: Lost) -> Iterator[str]:
        """Every way in which what is served is not what was promised."""
        yield from self.broken_at_first(served.first, lost)
        yield from self._new_messages(served)
        for name, start in (("first", served.first), ("second", served.second)):
            changed = [path for path in start.changed if not path.startswith(self._may_change(name, lost))]
            if changed:
                yield f"the {name} start changes {len(changed)} files: {', '.join(changed[:5])}"
        for name, start in (("first", served.first), ("storing", served.storing), ("second", served.second)):
            if not start.caught_up:
                yield f"the {name} start does not catch up"
            if start.abort_left:
                yield f"abort is left behind by the {name} start"

    def _may_change(self, start: str, lost: Lost) -> tuple[str, ...]:
        """Beginnings of paths: every start writes the last record into the checkpoint; a repair did so before, if it did anything."""
        if self._starts_as_after_crash:
            return "index", "checkpoint"
        return () if start == "first" and lost.repaired else ("checkpoint",)

    def broken_at_first(self, start: Start, lost: Lost, hidden: Container[str] = ()) -> Iterator[str]:
        """Promises about the messages of the sample. Messages of `hidden` topics cannot be pulled and are found by key and id alone."""
        for item in lost.without_reason(self.damaged, [*self.planted, *self.torn], self.changed):
            yield f"gives up what is not damaged: {dict(item)}"
        lines = (line for queue in start.pulled for line in self._pulled(queue, start))
        pulled = {line["physicalOffset"]: line for line in lines if "physicalOffset" in line}
        for message in self.intact:
            yield from _at_its_places(message, start, hidden)
            found = pulled.get(message.start)
            if message.places and found is not None:
                wrong = [name for name, value in message.line.items() if found.get(name) != value]
                if wrong:
                    yield f"{message} is served with another {', '.join(wrong)}"
            if start.by_id[message.line["offsetMsgId"]] != message.start:
                yield f"{message} is not found by id"
            for key in message.keys:
                hits = start.by_key[key]
                if message.start not in hits and len(hits) < _MOST_HITS:
                    yield f"{message} is not found by key {key[1]}"
        for message in self.damaged:
            found = pulled.get(message.start)
            there, given_up = found is not None and not self._stands_in(found), lost.gives_up(message)
            if not there and self.cannot_be_listed(message):
                continue
            if message.places and message.line["topic"] not in hidden and there == given_up:
                yield f"{message} is {'served and listed as lost' if there else 'neither served nor listed as lost'}"
        yield from self._extras(start)

    def _pulled(self, queue: QueueKey, start: Start) -> Sequence[Line]:
        """What a consumer of a queue gets, without the bytes of the first file in the place of the message at physical offset 0."""
        lines = start.pulled[queue]
        of_units = start.units.get(queue, {}).values()
        odd = queue in self._of_the_very_first and lines and lines[0].get("physicalOffset") not in of_units
        return lines[1:] if odd else lines

    def _stands_in(self, line: Line) -> bool:
        """Whether a consumer gets what was put in the place of a lost message: only queues in RocksDB cannot be led past it."""
        return self._rocksdb and (line["topic"] == FILLER_TOPIC or PLACEHOLDER_PROPERTIES.items() <= line["properties"].items())

    def _extras(self, start: Start) -> Iterator[str]:
        """Nothing is served that the sample does not have, and nothing twice but the neighbours of lost messages."""
        places = {place: message for message in (*self.intact, *self.damaged) for place in message.places}
        damaged = {message.start for message in self.damaged}
        planted = {(queue, offset): start for start, (queue, offset) in self.planted.items()}
        lines = (line for of_queue in start.pulled.values() for line in of_queue) if self._rocksdb else ()
        placeholders = {line["physicalOffset"] for line in lines if "physicalOffset" in line and self._stands_in(line)}
        for queue, units in start.units.items():
            in_units = [units[offset] for offset in sorted(units)]
            got = start.offsets(queue)
            if self._rocksdb:
                got = [start for start in got if start not in damaged and start != -1]
                in_units = [start for start in in_units if start not in damaged]
            with_repeats = [*in_units[:1], *_with_repeats(sorted(units.items()), places, queue)]
            as_units = _is_part(in_units, got) and _is_part(got, with_repeats)  # a pull that goes on across a gap repeats nothing
            if not as_units and not (queue in self._of_the_very_first and got[1:] == in_units):
                yield f"a consumer of {queue} gets {len(got)} messages, not those of the {len(in_units)} units"
            for number, (offset, physical) in enumerate(sorted(units.items())):
                due = places.get((queue, offset))
                if due is not None and physical == due.start:
                    continue
                neighbours = in_units[max(0, number - 1) : number + 2 : 2] if number else in_units[1:2]
                repeats = due is not None and due.start in damaged and (physical in neighbours or physical in placeholders)
                # Messages at the end of a queue that jump ahead keep their QUEUEOFFSETs; before them the last message is repeated.
                repeats = repeats or (due is None and physical in neighbours and _next_other(in_units, number) in damaged)
                if not repeats and physical not in damaged and planted.get((queue, offset)) != physical:
                    yield f"{queue} has at {offset} a unit for {physical} that nobody sent there"

    def _new_messages(self, served: Served) -> Iterator[str]:
        if not served.storing.new:
            yield "no new message was stored"
        for new in served.storing.new:
            queue = new["topic"], new["queue"]
            where = f"a new message of {queue}"
            if new["status"] != "PUT_OK":
                yield f"{where} is refused: {new['status']}"
                continue
            physical = new["physicalOffset"]
            if new["queueOffset"] != new["end"]:
                yield f"{where} gets queue offset {new['queueOffset']}, the queue ends at {new['end']}"
            # By key the store code finds what has the same hash, and now and then that is an old message too.
            if new["byQueue"] != [physical] or new["byKey"].count(physical) != 1 or new["byId"] != new["key"]:
                yield f"{where} is not found: by queue {new['byQueue']}, by key {new['byKey']}, by id {new['byId']}, not at {physical}"
        added = {(new["topic"], new["queue"]): [new["physicalOffset"]] for new in served.storing.new if "physicalOffset" in new}
        for queue in served.first.pulled.keys() | served.second.pulled.keys():
            due = served.first.offsets(queue) + added.get(queue, [])
            if served.second.offsets(queue) != due:
                yield f"after the second start {queue} serves {len(served.second.offsets(queue))} messages instead of {len(due)}"


def _looks_valid(found: bytes, sent: bytes) -> bool:
    """Whether the bytes in the place of a message are a record of its size with its body, which no checksum contradicts."""
    record = decode_record(sent)
    try:
        there = decode_record(found)
    except RecordError:
        return False
    same = (there.physical_offset, there.size, there.body) == (record.physical_offset, record.size, record.body)
    return same and property_crc_matches(found, there.properties) is not False


def _is_part(part: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether the numbers of `part` are in `whole`, in their order."""
    rest = iter(whole)
    return all(number in rest for number in part)


def _next_other(in_units: Sequence[int], number: int) -> int | None:
    """The physical offset in the first unit after one that differs from it."""
    return next((physical for physical in in_units[number + 1 :] if physical != in_units[number]), None)


def _with_repeats(units: Sequence[tuple[int, int]], places: Mapping[tuple[QueueKey, int], Message], queue: QueueKey) -> Iterator[int]:
    """Physical offsets that a consumer of a batch queue gets after the first one.

    Asked for a queue offset that no unit has, the store code gives the unit before it: where batches were lost, once more.
    """
    for (offset, physical), (following, after) in pairwise(units):
        message = places.get((queue, offset))
        count = 1 if message is None else int(message.line["properties"].get("INNER_NUM", "1"))
        if message is not None and "INNER_NUM" in message.line["properties"] and offset + count < following:
            yield physical
        yield after


def _at_its_places(message: Message, start: Start, hidden: Container[str]) -> Iterator[str]:
    for queue, offset in message.places:
        if queue[0] not in hidden and start.units.get(queue, {}).get(offset) != message.start:
            yield f"{message} is not served at {offset} of {queue}: {start.units.get(queue, {}).get(offset)} is"


def _without_trace(damaged: Iterable[Message], intact_end: int, before: LogBytes, after: LogBytes, store: Path) -> frozenset[int]:
    """Physical offsets of damaged messages behind the end of the log of which nothing is left: no bytes of their own at their place, no
    index item, and no row of queue units that leads to them; `store` is the damaged one, `before` and `after` are its log.

    A unit that is alone behind all others, with a gap before it, is taken for damage.
    """
    late = [message for message in damaged if message.start >= intact_end]
    units = units_of(store) if late else frozenset()
    items = [path.read_bytes() for path in sorted((store / "index").glob("*")) if path.is_file()] if late else []
    found, broken = set(), False
    for message in late:
        broken = broken or (message.start, message.end - message.start) not in units
        indexed = any(message.start.to_bytes(8, "big") in data for data in items)
        if broken and not indexed and not _has_bytes_left(message, before, after):
            found.add(message.start)
    return frozenset(found)


def _has_bytes_left(message: Message, before: LogBytes, after: LogBytes) -> bool:
    """Whether some bytes of a damaged message, not only zeros, are where they were."""
    size = message.end - message.start
    old, new = before.at(message.start, size), after.at(message.start, size)
    pieces = ((old[at : at + _PIECE], new[at : at + _PIECE]) for at in range(0, size, _PIECE))
    return any(one == other and any(one) for one, other in pieces)


def units_of(store: Path) -> frozenset[tuple[int, int]]:
    """What the units in files of queues point at: physical offset and size. A directory whose name is no queue id is none."""
    found = set()
    for kind, length in (("consumequeue", UNIT_SIZE), ("batchconsumequeue", BATCH_UNIT_SIZE)):
        for path in (store / kind).glob("*/*/*"):
            data = path.read_bytes() if path.is_file() and _QUEUE_ID.fullmatch(path.parent.name) else b""
            found |= {
                (int.from_bytes(data[at : at + 8], "big"), int.from_bytes(data[at + 8 : at + 12], "big"))
                for at in range(0, len(data) - length + 1, length)
            }
    return frozenset(found)


def _planted(operations: Iterable[Op], end: int) -> dict[int, tuple[QueueKey, int]]:
    """Whole records that a damage wrote behind the end of the log: physical offset to queue and queue offset."""
    found = {}
    for operation in operations:
        if isinstance(operation, Write) and operation.path.startswith("commitlog/") and operation.data[4:8] in _MAGICS:
            start = int(operation.path.rpartition("/")[2]) + operation.position
            if start >= end:
                record = decode_record(operation.data, 0)
                found[start] = (record.topic, record.queue_id), record.queue_offset
    return found
