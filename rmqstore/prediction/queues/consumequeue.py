"""A file consume queue: recovered, cut, corrected and appended to as the broker does (fact sheet queues §2.4–§2.10).

Source: `ConsumeQueue`. Queue offsets count units, every other offset here is in bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from rmqstore.formats import consumequeue as declared
from rmqstore.formats.consumequeue_ext import MAX_ADDRESS, is_address
from rmqstore.formats.layout import struct_format
from rmqstore.prediction.blockers import BlockerCode, LoadStopped, Unknown
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.java import quotient, remainder, to_long
from rmqstore.prediction.log.mappedfiles import MappedFiles, SimulatedFile
from rmqstore.prediction.log.messages import Message
from rmqstore.prediction.queues.extqueue import NO_ADDRESS, ExtQueue
from rmqstore.prediction.queues.units import UNIT, UnitArray, keep_units_before, unit_runs, valid
from rmqstore.versions import Profile

UNIT_SIZE = declared.UNIT_SIZE
_pack = struct.Struct(struct_format(declared.UNIT)).pack
RECOVERED_FILES = 3
"""Recovery reads only the last files of a queue."""


@dataclass(frozen=True, slots=True)
class _Recovered:
    """The units of a file that recovery found valid: where they end, physical offsets of the first and last and the largest one.

    `last_end` is what the queue knows by the last one. Steps that follow do not read a file again as long as nothing was appended.
    """

    file: SimulatedFile
    wrote: int
    first: int
    last: int
    last_end: int
    largest: int


class ConsumeQueue:
    """One queue. `max_physic_offset` is the end of the last message it knows (−1: none), `min_logic_offset` its minimum in bytes.

    Without `know_ends` it is the offset at which that message begins.

    `shifted`: how many units before its own place the last misplaced message was put (0: none). `filled_until`: the queue
    offset after units without message that were written before the first one, 0 without any.
    """

    def __init__(
        self, topic: str, queue_id: int, directory: str, file_size: int, ext: ExtQueue | None, changes: Changes, *, know_ends: bool
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = MappedFiles([directory], file_size, changes)
        self.ext = ext
        self.max_physic_offset = -1
        self.min_logic_offset = 0
        self.shifted = 0
        self.filled_until = 0
        self._ends = int(know_ends)
        self._recovered: _Recovered | None = None

    @property
    def max_offset(self) -> int:
        """Return the queue offset after the last unit."""
        return quotient(self.files.max_offset, UNIT_SIZE)

    @property
    def min_offset(self) -> int:
        """Return the smallest queue offset that is served."""
        return quotient(self.min_logic_offset, UNIT_SIZE)

    def load(self, profile: Profile) -> None:
        """Map the files. Raises LoadStopped."""
        self.files.load(profile)
        if self.ext is not None:
            self.ext.load(profile)

    def recover(self) -> None:
        """Find the end: the first invalid unit in the last three files; later files are deleted (queues §2.8). Raises LoadStopped."""
        if not self.files.files:
            return
        max_address = NO_ADDRESS
        for file in self.files.files[-RECOVERED_FILES:]:
            position, begin, largest = 0, -1, -1
            self._recovered = None
            for first, units in unit_runs(file, UNIT, file.length):
                good = valid(units)
                count = len(units) if good.all() else int(good.argmin())
                if count:
                    offsets = units["physical_offset"][:count]
                    begin, largest = begin if first else int(offsets[0]), max(largest, int(offsets.max()))
                    self.max_physic_offset = self._known_by(units[count - 1])
                    position = (first + count) * UNIT_SIZE
                    self._recovered = _Recovered(file, position, begin, int(offsets[-1]), self.max_physic_offset, largest)
                    max_address = _last_address(units[:count], max_address) if self.ext is not None else max_address
                if count < len(units):
                    break
            if position < file.length:
                break
        self.files.flushed_where = file.start + position
        self.files.truncate_dirty(file.start + position)
        if self.ext is not None:
            self.ext.recover()
            self.ext.truncate_by_max_address(max_address)

    def truncate(self, phy_offset: int) -> None:
        """Cut the queue at a commit log offset (queues §2.9). The first unit of the last file is taken without being tested.

        The ext queue is not cut: the addresses it would be cut by are reset before that point.
        """
        if self.files.file_size == UNIT_SIZE:
            raise Unknown("the broker never ends when it cuts queue files of a single unit")
        self.max_physic_offset = phy_offset - 1 + self._ends
        while (file := self.files.last) is not None:
            known = self._known(file)
            if known is not None and known.largest < phy_offset:
                self.max_physic_offset = known.last_end
                return
            self._recovered = None
            first_unit = np.frombuffer(file.read(0, UNIT_SIZE), UNIT)
            if int(first_unit["physical_offset"][0]) >= phy_offset:
                self.files.delete(file)
                continue
            last = keep_units_before(file, UNIT, phy_offset)
            if last is not None:
                self.max_physic_offset = self._known_by(last)
            return

    def _known_by(self, unit: np.void) -> int:
        return to_long(int(unit["physical_offset"]) + int(unit["size"]) * self._ends)

    def _known(self, file: SimulatedFile) -> _Recovered | None:
        """Return the units of a file as recovery found them, None where it did not read the file or it has changed since."""
        known = self._recovered
        return known if known is not None and known.file is file and known.wrote == file.wrote else None

    def correct_min_offset(self, min_phy_offset: int, profile: Profile) -> None:
        """Move the minimum to the first unit of a message that is still in the log (queues §2.10). Raises LoadStopped."""
        if profile.min_offset_by_search:
            min_address = self._search_min_offset(min_phy_offset, profile)
        else:
            min_address = self._scan_min_offset(min_phy_offset)
        if self.ext is not None and min_address is not None:
            self.ext.truncate_by_min_address(min_address)

    def _scan_min_offset(self, min_phy_offset: int) -> int | None:
        """Scan the first file, up to 4.9.8. Return the ext address found, None if the ext queue is not changed."""
        file = next(iter(self.files.files), None)
        if file is None:
            return NO_ADDRESS
        if file.wrote == 0:
            return None
        for first, units in unit_runs(file, UNIT, file.wrote):
            inside = units["physical_offset"] >= min_phy_offset
            if inside.any():
                number = int(inside.argmax())
                self.min_logic_offset = file.start + (first + number) * UNIT_SIZE
                return _address(units[number], NO_ADDRESS)
        return NO_ADDRESS

    def _search_min_offset(self, min_phy_offset: int, profile: Profile) -> int | None:
        """Search from 5.0.0 on: a queue whose last unit is expired is empty; otherwise a binary search in the first file."""
        last = self.files.last
        if profile.forgets_queue_without_files and last is None:
            self.min_logic_offset = 0
            self.max_physic_offset = -1
            return None
        # The exact end counts as expired in releases that cannot read the last unit of an empty file.
        beyond = self.files.max_offset + profile.forgets_queue_without_files
        if last is None or self.min_logic_offset >= beyond:
            return None
        if last.wrote == 0 and profile.empty_last_file_fails:
            raise LoadStopped(BlockerCode.EMPTY_QUEUE_FILE, "load exception: newPosition < 0: (-20 < 0)", last.path)
        if last.wrote >= UNIT_SIZE:
            known = self._known(last)
            offset = known.last if known is not None else _offset_in(last.read(last.wrote - UNIT_SIZE, UNIT_SIZE))
            if offset < min_phy_offset:
                self.min_logic_offset = last.start + last.wrote
                return None
        return self._halve(self.files.files[0], min_phy_offset)

    def _halve(self, file: SimulatedFile, min_phy_offset: int) -> int | None:
        intact = self.min_logic_offset >= file.start
        start = max(0, self.min_logic_offset - file.start)
        if start >= file.wrote:
            return None

        def unit_at(position: int) -> UnitArray:
            return np.frombuffer(file.read(start + position, UNIT_SIZE), UNIT)

        known = self._known(file) if start == 0 else None
        if intact and (known.first if known is not None else int(unit_at(0)["physical_offset"][0])) >= min_phy_offset:
            return None
        low, high = 0, file.wrote - start - UNIT_SIZE
        while high - low > UNIT_SIZE:
            middle = (low + high) // 2 // UNIT_SIZE * UNIT_SIZE
            found = int(unit_at(middle)["physical_offset"][0])
            if found > min_phy_offset:
                high = middle
            elif found == min_phy_offset:
                low = high = middle
                break
            else:
                low = middle
        for position in range(low, high + 1, UNIT_SIZE):
            unit = unit_at(position)
            if int(unit["physical_offset"][0]) >= min_phy_offset:
                self.min_logic_offset = file.start + start + position
                return _address(unit[0], NO_ADDRESS)
        return NO_ADDRESS

    def take(self, message: Message) -> None:
        """Append one message from the dispatcher."""
        tags_code = message.tags_code
        if self.ext is not None:
            # The ext unit is written before the message is checked, so dropped messages leave one as well.
            address = self.ext.put(tags_code, message.store_timestamp)
            tags_code = address if is_address(address) else tags_code
        self.put(message.physical_offset, message.size, tags_code, message.queue_offset)

    def put(self, physical_offset: int, size: int, tags_code: int, queue_offset: int) -> None:
        """Append one message (queues §2.5): dropped if known, put at the end whatever its queue offset, shifted by a gap."""
        end = to_long(physical_offset + size * self._ends)
        if end <= self.max_physic_offset:
            return
        wanted = to_long(queue_offset * UNIT_SIZE)
        file = self.files.last_for_append(wanted)
        if file.first_in_queue and queue_offset != 0 and file.wrote == 0:
            self.min_logic_offset = wanted
            self.files.flushed_where = wanted
            # A negative queue offset needs no fillers.
            fillers = max(0, -(-remainder(wanted, self.files.file_size) // UNIT_SIZE))
            self.filled_until = max(0, queue_offset) if fillers else 0
            file.fill(declared.PRE_BLANK, fillers)
        if queue_offset != 0:
            gap = wanted - (file.start + file.wrote)
            if gap < 0:
                return
            self.shifted = gap // UNIT_SIZE or self.shifted
        self.max_physic_offset = end
        self._recovered = None
        file.append(_pack(physical_offset, size, tags_code))

    @property
    def room(self) -> int:
        """Return the bytes up to the end of the last file for units that `put` would only drop or append."""
        last = self.files.last
        if self.ext is not None or last is None or (last.first_in_queue and last.wrote == 0) or last.wrote % UNIT_SIZE:
            return 0
        return last.length - last.wrote

    def append(self, units: bytes, max_physic_offset: int, shifted: int) -> None:
        """Append units for which there is room, made as `put` makes them, and the end and shift of the last one."""
        if units and self.files.last is not None:
            self._recovered = None
            self.files.last.append(units)
        self.max_physic_offset, self.shifted = max_physic_offset, shifted

    def destroy(self) -> None:
        """Delete everything."""
        self.max_physic_offset = -1
        self.min_logic_offset = 0
        self.files.destroy()
        if self.ext is not None:
            self.ext.files.destroy()

    def settle(self) -> None:
        """Record which files end with other bytes."""
        self.files.settle()
        if self.ext is not None:
            self.ext.files.settle()


def _offset_in(unit: bytes) -> int:
    return int(np.frombuffer(unit, UNIT)["physical_offset"][0])


def _address(unit: np.void, default: int) -> int:
    code = int(unit["tags_code"])
    return code if is_address(code) else default


def _last_address(units: UnitArray, default: int) -> int:
    addresses = units["tags_code"][units["tags_code"] <= MAX_ADDRESS]
    return int(addresses[-1]) if len(addresses) else default
