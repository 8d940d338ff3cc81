"""Records that fan out: a row for every further queue of a record, directly after the record itself (fact sheet queues §2.12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats.multidispatch import Further, fans_out, further_queues
from rmqstore.rebuild.requests import QueueOf
from rmqstore.rebuild.settings import Settings
from rmqstore.scan.columns import Mark
from rmqstore.scan.further import FurtherQueues
from rmqstore.scan.walk import Batch
from rmqstore.versions import Profile

_NO_UNIT = 4  # bit of prepared and of rolled back records in SYSFLAG


@dataclass(frozen=True, slots=True)
class Expanded:
    """Records in the order in which queues take them, the row of each one's queue (int32), and which rows are for further queues."""

    records: npt.NDArray[np.void]
    numbers: npt.NDArray[np.int32]
    further: npt.NDArray[np.bool_]


class Expansion:
    """Expansion of the batches of one log. A queue offset that is no number ends the further queues of its record."""

    def __init__(self, settings: Settings, profile: Profile, number_of: Callable[[tuple[str, int]], int], queue_of: QueueOf) -> None:
        """`number_of` returns the row of a queue (topic, queue id), `queue_of` the queue of a record's dense number."""
        self._settings = settings
        self._profile = profile
        self._number_of = number_of
        self._queue_of = queue_of
        self._further = FurtherQueues(light=settings.enable_lmq)

    def expand(self, batch: Batch, numbers: npt.NDArray[np.int32]) -> Expanded:
        """Return the records of a batch, whose queues are the rows `numbers`, each followed by its units in further queues."""
        records = batch.records
        if not self._settings.enable_multi_dispatch or not batch.marks & Mark.MULTI_DISPATCH:
            return Expanded(records, numbers, np.zeros(len(numbers), np.bool_))
        further = self._further.read(batch, np.flatnonzero(self._dispatched(records)))
        usual = further.queues
        unusual = np.array([*self._unusual(batch, further.unusual)], np.int64).reshape(-1, 3)
        rows = np.concatenate([usual["row"], unusual[:, 0]])
        copies = records[rows]
        copies["queue_offset"] = np.concatenate([usual["queue_offset"], unusual[:, 2]])
        order = np.argsort(np.concatenate([np.arange(len(records)), rows]), kind="stable")
        all_numbers = np.concatenate([numbers, self._rows_of(usual["queue"]), unusual[:, 1].astype(np.int32)])
        return Expanded(np.concatenate([records, copies])[order], all_numbers[order], order >= len(records))

    def _dispatched(self, records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Return which records may have further queues."""
        marked = (records["marks"] & int(Mark.MULTI_DISPATCH) != 0) & (records["sys_flag"] & _NO_UNIT == 0)
        queues = np.unique(records["queue"][marked]).tolist()
        excluded = [queue for queue in queues if self._queue_of(queue)[0].startswith(self._profile.lmq_excluded)]
        return np.asarray(marked & ~np.isin(records["queue"], excluded))

    def _rows_of(self, queues: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the rows of further queues by their dense numbers."""
        distinct, places = np.unique(queues, return_inverse=True)
        return np.array([self._number_of(self._further.queue(number)) for number in distinct.tolist()], np.int32)[places]

    def _unusual(self, batch: Batch, rows: list[int]) -> Iterator[tuple[int, int, int]]:
        """Yield (row of the record, row of the queue, queue offset) of records that compiled code does not read."""
        for row in rows:
            topic, queue_id = self._queue_of(int(batch.records["queue"][row]))
            properties = batch.properties(row)
            if fans_out(topic, properties, self._profile.lmq_excluded):
                profile = self._profile
                further = further_queues(properties, queue_id, enable_lmq=self._settings.enable_lmq, skips_paths=profile.lmq_skips_paths)
                for each in _readable(further):
                    yield row, self._number_of((each.topic, each.queue_id)), each.queue_offset or 0


def _readable(further: list[Further]) -> list[Further]:
    """Return the further queues before the first one whose queue offset is no number of a queue."""
    unreadable = (number for number, each in enumerate(further) if each.queue_offset is None)
    return further[: next(unreadable, len(further))]
