"""The plan for the log of a DLedger group member: what can be proven is written again, the rest stays or is cut off.

No filler is ever put into a gap: another member has other bytes at that place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from rmqstore.errors import RefusedError
from rmqstore.formats.dledger import ENTRY_HEADER_SIZE
from rmqstore.prediction.log.ledger import CHECKED_FILES
from rmqstore.repair.derived.judgement import no_record
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.dledger.members import fill_gaps, open_member
from rmqstore.repair.dledger.survey import Gap, Ledger, survey
from rmqstore.repair.dledger.units import plan_units
from rmqstore.repair.log.edits import Edit, FileAction, FileEdit, LogRepair, merged, plan_log
from rmqstore.repair.log.future import FutureLog, Patch
from rmqstore.repair.log.pointers import units_into
from rmqstore.repair.log.truncate import records_after, require_boundary
from rmqstore.repair.plan.model import Doubt, LostMessage, TakenRange
from rmqstore.repair.sources.copies import Source
from rmqstore.store.root import DLedgerLog, Store
from rmqstore.wording import counted

_FOREIGN = "a file that is not of this log: a member with it does not start"
_TAIL = "RMQ-CL-TAILBYTES"
_WHY = "damaged; another member of the group may have it"


def recover_entries(planning: Planning, store: Store, log: DLedgerLog, sources: Sequence[Source]) -> FutureLog:
    """Plan headers, end marks, ranges from other members and the index. Return the log as it will be; what nothing proves stays.

    Raises RefusedError, UnreadableError, StoreChangedError, OSError.
    """
    ledger = _surveyed(planning, log)
    edits, found, left, last = fill_gaps(ledger.gaps, [open_member(source, log) for source in sources])
    taken = sorted(found, key=lambda one: one.begin)
    end = ledger.last if last is None else last
    assert end is not None
    tails = [gap for gap in left if gap.after is None]
    for gap in tails:
        edits.append(Edit(Patch(gap.start, gap.file.end), "zeroed: bytes after the last entry, which a member that starts cuts off", _TAIL))
    inner = [gap for gap in left if gap.after is not None]
    own = [edit for edit in ledger.edits if not _is_in(edit.patch.start, taken)]
    breaks = [place for place in ledger.breaks if not _is_in(place, taken)]
    changes = merged([*own, *edits])
    future = FutureLog(
        ledger.files,
        end.end,
        tuple(edit.patch for edit in changes),
        damages=tuple(sorted((gap.start, gap.end) for gap in inner if not gap.is_entry)),
    )
    repair = LogRepair(
        future, changes, tuple(_foreign(log)), tuple(_lost(store, left)), tuple(_about_gaps(inner, breaks)), taken=tuple(taken)
    )
    plan_log(planning.builder, repair)
    plan_units(planning, log, future, is_complete=not inner and not breaks)
    return future


def cut_entries(planning: Planning, store: Store, log: DLedgerLog, at: int | None) -> FutureLog:
    """Plan to cut the log at the entry that begins or ends at physical offset `at`, or, without one, where a member stops reading.

    A member reads the last three data files when it starts; damage before these stays.

    Raises RefusedError (no entry begins or ends at `at`), UnreadableError, StoreChangedError, OSError.
    """
    ledger = _surveyed(planning, log)
    assert ledger.last is not None
    checked = ledger.files[-min(len(ledger.files), CHECKED_FILES)].start
    stops = [*ledger.breaks, *(gap.start for gap in ledger.gaps if not gap.is_entry)]
    natural = min([ledger.last.end, *(stop for stop in stops if stop >= checked)])
    if at is not None and at != ledger.last.end:
        require_boundary(ledger.files, at, ledger.files[0].start, ledger.last.end, entry_header=ENTRY_HEADER_SIZE)
    place = natural if at is None else at
    edits = [edit for edit in ledger.edits if edit.patch.end <= place]
    kept = ledger.files
    if place < ledger.last.end or any(gap.start >= place for gap in ledger.gaps):
        kept = tuple(file for number, file in enumerate(ledger.files) if number == 0 or file.start < place)
        if place < kept[-1].end:
            edits.append(Edit(Patch(place, kept[-1].end), "zeroed: cut off", _TAIL))
    files = [
        FileEdit(file.path, FileAction.QUARANTINED, "it is after the end of the log: cut off", _TAIL) for file in ledger.files[len(kept) :]
    ]
    damages = tuple(sorted((gap.start, gap.end) for gap in ledger.gaps if gap.end <= place and not gap.is_entry))
    future = FutureLog(kept, place, tuple(edit.patch for edit in merged(edits)), damages=damages)
    lost, notes = records_after(ledger.files, place, "cut off", entry_header=ENTRY_HEADER_SIZE)
    cut_off = [*lost, *_lost(store, [gap for gap in ledger.gaps if gap.start >= place])]
    notes += _about_gaps([gap for gap in ledger.gaps if gap.end <= place], [])
    if cut_off:
        notes = [_of_the_group(len(cut_off)), *notes]
    cut_off.sort(key=lambda message: message.physical_offset or 0)
    plan_log(planning.builder, LogRepair(future, merged(edits), (*_foreign(log), *files), tuple(cut_off), tuple(notes)))
    plan_units(planning, log, future, is_complete=True)
    return future


def _surveyed(planning: Planning, log: DLedgerLog) -> Ledger:
    if not log.data.files:
        raise RefusedError(
            "The DLedger log has no data file.", "Let the member start with an empty directory: it copies the log from the group."
        )
    ledger = survey(log, planning.advance)
    if ledger.last is None:
        raise no_record()
    return ledger


def _lost(store: Store, gaps: Sequence[Gap]) -> Iterator[LostMessage]:
    """Yield the messages in gaps that remain: those that queues point at, and for each gap the entries that no queue names."""
    ordered = sorted(gaps, key=lambda gap: gap.start)
    units = units_into(store, [(gap.start, gap.end if gap.after is not None else gap.file.end) for gap in ordered])
    starts = [unit.position for unit in units]
    for gap in ordered:
        stop = gap.end if gap.after is not None else gap.file.end
        inside = units[bisect_left(starts, gap.start) : bisect_left(starts, stop)]
        for unit in inside:
            yield LostMessage(unit.topic, unit.queue_id, unit.queue_offset, unit.position, unit.size, _WHY)
        # The first entry of a log has any number: files before it expire.
        entries = None if gap.after is None or gap.before is None else gap.after.number - gap.before.number - 1
        places = len({unit.position for unit in inside})
        if entries is None and not places:
            doubt = Doubt.EXISTENCE if gap.after is None else None
            yield LostMessage(physical_offset=gap.start, size=gap.end - gap.start, why=_WHY, doubt=doubt)
        elif entries is not None and entries > places:
            why = f"{_WHY}; entries that no queue names: {entries - places}"
            yield LostMessage(physical_offset=gap.start, size=gap.end - gap.start, why=why)


def _is_in(offset: int, ranges: Sequence[TakenRange]) -> bool:
    place = bisect_right(ranges, offset, key=lambda one: one.begin) - 1
    return place >= 0 and offset < ranges[place].end


def _foreign(log: DLedgerLog) -> list[FileEdit]:
    return [FileEdit(entry.path, FileAction.QUARANTINED, _FOREIGN, "RMQ-CL-NAME") for entry in log.data.odd]


def _about_gaps(gaps: Sequence[Gap], breaks: Sequence[int]) -> list[str]:
    notes = []
    if gaps:
        first = min(gap.start for gap in gaps)
        notes.append(
            f"{counted(len(gaps), 'damaged range')} of the DLedger log stay{'s' * (len(gaps) == 1)} damaged, the first at offset {first}: "
            "`rmqstore recover --from STORE` with the store of another member, which is stopped, takes them from there."
        )
    if breaks:
        notes.append(
            f"A member that starts stops reading at offset {min(breaks)}, if that is in its last three data files, and drops what follows. "
            "`rmqstore truncate` cuts the log there; the group then sends what it has."
        )
    return notes


def _of_the_group(lost: int) -> str:
    return (
        f"{counted(lost, 'message')} leave{'s' * (lost == 1)} this member. The leader sends again what the group has committed, so start "
        "a majority of the other members first: without them this member, or others without these entries, may become leader, and the "
        "messages are lost for good. A group of one member has lost them."
    )
