"""Survey of the commit log, file by file: holes, records that are not as they should be, and how each file ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import MESSAGE_MAGIC_V2, RECORD_PREFIX
from rmqstore.formats.naming import is_filler_topic
from rmqstore.reading.entries import unit_at
from rmqstore.reading.progress import Advance, silent
from rmqstore.repair.derived.batchclaims import BatchClaims
from rmqstore.repair.derived.judgement import no_record
from rmqstore.scan.columns import Check, Fault, Mark, Stop
from rmqstore.scan.kernels.queue import Claim
from rmqstore.scan.walk import Batch, Damage, FileEnd, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.verify.engine import last_file_with_data
from rmqstore.verify.log.commitlog import workers
from rmqstore.verify.log.live import LiveRecords, Overflow, Tail, is_without_records
from rmqstore.verify.queues.spans import QueueKey, Spans
from rmqstore.verify.queues.units import QueueClaims

_CHECKSUMS_AND_PLACE = Fault.BODY_CRC | Fault.PHYSICAL_OFFSET | Fault.PROPERTY_CRC
ODD_FAULTS = _CHECKSUMS_AND_PLACE | Fault.QUEUE_ID | Fault.TOPIC | Fault.COMPRESSION | Fault.DELAY | Fault.PROPERTIES
"""Faults that a repair looks at; the others are values of clients, or cannot be distinguished from what a client may have sent."""

_THREADS = 2
_MAGIC_END = fixed_layout(RECORD_PREFIX)["magic_code"].end
_LAST_BYTE_OF_V2 = MESSAGE_MAGIC_V2 & 0xFF
_NOT_QUEUED = 4  # bit of prepared and of rolled back records in SYSFLAG
_ALONE = 2  # up to so many consecutive claims that fail are examined one by one; more are the queue's fault


@dataclass(frozen=True, slots=True)
class SuspectRecord:
    """A live record of valid structure that is unexpected in some other way."""

    position: int
    faults: Fault
    v2: bool


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes [start, end) of the log that are no records, and why; `to_file_end`: nothing after it in its file is one."""

    start: int
    end: int
    reason: Stop
    to_file_end: bool = False


@dataclass
class FileSurvey:
    """Contents of one file. `last_sound`: position of its last record that is not suspect, `end_offset`: after its last live record."""

    file: MappedFile
    records: int = 0
    end_offset: int = 0
    last_sound: int = -1
    holes: list[Hole] = field(default_factory=list)
    suspects: dict[int, SuspectRecord] = field(default_factory=dict)
    tail: Tail | None = None
    end: FileEnd | None = None
    without_property_crc: int = 0
    spans: Spans = field(default_factory=Spans)
    fillers: list[tuple[int, int]] = field(default_factory=list)  # ranges of records that a repair wrote in place of lost ones


def survey(store: Store, files: list[MappedFile], *, reads_v2: bool, advance: Advance = silent) -> list[FileSurvey]:
    """Return the surveys of the files, each read once, side by side. Raises UnreadableError, StoreChangedError."""
    queues = {(queue.topic, queue.queue_id): queue for queue in store.queue_directories()}
    batch = BatchClaims({(queue.topic, queue.queue_id): queue for queue in store.batch_queue_directories()})
    last = last_file_with_data(files)

    def surveyed(file: MappedFile) -> FileSurvey:
        # Not before its turn: each pass has buffers of its own.
        return _Pass(file, queues, batch, reads_v2=reads_v2).run(advance, last_file=last is None or file.start >= last.start)

    with ThreadPoolExecutor(max_workers=workers(files, _THREADS)) as pool:
        return list(pool.map(surveyed, files))


def require_records(results: Sequence[FileSurvey]) -> None:
    """Raise RefusedError for a log that has bytes and not one record: the user has to find out what it was."""
    if is_without_records((result.records, bool(result.holes), result.tail) for result in results):
        raise no_record()


