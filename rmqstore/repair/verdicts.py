"""Each record that is odd is kept, mended in place, or given up: by its own bytes, its queue unit, and what the release accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmqstore.formats.consumequeue import UNIT, UNIT_SIZE
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.formats.properties import property_crc_matches
from rmqstore.formats.record import Record, decode_record
from rmqstore.recovery.check import RecordCheck
from rmqstore.recovery.options import Options
from rmqstore.repair import mending
from rmqstore.repair.logview import LostUnit
from rmqstore.repair.mending import Mended
from rmqstore.repair.survey import Suspect
from rmqstore.scan.columns import Fault
from rmqstore.store.root import Store
from rmqstore.store.window import read_at
from rmqstore.verify.context import read_record
from rmqstore.versions import Profile


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a record: `changes` that mend it, or `why` it is lost; neither: it stays as it is. `code`: the finding behind it."""

    changes: tuple[Mended, ...] = ()
    why: str | None = None
    code: str | None = None


KEPT = Verdict()


class Judge:
    """Judges the suspects of one store for one release."""

    def __init__(self, store: Store, profile: Profile) -> None:
        self._log = store.commitlog
        self._queues = {(queue.topic, queue.queue_id): queue.files for queue in store.queue_directories()}
        self._check = RecordCheck.of_recovery(profile, Options.of(store.config))

    def judge(self, suspect: Suspect, raw: bytes, units: Sequence[LostUnit]) -> Verdict:
        """`raw` are the record's bytes, `units` the queue units that point at it. Raises UnreadableError, StoreChangedError."""
        record = decode_record(raw)
        proven = property_crc_matches(raw, record.properties)
        changes: list[Mended] = []
        code = None
        if Fault.PHYSICAL_OFFSET in suspect.faults:
            if proven or not self._belongs_here(record, suspect.position, units):
                return Verdict(why="it is a record of another place", code="RMQ-CL-PHYOFFSET")
            changes.append(mending.of_physical_offset(suspect.position))
            code = "RMQ-CL-PHYOFFSET"
        if Fault.BODY_CRC in suspect.faults:
            mended = mending.of_body_crc(record)
            if mended is None:
                return Verdict(why="its body does not have the CRC that it stores", code="RMQ-CL-CRC")
            changes.append(mended)
            code = "RMQ-CL-CRC"
        if not proven:
            header = self._of_header(suspect, raw, record, units)
            changes += header
            code = code or ("RMQ-CL-FIELD" if header else None)
        mended_raw = raw
        for change in changes:
            mended_raw = change.applied(mended_raw)
        if property_crc_matches(mended_raw, record.properties) is False:
            return Verdict(why="it does not have the CRC that its properties store", code="RMQ-CL-PROPCRC")
        if self._check.at(np.frombuffer(mended_raw, np.uint8), 0).request is None:
            return Verdict(why="no broker of this release reads over it", code="RMQ-CL-MAGIC" if suspect.v2 else "RMQ-CL-FIELD")
        return Verdict(tuple(changes), code=code)

    def _of_header(self, suspect: Suspect, raw: bytes, record: Record, units: Sequence[LostUnit]) -> list[Mended]:
        """Changes of header fields, which no checksum covers."""
        own = (record.topic, record.queue_id, record.queue_offset)
        held = any((unit.topic, unit.queue_id, unit.queue_offset, unit.size) == (*own, record.size) for unit in units)
        changes = [mending.of_compression(record)] if Fault.COMPRESSION in suspect.faults else []
        if held:
            transaction = mending.of_transaction(record)
            return changes if transaction is None else [transaction]
        others = [unit for unit in units if not unit.topic.startswith(LMQ_PREFIX)]
        mended = mending.of_queue_position(raw, record, others)
        if mended is not None and (mended.field != "QUEUEOFFSET" or self._is_straight(others[0])):
            changes.append(mended)
        return changes

    def _belongs_here(self, record: Record, position: int, units: Sequence[LostUnit]) -> bool:
        """Whether a record with another PHYSICALOFFSET was written where it lies: its queue unit says so, or nothing speaks against."""
        key = (record.topic, record.queue_id)
        own = self._unit(key, record.queue_offset)
        if own is not None:
            return own == (position, record.size)
        if units:
            return False
        there = self._record_at(record.physical_offset)
        return there is None or (there.topic, there.queue_id, there.queue_offset) != (*key, record.queue_offset)

    def _is_straight(self, unit: LostUnit) -> bool:
        """Whether the units beside this one stand at the QUEUEOFFSETs of their records: else the whole queue is shifted, not the record."""
        key = (unit.topic, unit.queue_id)
        for beside in (unit.queue_offset - 1, unit.queue_offset + 1):
            place = self._unit(key, beside)
            record = self._record_at(place[0]) if place is not None else None
            if record is not None and (record.topic, record.queue_id) == key:
                return record.queue_offset == beside
        return True

    def _unit(self, key: tuple[str, int], queue_offset: int) -> tuple[int, int] | None:
        """(physical offset, size) of the unit at a queue offset; None where there is none."""
        at = queue_offset * UNIT_SIZE
        files = self._queues.get(key)
        file = files.find(at) if files is not None and 0 <= at < 1 << 62 else None
        if file is None or at + UNIT_SIZE > file.end:
            return None
        unit = UNIT.parse(read_at(file, at - file.start, UNIT_SIZE))
        return (int(unit.physical_offset), int(unit.size)) if unit.physical_offset >= 0 and unit.size > 0 else None

    def _record_at(self, offset: int) -> Record | None:
        file = self._log.find(offset)
        return read_record(file, offset) if file is not None else None
