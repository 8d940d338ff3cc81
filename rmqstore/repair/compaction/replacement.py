"""Replacements of compacted files that were interrupted: completed or reverted, so that a broker loads the queues.

A compaction writes all files of a queue but the last one again, into `compacting`. The old ones get the ending `.delete`, the new ones
move to their place, and the old ones are deleted: first those of the log, then those of its queue. Whatever is left in between keeps
the broker from starting, or from loading the queue. Source: fact sheet queues §5.3, §5.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmqstore.formats.naming import offset_to_file_name
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.store.mapped import MappedFile, MappedFileQueue, list_directory, parse_offset_name
from rmqstore.store.queues import QueueDirectory
from rmqstore.store.root import Store
from rmqstore.store.window import read_into
from rmqstore.verify.parts.compacted import queue_faults
from rmqstore.verify.parts.compaction import DELETED
from rmqstore.verify.queues.spans import QueueKey

_NEW = "compacting"
_BLOCK = 4 << 20
_CODE = "RMQ-CM-NAME"

Files = Mapping[int, MappedFile]
"""Files by the offset in their name."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The log or the queue of a compacted queue: its files, those with `.delete`, and those that were written again."""

    directory: QueueDirectory
    files: Files
    old: Files
    new: Files

    @classmethod
    def of(cls, directory: QueueDirectory) -> _Side:
        """List one. Raises UnreadableError."""
        files = {file.start: file for file in directory.files.files}
        odd = [(entry.path.name.removesuffix(DELETED), entry.path) for entry in directory.files.odd if entry.path.name.endswith(DELETED)]
        new = ((entry.name, Path(entry.path)) for entry in list_directory(directory.directory / _NEW) if entry.is_file())
        return cls(directory, files, dict(_named(odd)), dict(_named(new)))

    @property
    def before(self) -> Files:
        """The files before the replacement: the old ones, and what follows on them."""
        return self.files if not self.old else {**{start: file for start, file in self.files.items() if start > max(self.old)}, **self.old}

    @property
    def every(self) -> Files:
        """All of them: the files before a replacement of which some were renamed, in no order."""
        return {**self.files, **self.old}

    @property
    def after(self) -> Files:
        """The files after it: the new ones, and the last one, which is never replaced."""
        if self.old:
            return {**self.files, **self.new}
        return {**dict([max(self.files.items())]), **self.new} if self.new and self.files else self.files

    def with_files(self, files: Files) -> QueueDirectory:
        """Return the directory as it would be with these files."""
        ordered = tuple(file for _, file in sorted(files.items()))
        one = self.directory
        return QueueDirectory(one.topic, one.queue_id, MappedFileQueue(ordered, (), one.files.file_size), one.location)


def plan_replacements(planning: Planning, store: Store) -> frozenset[QueueKey]:
    """Plan to complete or revert each replacement that was interrupted; return their queues.

    Of the ways that give log and queue the same files, the one with the fewest faults is taken; where none does, nothing is planned.
    Raises UnreadableError, StoreChangedError, OSError.
    """
    replaced: set[QueueKey] = set()
    queues = {(one.topic, one.queue_id): _Side.of(one) for one in store.compaction_queue_directories()}
    for log in map(_Side.of, store.compaction_log_directories()):
        queue = queues.get((log.directory.topic, log.directory.queue_id))
        if queue is None or not (log.old or queue.old or (queue.new and not log.new)):
            continue  # none has begun: new files may be incomplete
        replaced.add((log.directory.topic, log.directory.queue_id))
        chosen = _chosen(log, queue)
        if chosen is None:
            place = f"{log.directory.topic}/{log.directory.queue_id}"
            planning.builder.note(f"The compacted files of {place} are those of a replacement that did not finish, and fit in no way.")
            continue
        for side, files in zip((log, queue), chosen, strict=True):
            _replace(planning, side, files)
    return frozenset(replaced)


def _chosen(log: _Side, queue: _Side) -> tuple[Files, Files] | None:
    ways = [(log.files, queue.files), (log.before, queue.before), (log.after, queue.after), (log.every, queue.every)]
    fitting = [(of_log, of_queue) for of_log, of_queue in ways if of_log and of_log.keys() == of_queue.keys()]
    return min(fitting, key=lambda way: _faults(log.with_files(way[0]), queue.with_files(way[1])), default=None)


def _faults(log: QueueDirectory, queue: QueueDirectory) -> int:
    return sum(fault.count for fault in queue_faults(log, queue))


def _replace(planning: Planning, side: _Side, files: Files) -> None:
    """Plan to make these the files of a directory."""
    builder, directory = planning.builder, side.directory.directory
    for start, file in sorted(files.items()):
        if file is not side.files.get(start):
            path, reason = directory / offset_to_file_name(start), "a replacement by the compaction did not finish"
            if start in side.files:
                builder.replace(path, _copied(planning.staging, file), reason=reason, code=_CODE, like=file.path)
            else:
                builder.create(path, _copied(planning.staging, file), reason=reason, code=_CODE, like=file.path)
    gone = [*(file for start, file in side.files.items() if start not in files), *side.old.values()]
    for file in gone:
        builder.quarantine(file.path, reason="left by a replacement by the compaction that did not finish", code=_CODE)


def _copied(staging: Staging, file: MappedFile) -> StagedFile:
    """Return a staged copy of a file; blocks of zeros stay holes."""
    name = str(file.path)
    target = staging.open(name, file.length)
    block = np.empty(_BLOCK, np.uint8)
    for begin in range(0, file.length, _BLOCK):
        part = block[: min(_BLOCK, file.length - begin)]
        read_into(file, begin, part)
        if part.any():
            target[begin : begin + part.size] = part
    del target
    return staging.close(name)


def _named(entries: Iterator[tuple[str, Path]] | list[tuple[str, Path]]) -> Iterator[tuple[int, MappedFile]]:
    """Yield the entries whose names are offsets and that are no empty files."""
    for name, path in entries:
        start = parse_offset_name(name)
        status = path.stat()
        if start is not None and status.st_size:
            yield start, MappedFile(path, start, status.st_size, status.st_blocks * 512)
