"""Where a damage must be found: computed from the operations and the undamaged store, never from what verify says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tests.support.operations import Op
from tests.support.storeview import UNIT_SIZE, LogRecord, StoreView, Unit


@dataclass(frozen=True, slots=True)
class Scene:
    """An undamaged store and what is done to it."""

    view: StoreView
    operations: list[Op]

    def start(self, number: int = 0) -> int:
        """First byte that an operation overwrites."""
        span = self.operations[number].span
        assert span is not None
        return span[0]

    def record(self, number: int = 0) -> LogRecord:
        """The record that an operation begins in."""
        path, position = self.operations[number].path, self.start(number)
        return next(r for r in self.view.records if r.path == path and r.position <= position < r.end)

    def whole_record(self) -> LogRecord:
        """The first record that begins in the range which the first operation overwrites."""
        path, position = self.operations[0].path, self.start()
        return next(r for r in self.view.records if r.path == path and r.position >= position)

    def unit_of(self, target: LogRecord) -> Unit:
        """The consume queue unit of a record."""
        key = (target.record.topic, str(target.record.queue_id))
        return next(unit for unit in self.view.units(key) if unit.physical_offset == target.offset)


Fields = Mapping[str, Any]
COVERS, COVERS_OFFSET = "covers", "covers_offset"
Place = Callable[[Scene], Fields]


def anywhere(scene: Scene) -> Fields:
    return {}


def record(scene: Scene) -> Fields:
    """At the physical offset of the record that the first operation begins in."""
    return {"offset": scene.record().offset}


def record_or_next(scene: Scene) -> Fields:
    """At the record, or at the one behind it: a comparison of neighbours shows at either."""
    target = scene.record()
    return {"offset": {target.offset, target.offset + target.size}}


def whole_record(scene: Scene) -> Fields:
    """The range of bytes that the record had."""
    target = scene.record()
    return {"offset": target.offset, "length": target.size}


def first_whole_record(scene: Scene) -> Fields:
    """A range of physical offsets that holds the first record which lies in the overwritten bytes."""
    return {COVERS_OFFSET: scene.whole_record().offset}


def whole_log_file(scene: Scene) -> Fields:
    """The range of physical offsets that a log file has."""
    return {"offset": int(PurePosixPath(scene.operations[0].path).name), "length": scene.view.log_file_size}


def last_record(scene: Scene) -> Fields:
    return {"offset": scene.view.records[-1].offset}


def end_of_log(scene: Scene) -> Fields:
    return {"offset": scene.view.end}


def _covering(unit: Unit) -> Fields:
    """At the unit, or in a range of units that it lies in: neighbours with the same finding are reported as one."""
    return {"file": unit.path, COVERS: unit.position}


def unit_of_record(scene: Scene) -> Fields:
    """At the queue unit that points to the damaged record."""
    return _covering(scene.unit_of(scene.record()))


def unit_of_last_record(scene: Scene) -> Fields:
    return _covering(scene.unit_of(scene.view.records[-1]))


def unit_of_first_whole_record(scene: Scene) -> Fields:
    return _covering(scene.unit_of(scene.whole_record()))


def unit_of_first_record_in_file(scene: Scene) -> Fields:
    """At the queue unit of the first record of the log file that the first operation hits."""
    first = next(r for r in scene.view.records if r.path == scene.operations[0].path)
    return _covering(scene.unit_of(first))


def operation(number: int) -> Place:
    """At the file and byte where an operation begins to write; an operation on a whole file: at the file."""

    def place(scene: Scene) -> Fields:
        span = scene.operations[number].span
        file = {"file": scene.operations[number].path}
        return file if span is None else {**file, "position": span[0]}

    return place


first_operation = operation(0)
last_operation = operation(-1)


def blank(scene: Scene) -> Fields:
    """At the BLANK of the log file that the first operation hits."""
    hit = next(f for f in scene.view.log_files if f.path == scene.operations[0].path)
    assert hit.blank is not None
    return {"offset": hit.start + hit.blank}


def start_of_log_file(scene: Scene) -> Fields:
    """At the physical offset where the log file of the first operation begins."""
    return {"offset": int(PurePosixPath(scene.operations[0].path).name)}


def behind_last_log_file(scene: Scene) -> Fields:
    """Where the file after the last one would begin."""
    return {"offset": scene.view.log_files[-1].start + scene.view.log_file_size}


def file(number: int = 0) -> Place:
    """In the file of an operation."""
    return lambda scene: {"file": scene.operations[number].path}


def first_index_file(scene: Scene) -> Fields:
    return {"file": scene.view.index_files[0]}


def queue(scene: Scene) -> Fields:
    """In the queue whose file or directory the first operation hits."""
    _, topic, queue_id, *_ = PurePosixPath(scene.operations[0].path).parts
    return {"topic": topic, "queue_id": int(queue_id)}


def topic(scene: Scene) -> Fields:
    return {"topic": PurePosixPath(scene.operations[0].path).parts[1]}


def queue_of_last_record(scene: Scene) -> Fields:
    last = scene.view.records[-1].record
    return {"topic": last.topic, "queue_id": last.queue_id}


def new_queue(queue_id: int) -> Place:
    """In a queue of that id of the damaged record's topic."""
    return lambda scene: {"topic": scene.record().record.topic, "queue_id": queue_id}


def inside(length: int) -> Place:
    """In the file of the first operation, within `length` bytes from where it begins."""
    return lambda scene: {"file": scene.operations[0].path, "position": range(scene.start(), scene.start() + length)}


def unit(number: int = 0) -> Place:
    """At the queue unit that an operation writes into."""

    def place(scene: Scene) -> Fields:
        position = scene.start(number)
        return {"file": scene.operations[number].path, "position": position - position % UNIT_SIZE}

    return place


def matches(finding: Any, fields: Fields) -> bool:
    """Whether a finding stands at the place; a set or range allows any of its values, COVERS and COVERS_OFFSET a range around it."""
    return all(_matches(finding, name, expected) for name, expected in fields.items())


def _matches(finding: Any, name: str, expected: Any) -> bool:
    if name in (COVERS, COVERS_OFFSET):
        start = finding.position if name == COVERS else finding.offset
        return start is not None and start <= expected < start + (finding.length or 1)
    value = getattr(finding, name)
    return bool(value in expected if isinstance(expected, (set, range)) else value == expected)
