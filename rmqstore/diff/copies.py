"""A store as one of several copies: the range of its log, and the messages in a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rmqstore.errors import UnreadableError
from rmqstore.scan.tail import tail_records
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.root import Store
from rmqstore.store.summary import State, StoreSummary, summarize
from rmqstore.verify.queues.judgement import subtract

Range = tuple[int, int]
_NEAR_END = 1 << 20


@dataclass(frozen=True)
class Copy:
    """One of the stores: `name` is its path or URI as it was given.

    `begin` and `end` are the physical offsets between which records are.
    """

    name: str
    store: Store
    summary: StoreSummary
    begin: int
    end: int

    @classmethod
    def of(cls, path: Path | str, store: Store) -> Copy:
        """Return the copy at a path, or a URI whose files are in `store`. Raises UnreadableError, StoreChangedError."""
        summary = summarize(store, far=tail_records)
        if summary.log.end_offset is None:
            raise UnreadableError(
                f"{path}: no read permission for a file of the log.", "Run as the user that the broker runs as, or as root."
            )
        return cls(str(path), store, summary, summary.log.min_offset, summary.log.end_offset)

    @property
    def log(self) -> MappedFileQueue:
        """Return the files of the log."""
        return self.store.message_log

    @property
    def is_local(self) -> bool:
        """Return whether commands can change it: not at a URI."""
        return "://" not in self.name

    @property
    def last_time(self) -> int | None:
        """Return the store time of the last record (ms), None without one."""
        return self.summary.log.last_store_timestamp

    @property
    def in_use(self) -> bool:
        """Return whether a process uses the store."""
        return self.summary.state is State.IN_USE

    def written(self) -> list[Range]:
        """Return the ranges of the log that the copy has files for, up to its end, ascending and apart from each other."""
        found: list[Range] = []
        for file in self.log.files:
            low, high = max(file.start, found[-1][1] if found else 0), min(file.end, self.end)
            if low < high:
                if found and found[-1][1] == low:
                    low = found.pop()[0]
                found.append((low, high))
        return found

    def without(self, other: Copy) -> list[Range]:
        """Return the ranges of the log that this copy has and another one has not."""
        return subtract(self.written(), other.written())

    def messages(self, begin: int, end: int) -> int:
        """Count the records that begin in [begin, end), where one begins at `begin`. Raises UnreadableError, StoreChangedError."""
        count = 0
        for file in self.log.files:
            if begin < file.end and file.start < end:
                header = self.store.entry_header(file)
                for batch in LogScanner(lead=header).batches(file, start=max(begin, file.start)):
                    positions = batch.records["position"] - header
                    count += int(((positions >= begin) & (positions < end)).sum())
                    if positions[-1] >= end:
                        break
        return count

    def bytes_after_end(self, *, whole: bool) -> bool:
        """Return whether bytes other than zeros follow the end of the log; `whole`: in all files, otherwise in the next MiB.

        Raises UnreadableError, StoreChangedError.
        """
        scanner = LogScanner()
        for file in self.log.files:
            if file.end > self.end:
                start = max(file.start, self.end)
                until = file.length if whole else min(file.length, start - file.start + _NEAR_END)
                part = type(file)(file.location, file.start, until, file.allocated)
                if scanner.last_nonzero(part, start) is not None:
                    return True
                if not whole:
                    return False
        return False