class _Pass:
    """The pass over one file."""

    def __init__(self, file: MappedFile, queues: Mapping[QueueKey, QueueDirectory], batch: BatchClaims, *, reads_v2: bool) -> None:
        self._queues = queues
        self._batch = batch
        self._reads_v2 = reads_v2
        self._scanner = LogScanner(checks=Check.BODY_CRC | Check.PROPERTY_CRC)
        self._claims = QueueClaims(self._scanner, queues, batch.queues, bool(queues))
        self._first_units: dict[int, int] = {}
        self._topics = 0  # number of topics looked at
        self._filler_topics: list[int] = []
        self._result = FileSurvey(file, end_offset=file.start)

    def run(self, advance: Advance, *, last_file: bool) -> FileSurvey:
        """Read the file."""
        result = self._result
        live = LiveRecords(self._scanner, result.file, lead=0, last_file=last_file, queues=self._queues, advance=advance)
        for event in live.events():
            if isinstance(event, Batch):
                self._take(event)
            elif isinstance(event, Damage):
                end = event.end if event.resumed else result.file.end
                result.holes.append(Hole(event.start, end, event.reason, not event.resumed))
            elif isinstance(event, Overflow):
                result.holes.append(Hole(event.start, event.end, Stop.NONE))
            elif isinstance(event, Tail):
                result.tail = event
            else:
                result.end = event
        result.spans = self._claims.finish()
        for position in _misplaced(result.spans):
            result.suspects.setdefault(position, SuspectRecord(position, Fault(0), False))
        result.spans = result.spans.without_runs()
        return result

    def _take(self, batch: Batch) -> None:
        result, records = self._result, batch.records
        result.records += len(records)
        result.end_offset = int(records["position"][-1] + records["size"][-1])
        odd = self._odd(batch)
        v2 = _are_v2(batch)
        for row in np.flatnonzero(odd).tolist():
            record = records[row]
            suspect = SuspectRecord(int(record["position"]), Fault(int(record["faults"])), bool(v2[row]))
            result.suspects[suspect.position] = suspect
        sound = np.flatnonzero(~odd)
        if sound.size:
            result.last_sound = int(records["position"][sound[-1]])
        result.without_property_crc += int(((records["marks"] & int(Mark.PROPERTY_CRC)) == 0).sum())
        self._claims.add(records)
        self._note_fillers(records)

    def _note_fillers(self, records: npt.NDArray[np.void]) -> None:
        named = range(self._topics, self._scanner.topic_count)
        self._filler_topics += [number for number in named if is_filler_topic(self._scanner.topic(number))]
        self._topics = self._scanner.topic_count
        for number in self._filler_topics:
            fillers = records[(records["topic"] == number) & ((records["sys_flag"] & _NOT_QUEUED) != 0)]
            starts = fillers["position"]
            self._result.fillers += zip(starts.tolist(), (starts + fillers["size"]).tolist(), strict=True)

    def _odd(self, batch: Batch) -> npt.NDArray[np.bool_]:
        records = batch.records
        odd = (records["faults"] & int(ODD_FAULTS)) != 0
        odd |= (records["marks"] & int(Mark.INNER_BATCH)) != 0
        odd |= self._queued_against_type(records)
        odd |= self._misplaced_in_batch_queue(records)
        if not self._reads_v2:
            odd |= _are_v2(batch)
        return np.asarray(odd)

    def _queued_against_type(self, records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Return which records have a place in a queue although their type gives them none.

        Brokers give such records the QUEUEOFFSET 0 (fact sheet commit log §2.1), so another one, or the first unit of the queue, shows it.
        """
        unqueued = (records["sys_flag"] & _NOT_QUEUED) != 0
        odd = np.asarray(unqueued & (records["queue_offset"] != 0))
        at_first = unqueued & ~odd
        for number in np.unique(records["queue"][at_first]).tolist():
            odd |= at_first & (records["queue"] == number) & (records["position"] == self._first_unit(number))
        return odd

    def _misplaced_in_batch_queue(self, records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        odd = np.zeros(len(records), np.bool_)
        if self._batch.queues:
            for number in np.unique(records["queue"]).tolist():
                key = self._scanner.queue(number)
                if key in self._batch.queues:
                    rows = np.flatnonzero(records["queue"] == number)
                    odd[rows] = self._batch.misplaced(key, records[rows])
        return odd

    def _first_unit(self, number: int) -> int:
        """Return the physical offset in the unit at queue offset 0 of the scanner's queue with this number, -1 where there is none."""
        if number not in self._first_units:
            queue = self._queues.get(self._scanner.queue(number))
            unit = None if queue is None else unit_at(queue.files, 0)
            self._first_units[number] = unit.physical_offset if unit is not None and unit.size > 0 else -1
        return self._first_units[number]


def _misplaced(spans: Spans) -> list[int]:
    """Return the positions of records whose own unit points to another place, one or two in a row."""
    runs = spans.runs
    alone = runs[(runs["claim"] >= Claim.OTHER) & (runs["end"] - runs["start"] <= _ALONE)]
    return [*alone["position"].tolist(), *alone["last_position"].tolist()]


def _are_v2(batch: Batch) -> npt.NDArray[np.bool_]:
    return np.asarray(batch.window[batch.records["position"] - batch.origin + _MAGIC_END - 1] == _LAST_BYTE_OF_V2)
