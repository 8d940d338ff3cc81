"""Findings of verification on queues and index, as for a broker that stopped cleanly: what `recover` may touch, and what not.

Unusual histories that every release serves as they are – queue offsets that start again, numbers of multi-dispatch queues that
skip – have no finding that asks for a repair, so that they are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rmqstore.errors import RefusedError
from rmqstore.findings import Finding, Severity
from rmqstore.formats.naming import LITE_PREFIX
from rmqstore.reading.progress import Advance, silent
from rmqstore.repair.derived.settings_evidence import light_queues
from rmqstore.repair.log.future import FutureLog
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.verify.context import LogFacts, Options
from rmqstore.verify.engine import Verification, files_as_mapped
from rmqstore.verify.queues.exchanged import Held
from rmqstore.verify.queues.spans import QueueKey

PARTS = frozenset({"consumequeue", "index"})
QUEUE_TREES = (PartKind.CONSUMEQUEUE, PartKind.CONSUMEQUEUE_EXT, PartKind.BATCHCONSUMEQUEUE)

# Queues whose absence has a good reason more often than not: deleted topics, expired lite topics, dispatch switched off.
_LIGHT_QUEUE = "RMQ-CQ-LMQ-MISSING"
_MAYBE_INTENDED = frozenset({"RMQ-CQ-DELETED", _LIGHT_QUEUE})
_OF_DATABASE = frozenset({"RMQ-RD-ENTRY", "RMQ-RD-MISSING"})
_TREE_NAMES = frozenset(tree.value for tree in QUEUE_TREES)


@dataclass(frozen=True)
class Judgement:
    """Findings on a store. `log`: what the commit log holds; `queues` and `index` (by file name): findings that ask for a repair; `absent`:
    queues of the log that have no files, maybe on purpose; `coverage`: findings about keys of the log that are in no index file;
    `exchanged`: queue files that hold units of another place; `database`: findings on entries of the queues in RocksDB;
    `index_database`: those on the index there.
    """

    log: LogFacts
    queues: dict[QueueKey, list[Finding]] = field(default_factory=lambda: defaultdict(list))
    absent: dict[QueueKey, Finding] = field(default_factory=dict)
    index: dict[str, list[Finding]] = field(default_factory=lambda: defaultdict(list))
    coverage: list[Finding] = field(default_factory=list)
    exchanged: dict[Path, Held] = field(default_factory=dict)
    database: list[Finding] = field(default_factory=list)
    index_database: list[Finding] = field(default_factory=list)


def no_record() -> RefusedError:
    """Return the error for the repair of a store whose log has no records."""
    return RefusedError(
        "The log has bytes but not one record of its own, so a repair would only discard the rest of the store (RMQ-CL-NORECORD).",
        "Restore the right files from a copy or a replica. To begin with an empty log, move the files away.",
    )


def judge(
    store: Store,
    *,
    parts: frozenset[str] = PARTS,
    threads: int = 2,
    advance: Advance = silent,
    given_up: Sequence[tuple[int, int]] = (),
) -> Judgement:
    """Verify queues and index of `store`, or one of these parts, without reading bodies.

    `given_up` are ranges of the log that hold fillers in the place of lost messages, ascending.
    Raises RefusedError for a log that has bytes and no record, UnreadableError, StoreChangedError.
    """
    # A repaired store is started as one that was stopped cleanly: what only a crash excuses asks for a repair.
    options = Options(parts=parts, quick=True, threads=threads, crashed=False, given_up=given_up)
    verification = Verification(store, options)
    findings = list(verification.run(advance))
    log = verification.context.log
    if log.without_records:
        raise no_record()
    judgement = Judgement(log, exchanged=verification.exchanged)
    filled = light_queues(store) is not None
    for finding in findings:
        if finding.severity is not Severity.INFO:
            _enter(judgement, finding, light_queues_were_filled=filled)
    return judgement


def _enter(judgement: Judgement, finding: Finding, *, light_queues_were_filled: bool) -> None:
    key = _queue_of(finding)
    lost = light_queues_were_filled and finding.code == _LIGHT_QUEUE and key is not None and not key[0].startswith(LITE_PREFIX)
    if finding.code in _MAYBE_INTENDED and key is not None and not lost:
        judgement.absent[key] = finding
    elif finding.code.startswith("RMQ-CQ-") and key is not None:
        judgement.queues[key].append(finding)
    elif finding.code in _OF_DATABASE:
        judgement.database.append(finding)
    elif finding.code == "RMQ-RD-INDEX":
        judgement.index_database.append(finding)
    elif finding.code.startswith("RMQ-IX-"):
        if finding.code in ("RMQ-IX-INCOMPLETE", "RMQ-IX-BEHIND"):
            judgement.coverage.append(finding)
        else:
            judgement.index[PurePosixPath(finding.file or "").name].append(finding)


def _queue_of(finding: Finding) -> QueueKey | None:
    """Return the queue that a finding is about, by its fields or by the path of its file."""
    if finding.topic is not None and finding.queue_id is not None:
        return finding.topic, finding.queue_id
    parts = PurePosixPath(finding.file or "").parts
    if len(parts) >= 3 and parts[0] in _TREE_NAMES and parts[2].isdecimal():
        return parts[1], int(parts[2])
    return None


def present_log(store: Store, log: LogFacts) -> FutureLog:
    """Return the log as it is, for repairs that leave it so; damaged ranges stay."""
    files = tuple(files_as_mapped(store))
    return FutureLog(files, max(log.end_offset, store.message_log.min_offset), damages=tuple(_inside(log)))


def _inside(log: LogFacts) -> Iterator[tuple[int, int]]:
    """Yield the damaged ranges before the end of the log."""
    for start, end in log.damages:
        if start < log.end_offset:
            yield start, min(end, log.end_offset)
