"""Findings that a running writer explains: how far a store was written before a look, and which findings of a second look remain.

A broker writes in one order: the record, its units, its index entries, the counts of an index file last; what is before all that was
there at the end of the first look does not change any more. So two looks at the bytes alone show that a broker writes: neither
the lock nor a process has to be visible.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats import index
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.scan.tail import tail_records
from rmqstore.store.ends import log_ends, queue_ends
from rmqstore.store.liveness import liveness
from rmqstore.store.mapped import list_directory, listing_once
from rmqstore.store.root import Store
from rmqstore.store.window import open_read_only, read_at, read_whole
from rmqstore.verify.identity import place

_QUEUES = 64  # whose ends are read
_AFTER = 64  # bytes after the last record: those of a record that is being written
_CHECKED = 256  # findings whose place is read again
_CLOCK_SKEW_MS = 3_600_000
_POLL = 0.05  # seconds
_STEP_NS = 10_000_000_000  # a writer that gets no processor may take so long between two steps

# Missing for as long as the dispatcher has not reached the record.
_NOT_DISPATCHED = frozenset(
    {"RMQ-CQ-BEHIND", "RMQ-CQ-MISSING", "RMQ-CQ-DELETED", "RMQ-CQ-LMQ-MISSING", "RMQ-CQ-HOLE", "RMQ-CQ-GAP"}
    | {"RMQ-IX-BEHIND", "RMQ-IX-INCOMPLETE", "RMQ-IX-MISSING"}
)
# The state of a configuration file between the steps in which a broker replaces it and its backup.
_REPLACED = frozenset({"RMQ-CF-JSON", "RMQ-CF-EMPTY", "RMQ-CF-MISSING", "RMQ-CF-BAK", "RMQ-CF-DIFFERS"})
# The broker writes these fields repeatedly; what they hold in between means nothing.
_WRITTEN_AGAIN = frozenset({"RMQ-CP-BEHIND", "RMQ-CP-INDEX", "RMQ-TM-CHECK"})
_OF_LAST_INDEX_FILE = frozenset({"RMQ-IX-HEADER", "RMQ-IX-COUNT", "RMQ-IX-TRAILING"})


@dataclass(frozen=True, slots=True)
class Mark:
    """The extent to which a store is written: the end of the log and the bytes there, the last index file, the ends of some queues.

    `configuration`: (name, length, modification time in ns) of the files there.
    `dispatched`: physical offset up to which units or index entries exist, found in a few places: it may be farther.
    """

    index_file: str
    index_header: bytes
    queues: tuple[int, ...]
    dispatched: int
    log_file: str
    log_end: int
    after: bytes
    configuration: frozenset[tuple[str, int, int]]

    def configured(self, name: str) -> list[tuple[str, int, int]]:
        """Return the entry of a configuration file, none for a missing one."""
        return [one for one in self.configuration if one[0] == name]


def mark_of(store: Store) -> Mark | None:
    """Return how far `store` is written by now, None where that cannot be read. A few reads: the log is walked from a late record on."""
    try:
        with listing_once(afresh=True):
            return _mark_of(store)
    except (RmqstoreError, OSError):
        return None


def _mark_of(store: Store) -> Mark:
    # In this order: what is derived first, so that the log holds all that it names.
    files = [file for file in store.index_files() if file.named_right and file.length >= index.HEADER_SIZE][-2:]
    headers = [read_whole(file.path, index.HEADER_SIZE) for file in files]
    ends = [queue_ends(files) for files in store.first_queue_files(_QUEUES)]
    named = [int(index.HEADER.parse(header).end_phy_offset) for header in headers] + [end.last_physical_offset for end in ends]
    log = store.message_log
    late = max((offset for offset in named if log.find(offset) is not None), default=-1)
    header = store.entry_header(log.files[-1]) if log.files else 0
    end = log_ends(log, entry_header=header, hint=late, tail_records=1, far=tail_records).end_offset
    file = log.find(end)
    after = read_at(file, end - file.start, min(_AFTER, file.end - end)) if file is not None else b""
    return Mark(
        files[-1].path.name if files else "",
        headers[-1] if headers else b"",
        tuple(one.max_offset for one in ends),
        late,
        log.files[-1].path.name if log.files else "",
        end,
        after,
        frozenset(_stamps(store.config_path)),
    )


def _stamps(directory: Path) -> Iterator[tuple[str, int, int]]:
    for entry in list_directory(directory):
        try:
            status = entry.stat()
        except OSError:  # renamed since it was listed
            continue
        yield entry.name, status.st_size, status.st_mtime_ns


def is_written(store: Store, before: Mark | None, findings: Sequence[Finding]) -> bool:
    """Return whether something was written to `store`, opened again, since `before`, or what `findings` call missing exists by now.

    A writer that is seen counts as well: it may be so slow that nothing changed meanwhile.
    """
    if mark_of(store) != before or any(_is_there(store, finding) for finding in findings[:_CHECKED]):
        return True
    seen = any(finding.code == "RMQ-ST-IN-USE" for finding in findings)
    return seen and any(user.writes for user in liveness(store).users)


def comes_to_be_written(store: Store, before: Mark | None, seconds: float) -> bool:
    """Return whether something is written to `store`, opened again, within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(min(_POLL, seconds))
        if mark_of(store.reopened()) != before:
            return True
    return False


