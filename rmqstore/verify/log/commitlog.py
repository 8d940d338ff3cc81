"""The pass over one commit-log file: records, and with them the queue units and index entries they should have.

One file is one independent piece of work whose result is a value; `rmqstore.verify.engine` runs the pieces in parallel and merges the
results in offset order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.formats.index import message_keys
from rmqstore.formats.javahash import index_key_hash
from rmqstore.formats.naming import is_filler_topic
from rmqstore.formats.record import SysFlag, decode_record
from rmqstore.reading.progress import Advance
from rmqstore.scan.columns import Check, Fault, Mark, Oddity
from rmqstore.scan.walk import Batch, Damage, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory
from rmqstore.verify.context import Context
from rmqstore.verify.index.match import IndexCursor, IndexFiles
from rmqstore.verify.log.displaced import displaced_runs, rows_of, runs_inside
from rmqstore.verify.log.dledger import Entries
from rmqstore.verify.log.live import LiveRecords, Overflow, Tail
from rmqstore.verify.log.pieces import Piece, place_in_log
from rmqstore.verify.log.record_findings import Neighbours, damage_findings, fault_findings
from rmqstore.verify.log.result import FileResult, Tally
from rmqstore.verify.queues.batchqueue import BatchRows
from rmqstore.verify.queues.ext import ExtReader
from rmqstore.verify.queues.multidispatch import Dispatches
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.verify.queues.units import QueueClaims

_COMMIT, _ROLLBACK = int(SysFlag.TRANSACTION_COMMIT), int(SysFlag.TRANSACTION_ROLLBACK)
_CHECKED_COMMITS = 100_000
# Clocks of broker and file server may differ, and a mapped file may be marked as modified some time after it was.
_CLOCK_SKEW_MS = 3_600_000
_LITTLE = 1 << 20  # bytes of a file that are on the disk


def workers(files: Sequence[MappedFile], threads: int) -> int:
    """Return with how many threads to read these files: one if they hold little, because most of the work is Python's own then.

    Threads that wait for the interpreter's lock cost more than they save.
    """
    held = sum(min(file.allocated, file.length) for file in files)
    return max(threads, 1) if held >= len(files) * _LITTLE else 1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Data that the pass over a file compares with: queues by key, batch queues, the index, and whether later files hold records."""

    queues: Mapping[QueueKey, QueueDirectory]
    batch_queues: Mapping[QueueKey, QueueDirectory]
    ext_queues: Mapping[QueueKey, QueueDirectory]
    index: IndexFiles
    compare_queues: bool
    compare_index: bool
    last_data_file: MappedFile | None


