"""Parts other than log, queues and index: topics and groups, the timer, the compaction store, and databases that are not read.

Fact sheet timer observed §2, §3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rmqstore.doctor.areas import Area, Effect, Harm, State, short_queue
from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.checks.due import Due
from rmqstore.doctor.checks.lastrun import LastRun
from rmqstore.doctor.checks.progress import Found, Queues
from rmqstore.doctor.checks.queueunits import stored_at
from rmqstore.doctor.checks.sample import WHOLE
from rmqstore.formats import timer
from rmqstore.formats.naming import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC, TIMER_TOPIC, is_broker_topic
from rmqstore.prediction.outcome import QueueState
from rmqstore.reading.rocksdb.messagedatabase import message_database
from rmqstore.reading.rocksdb.popstate import pop_state
from rmqstore.store.entries import Entry
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited
from rmqstore.verify.parts import halves
from rmqstore.verify.parts.compacted import ENTRY, MISSING, RECORD, compacted_faults, data_bytes, is_compacted
from rmqstore.verify.parts.compaction import without_records, without_units
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, GROUPS, TOPICS, has_no_configuration
from rmqstore.verify.parts.config import State as Loaded
from rmqstore.verify.parts.popped import beyond_ends as popped_beyond
from rmqstore.verify.timer import timeline
from rmqstore.verify.timer.enqueued import entered_again, never_delivered
from rmqstore.verify.timer.files import Slots, TimerFiles, open_timer, timer_queue
from rmqstore.verify.timer.log import Mask
from rmqstore.verify.timer.slots import faults, forgotten_units, is_reached
from rmqstore.versions import Profile
from rmqstore.wording import counted

_REPLAYED_FILES = 2
"""Files of the timer log from whose units a start fills a missing wheel."""
_LASTING_SETTINGS = {
    "topicQueueMapping.json": ("static topics are served as plain ones, with wrong queue offsets", Harm.SETTINGS),
    "messageRequestMode.json": ("the modes of consumer groups, POP or PULL, are lost", Harm.SETTINGS),
}
"""Configuration that clients do not send again (fact sheet timer §3.3), and what a start without it does."""
_READ_COMPACTED = 256 << 20
"""Bytes of compacted logs and their queues up to which all of them are read."""
_READ = (TIMER_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC)
_MOST_READ = 50_000
"""Messages of these topics up to which timed messages and transactions in RocksDB are compared with all of them."""
_CLOCK_SLACK_MS = 86_400_000
_ENQUEUED_MS = 5_000
"""A running timer has taken a message from its queue by then, and written that to timercheck, which it does every second."""


def check(context: Context, files: ConfigFiles, due: Due, run: LastRun, queues: Queues, profile: Profile) -> Iterator[Found]:
    """Yield effects and findings. `queues`: by `topic/queueId`, as after the start."""
    if not files.whole_broker and context.log.end_offset > 0:
        yield _without_configuration(files, run)
    if not files.in_rocksdb:
        yield from _topics(context, files, due, queues)
        yield from _queues_not_read(files, queues)
        yield from _groups(context, files, due)
    if profile.newer_parts:
        yield from _settings(files)
    if profile.newer_parts and context.store.config.flag("timerWheelEnable"):
        yield from _timer(context, queues)
    if profile.compaction and context.store.config.flag("enableCompaction"):
        yield from _compaction(context, files, queues)
    yield from _databases(context, queues)
    yield from _popped(context, queues)


# Topics and groups


def _without_configuration(files: ConfigFiles, run: LastRun) -> Effect:
    """Return the effect of a store of which nothing shows that a broker wrote it; only parts of it may have been copied."""
    if files.present or run.left_files:
        return Effect(Area.TOPICS, State.OK, "there is no configuration: topics, groups and consumer offsets of a broker would be lost")
    text = "config/, checkpoint and lock are missing: topics, groups and offsets of consumers are unknown"
    return Effect(Area.TOPICS, State.NOT_CHECKED, text)


def _topics(context: Context, files: ConfigFiles, due: Due, queues: Queues) -> Iterator[Found]:
    """Yield topics that have messages and that the broker will not know: clients cannot pull them."""
    why = due.lost(TOPICS)
    table = files.table(TOPICS, "topicConfigTable")
    if why is None and not table:
        return
    unknown: dict[str, int] = {}
    for name, state in queues.items():
        topic = name.rpartition("/")[0]
        if topic not in table and not is_broker_topic(topic) and state.max_offset > state.min_offset:
            unknown[topic] = unknown.get(topic, 0) + state.max_offset - state.min_offset
    if unknown:  # a running broker creates topics while the store is read
        now = due.table_now(TOPICS, "topicConfigTable")
        unknown = {topic: count for topic, count in unknown.items() if topic not in now}
    reason = f"{TOPICS} is {why}" if why is not None else f"{TOPICS} does not contain them"
    path = context.store.config_path / TOPICS
    if unknown:
        count = sum(unknown.values())
        which = next(iter(unknown)) if len(unknown) == 1 else f"{len(unknown)} topics"
        text = f"{counted(count, 'message')} of {which} cannot be consumed: {reason}"
        yield Effect(Area.TOPICS, State.LOSES, text, Harm.INVISIBLE, count)
        yield context.finding("RMQ-CF-LOST", text, file=path, found=len(unknown))
    elif why is not None:
        text = f"the configuration of all topics is lost: {TOPICS} is {why}"
        yield Effect(Area.TOPICS, State.LOSES, text, Harm.SETTINGS)
        yield context.finding("RMQ-CF-LOST", text, file=path)


def _queues_not_read(files: ConfigFiles, queues: Queues) -> Iterator[Effect]:
    """Yield the messages in queues at or above readQueueNums, which clients cannot pull, as far as some group has not consumed them."""
    topics = files.table(TOPICS, "topicConfigTable")
    consumed: dict[str, list[Mapping[str, Any]]] = {}
    for key, offsets in files.table(CONSUMER_OFFSETS, "offsetTable").items():
        if isinstance(offsets, dict):
            consumed.setdefault(key.partition("@")[0], []).append(offsets)
    counts: dict[str, int] = {}
    for name, state in queues.items():
        topic, _, queue_id = name.rpartition("/")
        config = topics.get(topic)
        readable = config.get("readQueueNums") if isinstance(config, dict) else None
        if type(readable) is not int or int(queue_id) < readable or has_no_configuration(topic):
            continue
        offsets_there = [one.get(queue_id) for one in consumed.get(topic, ())]
        first = min((offset if type(offset) is int else 0 for offset in offsets_there), default=0)
        count = state.max_offset - max(state.min_offset, first)
        if count > 0:
            counts[topic] = counts.get(topic, 0) + count
    if counts:
        which = next(iter(counts)) if len(counts) == 1 else f"{len(counts)} topics"
        text = f"{counted(sum(counts.values()), 'message')} of {which} cannot be consumed: readQueueNums is too small for their queues"
        yield Effect(Area.TOPICS, State.LOSES, text, Harm.INVISIBLE, sum(counts.values()))


def _groups(context: Context, files: ConfigFiles, due: Due) -> Iterator[Found]:
    why = due.lost(GROUPS)
    if why is not None:
        groups = {key.partition("@")[2] for key in files.table(CONSUMER_OFFSETS, "offsetTable")}
        text = f"the settings of all consumer groups are lost: {GROUPS} is {why}"
        yield Effect(Area.TOPICS, State.LOSES, text, Harm.SETTINGS, len(groups) or None)
        yield context.finding("RMQ-CF-LOST", text, file=context.store.config_path / GROUPS)


def _settings(files: ConfigFiles) -> Iterator[Effect]:
    """Yield settings that are written only if there are any, and of which neither the file nor its `.bak` can be read."""
    for name, (what, harm) in _LASTING_SETTINGS.items():
        text = files.texts[name]
        if name not in files.unreadable and text.state not in (Loaded.WHOLE, Loaded.MISSING):
            yield Effect(Area.TOPICS, State.LOSES, f"{what}: {name} is {text.why}", harm)


# Timer


def _timer(context: Context, queues: Queues) -> Iterator[Found]:
    state = queues.get(f"{TIMER_TOPIC}/0")
    entries = state.max_offset - state.min_offset if state is not None else 0
    files = open_timer(context.store, context.log.last_timestamp)
    if state is None and context.store.rocksdb_queues and context.store.config.flag(timeline.SWITCH):
        yield Effect(Area.DELAYED, State.NOT_CHECKED, "the queue of timed messages is in RocksDB and was not read")
    if not entries and not files.log.queue.files:
        return
    if files.check is None or files.read_time <= 0 or not _plausible(context, files):
        if entries and files.check is not None and files.read_time > context.log.last_timestamp:
            yield from _timer_found(
                context, files.check_path, "the read time of timercheck is in the future: nothing is delivered", Harm.LOST, entries
            )
        elif entries:
            why = "missing" if files.check is None else "damaged"
            text = f"up to {counted(entries, 'timed message')} delivered again: timercheck is {why}"
            yield from _timer_found(context, files.check_path, text, Harm.REPEATED, entries)
    elif state is not None and (again := _entered_again(context, files, state)):
        text = f"up to {counted(again, 'timed message')} delivered again: the queue offset in timercheck is {_cursor(files)}"
        yield from _timer_found(context, files.check_path, text, Harm.REPEATED, again)
    elif state is not None and (again := _enters_into_rocksdb(context, files, state)):
        text = f"up to {counted(again, 'timed message')} delivered again: RocksDB does not have how far the timer read its queue"
        yield from _timer_found(context, context.store.path_of(PartKind.ROCKSDBSTORE), text, Harm.REPEATED, again)
    elif files.slots is not None:
        yield from _wrong_read_time(context, files, files.slots)
    yield from _pending(context, files)


def _plausible(context: Context, files: TimerFiles) -> bool:
    """Return whether the read time is one that a running timer had, in view of the last message."""
    last = context.log.last_timestamp
    return not last or files.read_time <= last + _CLOCK_SLACK_MS


def _entered_again(context: Context, files: TimerFiles, state: QueueState) -> int:
    """Return how many messages a start takes from the timer's queue although they were in the wheel longer than a moment before."""
    cursor = max(_cursor(files), state.min_offset)
    if cursor >= state.max_offset or not files.log.queue.files:
        return 0
    first = stored_at(context, TIMER_TOPIC, 0, cursor)
    if first is not None and first + _ENQUEUED_MS >= _last_run(context, files):
        return 0
    return entered_again(context, timer_queue(context.store), files, cursor)


