"""The result of a rebuild, and the irregularities of the log's queue offsets that it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class QueueKind(Enum):
    """The two kinds of file queues, by the value of the topic attribute `queue.type`."""

    SIMPLE = "SimpleCQ"
    BATCH = "BatchCQ"


@dataclass(frozen=True, slots=True)
class Gap:
    """Queue offsets [start, end) that no record has; `physical_offset` is that of the record after them."""

    start: int
    end: int
    physical_offset: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Queue offsets go back to `queue_offset` at `physical_offset`: what had [queue_offset, end) before is discarded.

    If the offsets jump ahead farther than messages can have been lost, `end` is below `queue_offset` and everything before is discarded.
    """

    queue_offset: int
    end: int
    physical_offset: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record without a place in its queue: its QUEUEOFFSET is taken, or cannot be right."""

    queue_offset: int
    physical_offset: int


@dataclass(slots=True)
class History:
    """The course of the queue offsets of one queue along the log."""

    gaps: list[Gap] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    repeated: list[LeftOut] = field(default_factory=list)
    misnumbered: list[LeftOut] = field(default_factory=list)
    shifted: int = 0
    """How many units before its own place the last misplaced message was put (faithful only)."""

    def cut(self, queue_offset: int) -> None:
        """Remove the gaps from `queue_offset` on."""
        kept = [gap for gap in self.gaps if gap.start < queue_offset]
        if kept and kept[-1].end > queue_offset:
            kept[-1] = Gap(kept[-1].start, queue_offset, kept[-1].physical_offset)
        self.gaps = kept


@dataclass(frozen=True, slots=True)
class RebuiltQueue:
    """One queue. `first_offset` is the queue offset of its first message, `end_offset` the one after its last unit.

    `max_physic_offset` is what a broker knows of it after loading: the end of the last message, for a batch queue its start.
    Paths are relative to the root; files that were opened and are not listed are not part of the queue.
    """

    topic: str
    queue_id: int
    kind: QueueKind
    first_offset: int
    end_offset: int
    max_physic_offset: int
    files: tuple[str, ...]
    ext_files: tuple[str, ...]
    gaps: tuple[Gap, ...]
    restarts: tuple[Restart, ...]
    repeated: tuple[LeftOut, ...]
    misnumbered: tuple[LeftOut, ...]
    shifted: int


@dataclass(frozen=True, slots=True)
class QueueResult:
    """All queues by topic and queue id. `refused` = records that no unit may point at; `unwritable` = queues that cannot exist."""

    queues: tuple[RebuiltQueue, ...]
    refused: int
    unwritable: tuple[tuple[str, int], ...]
    last_store_timestamp: int | None
    """STORETIMESTAMP of the last message that queues took, ms; None without any."""
    last_physical_offset: int | None
    """Where its record begins."""


@dataclass(frozen=True, slots=True)
class RebuiltIndexFile:
    """One index file and its header as stored in the file. Times are ms, offsets physical."""

    path: str
    begin_timestamp: int
    end_timestamp: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int

    @property
    def name(self) -> str:
        """Return the last part of the path, a time."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class IndexResult:
    """The index files in order. `full_until` = end timestamp (ms) of the last file that another one follows, 0 for none."""

    files: tuple[RebuiltIndexFile, ...]
    refused: int
    full_until: int
