"""The result of a simulated start, as a value that is independent of its presentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqstore.prediction.blockers import Blocker
from rmqstore.prediction.changes import Change
from rmqstore.prediction.indexes import IndexHeader
from rmqstore.prediction.losses import Lost

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Mode(StrEnum):
    """The kind of recovery."""

    NORMAL = "normal"
    ABNORMAL = "abnormal"


@dataclass(frozen=True, slots=True)
class Scan:
    """The scan of recovery: from the start of `first_file` to `stop_offset` (P, the end of valid data), and why it stopped there."""

    first_file: str
    stop_offset: int
    stop_reason: str
    records: int


@dataclass(slots=True)
class Dispatched:
    """The number of records that went through the dispatchers; offsets as stored in the records.

    `ascending`: each of them has a greater PHYSICALOFFSET than the one before, as in a log without bytes of another place.
    """

    count: int = 0
    first: int | None = None
    last: int | None = None
    last_size: int | None = None
    ascending: bool = True

    def add(self, records: npt.NDArray[np.void]) -> None:
        """Count records in their order."""
        if not len(records):
            return
        offsets = records["physical_offset"]
        if self.first is None:
            self.first = int(offsets[0])
        self.ascending &= (self.last is None or self.last < int(offsets[0])) and bool((offsets[:-1] < offsets[1:]).all())
        self.count += len(records)
        self.last = int(offsets[-1])
        self.last_size = int(records["size"][-1])


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue in memory: queue offsets, the largest log offset it knows, its minimum in bytes, the number of its files.

    `shifted`: units by which messages of this start were placed before their own queue offset, 0 for none. `filled_until`: the queue
    offset after units without message at the begin of its first file, which this start made, 0 without any.
    """

    min_offset: int
    max_offset: int
    max_physic_offset: int
    min_logic_offset: int
    files: int
    shifted: int = 0
    filled_until: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """The store in the memory of the broker. Queues are named `topic/queueId`, next offsets `topic-queueId`; None: unknown."""

    min_phy_offset: int | None
    max_phy_offset: int | None
    flushed_where: int | None
    confirm_offset: int | None
    confirm_field: int | None
    reput_from_offset: int | None
    dispatch_behind_bytes: int | None
    commitlog_files: tuple[tuple[str, int], ...] | None
    queues: Mapping[str, QueueState] | None
    next_offsets: Mapping[str, int] | None
    index_files: tuple[IndexHeader, ...] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effect of a broker of one release on a store. A field that cannot be determined is None, and `unknown` has the reason.

    `queue_ends`: queue offset after the last unit of every queue (topic, queue id) as found, before anything was cut.
    """

    release: str
    mode: Mode
    starts: bool | None
    unknown: str | None
    load_ok: bool
    blockers: tuple[Blocker, ...]
    scan: Scan | None
    queue_ends: Mapping[tuple[str, int], int]
    after_load: State
    after_start: State | None
    caught_up: bool | None
    dispatched_in_load: Dispatched | None
    dispatched_after_start: Dispatched | None
    changes: Mapping[str, Change]
    index_deleted: tuple[IndexHeader, ...]
    abort_after_stop: bool | None
    checkpoint_after: tuple[int | None, ...] | None
    lost: Lost | None
