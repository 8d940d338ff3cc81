"""Rebuild of consume queues: batches of records in log order → the bytes of consumequeue, consumequeue_ext and batchconsumequeue.

Memory grows with the number of queues, not with the log. Fact sheet queues §2.15.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rmqstore.formats import batchconsumequeue, consumequeue
from rmqstore.formats.naming import can_exist, is_path_name
from rmqstore.rebuild.batchqueue import BatchQueue
from rmqstore.rebuild.ext import ExtFiles
from rmqstore.rebuild.further import Expanded, Expansion
from rmqstore.rebuild.kernels_append import SKIP, append_units
from rmqstore.rebuild.placing import MESSAGE_COLUMNS, FaithfulPlacing, Message, UsefulPlacing
from rmqstore.rebuild.requests import QueueOf, requests_of
from rmqstore.rebuild.result import QueueResult
from rmqstore.rebuild.settings import Mode, Settings
from rmqstore.rebuild.simplequeue import SimpleQueue
from rmqstore.rebuild.sink import Sink
from rmqstore.rebuild.table import QueueTable
from rmqstore.rebuild.unitfiles import Buffers, UnitFiles
from rmqstore.scan.walk import Batch
from rmqstore.versions import Profile

QueueKey = tuple[str, int]
"""Topic and queue id."""
Placing = FaithfulPlacing | UsefulPlacing

_NO_UNIT = 4  # bit of prepared and of rolled back records in SYSFLAG


class QueueBuilder:
    """Builds the files of all queues in one pass."""

    def __init__(
        self,
        queue_of: QueueOf,
        settings: Settings,
        profile: Profile,
        sink: Sink,
        *,
        log_start: int,
        mode: Mode = Mode.USEFUL,
        wanted: Callable[[str, int], bool] | None = None,
    ) -> None:
        """`queue_of` = the scanner's `queue`; `log_start` = physical offset of the first byte of the first existing log file; `wanted`
        selects the queues (topic, queue id) to build, all without it.
        """
        self._queue_of = queue_of
        self._settings = settings
        self._profile = profile
        self._sink = sink
        self._buffers = Buffers()
        self._log_start = log_start
        self._mode = mode
        self._wanted = wanted
        self._table = QueueTable()
        self._keys: dict[QueueKey, int] = {}
        self._queues: dict[int, SimpleQueue] = {}
        self._placings: dict[int, Placing] = {}
        self._batch_queues: dict[int, BatchQueue] = {}
        self._unwritable: list[QueueKey] = []
        self._refused = 0
        self._last: tuple[int, int] | None = None
        self._expansion = Expansion(settings, profile, self._number, queue_of)

    def put(self, batch: Batch) -> None:
        """Append the next records of the log. The batch is not needed any more afterwards."""
        batch, refused = requests_of(batch, self._mode, self._queue_of)
        self._refused += refused
        if not len(batch.records):
            return
        numbers = self._numbers_of(batch.records["queue"])
        self._note_last(batch.records)
        self._append(self._expansion.expand(batch, numbers))
        if self._batch_queues:
            self._append_batches(batch, numbers)

    def finish(self) -> QueueResult:
        """Close all files and return the result by topic and queue id."""
        for placing in self._placings.values():
            placing.finish()
        rebuilt = [queue.finish() for queue in self._queues.values()]
        rebuilt += [queue.finish() for queue in self._batch_queues.values()]
        rebuilt.sort(key=lambda queue: (queue.topic, queue.queue_id))
        last_time, last_offset = self._last or (None, None)
        return QueueResult(tuple(rebuilt), self._refused, tuple(sorted(self._unwritable)), last_time, last_offset)

    def _note_last(self, records: npt.NDArray[np.void]) -> None:
        for row in range(len(records) - 1, -1, -1):
            last = records[row]
            if not last["sys_flag"] & _NO_UNIT:
                self._last = int(last["store_timestamp"]), int(last["physical_offset"])
                return

    def _append(self, expanded: Expanded) -> None:
        """Append records. Units of further queues are never in the extension, so with one they are appended one by one."""
        begin, end = 0, len(expanded.records)
        single = np.flatnonzero(expanded.further).tolist() if self._settings.enable_consume_queue_ext else []
        for row in (*single, end):
            self._append_run(expanded, begin, row)
            if row < end:
                self._take(expanded, row, further=True)
            begin = row + 1

    def _append_run(self, expanded: Expanded, row: int, end: int) -> None:
        records, numbers = expanded.records.ctypes.data, expanded.numbers.ctypes.data
        while row < end:
            row = append_units(records, row, end, numbers, self._table.rows.ctypes.data)
            if row < end and not self._goes_on(int(expanded.numbers[row])):
                self._take(expanded, row, further=False)
                row += 1

    def _goes_on(self, number: int) -> bool:
        """Return whether the queue only needed to empty its buffer."""
        queue = self._queues.get(number)
        return queue is not None and queue.go_on()

    def _take(self, expanded: Expanded, row: int, *, further: bool) -> None:
        """Place one record by the mode."""
        placing = self._placings.get(int(expanded.numbers[row]))
        if placing is not None:
            record = expanded.records[row]
            placing.take(Message._make((*(int(record[name]) for name in MESSAGE_COLUMNS), 1, further)))

    def _append_batches(self, batch: Batch, numbers: npt.NDArray[np.int32]) -> None:
        for number, queue in self._batch_queues.items():
            rows = np.flatnonzero((numbers == number) & ((batch.records["sys_flag"] & _NO_UNIT) == 0))
            if len(rows):
                self._refused += queue.put(batch, rows)

    def _numbers_of(self, scanned: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the rows of the table for a column of the scan's numbers."""
        self._table.cover(int(scanned.max()))
        numbers = self._table.numbers[scanned]
        if int(numbers.min()) < 0:
            for number in np.unique(scanned[numbers < 0]).tolist():
                self._table.numbers[number] = self._number(self._queue_of(number))
            numbers = self._table.numbers[scanned]
        return numbers

    def _number(self, key: QueueKey) -> int:
        """Return the row of a queue; two names that Java reads as one are one queue."""
        number = self._keys.get(key)
        if number is None:
            number = self._keys[key] = self._table.add()
            self._create(key, number)
        return number

    def _create(self, key: QueueKey, number: int) -> None:
        topic, queue_id = key
        can_be = can_exist(topic, queue_id) or (self._mode is Mode.FAITHFUL and is_path_name(topic))
        if not can_be:
            self._unwritable.append(key)
        if not can_be or (self._wanted is not None and not self._wanted(topic, queue_id)):
            self._table.rows["gate"][number] = SKIP
        elif self._profile.batch_queues and topic in self._settings.batch_topics:
            self._table.rows["gate"][number] = SKIP
            self._batch_queues[number] = self._batch_queue(topic, queue_id, number)
        else:
            queue = self._queues[number] = self._simple_queue(topic, queue_id, number)
            useful = self._mode is Mode.USEFUL
            self._placings[number] = UsefulPlacing(queue, self._log_start) if useful else FaithfulPlacing(queue)

    def _simple_queue(self, topic: str, queue_id: int, number: int) -> SimpleQueue:
        settings, table = self._settings, self._table
        size = consumequeue.file_size(settings.mapped_file_size_consume_queue)
        files = UnitFiles(f"consumequeue/{topic}/{queue_id}", consumequeue.UNIT_SIZE, size, self._sink, self._buffers, table, number)
        ext = None
        if settings.enable_consume_queue_ext:
            directory = f"consumequeue_ext/{topic}/{queue_id}"
            ext = ExtFiles(directory, settings.mapped_file_size_consume_queue_ext, self._sink, self._buffers, table, number)
        return SimpleQueue(topic, queue_id, files, size, ext, table, number)

    def _batch_queue(self, topic: str, queue_id: int, number: int) -> BatchQueue:
        size = self._settings.mapper_file_size_batch_consume_queue
        directory = f"batchconsumequeue/{topic}/{queue_id}"
        files = UnitFiles(directory, batchconsumequeue.UNIT_SIZE, size, self._sink, self._buffers, self._table, number)
        return BatchQueue(topic, queue_id, files, self._table, number, self._mode)