class FileVerifier:
    """The pass over one file, or over a piece of one that is not the last with records."""

    def __init__(self, context: Context, around: Surroundings, file: MappedFile, advance: Advance, piece: Piece | None = None) -> None:
        checks = Check(0) if context.options.quick else Check.BODY_CRC | Check.PROPERTY_CRC
        if around.compare_index:
            checks |= Check.KEYS
        self.result = FileResult(file, end_offset=file.start)
        self._context = context
        self._around = around
        self._advance = advance
        self._piece = piece or Piece()
        self._lead = context.store.entry_header(file)
        self._scanner = LogScanner(checks=checks, delays=context.delays, lead=self._lead)
        self._claims = QueueClaims(self._scanner, around.queues, frozenset(around.batch_queues), around.compare_queues)
        self._dispatches = Dispatches(context, around.queues, self._scanner)
        self._cursor = IndexCursor(around.index)
        self._neighbours = Neighbours(context, continues=self._piece.number > 0)
        self._ext = ExtReader(context, around.ext_queues)
        self._latest = context.last_write_ms + _CLOCK_SKEW_MS
        dledger = context.store.dledger
        self._entries = Entries(context, dledger, file) if self._lead and dledger is not None else None
        self._topics = 0  # number of topics looked at
        self._filler_topics: list[int] = []

    def run(self) -> FileResult:
        """Read the file and return the result. Raises UnreadableError and StoreChangedError."""
        result, file, around = self.result, self.result.file, self._around
        begin, end = self._piece.bounds(file, self._scanner)
        result.begin = result.reached = begin
        self._batch_rows = BatchRows(self._context, around.batch_queues, begin, end)
        last_file = self._piece.count == 1 and (around.last_data_file is None or file.start >= around.last_data_file.start)
        if around.compare_index:
            self._cursor.seek(begin)
        if self._piece.number == 0 or begin < end:
            self._read(self._live_records(last_file, begin, end))
        return self._close(result.end_offset if last_file else end)

    def _live_records(self, last_file: bool, begin: int, end: int) -> LiveRecords:
        file, queues = self.result.file, self._around.queues
        return LiveRecords(
            self._scanner, file, lead=self._lead, last_file=last_file, queues=queues, advance=self._advance, begin=begin, end=end
        )

    def _read(self, live: LiveRecords) -> None:
        result, file = self.result, self.result.file
        for event in live.events():
            if isinstance(event, Batch):
                self._process(event)
            elif isinstance(event, Damage):
                result.damages.append((event.start, event.end if event.resumed else file.end))
                of_header = None if self._entries is None else self._entries.of_damage(event)
                result.findings.append(of_header or damage_findings(self._context, event))
                result.moved += runs_inside(file, event.start, event.end)
            elif isinstance(event, Overflow):
                result.damages.append((event.start, event.end))
                result.findings.append(self._of_overflow(event))
            elif isinstance(event, Tail):
                result.tail = event
                result.leftover = runs_inside(file, event.start, event.end) if event.kind != "torn" else []
            else:
                result.end = event
        result.reached = live.reached

    def _of_overflow(self, overflow: Overflow) -> Finding:
        text = (
            f"{overflow.records} more records have a PHYSICALOFFSET that is not their place; they were not compared with queues and index"
        )
        return self._context.log_finding("RMQ-CL-PHYOFFSET", text, overflow.start, overflow.end - overflow.start)

    # Checks of live records

    def _process(self, batch: Batch) -> None:
        result, records, keys = self.result, batch.records, batch.keys
        if result.records == 0:
            result.first_position = int(records["position"][0])
            result.first_timestamp = int(records["store_timestamp"][0])
        result.records += len(records)
        result.end_offset = int(records["position"][-1] + records["size"][-1])
        result.last_timestamp = int(records["store_timestamp"][-1])
        if result.last_timestamp > self._latest:
            # Where possible times follow, the one that goes back is reported instead (RMQ-CL-TIME).
            possible = np.flatnonzero(records["store_timestamp"] <= self._latest)
            if possible.size:
                result.late = Tally()
            result.late.add(records["position"][possible[-1] + 1 if possible.size else 0 :])
        else:
            result.late = Tally()
        faults = batch.faults
        if self._entries is not None:
            result.findings.extend(self._entries.check(batch))
            if Fault.PHYSICAL_OFFSET in faults:
                faults = _without_header(records, faults)
        if faults:
            topics = {int(number): self._scanner.topic(int(number)) for number in np.unique(records["topic"])}
            runs = displaced_runs(result.file, records) if Fault.PHYSICAL_OFFSET in faults else []
            result.moved += runs
            result.damages += [(begin, begin + run.length) for run in runs for begin in [result.file.start + run.position]]
            result.findings.extend(fault_findings(self._context, records, topics, rows_of(runs, records, result.file)))
        result.findings.extend(self._neighbours.check(records, batch.oddities))
        if Mark.MALFORMED_TEXT in batch.marks:
            self._rehash(records, keys, batch)
        if Oddity.COMMITS in batch.oddities and len(result.commits) < _CHECKED_COMMITS:
            commits = records[(records["sys_flag"] & _ROLLBACK) == _COMMIT]
            result.commits.extend(zip(commits["position"].tolist(), commits["prepared_transaction_offset"].tolist(), strict=True))
        self._note_fillers(records)
        exts = self._claims.add(records)
        if exts.size:
            result.findings.extend(self._ext.check(self._scanner, exts))
        if self._around.batch_queues:
            result.findings.extend(self._batch_rows.check(self._scanner, records, batch))
        if Mark.MULTI_DISPATCH in batch.marks and self._around.compare_queues:
            self._dispatch(batch)
        if self._around.compare_index and keys.size:
            self._cursor.match(records, keys)

    def _note_fillers(self, records: npt.NDArray[np.void]) -> None:
        named = range(self._topics, self._scanner.topic_count)
        self._filler_topics += [number for number in named if is_filler_topic(self._scanner.topic(number))]
        self._topics = named.stop
        for number in self._filler_topics:
            fillers = records[(records["topic"] == number) & (records["sys_flag"] & _ROLLBACK == _ROLLBACK)]
            if fillers.size:
                self.result.last_filler = max(self.result.last_filler, int(fillers["position"][-1]))

    def _rehash(self, records: npt.NDArray[np.void], keys: npt.NDArray[np.void], batch: Batch) -> None:
        """Replace the hashes of tags and keys that are not UTF-8, by Java's rules for malformed text."""
        rows = np.flatnonzero(records["marks"] & int(Mark.MALFORMED_TEXT))
        self.result.malformed.add(records["position"][rows])
        for row in rows.tolist():
            record = decode_record(batch.record_bytes(row))
            tags_code = record.tags_code(self._context.delays)
            if tags_code is not None:
                records["tags_code"][row] = tags_code
            mine = np.flatnonzero(keys["record"] == row)
            hashes = [index_key_hash(record.topic, key) for key in message_keys(record.properties, True)]
            if len(mine) == len(hashes):
                keys["hash"][mine] = hashes

    def _dispatch(self, batch: Batch) -> None:
        """Claim the units of multi-dispatched records in further queues."""
        claims = self._dispatches.claims(batch)
        if claims.size:
            self._claims.add(claims, ordered=False)

    def _close(self, end: int) -> FileResult:
        """Return the result; entries of the index up to `end` should have come up."""
        result = self.result
        result.findings.sort(key=place_in_log)
        result.spans = self._claims.finish()
        result.renumbered = self._dispatches.renumbered
        result.entries = None if self._entries is None else self._entries.span
        result.batch_matched = self._batch_rows.matched
        result.hosts, result.odd_hosts = self._neighbours.hosts, self._neighbours.odd_hosts
        result.first_records, result.last_records = self._neighbours.first_records, self._neighbours.last_records
        result.unreadable = {path: error.message for path, error in self._claims.unreadable.items()}
        if self._around.compare_index:
            result.index = self._cursor.finish(end)
        return result


def _without_header(records: npt.NDArray[np.void], faults: Fault) -> Fault:
    """Take the fault of a wrong place from records whose own PHYSICALOFFSET is right: it is in the entry header, which is reported."""
    right = records["physical_offset"] == records["position"]
    records["faults"][right] &= ~records["faults"].dtype.type(Fault.PHYSICAL_OFFSET)
    return faults if records["faults"].any() else Fault(0)
