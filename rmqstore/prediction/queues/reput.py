"""Dispatch after the start: from where the release begins, to the end of the log, or to where it gets stuck (fact sheet commit log §6).

Source: `DefaultMessageStore.ReputMessageService.doReput`.
"""

from __future__ import annotations

import numpy as np

from rmqstore.prediction.blockers import LoadStopped
from rmqstore.prediction.java import remainder
from rmqstore.prediction.log.mappedfiles import MappedFiles, SimulatedFile
from rmqstore.prediction.log.reader import LogReader, Records, open_window
from rmqstore.prediction.outcome import Dispatched
from rmqstore.prediction.queues.dispatch import Dispatcher
from rmqstore.versions import Profile


class Reput:
    """The dispatcher thread. `offset` is reputFromOffset; `failure` is the exception that it repeats forever, if any."""

    def __init__(self, log: MappedFiles, dispatcher: Dispatcher, reader: LogReader, profile: Profile, *, skips_bad_records: bool) -> None:
        self._log = log
        self._dispatcher = dispatcher
        self._reader = reader
        self._corrects_offset = profile.dispatches_from_log
        self._stops_at_end = profile.confirms
        self._skips_bad_records = skips_bad_records
        self.offset = 0
        self.dispatched = Dispatched()
        self.failure: str | None = None

    def run(self, end: int) -> None:
        """Dispatch up to the log offset `end` (reputEndOffset), as long as a round makes progress."""
        while self.failure is None:
            before = self.offset
            self._round(end)
            if self.offset == before:
                return

    def _round(self, end: int) -> None:
        """Run one `doReput`: file by file until nothing is available or a record cannot be read."""
        if self._corrects_offset:
            self.offset = max(self.offset, self._log.min_offset)
        while self.offset < end:
            file = self._log.find(self.offset)
            position = remainder(self.offset, self._log.file_size)
            if file is None or not 0 <= position < file.wrote:
                return
            self.offset = file.start + position
            try:
                if not self._read_file(file, position, end):
                    return
            except LoadStopped as stopped:
                self.failure = stopped.blocker.message
                return

    def _read_file(self, file: SimulatedFile, position: int, end: int) -> bool:
        """Dispatch the readable part of a file from `position` and return whether the round continues after it.

        `self.offset` and the position in the buffer diverge if TOTALSIZE is not the length of the fields, as in the broker.
        """
        readable = file.wrote - position
        read = 0
        while read < readable and (not self._stops_at_end or self.offset < end):
            if position == self.offset - file.start:
                for run in self._reader.runs(file, position, file.wrote):
                    taken = self._before(run, end)
                    self._dispatch(taken)
                    advanced = int(taken.records["size"].sum(dtype=np.int64))
                    position, read, self.offset = position + advanced, read + advanced, self.offset + advanced
                    if len(taken.records) < len(run.records):
                        return False
                if read >= readable or (self._stops_at_end and self.offset >= end):
                    return True
            with open_window(file, file.wrote) as window:
                found = self._reader.check.at(window.array, position)
            position = found.position
            if self._stops_at_end and self.offset + found.size > end:
                return False
            if found.success and found.size > 0:
                self._dispatch(self._reader.one(found))
                self.offset += found.size
                read += found.size
            elif found.success:
                # rollNextFile: independent of the length in the BLANK
                self.offset += self._log.file_size - remainder(self.offset, self._log.file_size)
                return True
            elif found.size > 0:
                self.offset += found.size
            else:
                if self._skips_bad_records:
                    self.offset += readable - read
                return False
        return True

    def _before(self, run: Records, end: int) -> Records:
        """Return the records that end within the confirmed part of the log."""
        if not self._stops_at_end:
            return run
        ends = self.offset + np.cumsum(run.records["size"], dtype=np.int64)
        return run.first(int(np.searchsorted(ends, end, side="right")))

    def _dispatch(self, run: Records) -> None:
        before = self.dispatched.count
        try:
            self._dispatcher.dispatch(run, None, self._reader, self.dispatched)
        except LoadStopped:
            # The record that throws was counted; the thread retries it forever.
            passed = self.dispatched.count - before - 1
            self.offset += int(run.records["size"][:passed].sum(dtype=np.int64))
            raise