def _enters_into_rocksdb(context: Context, files: TimerFiles, state: QueueState) -> int:
    """Return how many messages a start takes into RocksDB although they were delivered; with a timer log that is not known to be in use."""
    return 0 if files.log.queue.files else timeline.entered_again(context, max(_cursor(files), state.min_offset), state.max_offset)


def _last_run(context: Context, files: TimerFiles) -> int:
    """Return a time (ms) at which the timer ran: its read time, or when the last message that it put into the timer log was stored."""
    for _ in files.log.windows(files.log.replay_start(files.flushed)):
        pass  # so that it is known where the log ends
    resumes = files.resumes_at(context.record_at)
    stored = None if resumes is None else stored_at(context, TIMER_TOPIC, 0, resumes - 1)
    return max(files.read_time, stored or 0)


def _cursor(files: TimerFiles) -> int:
    """Return the queue offset at which a start continues: the end of the timer log may raise one of them, but not both."""
    return 0 if files.check is None else min(files.check.last_timer_queue_offset, files.check.master_timer_queue_offset)


def _wrong_read_time(context: Context, files: TimerFiles, slots: Slots) -> Iterator[Found]:
    """Yield slots between the read time of timercheck and the moment when it was written, if the read time cannot be one of a timer.

    A running timer writes both every second; a lag of a day is taken for damage, and so is a time between two slots.
    """
    read_time, written = files.read_time, int(files.check.data_version_timestamp) if files.check is not None else 0
    if written <= 0 or (read_time % files.precision == 0 and abs(written - read_time) <= _CLOCK_SLACK_MS):
        return
    first, last = sorted((read_time // files.precision, written // files.precision))
    count = int(((slots.time > first) & (slots.time <= last) & (slots.last >= 0)).sum())
    if count:
        again = read_time < written
        what = "are delivered again" if again else "are never delivered"
        text = f"the timed messages of {counted(count, 'slot')} {what}: the read time in timercheck is damaged"
        yield from _timer_found(context, files.check_path, text, Harm.REPEATED if again else Harm.LOST, count)


def _pending(context: Context, files: TimerFiles) -> Iterator[Found]:
    """Yield messages in the wheel whose units are gone, and a wheel that is filled again from the last files alone."""
    log = files.log.queue
    if not log.files and files.slots is not None:
        live = files.is_live(files.slots.time) & (files.slots.last >= 0)
        if live.any():
            count = int(live.sum())
            text = f"the timed messages of {counted(count, 'slot')} are never delivered: the timer log is missing"
            yield from _timer_found(context, context.store.path_of(PartKind.TIMERLOG), text, Harm.LOST, count)
    if files.read_time > 0:
        yield from _forgotten(context, files)
        yield from _without_entry(context, files)
    elif files.slots is None and len(log.files) > _REPLAYED_FILES:
        first = len(log.files) - _REPLAYED_FILES
        text = f"timed messages in the first {first} files of the timer log are never delivered: the wheel is missing"
        yield from _timer_found(context, files.wheel, text, Harm.LOST, None)


def _forgotten(context: Context, files: TimerFiles) -> Iterator[Found]:
    """Yield pending entries of the timer log that a start does not read and that the wheel does not lead to. Reads the timer log."""
    replayed = files.log.replay_start(files.flushed)
    count = 0
    rewritten: set[int] = set()
    for window in files.log.windows():
        times = files.slot_time(window.units)
        if window.file.start >= replayed:
            rewritten.update((times[window.sound] % timer.WHEEL_SLOTS).tolist())
            continue
        live = window.sound & files.is_live(times)
        count += int(forgotten_units(files, times[live], window.offsets[live]).sum())
    if count:
        why = "missing" if files.slots is None else "damaged"
        text = f"{counted(count, 'timed message')} never delivered: the wheel is {why}"
        yield from _timer_found(context, files.wheel, text, Harm.LOST, count)
    if files.slots is not None and files.log.queue.files:
        wrong = faults(files, files.slots)
        broken = wrong.foreign & ~np.isin(files.slots.number, list(rewritten)) & ~_of_damaged_time(files, files.slots)
        if broken.any():
            slots = int(broken.sum())
            text = f"the timed messages of {counted(slots, 'slot')} are not delivered: their entries in the timer log are damaged"
            yield from _timer_found(context, context.store.path_of(PartKind.TIMERLOG), text, Harm.LOST, slots)


def _of_damaged_time(files: TimerFiles, slots: Slots) -> Mask:
    """Return which slots lead to an entry whose own time has no slot that leads to it: the timer delivers it without looking at that."""
    units = files.log.units_at(slots.last)
    return np.asarray((units["size"] == timer.LOG_UNIT_SIZE) & ~is_reached(slots, files.slot_time(units), slots.last))


def _without_entry(context: Context, files: TimerFiles) -> Iterator[Found]:
    """Yield pending messages whose entries of the timer log are gone, and which a start does not put into the timer again."""
    count = never_delivered(context, timer_queue(context.store), files).total
    if count:
        text = f"{counted(count, 'timed message')} never delivered: no entry of the timer log leads to {'it' if count == 1 else 'them'}"
        yield from _timer_found(context, context.store.path_of(PartKind.TIMERLOG), text, Harm.LOST, count)


def _timer_found(context: Context, path: Path, text: str, harm: Harm, count: int | None) -> Iterator[Found]:
    yield Effect(Area.DELAYED, State.LOSES, text, harm, count)
    yield context.finding("RMQ-TM-GONE", text, file=path, found=count)


# Compaction, databases


def _compaction(context: Context, files: ConfigFiles, queues: Queues) -> Iterator[Found]:
    """Yield compacted topics without compacted logs: their messages are served from there alone, and nothing rebuilds them.

    Existing compacted logs and their queues are read up to a size, beyond it only the first bytes of each file.
    """
    foreign = list(without_records(context.store))
    if foreign:
        text = f"{counted(len(foreign), 'file')} of compacted logs hold no messages: {context.store.relative(foreign[0])}"
        yield Effect(Area.OTHER, State.LOSES, text, Harm.LOST, len(foreign))
    empty = list(without_units(context.store))
    if empty:
        text = f"{counted(len(empty), 'queue file')} of compacted logs have no entries: {context.store.relative(empty[0])}"
        yield Effect(Area.OTHER, State.LOSES, text, Harm.INVISIBLE, len(empty))
    if data_bytes(context.store) <= _READ_COMPACTED:
        yield from _compacted_content(context)
    else:
        yield Effect(Area.OTHER, State.OK, "the messages of compacted logs were not read: `verify` reads them")
    compacted = {topic for topic, one in files.table(TOPICS, "topicConfigTable").items() if is_compacted(one)}
    if not compacted or context.store.rocksdb_queues:
        return
    logs = {(one.topic, one.queue_id) for one in context.store.compaction_log_directories() if one.files.files}
    missing: dict[str, int] = {}
    for name, state in queues.items():
        topic, _, number = name.rpartition("/")
        if topic in compacted and state.max_offset > state.min_offset and (topic, int(number)) not in logs:
            missing[name] = state.max_offset - state.min_offset
    if missing:
        count = sum(missing.values())
        which = next(iter(missing)) if len(missing) == 1 else f"{len(missing)} queues"
        text = f"{counted(count, 'message')} of {which} cannot be consumed: their compacted log is missing"
        yield Effect(Area.OTHER, State.LOSES, text, Harm.INVISIBLE, count)
        yield context.finding("RMQ-CM-GONE", text, file=context.store.path_of(PartKind.COMPACTION), found=len(missing))


def _compacted_content(context: Context) -> Iterator[Found]:
    """Yield damaged messages of compacted logs, and wrong entries of their queues."""
    small = context.store.message_log.allocated <= WHOLE
    found = list(compacted_faults(context.store, log=small))
    path = context.store.path_of(PartKind.COMPACTION)
    yield from limited(context, path, (fault.finding(context) for fault in found))
    for code, what, harm in (
        (RECORD, "damaged in the compacted log", Harm.LOST),
        (MISSING, "missing in the compacted log", Harm.INVISIBLE),
        (ENTRY, "missing in the compacted queue", Harm.INVISIBLE),
    ):
        faults = [fault for fault in found if fault.code == code]
        queues = {(fault.topic, fault.queue_id) for fault in faults}
        if faults:
            count = sum(fault.count for fault in faults)
            which = short_queue(*min(queues)) if len(queues) == 1 else f"{len(queues)} queues"
            yield Effect(
                Area.OTHER, State.LOSES, f"{counted(count, 'message')} of {which} {'is' if count == 1 else 'are'} {what}", harm, count
            )


def _databases(context: Context, queues: Queues) -> Iterator[Found]:
    """Report data in `rocksdbstore`, which in 5.4.0 and later is empty unless timer, transactions or index are kept in it."""
    path = context.store.root / PartKind.ROCKSDBSTORE
    if not path.is_dir() or not any(_is_data(entry) for entry in list_directory(path)):
        return
    entries = sum(state.max_offset - state.min_offset for topic in _READ for state in [queues.get(f"{topic}/0")] if state is not None)
    if (
        context.store.dledger is not None
        or context.store.has_only_rocksdb_queues
        or entries > _MOST_READ
        or message_database(context.store) is None
    ):
        yield Effect(Area.OTHER, State.NOT_CHECKED, f"{path.name} holds data, which was not read")
        return
    for check, area, what in ((timeline.check, Area.DELAYED, "timed message"), (halves.check, Area.TRANSACTIONS, "transaction")):
        found = list(check(context))
        yield from found
        count = sum(finding.count or 1 for finding in found)
        if found:
            text = f"{counted(count, what)} in {path.name} {'contradicts' if count == 1 else 'contradict'} the log"
            yield Effect(area, State.LOSES, text, Harm.LOST, count)


def _popped(context: Context, queues: Queues) -> Iterator[Found]:
    """Report messages in `kvStore` that a start puts after the ends of their queues: groups get others in their place."""
    path = context.store.path_of(PartKind.KV_STORE)
    if not path.is_dir() or not any(_is_data(entry) for entry in list_directory(path)):
        return
    state = pop_state(context.store)
    if state is None:
        yield Effect(Area.OTHER, State.NOT_CHECKED, f"{path.name} holds data, which was not read")
        return
    after = {(one.topic, one.queue_id): queues.get(f"{one.topic}/{one.queue_id}") for one in state.messages}
    ends = {queue: 0 if there is None else there.max_offset for queue, there in after.items()}
    found = list(popped_beyond(context, path, state, ends))
    yield from found
    count = sum(finding.count or 0 for finding in found)
    if count:
        text = f"{counted(count, 'popped message')} will be after the end of the queues: groups get later messages in their place twice"
        yield Effect(Area.PROGRESS, State.LOSES, text, Harm.REPEATED, count)


def _is_data(entry: Entry) -> bool:
    """Return whether it is a table of RocksDB, or a log of writes that is not empty."""
    return entry.name.endswith(".sst") or (entry.name.endswith(".log") and entry.length > 0)
