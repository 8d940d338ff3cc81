"""Many records at once: windows of the log are rendered by compiled code in threads, and returned in the order of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rmqstore.dump.bodylines import with_bodies
from rmqstore.dump.items import Item, Lines, Value
from rmqstore.dump.message import json_line
from rmqstore.dump.request import BodyForm, Filters
from rmqstore.dump.steps import FileSteps, MakeMessage, Step, file_steps
from rmqstore.errors import StoreChangedError
from rmqstore.formats.javahash import LONG_MAX, LONG_MIN
from rmqstore.formats.record import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, MIN_RECORD_SIZE_V1
from rmqstore.scan import sigbus
from rmqstore.scan.jsonl import MAX_PROPERTIES, SMALLEST_OUTPUT, SPAN_DTYPE, WANTED_DTYPE, Ending, hop, write_messages
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import map_window

WINDOW = 4 << 20
_OUTPUT = max(8 << 20, 2 * SMALLEST_OUTPUT)
# A worker leaves its window once it has buffered so many bytes of text; only damaged logs and huge windows reach this.
_PILE = 4 * _OUTPUT


class Place(NamedTuple):
    """A position in the log: number of the file, byte in the file."""

    file: int
    position: int


class Task(NamedTuple):
    """Records that begin in [`start`, `last`); the bytes up to `end` (in the file) belong to them. The next task starts at `then`."""

    start: Place
    last: int
    end: int
    then: Place


@dataclass(slots=True)
class Result:
    """Result of a task: the items with the buffers that hold them, where it really stopped, and whether only zeros follow in its file."""

    then: Place
    items: list[Item] = field(default_factory=list)
    buffers: list[NDArray[np.uint8]] = field(default_factory=list)
    unwritten: int | None = None
    empty: bool = True


class CompiledFilters:
    """The filters on fields of a message, in memory as the kernel reads them."""

    def __init__(self, filters: Filters) -> None:
        self._texts = [
            None if wanted is None else np.frombuffer(wanted.encode("utf-8", "surrogatepass") + b"\0", np.uint8)
            for wanted in (filters.topic, filters.tag, filters.key)
        ]
        ranges = (
            *_bounds(filters.queue_id, filters.queue_id),
            *_bounds(filters.queue_offset, filters.queue_offset),
            *_bounds(filters.from_time, filters.to_time),
        )
        texts = (place for text in self._texts for place in ((0, 0) if text is None else (text.ctypes.data, len(text) - 1)))
        self._row = np.array([(*ranges, *texts)], WANTED_DTYPE)
        self.address = self._row.ctypes.data


def _bounds(low: int | None, high: int | None) -> tuple[int, int]:
    return LONG_MIN if low is None else low, LONG_MAX if high is None else high


class FastLog:
    """Renderer of the records of a log from a place on. `accept` filters what the kernel does not; bodies are put into its lines."""

    def __init__(
        self,
        files: Sequence[MappedFile],
        name: Callable[[MappedFile], str],
        make_message: MakeMessage,
        accept: Callable[[Value], bool],
        filters: Filters,
        delay_levels: Sequence[int],
        body: BodyForm,
        unpack: bool,
        threads: int,
    ) -> None:
        self._files = files
        self._name = name
        self._make_message = make_message
        self._accept = accept
        self._wanted = CompiledFilters(filters)
        self._to_offset = LONG_MAX if filters.to_offset is None else filters.to_offset
        self._delays = np.array([0, *delay_levels], np.int64)
        self._body = body
        self._unpack = unpack
        # A few bytes can become a large body, so results with such bodies do not wait for each other.
        self._threads, self._ahead = (1, 0) if unpack else (threads, 2 * threads)
        self._pool: deque[NDArray[np.uint8]] = deque()

    def results(self, start: Place) -> Iterator[tuple[Place, Result]]:
        """Yield the start and the result of each task, in the order of the log; the next result reuses the buffers of the last one."""
        sigbus.install()
        with ThreadPoolExecutor(self._threads) as executor:
            waiting: deque[tuple[Task, Future[Result]]] = deque()
            tasks = self._tasks(start)
            try:
                while True:
                    while len(waiting) <= self._ahead and (task := next(tasks, None)) is not None:
                        waiting.append((task, executor.submit(self._run, task)))
                    if not waiting:
                        return
                    task, future = waiting.popleft()
                    result = future.result()
                    yield task.start, result
                    self._pool.extend(result.buffers)
                    if result.then != task.then:
                        # Damage, or more text than a worker may buffer: the tasks planned from here on are invalid.
                        for _, other in waiting:
                            self._pool.extend(other.result().buffers)
                        waiting.clear()
                        tasks = self._tasks(result.then)
            finally:
                executor.shutdown(wait=True, cancel_futures=True)

    def _tasks(self, start: Place) -> Iterator[Task]:
        """Yield windows that begin and end at records, found by stepping over sizes alone."""
        place = start
        while place.file < len(self._files):
            file = self._files[place.file]
            last = min(file.length, self._to_offset - file.start)
            if place.position >= last:
                return
            task = self._task(place, file, last)
            yield task
            place = task.then

    def _task(self, place: Place, file: MappedFile, last: int) -> Task:
        start = place.position
        length = min(WINDOW, file.length - start)
        with map_window(file, start, length) as window:
            base = window.array.ctypes.data
            stop = int(hop(base, 0, last - start, length))
            if stop < length and stop + start < last and not self._cut_by_window(window.array, stop, file.length - start - stop):
                # There is no record: a BLANK, the end of the data or damage; each concerns the rest of the file.
                return Task(place, last, file.length, self._behind(place, file.length))
            if stop == 0:
                size = int.from_bytes(window.array[:4].tobytes(), "big")
                return Task(place, start + 1, start + size, self._behind(place, start + size))
        return Task(place, start + stop, start + stop, self._behind(place, start + stop))

    def _cut_by_window(self, window: NDArray[np.uint8], at: int, left: int) -> bool:
        """Return whether the window ends within a record that only needs more bytes."""
        if len(window) - at < 8:
            return left > len(window) - at
        head = window[at : at + 8].tobytes()
        size, magic = int.from_bytes(head[:4], "big", signed=True), int.from_bytes(head[4:], "big")
        return magic in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2) and MIN_RECORD_SIZE_V1 <= size <= left

    def _behind(self, place: Place, position: int) -> Place:
        return Place(place.file + 1, 0) if position >= self._files[place.file].length else Place(place.file, position)

    def _run(self, task: Task) -> Result:
        file = self._files[task.start.file]
        known_faults = sigbus.faults()
        result = Result(task.then)
        position = task.start.position
        output = _Output(result, self._pool)
        with file_steps(file, self._name(file), self._make_message) as steps:
            while position < task.last and output.piled < _PILE:
                end = min(task.end, position + 2 * WINDOW)
                position = self._window(file, steps, position, min(task.last, end), end, output)
        if sigbus.faults() != known_faults:
            raise StoreChangedError(f"{file.path} shrank while it was read.", "Stop the broker or work on a snapshot, then try again.")
        result.then = self._behind(task.start, position)
        return result

    def _window(self, file: MappedFile, steps: FileSteps, start: int, last: int, end: int, output: _Output) -> int:
        """Render what begins in [start, last); return the position after it, which damage can move far beyond `end`."""
        position = start
        spans = np.empty(MAX_PROPERTIES, SPAN_DTYPE)
        with map_window(file, start, end - start) as window:
            base = window.array.ctypes.data
            while position < last and output.piled < _PILE:
                address, room = output.room()
                ahead = position - start, last - start, end - start
                delays, levels = self._delays.ctypes.data, len(self._delays) - 1
                at, written, count, ending = write_messages(
                    base, *ahead, file.start + start, self._wanted.address, delays, levels, address, room, spans.ctypes.data
                )
                stopped = None
                if self._body is BodyForm.NONE:
                    output.written(int(written), int(count))
                else:
                    stopped = output.made(
                        with_bodies(
                            output.peek(int(written)),
                            window.array.data,
                            file.start + start,
                            self._body,
                            self._unpack,
                            partial(_line, file, steps),
                        )
                    )
                output.result.empty = output.result.empty and start + at == position
                if stopped is not None:
                    return stopped - file.start
                position = start + int(at)
                if ending == Ending.ODD:
                    step = steps.step(position)
                    output.step(step, self._accept)
                    position = step.next
        return position


def _line(file: MappedFile, steps: FileSteps, offset: int) -> bytes:
    """Return the line of the record at a log offset, without compiled code."""
    value = steps.step(offset - file.start).value
    return b"" if value is None else json_line(value)


class _Output:
    """The items of one result; text goes into large buffers that successive kernel calls fill."""

    def __init__(self, result: Result, pool: deque[NDArray[np.uint8]]) -> None:
        self.result = result
        self.piled = 0
        self._pool = pool
        self._used = _OUTPUT

    def room(self) -> tuple[int, int]:
        """Return (address, bytes) of free memory for at least one record."""
        if _OUTPUT - self._used < SMALLEST_OUTPUT:
            try:
                buffer = self._pool.popleft()
            except IndexError:
                buffer = np.empty(_OUTPUT, np.uint8)
            self.result.buffers.append(buffer)
            self._used = 0
        return self.result.buffers[-1].ctypes.data + self._used, _OUTPUT - self._used

    def written(self, length: int, count: int) -> None:
        """Add `count` lines that the kernel wrote into that memory."""
        if count:
            text = self.result.buffers[-1].data[self._used : self._used + length]
            self.result.items.append(Lines(text, count))
            self._used += length
            self.piled += length

    def peek(self, length: int) -> bytes:
        """Return what the kernel wrote into that memory, which is then reused."""
        return bytes(self.result.buffers[-1].data[self._used : self._used + length])

    def made(self, lines: Iterator[tuple[int, bytes]]) -> int | None:
        """Add finished lines with the offsets of their records until the buffer is full; return the offset of the next one."""
        taken: list[bytes] = []
        left = None
        for offset, line in lines:
            if self.piled >= _PILE:
                left = offset
                break
            taken.append(line)
            self.piled += len(line)
        text = b"".join(taken)
        if text:
            self.result.items.append(Lines(memoryview(text), sum(map(bool, taken))))
        return left

    def step(self, step: Step, accept: Callable[[Value], bool]) -> None:
        """Add what was read record by record."""
        self.result.unwritten = step.unwritten
        if step.value is not None:
            self.result.empty = False
            if accept(step.value):
                self.result.items.append(step.value)
