"""Records that fan out: a row for every further queue of a record, directly after the record itself (fact sheet queues §2.12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats.multidispatch import Further, fans_out, further_queues
from rmqstore.rebuild.requests import QueueOf
from rmqstore.rebuild.settings import Settings
from rmqstore.scan.columns import Mark
from rmqstore.scan.walk import Batch
from rmqstore.versions import Profile

_NO_UNIT = 4  # bit of prepared and of rolled back records in SYSFLAG


@dataclass(frozen=True, slots=True)
class Expanded:
    """Records in the order in which queues take them, the row of each one's queue (int32), and which rows are for further queues."""

    records: npt.NDArray[np.void]
    numbers: npt.NDArray[np.int32]
    further: npt.NDArray[np.bool_]


def expand(
    batch: Batch,
    numbers: npt.NDArray[np.int32],
    settings: Settings,
    profile: Profile,
    number_of: Callable[[tuple[str, int]], int],
    queue_of: QueueOf,
) -> Expanded:
    """Return the records of a batch, whose queues are the rows `numbers`, each followed by its units in further queues.

    `number_of` returns the row of a queue (topic, queue id). A queue offset that is no number ends the further queues of its record.
    """
    if not settings.enable_multi_dispatch or not batch.marks & Mark.MULTI_DISPATCH:
        return _unexpanded(batch, numbers)
    records = batch.records
    dispatched = (records["marks"] & int(Mark.MULTI_DISPATCH) != 0) & (records["sys_flag"] & _NO_UNIT == 0)
    rows: list[int] = []
    queues: list[int] = []
    offsets: list[int] = []
    for row in np.flatnonzero(dispatched).tolist():
        topic, queue_id = queue_of(int(records["queue"][row]))
        properties = batch.properties(row)
        if not fans_out(topic, properties, profile.lmq_excluded):
            continue
        further = further_queues(properties, queue_id, enable_lmq=settings.enable_lmq, skips_paths=profile.lmq_skips_paths)
        for each in _readable(further):
            rows.append(row)
            queues.append(number_of((each.topic, each.queue_id)))
            offsets.append(each.queue_offset or 0)
    if not rows:
        return _unexpanded(batch, numbers)
    copies = records[rows]
    copies["queue_offset"] = offsets
    order = np.argsort(np.concatenate([np.arange(len(records)), np.array(rows)]), kind="stable")
    all_numbers = np.concatenate([numbers, np.array(queues, np.int32)])
    return Expanded(np.concatenate([records, copies])[order], all_numbers[order], order >= len(records))


def _unexpanded(batch: Batch, numbers: npt.NDArray[np.int32]) -> Expanded:
    return Expanded(batch.records, numbers, np.zeros(len(numbers), np.bool_))


def _readable(further: list[Further]) -> list[Further]:
    """Return the further queues before the first one whose queue offset is no number of a queue."""
    unreadable = (number for number, each in enumerate(further) if each.queue_offset is None)
    return further[: next(unreadable, len(further))]
