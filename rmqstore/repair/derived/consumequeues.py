"""Plans that bring consume queues, their extensions and batch queues into agreement with the future log.

The queues are those with findings of a verification and those with units of records that the future log does not have any more, or the
requested ones. All other queues are left as they are, however unusual their history is: the broker serves them so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath

import numpy as np

from rmqstore.catalogue import CATALOGUE
from rmqstore.errors import UsageError
from rmqstore.findings import Finding, Severity
from rmqstore.formats.consumequeue import UNIT
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.formats.sysflag import UNLISTED
from rmqstore.reading.entries import unit_at
from rmqstore.rebuild.result import QueueKind, QueueResult, RebuiltQueue
from rmqstore.rebuild.settings import Mode
from rmqstore.repair.derived.consumequeue import Planned, Reason, Work, plan_batch_queue, plan_simple_queue
from rmqstore.repair.derived.judgement import Judgement
from rmqstore.repair.derived.rebuild import inner_batch_topics, rebuild_derived
from rmqstore.repair.derived.requests import Made, Planning, QueueRequest
from rmqstore.repair.derived.settings_evidence import LIGHT_QUEUES, evidence_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.log.pointers import unit_pieces
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.rocksdb.use import QueueDatabase
from rmqstore.scan.ranges import in_ranges
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.store.obstacles import Obstacle, kind_of
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.verify.parts import config
from rmqstore.verify.queues.batchqueue import UNIT_DTYPE
from rmqstore.verify.queues.exchanged import Held
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.wording import counted

_ASKED = Reason("rebuilt from the commit log")
_CUT = Reason("entries of records that the log will not have", "RMQ-CQ-BEYOND")
_LOST = Reason("entries of lost messages", "RMQ-CQ-LOST")
_MENDED = Reason("no entry of a record that is corrected", "RMQ-CQ-BEHIND")
_MOST_NOTES = 20


class LostUnits(StrEnum):
    """The unit in place of that of a lost message."""

    NEIGHBOUR = "neighbour"
    PLACEHOLDER = "placeholder"


@dataclass(frozen=True, slots=True)
class QueueWish:
    """The queues to rebuild: those that need it, or (`rebuild`) all, or those of `topics` and `queues`.

    `only_missing`: none that has files. `only_needed`: of all these, those that need it. A queue that is not named is not rebuilt if it may
    be missing on purpose.
    """

    rebuild: bool = False
    topics: frozenset[str] = frozenset()
    queues: frozenset[QueueKey] = frozenset()
    only_missing: bool = False
    only_needed: bool = False
    mode: Mode = Mode.USEFUL
    lost_units: LostUnits = LostUnits.NEIGHBOUR

    def names(self, key: QueueKey) -> bool:
        """Return whether the request is for just this queue."""
        return key in self.queues or key[0] in self.topics


@dataclass(frozen=True, slots=True)
class _Queues:
    """The queues of a store by topic and queue id."""

    simple: Mapping[QueueKey, QueueDirectory]
    batch: Mapping[QueueKey, QueueDirectory]
    ext: Mapping[QueueKey, QueueDirectory]

    @classmethod
    def of(cls, store: Store) -> _Queues:
        kinds = (store.queue_directories(), store.batch_queue_directories(), store.ext_queue_directories())
        return cls(*({(queue.topic, queue.queue_id): queue for queue in kind} for kind in kinds))

    def has_files(self, key: QueueKey) -> bool:
        """Return whether the queue has a file under a valid name."""
        return any(key in kind and kind[key].files.files for kind in (self.simple, self.batch))


@dataclass(frozen=True)
class ChosenQueues:
    """Queues of `store` that do not agree with the future `log`; `request` is what has to be built so that they do, None for nothing."""

    store: Store
    log: FutureLog
    wish: QueueWish
    queues: _Queues
    reasons: Mapping[QueueKey, Reason]
    choice: _Choice
    database: QueueDatabase
    request: QueueRequest | None
    exchanged: Mapping[Path, Held] = field(default_factory=dict)

    def plan(self, builder: PlanBuilder, made: tuple[QueueResult, Made] | None) -> dict[QueueKey, int]:
        """Plan with the built files.

        Returns the ends of the queues that were examined for that: the queue offsets after their last messages. All others stay as they
        are. Raises UsageError, RefusedError, UnreadableError, StoreChangedError, OSError.
        """
        store, queues, wish, choice = self.store, self.queues, self.wish, self.choice
        if store.rocksdb_queues and not queues.simple and not self.database.is_built:
            builder.note("The queues of this store are kept in RocksDB; they are left unchanged.")
        if made is None:
            return {}
        result, files = made
        rebuilt = {(queue.topic, queue.queue_id): queue for queue in result.queues}
        keys = {key for key in {*queues.simple, *queues.batch} if choice(key)} | rebuilt.keys()
        _require_named(wish, keys, queues)
        _clear_way(builder, store, [rebuilt[key] for key in rebuilt.keys() - (queues.simple.keys() | queues.batch.keys())])
        placeholders = _placeholders(store, self.log) if wish.lost_units is LostUnits.PLACEHOLDER else {}
        evidence = evidence_of(store)
        settings = evidence.settings if self.request is None else self.request.settings(evidence.settings)
        work = Work(builder, store, settings, self.log, wish.mode, files, self.exchanged)
        planned = {
            key: _plan(work, key, queues, rebuilt.get(key), self.reasons.get(key, _ASKED), placeholders.get(key, {}))
            for key in sorted(keys)
        }
        changed = [rebuilt[key] for key, plan in planned.items() if plan.changes and key in rebuilt]
        for note in evidence.notes_on(_parts(changed)):
            builder.note(note)
        by_records = frozenset() if self.request is None else self.request.batch_topics
        for topic in sorted({queue.topic for queue in changed if queue.kind is QueueKind.BATCH} & by_records):
            builder.note(f"The records of {topic} are inner batches, so it gets batch queues; no configuration names the topic.")
        _note(builder, result, changed, frozenset(key for key, plan in planned.items() if plan.new_ext))
        for key in sorted(choice.left_out):
            builder.note(f"{key[0]}/{key[1]} has records but no files, maybe on purpose, and is left so; name it to rebuild it.")
        return {key: plan.end for key, plan in planned.items() if plan.end is not None}


def choose_queues(store: Store, log: FutureLog, judgement: Judgement, wish: QueueWish) -> ChosenQueues:
    """Choose queues by their findings and by the request. Raises UnreadableError, StoreChangedError."""
    queues = _Queues.of(store)
    database = QueueDatabase(store, log.end_offset, next(_unfit(log, judgement), None))
    if store.rocksdb_queues and not queues.simple:
        return ChosenQueues(store, log, wish, queues, {}, _Choice(queues, {}, judgement, wish), database, None)
    reasons = _reasons(queues, log, judgement, wish)
    choice = _Choice(queues, reasons, judgement, wish)
    known = {key for key in {*queues.simple, *queues.batch} if choice(key)}
    needless = wish.only_needed and not any(choice(key) for key in reasons)
    if needless or not (known or reasons or wish.rebuild):
        return ChosenQueues(store, log, wish, queues, reasons, choice, database, None)
    request = QueueRequest(wish.mode, choice, _batch_topics(store, log, queues, reasons, wish))
    return ChosenQueues(store, log, wish, queues, reasons, choice, database, request, judgement.exchanged)


def _unfit(log: FutureLog, judgement: Judgement) -> Iterator[str]:
    """Yield the codes of findings on entries of the database that also do not fit the future log.

    An entry may fit a record whose field is corrected: queues of such records are judged when they are on the disk.
    """
    corrected = {(record.topic, record.queue_id) for record in map(log.record_at, log.corrected) if record is not None}
    return (one.code for one in judgement.database if (one.topic, one.queue_id) not in corrected)


def plan_queues(planning: Planning, store: Store, log: FutureLog, judgement: Judgement, wish: QueueWish) -> dict[QueueKey, int]:
    """Plan what makes the queues of `store` agree with the future `log`; return and raise what `ChosenQueues.plan` does."""
    chosen = choose_queues(store, log, judgement, wish)
    return chosen.plan(planning.builder, rebuild_derived(planning, store, log, queues=chosen.request).queues)


def _batch_topics(store: Store, log: FutureLog, queues: _Queues, reasons: Mapping[QueueKey, Reason], wish: QueueWish) -> frozenset[str]:
    """Return the topics without files and without configuration whose records show that their queues are batch queues.

    Reads the log only if there can be such a topic.
    """
    configured = config.configured_topics(store)
    with_files = {topic for kind in (queues.simple, queues.batch) for (topic, _), queue in kind.items() if queue.files.files}
    named = {topic for topic, _ in (*reasons, *wish.queues)} | wish.topics
    unknown = named - with_files - (configured or frozenset())
    any_topic = configured is None and wish.rebuild and not (wish.topics or wish.queues)
    if not unknown and not any_topic:
        return frozenset()
    return frozenset(topic for topic in inner_batch_topics(store, log) if topic in unknown or (any_topic and topic not in with_files))


def _plan(
    work: Work, key: QueueKey, queues: _Queues, rebuilt: RebuiltQueue | None, why: Reason, placeholders: Mapping[int, bytes]
) -> Planned:
    is_batch = key in queues.batch if rebuilt is None else rebuilt.kind is QueueKind.BATCH
    if is_batch:
        return plan_batch_queue(work, key, queues.batch.get(key), rebuilt, why)
    return plan_simple_queue(work, key, queues.simple.get(key), queues.ext.get(key), rebuilt, why, placeholders)


# Choice of queues, and reasons


class _Choice:
    """The choice of queues to rebuild. `left_out`: queues that were asked about and are not named in the request, although they need it."""

    def __init__(self, queues: _Queues, reasons: Mapping[QueueKey, Reason], judgement: Judgement, wish: QueueWish) -> None:
        self._queues = queues
        self._reasons = reasons
        self._absent = judgement.absent
        self._wish = wish
        self.left_out: set[QueueKey] = set()

    def __call__(self, key: QueueKey) -> bool:
        """Return whether this queue is rebuilt."""
        wish = self._wish
        if wish.only_needed and key not in self._reasons:
            return False
        if wish.only_missing and self._queues.has_files(key):
            return False
        if wish.names(key):
            return True
        if not wish.rebuild:
            return key in self._reasons
        if wish.topics or wish.queues:
            return False
        if key in self._absent:
            self.left_out.add(key)
        return key not in self._absent


def _require_named(wish: QueueWish, found: Set[QueueKey], queues: _Queues) -> None:
    """Raise UsageError for names that neither the log nor the store knows."""
    known = {*found, *queues.simple, *queues.batch}
    topics = {topic for topic, _ in known}
    unknown = [f"{topic}/{queue_id}" for topic, queue_id in wish.queues - known] + sorted(wish.topics - topics)
    if unknown:
        raise UsageError(
            f"There is no queue {', '.join(sorted(unknown))}: no files, and no records in the log.",
            "Queues of this store are listed by `rmqstore info`.",
        )


def _reasons(queues: _Queues, log: FutureLog, judgement: Judgement, wish: QueueWish) -> dict[QueueKey, Reason]:
    """Return the queues that need a repair, and the reasons."""
    reasons = {key: _why(findings) for key, findings in judgement.queues.items() if findings}
    for key in _without_units(queues.simple, log):
        if key not in judgement.absent:
            reasons.setdefault(key, _MENDED)
    as_judged = log.end_offset == judgement.log.end_offset and not log.damages
    if not wish.rebuild and not as_judged:
        for kind, dtype in ((queues.simple, UNIT_ROWS), (queues.batch, UNIT_DTYPE)):
            for key, queue in kind.items():
                gone = _what_is_gone(queue, dtype, log) if key not in reasons else None
                if gone is not None:
                    reasons[key] = gone
    return reasons


def _without_units(queues: Mapping[QueueKey, QueueDirectory], log: FutureLog) -> Iterator[QueueKey]:
    """Yield the queues without the units of corrected records: verification of the present log misses none of those."""
    for position in log.corrected:
        record = log.record_at(position)
        if record is None or record.transaction_type in UNLISTED:
            continue
        queue = queues.get((record.topic, record.queue_id))
        unit = None if queue is None else unit_at(queue.files, record.queue_offset)
        if unit is None or unit.physical_offset != position:
            yield record.topic, record.queue_id


def _why(findings: list[Finding]) -> Reason:
    """Return the worst finding as the reason, with the number of the others."""
    worst = next((finding for finding in findings if finding.severity is Severity.ERROR), findings[0])
    more = f", and {len(findings) - 1} more findings" if len(findings) > 1 else ""
    return Reason(f"{CATALOGUE[worst.code].title}{more}", worst.code)


def _what_is_gone(queue: QueueDirectory, dtype: np.dtype[np.void], log: FutureLog) -> Reason | None:
    """Return why a queue does not fit: units after the end of the future log, or of messages that it lost; None if it fits."""
    damages = np.array(log.damages, np.int64).reshape(-1, 2)
    for file in queue.files.files:
        for _, units in unit_pieces(file, dtype):
            offsets = units["physical_offset"][units["size"] > 0].astype(np.int64)
            if (offsets >= log.end_offset).any():
                return _CUT
            if in_ranges(offsets, damages).any():
                return _LOST
    return None


def _placeholders(store: Store, log: FutureLog) -> dict[QueueKey, dict[int, bytes]]:
    """Return the units of placeholders: records that replace lost messages and carry their topic and queue."""
    delays = store.config.known_delay_levels
    units: dict[QueueKey, dict[int, bytes]] = {}
    for lost in log.lost_units:
        record = log.record_at(lost.position)
        if record is not None and (record.topic, record.queue_id) == (lost.topic, lost.queue_id):
            fields = {"physical_offset": lost.position, "size": record.size, "tags_code": record.tags_code(delays) or 0}
            units.setdefault((lost.topic, lost.queue_id), {})[lost.queue_offset] = UNIT.build(fields)
    return units


def _clear_way(builder: PlanBuilder, store: Store, queues: Iterable[RebuiltQueue]) -> None:
    """Plan to move out what is no directory where the directories of new queues belong."""
    files = (path for queue in queues for path in (*queue.files, *queue.ext_files))
    for parent in sorted({parent for path in files for parent in PurePosixPath(path).parents}):  # a directory before those in it
        path = store.root / parent
        if os.path.lexists(path) and not path.is_dir():
            builder.quarantine(path, reason=Obstacle(path, kind_of(path), "directory").reason, code="RMQ-ST-KIND")


# Notes for the user


def _parts(changed: list[RebuiltQueue]) -> set[str]:
    """Return the parts of the store that rebuilt files are in."""
    parts = {path.partition("/")[0] for queue in changed for path in (*queue.files, *queue.ext_files)}
    return parts | {LIGHT_QUEUES for queue in changed if queue.topic.startswith(LMQ_PREFIX)}


def _note(builder: PlanBuilder, result: QueueResult, changed: list[RebuiltQueue], new_ext: Set[QueueKey]) -> None:
    notes = [note for queue in changed for note in _notes_of(queue)]
    without_maps = [f"{queue.topic}/{queue.queue_id}" for queue in changed if (queue.topic, queue.queue_id) in new_ext]
    if without_maps:
        others = f" and {counted(len(without_maps) - 1, 'other queue')}" if len(without_maps) > 1 else ""
        notes.append(
            f"The new ext entries of {without_maps[0]}{others} have no bit maps of filters, because those are not in the log; a broker "
            "reads the messages themselves to filter them, which is slower, and delivers the same."
        )
    notes += [f"The records of {topic}/{queue_id} got no entry: no queue can have this name." for topic, queue_id in result.unwritable]
    for note in notes[:_MOST_NOTES]:
        builder.note(note)
    if len(notes) > _MOST_NOTES:
        builder.note(f"{len(notes) - _MOST_NOTES} more remarks of this kind about other queues.")


def _notes_of(queue: RebuiltQueue) -> Iterator[str]:
    name = f"{queue.topic}/{queue.queue_id}"
    for restart in queue.restarts:
        yield (
            f"The queue offsets of {name} start again at {restart.queue_offset} (physical offset {restart.physical_offset}); the "
            "earlier messages with these or larger queue offsets are not reachable by queue offset."
        )
    left_out = (*queue.repeated, *queue.misnumbered)
    if left_out:
        first = left_out[0]
        yield (
            f"{len(left_out)} records of {name} have no entry, because their queue offset is taken or impossible; the first one is "
            f"at physical offset {first.physical_offset}."
        )
    if queue.shifted:
        yield f"The last entries of {name} are {queue.shifted} places before their queue offsets, where a broker would write them."
