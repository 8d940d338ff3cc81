"""Which scheduled messages are still to be delivered: what a delay level goes on with whose stored offset says nothing.

A broker that finds an offset beyond the end of its queue sets it to the end, and never delivers what is pending; with 0 it
delivers everything again (observed on 4.9.7 and 5.3.3, fact sheet timer-and-config observed §2). Between them is the first
message that was not due yet when the broker stopped. When that was, only the log and the checkpoint say: their newest
STORETIMESTAMP, because each delivery is a new record. Times of files belong to copies as often as to the broker, so they only
bound it: a time later than the last write to any file is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rmqstore.formats.checkpoint import parse_checkpoint
from rmqstore.formats.naming import SCHEDULE_TOPIC
from rmqstore.repair.derived.rebuild import records_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.scan.columns import Mark
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.verify.context import Context, Options

_FILE_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class Pending:
    """What was pending when the broker stopped: `last_time` is the newest time known of the store (ms since epoch, 0 for none), `first` the
    queue offset of the first pending message by queue id, for queues that have one."""

    last_time: int
    first: Mapping[int, int]

    @property
    def last_time_text(self) -> str:
        """The newest time for people, in UTC."""
        return f"{datetime.fromtimestamp(self.last_time // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def pending(store: Store, log: FutureLog) -> Pending:
    """Return what is pending in the schedule topic of the future `log`.

    Reads the log from its end back to where no message can be pending any more. Raises UnreadableError, StoreChangedError.
    """
    limit = Context(store, Options()).last_write_ms
    last_time = _checkpoint_time(store, limit)
    longest = max(store.config.known_delay_levels, default=0)
    scheduled: list[_Scheduled] = []
    for file in reversed(log.files):
        if file.start >= log.end_offset:
            continue
        oldest = None
        for times, found in _read(store, replace(log, files=(file,))):
            sane = times[(times > 0) & (times <= limit)]
            if sane.size:
                oldest = int(sane.min()) if oldest is None else min(oldest, int(sane.min()))
                last_time = max(last_time, int(sane.max()))
            scheduled += (one for one in found if one.due > last_time)
        if oldest is not None and oldest + longest <= last_time:
            break
    first: dict[int, int] = {}
    for one in scheduled:
        if one.due > last_time:
            first[one.queue_id] = min(first.get(one.queue_id, one.queue_offset), one.queue_offset)
    return Pending(last_time, first)


class _Scheduled(NamedTuple):
    """A scheduled message: its place in the queues, and when it is to be delivered (ms since epoch)."""

    queue_id: int
    queue_offset: int
    due: int


def _read(store: Store, log: FutureLog) -> Iterator[tuple[npt.NDArray[np.int64], list[_Scheduled]]]:
    """Yield the STORETIMESTAMPs of each batch of records, and the scheduled messages in it."""
    found = records_of(store, log, keys=False)
    for batch in found:
        rows = batch.records[(batch.records["marks"] & int(Mark.SCHEDULED)) != 0]
        messages = [
            _Scheduled(queue_id, int(row["queue_offset"]), int(row["tags_code"]))
            for row in rows
            for topic, queue_id in [found.scanner.queue(int(row["queue"]))]
            if topic == SCHEDULE_TOPIC
        ]
        yield batch.records["store_timestamp"].astype(np.int64), messages


def _checkpoint_time(store: Store, limit: int) -> int:
    path = store.checkpoint_path
    time = int(parse_checkpoint(read_whole(path, _FILE_LENGTH)).physic_msg_timestamp) if path.is_file() else 0
    return time if 0 < time <= limit else 0
