"""A BatchConsumeQueue: recovered, cut, corrected and appended to as the broker does (fact sheet queues §4, ≥5.0.0).

Source: `BatchConsumeQueue`. Queue offsets come from the units themselves; `max_physic_offset` is the start of the last message.
"""

from __future__ import annotations

import struct

import numpy as np

from rmqstore.formats import batchconsumequeue as declared
from rmqstore.formats.layout import struct_format
from rmqstore.prediction.blockers import BlockerCode, LoadStopped, Unknown
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.log.mappedfiles import MappedFiles
from rmqstore.prediction.log.messages import Message
from rmqstore.prediction.queues.consumequeue import RECOVERED_FILES
from rmqstore.prediction.queues.units import BATCH_UNIT, keep_units_before, unit_runs, valid
from rmqstore.versions import Profile

UNIT_SIZE = declared.UNIT_SIZE
_pack = struct.Struct(struct_format(declared.UNIT)).pack
NO_MINIMUM = -1


class BatchQueue:
    """One queue of a topic with `queue.type=BatchCQ`."""

    shifted = filled_until = 0
    """Units are found by the offsets in them, so none is at a wrong place."""

    def __init__(self, topic: str, queue_id: int, directory: str, file_size: int, changes: Changes) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = MappedFiles([directory], file_size, changes)
        self.max_physic_offset = -1
        self.max_offset = 0
        self.min_offset = NO_MINIMUM
        self.min_logic_offset = 0

    def load(self, profile: Profile) -> None:
        """Map the files. Raises LoadStopped."""
        self.files.load(profile)

    def recover(self) -> None:
        """Find the end: the first invalid unit in the last three files; later files are deleted. Raises LoadStopped."""
        if not self.files.files:
            return
        for file in self.files.files[-RECOVERED_FILES:]:
            position, broken = 0, False
            for first, units in unit_runs(file, BATCH_UNIT, file.length):
                good = valid(units)
                count = len(units) if good.all() else int(good.argmin())
                if count:
                    self.max_physic_offset = int(units[count - 1]["physical_offset"])
                    position = (first + count) * UNIT_SIZE
                broken = count < len(units)
                if broken:
                    break
            if not broken and position < file.length:
                raise LoadStopped(BlockerCode.FILE_LENGTH, "load exception: the file length is no multiple of a unit", file.path)
            if position < file.length:
                break
        self.files.flushed_where = file.start + position
        self.files.truncate_dirty(file.start + position)
        self._revise()

    def truncate(self, phy_offset: int) -> None:
        """Cut the queue at a commit log offset. The first unit of the last file is taken without being tested."""
        if self.files.file_size == UNIT_SIZE:
            raise Unknown("the broker never ends when it cuts queue files of a single unit")
        self.max_physic_offset = phy_offset - 1
        while (file := self.files.last) is not None:
            first_unit = np.frombuffer(file.read(0, UNIT_SIZE), BATCH_UNIT)
            if int(first_unit["physical_offset"][0]) >= phy_offset:
                self.files.delete(file)
                continue
            last = keep_units_before(file, BATCH_UNIT, phy_offset)
            if last is not None:
                self.max_physic_offset = int(last["physical_offset"])
            break
        self._revise()

    def correct_min_offset(self, min_phy_offset: int, profile: Profile) -> None:
        """Move the minimum past the units of expired messages in the first file."""
        self._revise_min()
        if not self.files.files:
            return
        file = self.files.files[0]
        for _, units in unit_runs(file, BATCH_UNIT, file.wrote):
            expired = units["physical_offset"] < min_phy_offset
            count = len(units) if expired.all() else int(expired.argmin())
            if count:
                last = units[count - 1]
                self.min_offset = int(last["msg_base_offset"]) + int(last["batch_size"])
            if count < len(units):
                return

    def take(self, message: Message) -> None:
        """Append one record from the dispatcher; only one that was decoded can be a batch."""
        base_offset, batch_size = message.batch or (message.queue_offset, 1)
        self.put(message.physical_offset, message.size, message.tags_code, message.store_timestamp, base_offset, batch_size)

    def put(self, physical_offset: int, size: int, tags_code: int, store_timestamp: int, base_offset: int, batch_size: int) -> None:
        """Append one record, unless its place in the log shows that it is known."""
        if base_offset < 0 or batch_size < 0 or physical_offset <= self.max_physic_offset:
            return
        file = self.files.last_for_append(self.files.max_offset)
        if file.length - file.wrote < UNIT_SIZE:
            raise Unknown("a batch queue whose file length is no multiple of a unit cannot be appended to")
        file.append(_pack(physical_offset, size, tags_code, store_timestamp, base_offset, batch_size, declared.NO_COMPACTED_OFFSET, 0))
        self.max_physic_offset = physical_offset
        self.max_offset = base_offset + batch_size
        if file.first_in_queue and self.min_offset == NO_MINIMUM:
            self._revise_min()

    def destroy(self) -> None:
        """Delete everything."""
        self.max_physic_offset = -1
        self.min_offset = NO_MINIMUM
        self.max_offset = 0
        self.files.destroy()

    def settle(self) -> None:
        """Record which files end with other bytes."""
        self.files.settle()

    def _revise(self) -> None:
        self._revise_min()
        for file in self.files.files[:-3:-1]:
            if file.wrote >= UNIT_SIZE:
                unit = np.frombuffer(file.read(file.wrote - UNIT_SIZE, UNIT_SIZE), BATCH_UNIT)[0]
                self.max_offset = int(unit["msg_base_offset"]) + int(unit["batch_size"])
                return
        self.max_offset = 0

    def _revise_min(self) -> None:
        if not self.files.files:
            self.max_offset, self.min_offset, self.min_logic_offset = 0, NO_MINIMUM, -1
            return
        file = self.files.files[0]
        self.min_logic_offset = file.start
        if file.wrote < UNIT_SIZE:
            self.min_offset = NO_MINIMUM
            return
        self.min_offset = int(np.frombuffer(file.read(0, UNIT_SIZE), BATCH_UNIT)["msg_base_offset"][0])
