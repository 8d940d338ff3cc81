"""Plans for the configuration: valid backups or what is left for broken files, and offsets that are in their queues.

A group whose offset is after the end of its queue would never get what arrives until the queue is that long again; one that continues
at the end misses nothing (observed on 4.9.7 and 5.3.3, fact sheet timer-and-config observed §2).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rmqstore.formats.naming import LMQ_PREFIX, SCHEDULE_TOPIC
from rmqstore.reading.tieredstore import METADATA
from rmqstore.repair.derived.delays import Levels, levels_of
from rmqstore.repair.derived.rescue.names import Correction, corrected_names
from rmqstore.repair.derived.rescue.plan import BROKEN, Both, Rescue
from rmqstore.repair.derived.rescue.sources import ConfigCopy, Rescued, restored
from rmqstore.repair.derived.tieredmetadata import plan_tiered_metadata
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.model import ConfigEntry, Origin
from rmqstore.repair.rocksdb.configuration import plan_new_configuration, replaced_databases
from rmqstore.store.fastjson import with_integers
from rmqstore.store.rocksdb.configuration import DatabaseOfFile
from rmqstore.store.rocksdb.databases import V2
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.verify.parts import config
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.versions import profile_of
from rmqstore.wording import counted

_MOST_NOTES = 20
Integers = Mapping[tuple[str, ...], int]


def plan_backups(builder: PlanBuilder, store: Store) -> None:
    """Plan to replace broken files by valid backups, or by their readable parts. The log is not read. Raises UnreadableError."""
    found = _read(builder, store)
    rescue = _rescue(builder, store, found, None)
    _plan_rescued(builder, rescue, rescue.run(), {})
    _plan(builder, found, rescue, {}, restores=True)


@dataclass(frozen=True, slots=True)
class FutureQueues:
    """The future queues: the future log, `ends`, the ends of those that will not end where they do now, and the `present` ends."""

    log: FutureLog
    ends: Mapping[QueueKey, int]
    present: config.EndsOfQueues

    def end(self, topic: str, queue_id: int) -> int | None:
        """Return the queue offset after the last message of a queue, None where there is no queue to compare with."""
        end = self.ends.get((topic, queue_id))
        return self.present.for_offsets(topic, queue_id) if end is None else end


def plan_configuration(
    builder: PlanBuilder, store: Store, queues: FutureQueues, *, restores: bool, copies: Sequence[ConfigCopy] = ()
) -> None:
    """Plan as `plan_backups`, if it `restores`, and offsets within their queues. Raises UnreadableError, StoreChangedError.

    What neither file nor backup has is taken from `copies`.
    """
    found = _read(builder, store) if restores else {name: config.read_both(store.config_path / name) for name in config.FILES}
    texts = {name: restored(*both) if restores else config.in_use(*both) for name, both in found.items()}
    rescue = _rescue(builder, store, found, queues, copies)
    rescued = rescue.run() if restores else {}
    texts |= {name: config.Text(one.path, config.State.WHOLE, value=one.value) for name, one in rescued.items()}
    changes: dict[Path, dict[tuple[str, ...], int]] = defaultdict(dict)
    notes: list[str] = []
    for stored, offset, note in _corrected(store, queues, texts):
        changes[stored.path][stored.keys] = offset
        notes.append(note)
    if restores and not store.rocksdb_queues and _is_lost(*found[config.DELAY_OFFSETS]):
        _plan_delay_levels(builder, store, queues, *found.pop(config.DELAY_OFFSETS))
    _plan_rescued(builder, rescue, rescued, changes)
    _plan(builder, found, rescue, changes, restores=restores)
    for note in notes[:_MOST_NOTES]:
        builder.note(note)
    if len(notes) > _MOST_NOTES:
        builder.note(f"{len(notes) - _MOST_NOTES} more offsets were outside of their queues.")


def _rescue(
    builder: PlanBuilder, store: Store, found: Mapping[str, Both], queues: FutureQueues | None, copies: Sequence[ConfigCopy] = ()
) -> Rescue:
    profile = profile_of(builder.broker_version)
    of_files = replaced_databases(store, profile)
    log, ends = (None, ()) if queues is None else (queues.log, queues.ends)
    return Rescue(store, found, log, ends, profile.newer_parts, copies, {one.name: one for one in of_files})


def _corrected(store: Store, queues: FutureQueues, texts: Mapping[str, config.Text]) -> Iterator[tuple[config.StoredOffset, int, str]]:
    """Yield the offsets outside of their queues or reset, what each becomes, and a sentence on what is delivered again or skipped."""
    levels: Levels | None = None
    for stored in config.stored_offsets(store, texts) if not store.rocksdb_queues else ():
        if stored.topic.startswith(LMQ_PREFIX):
            continue  # clients set any offset there
        end = queues.end(stored.topic, stored.queue_id)
        scheduled = stored.topic == SCHEDULE_TOPIC
        if end is None or (stored.offset == stored.within(end) and not (scheduled and stored.offset == 0 < end)):
            continue
        if scheduled:
            levels = levels or levels_of(store, queues.log)
            offset = levels.goes_on(stored.queue_id, end)
            if stored.offset != 0 or levels.was_reset(stored.queue_id):
                yield stored, offset, _level_note(stored, offset, end)
        else:
            offset = stored.within(end)
            yield stored, offset, _group_note(stored, offset, end)


def _level_note(stored: config.StoredOffset, offset: int, end: int) -> str:
    """Return the note on a delay level."""
    if stored.offset == 0:
        was = f"The offset 0 of {stored.owner} was reset: the log holds deliveries; its queue ends at {end}"
    else:
        was = f"The offset {stored.offset} of {stored.owner} is outside of its queue, which ends at {end}"
    if offset == end:
        return f"{was}: set to {end}, because the log holds the delivery of the last message; none is delivered again."
    return (
        f"{was}: set to {offset}, the first message whose delivery is not in the log; {counted(end - offset, 'message')} from there on are "
        f"delivered, {counted(offset, 'message')} before count as delivered."
    )


def _group_note(stored: config.StoredOffset, offset: int, end: int) -> str:
    was = f"The offset {stored.offset} of {stored.owner} in {stored.topic}/{stored.queue_id}"
    if stored.offset < 0:
        again = f"up to {counted(end, 'message')}, all of the queue, are delivered again"
        return f"{was} is negative: set to 0, as every release reads it; {again}."
    return f"{was} is beyond the end: set to {offset}; nothing in the queue is skipped or delivered again."


def _read(builder: PlanBuilder, store: Store) -> dict[str, Both]:
    """Return the files and their backups, without the metadata of tiered storage where it is planned from the segments."""
    planned = plan_tiered_metadata(builder, store)
    return {name: config.read_both(store.config_path / name) for name in config.FILES if not (planned and name == METADATA)}


def _plan(builder: PlanBuilder, found: Mapping[str, Both], rescue: Rescue, changes: Mapping[Path, Integers], *, restores: bool) -> None:
    """Plan backups for broken files, integers, and names; files that the rescue writes are left out."""
    for name, (text, backup) in found.items():
        source = restored(text, backup) if restores else config.in_use(text, backup)
        integers = changes.get(source.path, {})
        broken = restores and text.state in BROKEN
        if name in rescue.results:
            continue
        names: list[Correction] = []
        if restores and source.state is config.State.WHOLE:
            names = corrected_names(name, partial(_whole, source.path), source, lambda: rescue.known, backup if source is text else None)
        if broken and source.state is not config.State.WHOLE:
            builder.note(f"config/{name} holds nothing that a broker can read, and there is no valid backup; restore it from a copy.")
        elif broken or integers or names:
            _plan_file(builder, text.path, source.path, integers, names)
        if restores and text.state is config.State.WHOLE and backup.state is config.State.WHOLE:
            of_backup = corrected_names(name, partial(_whole, backup.path), backup, lambda: rescue.known, text)
            if of_backup:
                _plan_file(builder, backup.path, backup.path, {}, of_backup)


def _plan_rescued(builder: PlanBuilder, rescue: Rescue, rescued: Mapping[str, Rescued], changes: Mapping[Path, Integers]) -> None:
    """Plan files that are written from what is left, or `config/rdb`; a `.bak` that cannot be read leaves the store."""
    of_v2 = {name: one for name, one in rescue.databases.items() if one.database.directory.name == V2}
    objects: dict[str, Mapping[str, Any]] = {}
    for name, one in rescued.items():
        text, backup = rescue.found[name]
        data = json.dumps(one.value, indent=1).encode()
        content = config.Text(one.path, config.State.WHOLE, value=one.value)
        names = corrected_names(name, partial(bytes, data), content, lambda: rescue.known)
        data = with_integers(_with_names(builder, one.path, data, names), changes.get(one.path, {}))
        unreadable, missing = "it cannot be read, and is written from what is left", "it is missing, and the rest shows it"
        if name in of_v2:
            objects[name] = {} if one.is_nothing else json.loads(data)
        elif name in rescue.databases:
            _plan_in_place_of(builder, rescue.databases[name], text, None if one.is_nothing else data)
        elif one.is_nothing:
            for both in (text, backup):
                if both.state is not config.State.MISSING:
                    builder.quarantine(both.path, reason="it cannot be read, and no entry of it is left", code="RMQ-CF-JSON")
        else:
            _plan_new_file(builder, text, backup, data, unreadable, missing)
        builder.configure(one.entries)
    if of_v2:
        plan_new_configuration(builder, next(iter(of_v2.values())), {name: objects.get(name, one.value) for name, one in of_v2.items()})
    for note in rescue.notes():
        builder.note(note)


def _plan_in_place_of(builder: PlanBuilder, one: DatabaseOfFile, text: config.Text, data: bytes | None) -> None:
    """Plan a file with what a database has, and that this leaves the store; the next start makes a new one from the file."""
    directory, code, whole = one.database.directory, one.code, one.why is None
    builder.quarantine_directory(directory, reason="its entries are in a file now" if whole else "RocksDB does not read it", code=code)
    if data is not None:
        reason = f"{'the entries' if whole else 'what is left'} of the database, which the next start takes over into a new one"
        (builder.create if text.state is config.State.MISSING else builder.replace)(text.path, data, reason=reason, code=code)
    if not whole:
        made = f"a start with storeType=defaultRocksDB makes a new database from {one.name}"
        builder.note(f"config/{directory.name} cannot be read: {made}. {one.why}")


def _with_names(builder: PlanBuilder, path: Path, data: bytes, names: Sequence[Correction]) -> bytes:
    """Return a file with its names corrected, and add a note on each."""
    for one in names:
        data = one.applied(data)
        builder.note(f"config/{path.name}: the name {one.old} becomes {one.new}.")
    return data


def _plan_new_file(builder: PlanBuilder, text: config.Text, backup: config.Text, data: bytes, unreadable: str, missing: str) -> None:
    if text.state is config.State.MISSING:
        code = "RMQ-CF-DELAY" if text.path.name == config.DELAY_OFFSETS else "RMQ-CF-LOST"
        builder.create(text.path, data, reason=missing, code=code)
    else:
        code = "RMQ-CF-LOST" if text.state is config.State.WHOLE else "RMQ-CF-JSON"
        builder.replace(text.path, data, reason="it lacks topics" if text.state is config.State.WHOLE else unreadable, code=code)
    if backup.state in BROKEN:
        builder.quarantine(backup.path, reason="a start would take it if a write of the file were interrupted", code="RMQ-CF-BAK")


def _is_lost(text: config.Text, backup: config.Text) -> bool:
    return config.State.WHOLE not in (text.state, backup.state)


def _plan_delay_levels(builder: PlanBuilder, store: Store, queues: FutureQueues, text: config.Text, backup: config.Text) -> None:
    """Plan a new delayOffset.json: each level continues with the first message that was not delivered.

    A missing file is no fault before a message was delivered: a broker writes it ten seconds after its first start.
    """
    present = {queue.queue_id for queue in store.queue_directories() if queue.topic == SCHEDULE_TOPIC}
    ids = sorted(present | {queue_id for topic, queue_id in queues.ends if topic == SCHEDULE_TOPIC})
    ends = {queue_id: queues.end(SCHEDULE_TOPIC, queue_id) or 0 for queue_id in ids}
    missing = text.state is config.State.MISSING
    if missing and not any(ends.values()):
        return
    levels = levels_of(store, queues.log)
    if missing and not levels.any_delivered(ends):
        return
    offsets = {str(queue_id + 1): levels.goes_on(queue_id, end) for queue_id, end in ends.items()}
    data = json.dumps({"offsetTable": offsets}).encode()
    name = store.relative(text.path)
    if missing:
        was = f"{name} is missing, so every delayed message in the queues would be delivered again."
    else:
        was = f"{name} held nothing that a broker can read."
    shown = "and the log shows what was delivered"
    _plan_new_file(builder, text, backup, data, f"it cannot be read, {shown}", f"it is missing, {shown}")
    why = "the first message whose delivery is not in the log"
    builder.configure(ConfigEntry(text.path.name, f"{level}: {offset}", Origin.LOG, why) for level, offset in offsets.items())
    again = sum(end - offsets[str(queue_id + 1)] for queue_id, end in ends.items())
    builder.note(
        f"{was} Each delay level continues with the first message whose delivery is not in the log: "
        f"{counted(again, 'message')} from there on are delivered, and those before count as delivered."
    )


def _whole(path: Path) -> bytes:
    return read_whole(path, path.stat().st_size)


def _plan_file(builder: PlanBuilder, path: Path, source: Path, integers: Integers, names: Sequence[Correction]) -> None:
    """Plan to give a broken file the bytes of its backup, which a broker would read in its place (fact sheet timer §3.2)."""
    data = _whole(source)
    data = _with_names(builder, path, data, names)
    if names and path == source and not integers:
        reason, code = "a damaged name in it is corrected", "RMQ-CF-NAME"
    elif integers:
        count = "1 offset is" if len(integers) == 1 else f"{len(integers)} offsets are"
        data, code = with_integers(data, integers), "RMQ-CF-OFFSET"
        reason = f"{count} outside of the queue: the notes list what is delivered again"
    else:
        reason, code = "it cannot be read, but its backup can", "RMQ-CF-JSON"
    if path.exists():
        builder.replace(path, data, reason=reason, code=code)
    else:
        builder.create(path, data, reason=reason, code=code, like=source)
