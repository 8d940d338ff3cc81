"""The progress of consumers, transactions and delay levels, against the queues as they will be after the start.

Fact sheet timer observed §2: an offset beyond the end skips what arrives below it, a negative one begins again; delay offsets are
clamped, and without one everything that is still in the queue of the level is delivered again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rmqstore.doctor.areas import Area, Effect, Harm, State, short_queue
from rmqstore.doctor.checks import revive
from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.checks.due import Due
from rmqstore.doctor.checks.queueunits import stored_at, unit_reader
from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats.naming import HALF_TOPIC, LMQ_PREFIX, OP_HALF_TOPIC, SCHEDULE_TOPIC
from rmqstore.prediction.outcome import QueueState
from rmqstore.reading.popcheckpoints import REVIVE_TOPIC
from rmqstore.verify.context import Context
from rmqstore.verify.parts import config, configbackups
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, DELAY_OFFSETS, GROUPS, StoredOffset
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.wording import counted

_FLUSH_MS, _CRASH_FLUSH_MS = 12_000, 60_000
"""Delay offsets are written every 10 s and by a stop; what was due so long before the last message is in the file, also after a crash."""
_TRANSACTION_GROUP = "group CID_RMQ_SYS_TRANS"
"""A group of the broker itself, which advances every minute."""
_BUSY_MS = 150_000
_TRANSACTION_TOPICS = frozenset({HALF_TOPIC, OP_HALF_TOPIC})

Queues = Mapping[str, QueueState]
Found = Effect | Finding


def check(context: Context, files: ConfigFiles, due: Due, queues: Queues, known: frozenset[QueueKey]) -> Iterator[Found]:
    """Yield effects and findings about offsets.

    `queues`: by `topic/queueId`, as after the start; `known`: queues whose loss another check found.
    """
    if files.in_rocksdb:
        for area in (Area.PROGRESS, Area.TOPICS):
            yield Effect(area, State.NOT_CHECKED, "the configuration in RocksDB was not read; `rmqstore verify` reads it")
    yield from _lost_offsets(context, files, due)
    if context.store.rocksdb_queues:
        return
    yield from _consumers(context, files, queues, known)
    yield from _levels(context, files, queues)
    yield from _gone_back(context, files)


# Consumers


def _lost_offsets(context: Context, files: ConfigFiles, due: Due) -> Iterator[Found]:
    why = due.lost(CONSUMER_OFFSETS)
    if why is None:
        if due.not_yet(CONSUMER_OFFSETS):
            text = f"{CONSUMER_OFFSETS} is not written yet: a broker does that ten seconds after its first start"
            yield Effect(Area.PROGRESS, State.OK, text)
        return
    groups = len(files.table(GROUPS, "subscriptionGroupTable"))
    text = f"consumer groups start again without their offsets: {CONSUMER_OFFSETS} is {why}"
    yield Effect(Area.PROGRESS, State.LOSES, text, Harm.REPEATED, groups)
    yield Effect(Area.TRANSACTIONS, State.LOSES, "transactions are checked again, also finished ones", Harm.REPEATED)
    yield context.finding("RMQ-CF-LOST", text, file=context.store.config_path / CONSUMER_OFFSETS)


def _consumers(context: Context, files: ConfigFiles, queues: Queues, known: frozenset[QueueKey]) -> Iterator[Found]:
    beyond: dict[Area, list[tuple[StoredOffset, int]]] = defaultdict(list)
    again: dict[Area, list[tuple[StoredOffset, int]]] = defaultdict(list)
    missing: dict[tuple[str, int], StoredOffset] = {}
    revived: list[tuple[StoredOffset, int]] = []
    below = 0

    def usual(topic: str, queue_id: int) -> range:
        """Return the offsets of a group of the queue of which nothing is to be said."""
        state = queues.get(f"{topic}/{queue_id}")
        if state is None or not (state.files or state.max_offset):
            return config.EVERY_OFFSET if (topic, queue_id) in known else range(config.EVERY_OFFSET.start, 1)
        return range(0) if topic.startswith(REVIVE_TOPIC) else range(max(1, state.min_offset), state.max_offset + 1)

    for stored in config.stored_offsets(context.store, files.texts, usual):
        if stored.topic == SCHEDULE_TOPIC or stored.topic.startswith(LMQ_PREFIX):
            continue  # levels are checked below; offsets of light queues are set by clients and skip messages without a fault
        area = Area.TRANSACTIONS if stored.topic in _TRANSACTION_TOPICS else Area.PROGRESS
        state = queues.get(f"{stored.topic}/{stored.queue_id}")
        if state is None or not (state.files or state.max_offset):
            key = stored.topic, stored.queue_id
            if stored.offset > 0 and key not in known:
                missing[key] = max(missing.get(key, stored), stored, key=lambda one: one.offset)
        elif revive.is_revive_offset(stored) and stored.offset <= state.max_offset:
            number = revive.delivered_again(context, stored, state)
            revived += [(stored, number)] if number else []
        elif stored.offset == 0 and stored.owner == _TRANSACTION_GROUP and _old(context, stored, state):
            again[area].append((stored, state.max_offset - state.min_offset))
        elif stored.offset > state.max_offset:
            beyond[area].append((stored, stored.offset - state.max_offset))
        elif stored.offset < 0:
            again[area].append((stored, state.max_offset - state.min_offset))
        elif stored.offset < state.min_offset:
            below += state.min_offset - stored.offset
    yield from _missing_queues(context, missing)
    for area, found in beyond.items():
        yield _effect(area, found, "skips up to {} that {} still to come", Harm.SKIPPED)
    for area, found in again.items():
        yield _effect(area, found, "gets {} again", Harm.REPEATED)
    yield from revive.effect(revived)
    if below:
        yield Effect(
            Area.PROGRESS, State.OK, f"{counted(below, 'message')} before the beginning of their queues are skipped: they have expired"
        )


def _gone_back(context: Context, files: ConfigFiles) -> Iterator[Effect]:
    """Yield offsets that are smaller than in the `.bak`, which is older: messages are delivered again."""
    found: dict[Area, list[tuple[StoredOffset, int]]] = defaultdict(list)
    for one in configbackups.offsets_gone_back(context, (name for name in configbackups.WITH_OFFSETS if name not in files.unreadable)):
        levels = one.backup.topic == SCHEDULE_TOPIC
        area = Area.DELAYED if levels else Area.TRANSACTIONS if one.backup.topic in _TRANSACTION_TOPICS else Area.PROGRESS
        found[area].append((one.backup, one.messages))
    for area, several in found.items():
        yield _effect(area, several, "gets {} again, by its .bak", Harm.REPEATED)


def _old(context: Context, stored: StoredOffset, state: QueueState) -> bool:
    """Return whether a queue's first message was stored so long before the last one of the log that its group must have advanced."""
    first = stored_at(context, stored.topic, stored.queue_id, state.min_offset)
    return first is not None and first < context.log.last_timestamp - _BUSY_MS


