"""Recovery of the commit log: the scan from the first file to where it stops, and the cut (fact sheet commit log §5.3–§5.6).

Source: `CommitLog.recoverNormally`, `recoverAbnormally`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rmqstore.prediction.blockers import BlockerCode, LoadStopped, Unknown
from rmqstore.prediction.checkpoint import Checkpoint
from rmqstore.prediction.java import to_long
from rmqstore.prediction.log.firstfile import FirstFile
from rmqstore.prediction.log.mappedfiles import MappedFiles, SimulatedFile
from rmqstore.prediction.log.reader import LogReader, Records, open_window
from rmqstore.prediction.log.record_check import Request
from rmqstore.prediction.options import Options
from rmqstore.prediction.outcome import Dispatched, Scan
from rmqstore.prediction.queues.dispatch import Dispatcher
from rmqstore.prediction.queues.rocksdb import RocksDBQueues
from rmqstore.prediction.queues.service import QueueStore
from rmqstore.versions import Acceleration, Profile

_EMPTY = Request("", 0, 0, 0, 0, 0, 0, 0, {}, 0, 1)
"""What a release that does not stop at a record of wrong length dispatches for it; the size is that of the record."""
OUTSIDE = "found illegal commitlog offset"
"""Why a scan ends at a record that is valid except for a PHYSICALOFFSET outside of its file."""


class CommitLogRecovery:
    """Recovers the log of one simulated start; afterwards `confirm_offset` and `scan` have the result.

    `confirm_offset` is the field as the checkpoint had it, `reachable` what getConfirmOffset() answers before the scan.
    """

    def __init__(
        self,
        log: MappedFiles,
        queues: QueueStore | RocksDBQueues,
        dispatcher: Dispatcher,
        checkpoint: Checkpoint,
        reader: LogReader,
        profile: Profile,
        options: Options,
        confirm_offset: int,
        reachable: int,
        limits: tuple[int, ...],
    ) -> None:
        self._log = log
        self._queues = queues
        self._dispatcher = dispatcher
        self._checkpoint = checkpoint
        self._reader = reader
        self._profile = profile
        self._options = options
        self.confirm_offset = confirm_offset
        self._reachable = reachable
        self._limits = limits
        self.dispatched = Dispatched()
        self.scan: Scan | None = None
        self._records = 0
        self._last_valid = 0

    def run(self, *, normally: bool) -> None:
        """Scan, dispatch, and cut log and queues. Raises LoadStopped."""
        if not self._log.files:
            if self._profile.drops_queues_without_log or not normally:
                self._log.flushed_where = 0
                self._queues.destroy()
            return
        max_cq = self._queues.max_physic_offset
        rules = FirstFile(self._profile, self._options, self._reader.check, self._checkpoint, max_cq, self._queues.in_rocksdb, self._limits)
        first = rules.normal(self._log.files) if normally else rules.abnormal(self._log.files)
        first_file = self._log.files[first]
        position = 0 if normally else self._accelerated_position(first_file)
        if normally:
            self._last_valid = self._reachable
        else:
            self._last_valid = first_file.start + position
        end, reason = self._scan(first, position, max_cq, normally=normally)
        self.scan = Scan(first_file.path.name, end, reason, self._records)
        if self._profile.confirms:
            self.confirm_offset = self._last_valid
            self._checkpoint.values["confirm_phy_offset"] = self._last_valid
        self._cut(end, max_cq, normally=normally)

    def _accelerated_position(self, first: SimulatedFile) -> int:
        """Return the byte of the first file at which crash recovery begins: 0 unless `enableAcceleratedRecovery` (newer releases §3.5)."""
        if not self._options.enable_accelerated_recovery or self._profile.acceleration is Acceleration.NONE:
            return 0
        if self._queues.in_rocksdb:
            raise Unknown("recovery begins where the queues in RocksDB end")
        if self._profile.acceleration is Acceleration.ROCKSDB_ONLY:
            return 0
        values = self._checkpoint.values
        offset = values["logics_physical_offset"]
        if values["physic_msg_timestamp"] > 0 and offset <= 0:
            text = "load exception: Accelerated recovery is enabled but checkpoint's logicsPhysicalOffset is invalid"
            raise LoadStopped(BlockerCode.ACCELERATED, text)
        position = max(0, offset - first.start)
        if position > first.length:
            raise LoadStopped(BlockerCode.ACCELERATED, "load exception: newPosition > limit", first.path)
        return position

    def _scan(self, first: int, position: int, max_cq: int, *, normally: bool) -> tuple[int, str]:
        """Read records until one fails and return (P, why). A BLANK leads to the next file of the list, wherever that begins (§5.3)."""
        for number in range(first, len(self._log.files)):
            file = self._log.files[number]
            position, failure = self._scan_file(file, position, max_cq, normally=normally)
            if failure is not None:
                return file.start + position, failure
            if number + 1 < len(self._log.files):
                position = 0
        return file.start + position, "the last file ends with a BLANK"

    def _scan_file(self, file: SimulatedFile, position: int, max_cq: int, *, normally: bool) -> tuple[int, str | None]:
        """Read one file from `position` on and return (where it stopped, why), without a reason if a BLANK ends it."""
        ahead = 0  # bytes of the buffer that are read beyond `position`
        while True:
            for run in self._reader.runs(file, position + ahead, file.length):
                taken, outside = self._inside_range(run, file, normally=normally)
                self._take(taken, file.start + position, max_cq, normally=normally)
                position += int(taken.records["size"].sum(dtype=np.int64))
                if outside:
                    return position, OUTSIDE
            with open_window(file, file.length) as window:
                found = self._reader.check.at(window.array, position + ahead)
            if not found.success and (normally or found.size <= 0 or self._profile.stops_at_wrong_length):
                return position, found.reason
            if not found.success:
                self._dispatcher.dispatch(
                    self._reader.one(replace(found, request=replace(_EMPTY, size=found.size))), None, self._reader, self.dispatched
                )
                ahead = found.position - position - found.size
                position += found.size
                continue
            if found.size == 0:
                return position, None
            run = self._reader.one(found)
            taken, outside = self._inside_range(run, file, normally=normally)
            if outside:
                return position, OUTSIDE
            self._take(taken, file.start + position, max_cq, normally=normally)
            position += found.size

    def _inside_range(self, run: Records, file: SimulatedFile, *, normally: bool) -> tuple[Records, bool]:
        """Return, with `checkCommitLogOffsetOnRecover`, the records up to the first whose PHYSICALOFFSET is outside of its file."""
        if normally or not (self._profile.checks_offset_range and self._options.check_commit_log_offset_on_recover):
            return run, False
        offsets = run.records["physical_offset"]
        outside = (offsets < file.start) | (offsets > file.start + self._log.file_size)
        return (run.first(int(outside.argmax())), True) if outside.any() else (run, False)

    def _take(self, run: Records, start: int, max_cq: int, *, normally: bool) -> None:
        """Count the records of a run that begins at offset `start`, and dispatch those this recovery dispatches (§5.1, §5.2)."""
        if not len(run.records):
            return
        sizes = run.records["size"]
        self._records += len(sizes)
        self._last_valid = start + int(sizes[:-1].sum(dtype=np.int64))
        if not normally:
            self._dispatcher.dispatch(run, self._confirmed(run.records), self._reader, self.dispatched)
        elif self._profile.dispatches_normally:
            limits = [limit for limit in self._limits if limit > 0] if self._profile.dispatches_for_all else []
            self._dispatcher.dispatch(run, run.records["physical_offset"] > min([max_cq, *limits]), self._reader, self.dispatched)

    def _confirmed(self, records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_] | None:
        """Return which records are confirmed: with duplication only these are dispatched; None for all."""
        if not self._options.duplication_enable:
            return None
        if not self._profile.confirms:
            return np.asarray(records["physical_offset"] < self.confirm_offset)
        return np.asarray(records["physical_offset"] + records["size"] <= self.confirm_offset)

    def _cut(self, end: int, max_cq: int, *, normally: bool) -> None:
        """Truncate queues and log (§5.4)."""
        if self._profile.queues_cut_after_dispatch:
            max_cq = self._queues.max_physic_offset
        if max_cq >= end if self._profile.cuts_queues_that_know_more else not normally:
            self._queues.truncate(end)
        self._log.flushed_where = end
        self._log.truncate_dirty(to_long(end))
