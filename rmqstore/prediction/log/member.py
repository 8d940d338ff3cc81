"""The start of a member of a DLedger group: its own recovery of the log, what follows for queues and index, and where dispatch begins.

Source: `DLedgerCommitLog.recoverNormally`, `recoverAbnormally`, `getMaxOffset`. Compared with whole brokers in tests/broker/test_member.py:
from 5.0.0 on a start dispatches what the group had not committed yet, as the member knows it, and nothing else; from 5.2.0 on a crash
recovery dispatches from the first file that it searches. Before, dispatch begins where the queues end, as it does without a group.
"""

from __future__ import annotations

from rmqstore.formats.dledger import END_MAGIC, ENTRY_HEADER_SIZE
from rmqstore.prediction.blockers import Unknown
from rmqstore.prediction.log.firstfile import FirstFile
from rmqstore.prediction.log.ledger import LedgerStart, dropped, recovered
from rmqstore.prediction.log.mappedfiles import MappedFiles, SimulatedFile
from rmqstore.prediction.log.reader import LogReader
from rmqstore.prediction.log.record_check import RecordCheck
from rmqstore.prediction.outcome import Dispatched, Scan
from rmqstore.prediction.queues.dispatch import Dispatcher
from rmqstore.prediction.queues.rocksdb import RocksDBQueues
from rmqstore.prediction.queues.service import QueueStore
from rmqstore.reading.ledger import stored_numbers, unit_of
from rmqstore.scan.walk import LogScanner
from rmqstore.store.root import DLedgerLog
from rmqstore.versions import Profile

_MAGIC = 4
_END = END_MAGIC.to_bytes(_MAGIC, "big", signed=True)


class MemberRecovery:
    """The log of one simulated start; afterwards `scan` and `dispatched` have the result of the recovery."""

    def __init__(
        self,
        ledger: DLedgerLog,
        log: MappedFiles,
        queues: QueueStore | RocksDBQueues,
        dispatcher: Dispatcher,
        profile: Profile,
    ) -> None:
        self._ledger = ledger
        self._log = log
        self._queues = queues
        self._dispatcher = dispatcher
        self._profile = profile
        self._start = LedgerStart(-1, 0)
        self.dispatched = Dispatched()
        self.scan: Scan | None = None

    def load(self) -> None:
        """Map the files up to the end that the member's own recovery finds.

        Raises BrokerKilled where the process ends, Unknown where it drops messages, which is up to the group.
        """
        start = recovered(self._ledger)
        drops = dropped(self._ledger, start.end_offset)
        if drops:
            raise Unknown(f"the commit log is that of a DLedger group{drops}")
        self._require_zeros(start.end_offset)
        self._start = start
        for file in self._ledger.data.files:
            if file.start < start.end_offset:
                wrote = min(file.length, start.end_offset - file.start)
                self._log.files.append(SimulatedFile(str(file.path), file.start, file.length, on_disk=True, wrote=wrote))

    def _require_zeros(self, end: int) -> None:
        """Raise Unknown for bytes after the last entry: the rest of one that cannot be read, which the member drops."""
        scanner = LogScanner(lead=ENTRY_HEADER_SIZE)
        for file in self._ledger.data.files:
            last = scanner.last_nonzero(file, max(end, file.start)) if file.end > end else None
            if last is not None:
                where = f"it stops reading at offset {end}, and there are other bytes up to offset {last}"
                raise Unknown(f"the commit log is that of a member of a DLedger group; {where}, which it drops")

    def run(self, rules: FirstFile, *, normally: bool) -> None:
        """Cut the queues at the end of the log, and dispatch what a crash recovery dispatches. Raises Unknown, LoadStopped."""
        files, end = self._log.files, self._log.max_offset
        if not files:
            raise Unknown("the log of this member of a DLedger group is empty")
        name, entries = "" if self._start.first is None else self._start.first.path.name, self._start.entries
        if not normally and self._profile.member_dispatches_in_recovery:
            first = files[rules.abnormal(files)]
            self.dispatch(first.start, rules.check, self.dispatched)
            name, entries = first.path.name, self.dispatched.count
        if rules.max_cq >= end:
            self._queues.truncate(end)
        self._log.flushed_where = end
        self.scan = Scan(name, end, "the entries of this member end", entries)

    def committed(self) -> int:
        """Return the physical offset after the last entry that the member knows to be committed, that of the first file if it knows none.

        Raises Unknown where the index does not have the entry.
        """
        number = stored_numbers(self._ledger.directory / "checkpoint").get("committedIndex")
        if number is None or number < 0:
            return self._log.min_offset
        if number >= self._start.last_index:
            return self._start.end_offset
        unit = unit_of(self._ledger.index, number)
        if unit is None or int(unit["index"]) != number:
            raise Unknown("the index of this member of a DLedger group does not have the last committed entry")
        return int(unit["pos"]) + int(unit["size"])

    def dispatch(self, begin: int, check: RecordCheck, total: Dispatched) -> None:
        """Dispatch the records of the entries from offset `begin` on, as far as `check` takes them.

        Raises Unknown where the log is damaged, LoadStopped.
        """
        reader = LogReader(check, lead=ENTRY_HEADER_SIZE)
        for file in self._log.files:
            if file.start + file.wrote <= begin:
                continue
            reached = max(begin, file.start)
            for run in reader.runs(file, reached - file.start, file.wrote):
                self._dispatcher.dispatch(run, None, reader, total)
                reached = int(run.records["position"][-1]) + int(run.records["size"][-1])
            if reached < file.start + file.wrote and file.read(reached - file.start, _MAGIC) != _END:
                raise Unknown("the log of this member of a DLedger group has an entry that is damaged, or that this release does not take")
