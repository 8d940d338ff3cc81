"""Triage of suspect records: each is kept, corrected in place, or lost, by its bytes, its queue unit, and what the release accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.formats.properties import INNER_NUM, property_crc_matches
from rmqstore.formats.record import Record, decode_record
from rmqstore.formats.sysflag import UNLISTED
from rmqstore.prediction.log.record_check import RecordCheck
from rmqstore.prediction.options import Options
from rmqstore.reading.entries import unit_at
from rmqstore.reading.records import record_at
from rmqstore.repair.log import corrections
from rmqstore.repair.log.corrections import Correction
from rmqstore.repair.log.evidence import Place, Proposal
from rmqstore.repair.log.future import LostUnit
from rmqstore.repair.log.survey import SuspectRecord
from rmqstore.scan.columns import Fault
from rmqstore.store.root import Store
from rmqstore.versions import Profile


@dataclass(frozen=True, slots=True)
class Disposition:
    """The disposition of a record: `changes` that correct it, or `why` it is lost; neither: it stays. `code`: the finding."""

    changes: tuple[Correction, ...] = ()
    why: str | None = None
    code: str | None = None


KEPT = Disposition()


class RecordTriage:
    """The judge of the suspects of one store for one release."""

    def __init__(self, store: Store, profile: Profile) -> None:
        self._log = store.commitlog
        self._queues = {(queue.topic, queue.queue_id): queue.files for queue in store.queue_directories()}
        self._check = RecordCheck.of_recovery(profile, Options.of(store.config))

    def proposal(self, suspect: SuspectRecord, raw: bytes, units: Sequence[LostUnit]) -> Proposal | None:
        """Return the change of a header field that the queue entries pointing at a record propose, None for none."""
        record = decode_record(raw)
        if property_crc_matches(raw, record.properties):
            return None
        count = _queue_offsets_of(record)
        own = Place(record.topic, record.queue_id, record.queue_offset, count)
        if _is_held(record, units):
            if record.transaction_type not in UNLISTED:
                return None
            change = corrections.of_sys_flag(record, compressed=Fault.COMPRESSION not in suspect.faults, queued=True)
            return None if change is None else Proposal(suspect.position, raw, change, own, own)
        others = [unit for unit in units if not unit.topic.startswith(LMQ_PREFIX)]
        change = corrections.of_queue_position(raw, record, others)
        if change is None:
            return None
        proposed = Place(others[0].topic, others[0].queue_id, others[0].queue_offset, count)
        return Proposal(suspect.position, raw, change, own, proposed)

    def judge(self, suspect: SuspectRecord, raw: bytes, units: Sequence[LostUnit], confirmed: Correction | None) -> Disposition:
        """Return the disposition of a record.

        `raw` are its bytes, `units` the queue entries that point at it, `confirmed` is the change that they propose, if other evidence
        agrees (`evidence.Evidence`). Raises UnreadableError, StoreChangedError.
        """
        record = decode_record(raw)
        proven = property_crc_matches(raw, record.properties)
        changes: list[Correction] = []
        code = None
        if Fault.PHYSICAL_OFFSET in suspect.faults:
            if proven or not self._belongs_here(record, suspect.position, units):
                return Disposition(why="it is a record of another place", code="RMQ-CL-PHYOFFSET")
            changes.append(corrections.of_physical_offset(suspect.position))
            code = "RMQ-CL-PHYOFFSET"
        if Fault.BODY_CRC in suspect.faults:
            corrected = corrections.of_body_crc(record)
            if corrected is None:
                return Disposition(why="its body does not have the CRC that it stores", code="RMQ-CL-CRC")
            changes.append(corrected)
            code = "RMQ-CL-CRC"
        if not proven:
            header = _header_changes(suspect, record, confirmed)
            changes += header
            code = code or ("RMQ-CL-FIELD" if header else None)
        corrected_raw = raw
        for change in changes:
            corrected_raw = change.applied(corrected_raw)
        if property_crc_matches(corrected_raw, record.properties) is False:
            return Disposition(why="it does not have the CRC that its properties store", code="RMQ-CL-PROPCRC")
        if self._check.at(np.frombuffer(corrected_raw, np.uint8), 0).request is None:
            return Disposition(why="no broker of this release reads past it", code="RMQ-CL-MAGIC" if suspect.v2 else "RMQ-CL-FIELD")
        return Disposition(tuple(changes), code=code)

    def _belongs_here(self, record: Record, position: int, units: Sequence[LostUnit]) -> bool:
        """Return whether a record with another PHYSICALOFFSET was written where it is: its queue unit says so, or nothing contradicts."""
        key = (record.topic, record.queue_id)
        own = self.unit(key, record.queue_offset)
        if own is not None:
            return own == (position, record.size)
        if units:
            return False
        there = self._record_at(record.physical_offset)
        return there is None or (there.topic, there.queue_id, there.queue_offset) != (*key, record.queue_offset)

    def unit(self, key: tuple[str, int], queue_offset: int) -> tuple[int, int] | None:
        """Return (physical offset, size) of the unit at a queue offset; None where there is none."""
        unit = unit_at(self._queues.get(key), queue_offset)
        return (unit.physical_offset, unit.size) if unit is not None and unit.physical_offset >= 0 and unit.size > 0 else None

    def _record_at(self, offset: int) -> Record | None:
        return record_at(self._log, offset)


def _is_held(record: Record, units: Sequence[LostUnit]) -> bool:
    """Return whether the queue has the record at its own place."""
    place = (record.topic, record.queue_id, record.queue_offset, record.size)
    return any((unit.topic, unit.queue_id, unit.queue_offset, unit.size) == place for unit in units)


def _queue_offsets_of(record: Record) -> int:
    """Return how many queue offsets a record takes: those of its messages, if it is a batch."""
    number = record.properties.get(INNER_NUM, "")
    return max(1, int(number)) if record.is_inner_batch and number.isascii() and number.isdecimal() else 1


def _header_changes(suspect: SuspectRecord, record: Record, confirmed: Correction | None) -> list[Correction]:
    """Return changes of header fields, which no checksum covers."""
    if confirmed is not None and confirmed.field == "SYSFLAG":
        return [confirmed]
    compression = corrections.of_sys_flag(record, compressed=Fault.COMPRESSION not in suspect.faults, queued=False)
    return [change for change in (compression, confirmed) if change is not None]