def _is_there(store: Store, finding: Finding) -> bool:
    """Return whether the bytes that a finding reports as missing exist, or the file that it could not read is gone."""
    if finding.file is None:
        return False
    path = store.root / finding.file
    try:
        if finding.code in ("RMQ-CQ-MISSING", "RMQ-CQ-DELETED"):
            return path.is_dir()
        if finding.code == "RMQ-ST-UNREADABLE":
            return not path.exists()
        if finding.code in ("RMQ-CQ-BEHIND", "RMQ-CQ-HOLE") and finding.position is not None:
            with open_read_only(path) as descriptor:
                return any(os.pread(descriptor, UNIT_SIZE, finding.position))
    except (OSError, RmqstoreError):
        return True
    return False


@dataclass(frozen=True, slots=True)
class Horizon:
    """The end of a second look: physical offset `end`, where the first one ended; `first` and `second` are the marks before the looks."""

    end: int
    first: Mark | None
    second: Mark | None

    def remaining(self, sighted: Iterable[Finding], again: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings of the second look, `again`, that the first one had as well and that no writer explains."""
        known = {place(finding) for finding in sighted}
        yield from (finding for finding in again if place(finding) in known and not self.explains(finding))

    def explains(self, finding: Finding) -> bool:
        """Return whether a writer that works correctly leaves this while it writes."""
        offset, code = finding.offset, finding.code
        if code in _WRITTEN_AGAIN or (offset is not None and offset >= self.end):
            return True
        if code in _NOT_DISPATCHED:
            return offset is not None and self.second is not None and offset >= self.second.dispatched
        if code in _OF_LAST_INDEX_FILE:
            return self.first is None or PurePosixPath(finding.file or "").name >= self.first.index_file
        if code in _REPLACED:
            return self._is_replaced(PurePosixPath(finding.file or "").name)
        return code == "RMQ-CP-AHEAD" and isinstance(finding.found, int) and finding.found < time.time() * 1000 + _CLOCK_SKEW_MS

    def _is_replaced(self, name: str) -> bool:
        """Return whether a configuration file changed between the marks, or in the last seconds: its state may be one between two steps."""
        first, second = self.first, self.second
        if first is None or second is None:
            return False
        is_recent = any(abs(time.time_ns() - mtime) < _STEP_NS for _, _, mtime in second.configured(name))
        return is_recent or first.configured(name) != second.configured(name)