def _effect(area: Area, found: list[tuple[StoredOffset, int]], text: str, harm: Harm) -> Effect:
    stored, number = max(found, key=lambda one: one[1])
    words = text.format(counted(number, "message"), "is" if number == 1 else "are")
    more = f", and {len(found) - 1} more offsets" if len(found) > 1 else ""
    where = f"{stored.owner} in {short_queue(stored.topic, stored.queue_id)}"
    return Effect(area, State.LOSES, f"{where} {words}{more}", harm, sum(one for _, one in found))


def _missing_queues(context: Context, missing: Mapping[tuple[str, int], StoredOffset]) -> Iterator[Found]:
    """Yield queues that consumers have read from and that are missing: their messages are not served, their offsets begin at 0."""
    if not missing:
        return
    for (topic, queue_id), stored in sorted(missing.items()):
        text = f"{stored.owner} has read {stored.offset} messages of {topic}/{queue_id}, which has no files: its offsets begin at 0 again"
        where = {"file": f"consumequeue/{topic}/{queue_id}", "topic": topic, "queue_id": queue_id}
        yield context.finding("RMQ-CQ-GONE", text, expected=stored.offset, found=0, **where)
    count = sum(stored.offset for stored in missing.values())
    names = [short_queue(topic, queue_id) for topic, queue_id in sorted(missing)]
    where_text = names[0] if len(names) == 1 else f"{len(names)} queues"
    if context.store.commitlog.min_offset > 0:  # they may have expired, and the queue with them
        yield Effect(Area.QUEUES, State.LOSES, f"{where_text} has no files: offsets begin at 0 again", Harm.REUSED, count)
    else:
        yield Effect(Area.QUEUES, State.LOSES, f"{counted(count, 'message')} of {where_text} become invisible", Harm.INVISIBLE, count)


# Delay levels


def _levels(context: Context, files: ConfigFiles, queues: Queues) -> Iterator[Found]:
    """Yield levels whose offset is 0 or missing, or beyond the end of their queue."""
    table = files.table(DELAY_OFFSETS, "offsetTable")
    now = context.log.last_timestamp - (_CRASH_FLUSH_MS if context.crashed else _FLUSH_MS if table else 0)
    again = skipped = 0
    for name, state in queues.items():
        topic, _, number = name.rpartition("/")
        if topic != SCHEDULE_TOPIC or state.max_offset <= state.min_offset:
            continue
        offset = table.get(str(int(number) + 1), 0)
        if not isinstance(offset, int) or 0 < offset <= state.max_offset:
            continue
        due = _due(context, int(number), state, now)
        if offset > state.max_offset:
            skipped += state.max_offset - due
        else:
            again += due - state.min_offset
    path = context.store.config_path / DELAY_OFFSETS
    if again:
        why = files.texts[DELAY_OFFSETS].why if not table else "0 for their level"
        text = f"{counted(again, 'delayed message')} {'is' if again == 1 else 'are'} delivered again: {DELAY_OFFSETS} is {why}"
        yield Effect(Area.DELAYED, State.LOSES, text, Harm.REPEATED, again)
        yield context.finding("RMQ-CF-DELAY", text, file=path, found=again)
    if skipped:
        text = (
            f"{counted(skipped, 'delayed message')} {'is' if skipped == 1 else 'are'} never delivered: {DELAY_OFFSETS} is beyond the queue"
        )
        yield Effect(Area.DELAYED, State.LOSES, text, Harm.LOST, skipped)


def _due(context: Context, queue_id: int, state: QueueState, now: int) -> int:
    """Return the first queue offset of a level whose message is delivered at `now` (ms) or later; entries rise by delivery time."""
    try:
        time_of = _times(unit_reader(context.store, SCHEDULE_TOPIC, queue_id))
        if state.max_offset > state.min_offset and time_of(state.max_offset - 1) < 0:  # the address of an extension, with an unknown time
            return state.min_offset
        return bisect_left(range(state.max_offset), now, lo=max(0, state.min_offset), key=time_of)
    except RmqstoreError:
        return state.max_offset


def _times(unit_at: Callable[[int], Any]) -> Callable[[int], int]:
    """Return a function that gives the delivery time (ms) of a queue offset, 0 where no entry is on disk."""

    def time_of(offset: int) -> int:
        unit = unit_at(offset)
        return 0 if unit is None else int(unit.tags_code)

    return time_of
