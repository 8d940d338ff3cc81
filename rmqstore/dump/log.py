"""A commit log as objects: the first records one by one, which is fast for a few, the others by compiled code."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rmqstore.dump.items import Item, Value
from rmqstore.dump.message import message_object
from rmqstore.dump.request import Request
from rmqstore.dump.resync import next_record, record_around
from rmqstore.dump.steps import MakeMessage, Step, damage, file_steps
from rmqstore.reading.zeros import first_nonzero
from rmqstore.store.mapped import MappedFile

# Loading compiled code takes about as long as reading this many records without it.
SLOW_RECORDS = 4000
# A dump of a whole log of so many bytes reads more records than that.
_LARGE_LOG = 4 << 20
MISSING_FILE = "missing_file"
UNWRITTEN = "unwritten"


class LogDump:
    """The objects of the files of one commit log, in the order of the log."""

    def __init__(
        self,
        files: Sequence[MappedFile],
        name: Callable[[MappedFile], str],
        request: Request,
        delay_levels: Sequence[int],
        before_compiling: Callable[[], None] | None = None,
        make_message: MakeMessage | None = None,
    ) -> None:
        """`before_compiling` is called when compiled code is needed that this machine does not have yet.

        `make_message` returns an object for a record that is read by the declarations, by default the one that JSON shows.
        """
        self._files = files
        self._name = name
        self._request = request
        self._filters = request.filters
        self._delay_levels = delay_levels
        self._before_compiling = before_compiling
        self._make_message: MakeMessage = make_message or partial(
            message_object, delay_levels=delay_levels, body=request.body, unpack=request.decompress
        )

    def slow_records(self) -> int:
        """Return how many records to read one by one before compiled code is loaded; 0 if loading it is faster in any case."""
        filters = self._filters
        everything = self._request.limit is None and filters.from_offset is None and filters.to_offset is None
        if not everything or sum(file.allocated for file in self._files) < _LARGE_LOG:
            return SLOW_RECORDS
        from rmqstore.scan.machinecode import is_compiled

        # While code is compiled for the first time, the user waits for the first lines.
        return 0 if is_compiled() else SLOW_RECORDS

    def items(self, slow_records: int | None = SLOW_RECORDS, threads: int | None = None) -> Iterator[Item]:
        """Yield every requested object. After `slow_records` records (None: never) compiled code is used, in a thread per processor."""
        border = _Border(self._files, self._name)
        file, position = self._first_place()
        seen = 0
        while file < len(self._files):
            if slow_records is not None and seen >= slow_records:
                yield from self._fast(file, position, threads or os.cpu_count() or 1, border)
                return
            mapped = self._files[file]
            end = self._end(mapped)
            with file_steps(mapped, self._name(mapped), self._make_message) as steps:
                while position < end and (slow_records is None or seen < slow_records):
                    step = steps.step(position)
                    yield from border.damage(file, position, step)
                    if step.value is not None and self._accept(step.value):
                        yield step.value
                    position = step.next
                    seen += 1
            if position >= mapped.length:
                file, position = file + 1, 0
            elif position >= end:
                return

    def _fast(self, file: int, position: int, threads: int, border: _Border) -> Iterator[Item]:
        from rmqstore.dump.fast import FastLog, Place
        from rmqstore.scan.machinecode import is_compiled

        if self._before_compiling is not None and not is_compiled():
            self._before_compiling()
        fast = FastLog(
            self._files,
            self._name,
            self._make_message,
            self._accept,
            self._filters,
            self._delay_levels,
            body=self._request.body,
            unpack=self._request.decompress,
            threads=threads,
        )
        for start, result in fast.results(Place(file, position)):
            yield from border.result(start.file, start.position, result.empty, result.unwritten)
            yield from result.items

    def _accept(self, value: Value) -> bool:
        if value["type"] == "message":
            return self._filters.accept(value)
        # Damage is always reported; a BLANK is not a message, so no filter selects it.
        return value["type"] == "damage" or not self._filters.selective

    def _end(self, file: MappedFile) -> int:
        """Return where in the file the requested range ends."""
        to_offset = self._filters.to_offset
        return file.length if to_offset is None else min(file.length, to_offset - file.start)

    def _first_place(self) -> tuple[int, int]:
        """Return the first record at or after --from-offset, as (file, position in it)."""
        from_offset = self._filters.from_offset
        if from_offset is None or not self._files or from_offset <= self._files[0].start:
            return 0, 0
        index = bisect_right([file.start for file in self._files], from_offset) - 1
        file = self._files[index]
        if from_offset >= file.end:
            return index + 1, 0
        if from_offset == file.start:
            return index, 0
        found = _record_behind(file, self._name(file), from_offset - file.start, self._make_message)
        return (index + 1, 0) if found >= file.length else (index, found)


class _Border:
    """Gaps between objects: regions never written and missing files. They are damage only if something follows."""

    def __init__(self, files: Sequence[MappedFile], name: Callable[[MappedFile], str]) -> None:
        self._files = files
        self._name = name
        self._pending: list[Value] = []
        self._file: int | None = None

    def damage(self, file: int, position: int, step: Step) -> Iterator[Value]:
        """Yield the damage to report before the object of `step`."""
        return self.result(file, position, step.value is None, step.unwritten)

    def result(self, file: int, position: int, empty: bool, unwritten: int | None) -> Iterator[Value]:
        """Yield the damage to report before what was found from `position` on; `empty`: nothing was found there."""
        if self._file is not None and self._file < file:
            self._missing(file)
        self._file = file
        if not empty:
            yield from self._pending
            self._pending.clear()
        if unwritten is not None:
            mapped = self._files[file]
            length = mapped.length - unwritten
            text = "zeros up to the end of the file, but later files hold records"
            self._pending.append(damage(mapped.start + unwritten, length, UNWRITTEN, text, self._name(mapped)))

    def _missing(self, file: int) -> None:
        before, after = self._files[file - 1], self._files[file]
        if before.end < after.start:
            text = f"no file between {before.path.name} and {after.path.name}"
            self._pending.append(damage(before.end, after.start - before.end, MISSING_FILE, text, self._name(after)))


def _record_behind(file: MappedFile, name: str, position: int, make_message: MakeMessage) -> int:
    """Return where the first object at or after `position` begins; the file's length if there is none."""
    with file_steps(file, name, make_message) as steps:
        if steps.is_sound(position):
            return position
        around = record_around(file, position)
        if around is None:
            # The position is in a damaged record or the rest of one, which is reported.
            return position
        begin, end = around
        if steps.is_sound(begin) and (end == file.length or steps.is_sound(end) or first_nonzero(file, end) == file.length):
            return end
        step = steps.step(position)
    if step.value is None or step.value["type"] == "damage":
        return step.next
    # Bytes inside a record can look like one; only a record at its own PHYSICALOFFSET counts.
    following = next_record(file, position + 1)
    return file.length if following is None else following
