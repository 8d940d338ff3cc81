"""Plan for the offsets of a consumer group: to the end of its queues, to a time, or as another store has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.reading.entries import unit_at
from rmqstore.reading.records import record_at
from rmqstore.repair.derived.requests import Planning
from rmqstore.store.ends import queue_ends
from rmqstore.store.fastjson import with_integers
from rmqstore.store.mapped import MappedFileQueue
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.verify.parts import config
from rmqstore.wording import counted

_MOST_NOTES = 40
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A request for the offsets of `group`, in all its topics or in `topic`. One of three is given.

    `time` (ms): the first message that was stored then or later; `copy`: the offset that another store has; neither: the end of the queue.
    """

    group: str
    topic: str | None = None
    time: int | None = None
    copy: Path | None = None

    def plan(self, planning: Planning, store: Store) -> None:
        """Plan the change. Queues that cannot be changed are named in notes. Raises RefusedError, UnreadableError, StoreChangedError."""
        builder = planning.builder
        rows = _offsets_of(store, self.group, self.topic)
        if not rows:
            where = "" if self.topic is None else f" in topic {self.topic}"
            raise RefusedError(f"{store.root} has no offset of group {self.group}{where}.", "`rmqstore groups` lists all groups.")
        queues = {(queue.topic, queue.queue_id): queue.files for queue in store.queue_directories()}
        others = self._others()
        changes: dict[tuple[str, ...], int] = {}
        notes: list[str] = []
        for row in rows:
            place = row.topic, row.queue_id
            name = f"{row.topic}/{row.queue_id}"
            files = queues.get(place)
            if files is None or not files.files:
                notes.append(f"{name} stays at {row.offset}: it has no consume queue of files here.")
                continue
            wanted = self._wanted(store, files, others, place)
            if isinstance(wanted, str):
                notes.append(f"{name} stays at {row.offset}: {wanted}.")
            elif wanted != row.offset:
                changes[row.keys] = wanted
                notes.append(f"{name}: {_effect(row.offset, wanted)}")
        missing = sorted(others.keys() - {(row.topic, row.queue_id) for row in rows})
        if missing:
            first = f"{missing[0][0]}/{missing[0][1]}"
            notes.append(f"{counted(len(missing), 'queue')} with an offset in {self.copy} alone left out, the first is {first}.")
        if changes:
            path = rows[0].path
            data = with_integers(read_whole(path, path.stat().st_size), changes)
            builder.replace(path, data, reason=f"{counted(len(changes), 'offset')} of group {self.group}: the notes list them")
        for note in notes[:_MOST_NOTES]:
            builder.note(note)
        if len(notes) > _MOST_NOTES:
            builder.note(f"{len(notes) - _MOST_NOTES} more queues.")

    def _others(self) -> Mapping[Place, int]:
        if self.copy is None:
            return {}
        rows = _offsets_of(Store.open(self.copy), self.group, self.topic)
        if not rows:
            raise RefusedError(f"{self.copy} has no offset of group {self.group}.", "`rmqstore groups` lists all groups of a store.")
        return {(row.topic, row.queue_id): row.offset for row in rows}

    def _wanted(self, store: Store, files: MappedFileQueue, others: Mapping[Place, int], place: Place) -> int | str:
        """Return the offset to set, or why there is none."""
        ends = queue_ends(files)
        if self.time is not None:
            return _first_since(store, files, ends.min_offset, ends.max_offset, self.time)
        if self.copy is None:
            return ends.max_offset
        if place not in others:
            return f"{self.copy} has no offset there"
        if others[place] > ends.max_offset:
            return f"{self.copy} has {others[place]}, and the queue here ends at {ends.max_offset}"
        return others[place]


def _offsets_of(store: Store, group: str, topic: str | None) -> list[config.StoredOffset]:
    if config.in_rocksdb(store) or store.rocksdb_queues:
        raise RefusedError(f"Queues or offsets of {store.root} are in RocksDB.", "Use mqadmin resetOffsetByTime on a running broker.")
    texts = {name: config.in_use(*config.read_both(store.config_path / name)) for name in config.FILES}
    rows: Iterator[config.StoredOffset] = config.stored_offsets(store, texts)
    return [row for row in rows if row.owner == f"group {group}" and topic in (None, row.topic)]


def _first_since(store: Store, files: MappedFileQueue, begin: int, end: int, time: int) -> int | str:
    """Return the first queue offset whose message was stored at a time or later, the end if there is none.

    Store times ascend with the offset, as a broker writes them; messages that expired count as older.
    """
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        stored = _time_at(store, files, middle)
        if stored is None or stored < time:
            low = middle + 1
        else:
            high = middle
    before, here = _time_at(store, files, low - 1) if low > begin else None, _time_at(store, files, low) if low < end else None
    if (before is not None and before >= time) or (low < end and (here is None or here < time)):
        return "its messages cannot be read, or their store times do not ascend"
    return low


def _time_at(store: Store, files: MappedFileQueue, queue_offset: int) -> int | None:
    unit = unit_at(files, queue_offset)
    record = None if unit is None else record_at(store.message_log, unit.physical_offset)
    return None if record is None else record.store_timestamp


def _effect(before: int, after: int) -> str:
    if after < before:
        return f"{before} becomes {after}; {counted(before - after, 'message')} are delivered again."
    return f"{before} becomes {after}; {counted(after - before, 'message')} are skipped."
