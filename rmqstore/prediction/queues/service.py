"""All consume queues of a store: found, loaded, recovered, cut, and the offset tables made from them (fact sheet queues §2.7, §2.14).

Source: `ConsumeQueueStore`, up to 4.9.8 `DefaultMessageStore`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rmqstore.prediction.blockers import BlockerCode, LoadStopped
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.java import INT_RANGE, parse_long
from rmqstore.prediction.log.reader import LogReader, Records
from rmqstore.prediction.queues.batchqueue import BatchQueue
from rmqstore.prediction.queues.consumequeue import ConsumeQueue
from rmqstore.prediction.queues.extqueue import ExtQueue
from rmqstore.prediction.queues.unitwriter import UnitWriter
from rmqstore.store.mapped import list_directory
from rmqstore.store.queues import directories
from rmqstore.versions import Profile

Queue = ConsumeQueue | BatchQueue
_NAME_MAX = 255
_PATH_MAX = 3000  # of 4096 bytes, the least that the root and the file name leave


@dataclass(frozen=True, slots=True)
class QueuePlaces:
    """The directories of queues and the length of their files (bytes); `ext` is None if the extension is off."""

    simple: Path
    batch: Path
    ext: Path | None
    simple_file_size: int
    batch_file_size: int
    ext_file_size: int
    batch_topics: frozenset[str]


class QueueStore:
    """The table of queues, and the next offsets that producers would get."""

    in_rocksdb = False

    def __init__(self, places: QueuePlaces, profile: Profile, changes: Changes) -> None:
        self._places = places
        self._profile = profile
        self._changes = changes
        self._table: dict[tuple[str, int], Queue] = {}
        self.next_offsets: dict[str, int] = {}
        self.write_error = False
        """A queue could not be written, which stops the writing of all queues until the next start."""
        self._reader: LogReader | None = None
        self._writer: UnitWriter | None = None

    def __iter__(self) -> Iterator[Queue]:
        self._settle()
        return iter(list(self._table.values()))

    def put(self, run: Records, reader: LogReader) -> int:
        """Put the records of a run into their queues and return how many precede the first one that cannot be written, if any."""
        if self._writer is None or self._reader is not reader:
            self._settle()
            self._reader, self._writer = (
                reader,
                UnitWriter(lambda number: self._writable_queue(*reader.queue_name(number)), know_ends=self._profile.queues_know_ends),
            )
        done = self._writer.put(run.records, run.requests)
        self.write_error = done < len(run.records)
        return done

    def _writable_queue(self, topic: str, queue_id: int) -> Queue | None:
        return self._find_or_create(topic, queue_id) if self.writable(topic) else None

    def _settle(self) -> None:
        if self._writer is not None:
            self._writer.settle()

    def load(self) -> None:
        """Map the files of every queue below the two trees. Raises LoadStopped."""
        self._load_tree(self._places.simple, batch=False)
        if self._profile.batch_queues:
            self._load_tree(self._places.batch, batch=True)

    def _load_tree(self, tree: Path, *, batch: bool) -> None:
        for topic in directories(tree):
            for directory in list_directory(topic.path):
                queue_id = parse_long(directory.name, INT_RANGE)
                if queue_id is None:
                    continue
                if self._profile.batch_queues and (topic.name in self._places.batch_topics) != batch:
                    wanted, actual = ("BatchCQ", "SimpleCQ") if batch else ("SimpleCQ", "BatchCQ")
                    text = f"load exception: The queue type of topic: {topic.name} should be {wanted}, but is {actual}"
                    raise LoadStopped(BlockerCode.QUEUE_TYPE, text, Path(directory.path))
                queue = self._make(topic.name, queue_id, batch=batch)
                self._table[topic.name, queue_id] = queue
                queue.load(self._profile)

    def _make(self, topic: str, queue_id: int, *, batch: bool) -> Queue:
        places = self._places
        if batch:
            return BatchQueue(topic, queue_id, _directory(places.batch, topic, queue_id), places.batch_file_size, self._changes)
        ext = None
        if places.ext is not None:
            ext = ExtQueue(_directory(places.ext, topic, queue_id), places.ext_file_size, self._changes)
        return ConsumeQueue(
            topic,
            queue_id,
            _directory(places.simple, topic, queue_id),
            places.simple_file_size,
            ext,
            self._changes,
            know_ends=self._profile.queues_know_ends,
        )

    def recover(self) -> None:
        """Find the end of every queue. Raises LoadStopped."""
        for queue in self:
            queue.recover()

    @property
    def max_physic_offset(self) -> int:
        """Return maxCQ: the largest commit log offset any queue knows, −1 without queues (commit log §5)."""
        return max((queue.max_physic_offset for queue in self), default=-1)

    @property
    def dispatched_until(self) -> int:
        """Return the physical offset at which dispatch begins with recheckReputOffsetFromCq, −1 without any."""
        return self.max_physic_offset

    def find_or_create(self, topic: str, queue_id: int) -> Queue:
        """Return the queue of that name; a new one exists in memory only until a message is appended."""
        self._settle()
        return self._find_or_create(topic, queue_id)

    def _find_or_create(self, topic: str, queue_id: int) -> Queue:
        queue = self._table.get((topic, queue_id))
        if queue is None:
            batch = self._profile.batch_queues and topic in self._places.batch_topics
            queue = self._table[topic, queue_id] = self._make(topic, queue_id, batch=batch)
        return queue

    def writable(self, topic: str) -> bool:
        """Return whether the file system accepts the topic as a directory: a name may be damaged or too long."""
        parts = topic.encode("utf-8", "surrogatepass").split(b"/")
        return (
            b"\0" not in topic.encode("utf-8", "surrogatepass") and max(map(len, parts)) <= _NAME_MAX and sum(map(len, parts)) < _PATH_MAX
        )

    def truncate(self, phy_offset: int) -> None:
        """Cut every queue at a commit log offset."""
        for queue in self:
            queue.truncate(phy_offset)

    def recover_offset_table(self, min_phy_offset: int) -> None:
        """Set next offsets of producers, and minimum offsets (`recoverTopicQueueTable`). Raises LoadStopped."""
        table = {}
        for queue in self:
            table[f"{queue.topic}-{queue.queue_id}"] = queue.max_offset
            queue.correct_min_offset(min_phy_offset, self._profile)
        self.next_offsets = table

    def destroy(self) -> None:
        """Delete all queue files and the queues' directories (commit log §5.6)."""
        for queue in self:
            queue.destroy()

    def settle(self) -> None:
        """Record which files end with other bytes."""
        for queue in self:
            queue.settle()


def _directory(tree: Path, topic: str, queue_id: int) -> str:
    # The topic becomes part of a path unchanged: slashes in it make further directories, dots lead upward, an empty one makes none.
    return os.path.normpath(f"{tree}/{topic}/{queue_id}")
