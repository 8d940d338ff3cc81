"""Trees of queues: the directories `<topic>/<queue id>` below a part, and other entries between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from rmqstore.store.entries import Entry
from rmqstore.store.mapped import MappedFileQueue, list_directory, parse_offset_name

_INT_RANGE = range(-(2**31), 2**31)

QueuePlace = tuple[str, int, str]
"""Topic, queue id, directory."""


@dataclass(frozen=True, slots=True)
class QueueDirectory:
    """One queue of one topic: its directory and its files."""

    topic: str
    queue_id: int
    files: MappedFileQueue
    location: str

    @property
    def directory(self) -> Path:
        """Return the path of its directory."""
        return Path(self.location)


@dataclass(frozen=True, slots=True)
class Stray:
    """An entry below a part that no broker puts there. `path` is absolute; `loaded`: brokers load it as a queue all the same."""

    path: Path
    reason: str
    loaded: bool = False


def open_queues(places: Iterable[QueuePlace], configured: int | None, default: int | None) -> Iterator[QueueDirectory]:
    """Yield the queues at `places`; `configured` is the file length by configuration (bytes), `default` that of a broker without one."""
    listed = [(topic, queue_id, path, list_directory(path)) for topic, queue_id, path in places]
    # All queues of a store have files of one length, so queues with many files decide for those with a single unusual one.
    expected = configured or _majority_length([entries for *_, entries in listed]) or default
    for topic, queue_id, path, entries in listed:
        yield QueueDirectory(topic, queue_id, MappedFileQueue.of_entries(entries, configured_size=expected), path)


def tree_queues(tree: Path, only: str | None = None) -> Iterator[QueuePlace]:
    """Yield (topic, queue id, directory) of every queue below `tree`, by topic and queue id; other directories are left out.

    `only`: of this topic.
    """
    for topic in directories(tree):
        if only not in (None, topic.name):
            continue
        named = ((_queue_id(queue.name), queue) for queue in directories(topic.path))
        queues = sorted(((number, queue.path) for number, queue in named if number is not None), key=itemgetter(0))
        yield from ((topic.name, number, path) for number, path in queues)


def single_queues(directory: Path) -> list[QueuePlace] | None:
    """Return the queues of a directory copied from inside a tree: of one queue or of one topic; None for a whole tree."""
    if _holds_files(directory):
        return [(directory.parent.name, _queue_id(directory.name) or 0, str(directory))]
    numbered = [(_queue_id(queue.name), queue.path) for queue in directories(directory)]
    queues = [(directory.name, queue_id, path) for queue_id, path in numbered if queue_id is not None and _holds_files(path)]
    return sorted(queues, key=lambda queue: queue[1]) or None


def _holds_files(directory: Path | str) -> bool:
    return any(parse_offset_name(entry.name) is not None and entry.is_file() for entry in list_directory(directory))


def tree_strays(tree: Path, *, rocksdb: bool) -> Iterator[Stray]:
    """Yield entries of a tree that are no topic and no queue; with `rocksdb` the files beside the topics belong to a database."""
    for topic in list_directory(tree):
        if not topic.is_dir():
            if not rocksdb:
                yield Stray(Path(topic.path), "a file among topics")
            continue
        for queue in list_directory(topic.path):
            if not queue.is_dir():
                yield Stray(Path(queue.path), "a file among queues")
            elif _queue_id(queue.name) is None:
                number = _loaded_as(queue.name)
                loaded = "" if number is None else f" that a broker writes, and it is loaded as queue {number}"
                yield Stray(Path(queue.path), f"the directory name is no queue id{loaded}", number is not None)


def directories(directory: Path | str) -> Iterator[Entry]:
    """Yield the directories in a directory, by name."""
    return (entry for entry in list_directory(directory) if entry.is_dir())


def _queue_id(name: str) -> int | None:
    """Return the queue id that a broker gives this name to."""
    number = _loaded_as(name)
    return number if number is not None and number >= 0 and str(number) == name else None


@lru_cache(maxsize=1024)
def _loaded_as(name: str) -> int | None:
    """Return the queue id that brokers read in a directory name: also in `-1`, `+1` and `01`, which they never write."""
    if re.fullmatch(r"[+-]?[0-9]{1,20}", name, re.ASCII) is None:
        return None
    return int(name) if int(name) in _INT_RANGE else None


def _majority_length(queues: list[list[Entry]]) -> int | None:
    lengths: Counter[int] = Counter()
    for entries in queues:
        for entry in entries:
            if parse_offset_name(entry.name) is not None and entry.is_file():
                lengths[entry.length] += 1
    del lengths[0]
    # The majority of one length wins; between equals the longer one, because copies and crashes cut files but never extend them.
    return max(lengths, key=lambda length: (lengths[length], length), default=None)
