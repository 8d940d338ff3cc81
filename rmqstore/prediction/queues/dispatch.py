"""Dispatch of valid records to queues, light message queues and the index (fact sheet queues §1, §2.12).

Source: `DefaultMessageStore.doDispatch`, `MultiDispatchUtils`. Queues are independent of each other, so the records of a batch go to their
queues group by group; only if a record fans out to other queues does the order between queues matter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rmqstore.formats.multidispatch import fans_out, further_queues
from rmqstore.formats.sysflag import SysFlag
from rmqstore.prediction.blockers import BlockerCode, LoadStopped
from rmqstore.prediction.checkpoint import Checkpoint
from rmqstore.prediction.indexes import IndexService
from rmqstore.prediction.log.reader import LogReader, Records
from rmqstore.prediction.log.record_check import Request
from rmqstore.prediction.options import Options
from rmqstore.prediction.outcome import Dispatched
from rmqstore.prediction.queues.batchqueue import BatchQueue
from rmqstore.prediction.queues.rocksdb import RocksDBQueues
from rmqstore.prediction.queues.service import QueueStore
from rmqstore.scan.columns import select
from rmqstore.versions import Profile


class Dispatcher:
    """Feeds queues, index and checkpoint of one simulation."""

    def __init__(
        self, profile: Profile, options: Options, queues: QueueStore | RocksDBQueues, index: IndexService, checkpoint: Checkpoint
    ) -> None:
        self._profile = profile
        self._options = options
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._builds_index = options.builds_index(profile)

    def dispatch(self, run: Records, wanted: npt.NDArray[np.bool_] | None, reader: LogReader, total: Dispatched) -> None:
        """Dispatch the records of a run, or those `wanted`. Raises LoadStopped if a dispatcher throws."""
        if wanted is not None and not wanted.all():
            run = _selected(run, wanted)
        if not len(run.records):
            return
        if self._options.enable_multi_dispatch and any(self._fans_out(request) for request in run.requests.values()):
            for row in range(len(run.records)):
                self._dispatch_row(_row(run, row), reader, total)
            return
        total.add(run.records)
        self._to_queues(run, reader)
        self._to_index(run)

    def _dispatch_row(self, run: Records, reader: LogReader, total: Dispatched) -> None:
        total.add(run.records)
        self._to_queues(run, reader)
        request = run.requests.get(0)
        if request is not None and self._fans_out(request) and not request.sys_flag & SysFlag.TRANSACTION_PREPARED:
            if isinstance(self._queues, QueueStore) and not self._queues.write_error:
                self._to_light_queues(self._queues, request)
        self._to_index(run)

    def _to_queues(self, run: Records, reader: LogReader) -> None:
        records = run.records
        if isinstance(self._queues, QueueStore):
            if self._queues.write_error:
                return
            records = records[: self._queues.put(run, reader)]
        elif not self._profile.rocksdb_moves_checkpoint:
            return
        # Prepared and rolled back messages (both have this bit) get no unit.
        rows = np.flatnonzero((records["sys_flag"] & SysFlag.TRANSACTION_PREPARED) == 0)
        if len(rows):
            last = records[rows[-1]]
            self._checkpoint.appended(int(last["store_timestamp"]), int(last["physical_offset"]), slave=self._options.slave)

    def _fans_out(self, request: Request) -> bool:
        """Return whether a record gets units in other queues as well (`checkMultiDispatchQueue`)."""
        return fans_out(request.topic, request.properties, self._profile.lmq_excluded)

    def _to_light_queues(self, store: QueueStore, request: Request) -> None:
        skips_paths = self._profile.lmq_skips_paths
        for further in further_queues(request.properties, request.queue_id, enable_lmq=self._options.enable_lmq, skips_paths=skips_paths):
            name = further.topic
            if not store.writable(name):
                continue
            if further.queue_offset is None:
                text = f"NumberFormatException: {further.offset_text!r} is no offset of the queue {name!r}"
                raise LoadStopped(BlockerCode.DISPATCH, text)
            queue = store.find_or_create(name, further.queue_id)
            if isinstance(queue, BatchQueue):
                raise LoadStopped(BlockerCode.DISPATCH, f"ClassCastException: the queue {name!r} is a batch queue")
            queue.put(request.physical_offset, request.size, request.tags_code, further.queue_offset)

    def _to_index(self, run: Records) -> None:
        if self._builds_index:
            self._index.build(run.records, run.keys, self._checkpoint)


def _selected(run: Records, wanted: npt.NDArray[np.bool_]) -> Records:
    numbers = np.cumsum(wanted) - 1
    records, keys = select(run.records, run.keys, wanted)
    return Records(records, keys, {int(numbers[row]): request for row, request in run.requests.items() if wanted[row]})


def _row(run: Records, row: int) -> Records:
    keys = run.keys[run.keys["record"] == row].copy()
    keys["record"] = 0
    return Records(run.records[row : row + 1], keys, {0: run.requests[row]} if row in run.requests else {})
