"""The settings of a rebuild that no record contains: lengths of files, what the broker was configured to write, the mode."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rmqstore.errors import UsageError
from rmqstore.formats import batchconsumequeue, consumequeue, consumequeue_ext, index
from rmqstore.versions import Profile

_SMALLEST_INDEX = 2
"""Places for entries: the first one is never used, so a file with fewer is full before it has any."""


class Mode(Enum):
    """The treatment of queue offsets that are not consecutive."""

    FAITHFUL = "faithful"
    """As the broker's own replay does it: shifts stay, messages whose place is taken are dropped (fact sheet queues §2.5)."""
    USEFUL = "useful"
    """Every reachable message is at its own queue offset; gaps hold a repeated neighbour, the last restart wins."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the broker under their RocketMQ names in snake_case, with its defaults (fact sheet queues §2.15).

    File sizes are bytes as configured; `batch_topics` have the attribute `queue.type=BatchCQ`.
    """

    mapped_file_size_consume_queue: int = consumequeue.DEFAULT_FILE_SIZE
    mapper_file_size_batch_consume_queue: int = batchconsumequeue.DEFAULT_FILE_SIZE
    mapped_file_size_consume_queue_ext: int = consumequeue_ext.DEFAULT_FILE_SIZE
    batch_topics: frozenset[str] = frozenset()
    enable_consume_queue_ext: bool = False
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    message_index_enable: bool = True
    index_file_write_enable: bool = True
    max_hash_slot_num: int = index.DEFAULT_HASH_SLOT_NUM
    max_index_num: int = index.DEFAULT_INDEX_NUM

    def builds_index(self, profile: Profile) -> bool:
        """Return whether the broker writes index files."""
        return self.message_index_enable and (self.index_file_write_enable or not profile.indexes_tags)

    @property
    def index_capacity(self) -> int:
        """Return the number of entries that an index file holds. Raises UsageError for a `max_index_num` that no entry fits into."""
        if self.max_index_num < _SMALLEST_INDEX:
            raise UsageError(f"maxIndexNum={self.max_index_num} leaves no place for entries.", "The broker's default is 20000000.")
        return self.max_index_num - 1
