"""The effect of the next start of a broker on missing units and index entries: what it writes is a note, the rest is an error.

An index file that the start deletes and writes again is valid afterwards, whatever is wrong with it now; one that it keeps stays
as it is. The caller of the verification simulates the start, once and only where it is needed, and passes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from rmqstore.catalogue import CATALOGUE
from rmqstore.findings import Finding, Severity
from rmqstore.store.root import Store
from rmqstore.verify.queues.spans import QueueKey

_MISSING_UNITS = frozenset({"RMQ-CQ-BEHIND", "RMQ-CQ-MISSING"})
_MISSING_ENTRIES = frozenset({"RMQ-IX-BEHIND", "RMQ-IX-MISSING", "RMQ-IX-INCOMPLETE"})
_OF_INDEX_FILE = frozenset(
    {"RMQ-IX-HEADER", "RMQ-IX-COUNT", "RMQ-IX-SLOT", "RMQ-IX-CHAIN", "RMQ-IX-ITEM", "RMQ-IX-TIME", "RMQ-IX-BEYOND", "RMQ-IX-ORDER"}
)
_DELETED = "RMQ-CP-INDEX"
_WEIGHED = _MISSING_UNITS | _MISSING_ENTRIES | _OF_INDEX_FILE | {_DELETED}


@dataclass(frozen=True, slots=True)
class IndexAfter:
    """The effect of the start on the index.

    `deleted`: for each file that it deletes the physical offset of the first message in it, None for a file without entries. `since`: the
    start indexes all messages from this physical offset on, None for none.
    """

    deleted: Mapping[str, int | None]
    since: int | None

    def brings_back(self, offset: int | None) -> bool:
        """Return whether all messages with keys from this physical offset on have their entries afterwards."""
        return offset is None or (self.since is not None and offset >= self.since)


@dataclass(frozen=True, slots=True)
class NextStart:
    """The store after the next start of a broker of `release`.

    `queues`: (first, end) queue offsets of those whose units are in their places; None where that cannot be determined.
    """

    release: str
    queues: Mapping[QueueKey, tuple[int, int]] | None
    index: IndexAfter

    def brings_back(self, key: QueueKey, first: int, count: int) -> bool:
        """Return whether the units of `count` messages from queue offset `first` on exist afterwards."""
        begin, end = (self.queues or {}).get(key, (0, 0))
        return begin <= first and first + count <= end


Foresight = Callable[[Store], NextStart | None]
"""A simulation of the next start; None where the outcome cannot be determined, or where no broker starts."""


def weighed(store: Store, findings: Sequence[Finding], foresight: Foresight) -> Iterator[Finding]:
    """Yield the findings; the severity of what is missing or deleted is decided by the next start."""
    start = foresight(store) if any(finding.code in _WEIGHED for finding in findings) else None
    for finding in findings:
        if start is None:
            yield finding
        elif finding.code in _MISSING_UNITS and start.queues is not None:
            yield _of_units(finding, start)
        elif finding.code in _MISSING_ENTRIES:
            yield _of_entries(finding, start)
        elif finding.code in _OF_INDEX_FILE:
            yield _of_index_file(finding, start)
        elif finding.code == _DELETED:
            yield _of_deleted(finding, start)
        else:
            yield finding


def _of_units(finding: Finding, start: NextStart) -> Finding:
    first, expected = finding.queue_offset or 0, int(finding.expected or 0)
    count = expected - first if finding.code == "RMQ-CQ-BEHIND" else expected
    if finding.topic is not None and start.brings_back((finding.topic, finding.queue_id or 0), first, count):
        return _note(finding, f"the next start ({start.release}) writes what is missing")
    return _error(finding, f"the next start ({start.release}) does not write all of what is missing")


def _of_entries(finding: Finding, start: NextStart) -> Finding:
    """Return the finding about missing entries; those before the first file were lost by an earlier start, and stay a warning."""
    if start.index.brings_back(finding.offset or 0):
        return _note(finding, f"the next start ({start.release}) writes what is missing")
    if finding.code == "RMQ-IX-INCOMPLETE":
        return finding
    return _error(finding, f"the next start ({start.release}) does not write all of what is missing")


def _of_index_file(finding: Finding, start: NextStart) -> Finding:
    name = PurePosixPath(finding.file or "").name
    if name not in start.index.deleted:
        return replace(finding, severity=CATALOGUE[finding.code].severity)  # a crash does not excuse what stays
    if start.index.brings_back(start.index.deleted[name]):
        return _note(finding, f"the next start ({start.release}) deletes the file and rewrites its entries")
    return finding


def _of_deleted(finding: Finding, start: NextStart) -> Finding:
    """Return the finding about valid files that the start deletes: no damage, but a warning where it does not write their entries again."""
    lost = [begin for begin in start.index.deleted.values() if begin is not None and not start.index.brings_back(begin)]
    if not lost:
        return _note(finding, f"it ({start.release}) rewrites their entries")
    until = "" if start.index.since is None else f" to before {start.index.since}"
    what = f"it ({start.release}) does not rewrite the entries of messages from physical offset {min(lost)}{until}: no key finds them then"
    return replace(finding, severity=Severity.WARNING, message=f"{finding.message}; {what}")


def _note(finding: Finding, what: str) -> Finding:
    return replace(finding, severity=Severity.INFO, message=f"{finding.message}; {what}")


def _error(finding: Finding, what: str) -> Finding:
    return replace(finding, severity=Severity.ERROR, message=f"{finding.message}; {what}")
