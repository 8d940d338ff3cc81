"""Salvage: damage inside the commit log is filled in place, so that every valid record keeps its offset and none after it is lost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from rmqstore.errors import RefusedError
from rmqstore.formats.message import BLANK, BLANK_MAGIC, BLANK_SIZE, MESSAGE_MAGIC_V1, RECORD_PREFIX, smallest_record
from rmqstore.formats.record import Record, decode_record
from rmqstore.formats.sysflag import TransactionType
from rmqstore.reading.continuity import room_of
from rmqstore.reading.progress import Advance, silent
from rmqstore.reading.records import record_at
from rmqstore.reading.zeros import end_of_nonzero
from rmqstore.repair.log import corrections, filled_gaps, segments
from rmqstore.repair.log.corrections import Correction
from rmqstore.repair.log.edits import Edit, FileAction, FileEdit, LogRepair, merged
from rmqstore.repair.log.evidence import Evidence, Proposal, indexed_behind, indexed_starts
from rmqstore.repair.log.filled_gaps import FilledGap, witnesses
from rmqstore.repair.log.fillers import LARGEST_FILLER, LostRecord, Neighbour, Style
from rmqstore.repair.log.future import FutureLog, LostUnit, Patch
from rmqstore.repair.log.gaps import Place, Range, damage_at, gaps_of, named_by_gaps
from rmqstore.repair.log.pointers import last_position, lost_units
from rmqstore.repair.log.relocation import Healing, Relocation, needs_relocation, relocate
from rmqstore.repair.log.renumbering import Suspected, misnumberings, renumbered
from rmqstore.repair.log.segments import LogFiles
from rmqstore.repair.log.survey import FileSurvey, Hole, SuspectRecord, require_records, survey
from rmqstore.repair.log.triage import RecordTriage
from rmqstore.repair.plan.model import Doubt, LostMessage
from rmqstore.repair.plan.staging import Staging
from rmqstore.scan.columns import Fault, Stop
from rmqstore.store.mapped import MappedFile, ProblemKind, parse_offset_name
from rmqstore.store.root import Store
from rmqstore.store.window import read_at
from rmqstore.verify.context import LogFacts
from rmqstore.verify.log.record_findings import DAMAGE_CODES, DAMAGE_TEXTS
from rmqstore.verify.log.runs import foreign_ranges
from rmqstore.verify.queues.courses import courses_of
from rmqstore.verify.queues.judgement import subtract
from rmqstore.verify.queues.spans import joined
from rmqstore.versions import Profile, profile_of

_MENDED_AT_ONCE = 8 << 20  # bytes of a hole up to which a correction is searched for
_BEYOND = 1 << 62
_SMALLEST = smallest_record(MESSAGE_MAGIC_V1, 0)
_MOST_FILES_BEHIND = 16  # and as many as there are: entries that point farther after the end of the log are damage
TAIL_TEXTS = {
    "torn": ("RMQ-CL-TORN", "a record that was only partly written"),
    "stale": ("RMQ-CL-STALE", "older records after the end of the log"),
    "bytes": ("RMQ-CL-TAILBYTES", "bytes after the end of the log that are no record"),
}


Heal = Callable[[LogFiles, Sequence[FileSurvey]], Healing]
"""(the log, its surveys) → the log with what other copies have of it."""


def salvage(
    store: Store,
    release: str,
    *,
    staging: Staging,
    placeholders: bool = False,
    queues_stay: bool = False,
    heal: Heal | None = None,
    advance: Advance = silent,
) -> LogRepair:
    """Return the repair that keeps most of the log of `store` for a broker of `release`; assembled files go to `staging`.

    `placeholders`: lost messages get one each; `queues_stay`: they do, and so do queue offsets that the log leaves out, because no entry of
    the queues is changed. `heal` takes damaged records from other copies first.

    Raises RefusedError, UnreadableError, StoreChangedError, OSError.
    """
    log = segments.files_of(store)
    profile = profile_of(release)
    relocation = Relocation(log, store)
    if not log.files and not log.odd:
        return LogRepair(FutureLog((), 0))
    results = survey(store, list(log.files), reads_v2=profile.reads_v2, advance=advance)
    healing = Healing()
    if heal is not None and log.files:
        healing = heal(log, results)
        if healing.relocation is not None:
            relocation = healing.relocation
            results = survey(relocation.store, list(relocation.log.files), reads_v2=profile.reads_v2, advance=advance)
    if needs_relocation(map(_is_damaged, results), relocation.log):
        found = relocate(relocation.store, relocation.log, staging)
        if found is not None:
            relocation = found.after(relocation)
            results = survey(found.store, list(found.log.files), reads_v2=profile.reads_v2, advance=advance)
    if not relocation.log.files:
        segments.require_no_messages(store)
        return LogRepair(FutureLog((), 0), files=tuple(segments.gone(log.odd)))
    repair = _Salvage(relocation, results, profile, placeholders or queues_stay, queues_stay).run()
    return replace(repair, taken=healing.taken, notes=(*healing.notes, *repair.notes))


def _is_damaged(result: FileSurvey) -> bool:
    """Return whether bytes of another place can be in a file, or bytes of this file in another place."""
    displaced = any(Fault.PHYSICAL_OFFSET in suspect.faults for suspect in result.suspects.values())
    return bool(result.holes) or displaced or (result.tail is not None and result.tail.kind != "torn")


@dataclass(frozen=True, slots=True)
class _Odd(Suspected):
    """A suspect in `file`, of full length."""

    file: MappedFile


class _Salvage:
    """The edits for one store and one release, collected while the log is judged from its first file to its end."""

    def __init__(
        self, relocation: Relocation, results: Sequence[FileSurvey], profile: Profile, placeholders: bool, queues_stay: bool
    ) -> None:
        self._relocation = relocation
        self._queues_stay = queues_stay
        store = self._store = relocation.store
        self._log = relocation.log
        self._style = _style(store, profile, placeholders)
        self._judge = RecordTriage(store, profile)
        require_records(results)
        require_property_crcs(store, profile, results)
        last = max((number for number, result in enumerate(results) if result.records), default=0)
        kept = last + 1 + any(self._begins_correctable(result) for result in results[last + 1 : last + 2])
        self._kept, self._behind = results[:kept], results[kept:]
        files = [result.file for result in self._kept]
        self._made = list(segments.emptied(self._log.odd, files[0], self._log.file_size))
        self._made += segments.missing(files, self._log.file_size, relocation.place)
        self._holes = [(self._log.full(result.file), hole) for result in self._kept for hole in self._holes_of(result)]
        self._edits: list[Edit] = []
        self._plugs: list[FilledGap] = []
        self._notes: list[str] = []
        self._starts: dict[int, int] = {}  # true QUEUEOFFSETs of misnumbered segments, by the physical offset of their first record
        self._corrected: list[int] = []
        self._unplaced: list[LostMessage] = []
        self._filled: set[Place] = set()  # the places of records that were holes to the scan, and are corrected
        self._end = self._kept[-1].end_offset
        self._last_kept = -1  # the last suspect record that stays as it is
        start = min(file.start for file in [files[0], *self._made])
        self._from_zero = start == 0
        self._courses = courses_of(joined(result.spans for result in self._kept))
        missing = [(file.start, file.end) for file in self._made]
        gone = sorted([*((hole.start, hole.end) for _, hole in self._holes), *missing])
        room = room_of(sorted([*gone, *(filler for result in self._kept for filler in result.fillers)]))
        self._misnumbered = misnumberings(self._courses, files, room, from_zero=self._from_zero)
        for position in (position for one in self._misnumbered for positions in one.positions for position in positions):
            result = self._kept[bisect_right(files, position, key=lambda file: file.start) - 1]
            result.suspects.setdefault(position, SuspectRecord(position, Fault(0), False))
        odd = [(one.position, one.position + self._length(one)) for result in self._kept for one in result.suspects.values()]
        ends = [(self._log.full(result.file), end) for result in self._kept[:-1] if (end := self._foreign_end(result)) is not None]
        odd += [(end.start, end.end) for _, end in ends]
        facts = LogFacts(start, self._end, damages=[*gone, (self._end, _BEYOND)])
        self._units: Sequence[LostUnit] = [unit for unit in lost_units(store, facts, odd) if self._fits(unit)]
        self._holes += [(file, end) for file, end in ends if witnesses(self._units, end.start, end.end)]

    def run(self) -> LogRepair:
        """Return the whole repair of the log."""
        self._judge_suspects()
        for file, hole in self._holes:
            self._plug_hole(file, hole)
        for file in self._made:
            known = witnesses(self._units, file.start, file.end)
            self._plugs.append(
                FilledGap(file, file.start, file.end, "its file is missing", "RMQ-CL-GAP", known, closes=True, new_file=True)
            )
        self._close_log(self._kept[-1])
        ready, sacrificed = filled_gaps.widened(self._plugs, self._record_at, self._style)
        gaps = gaps_of(self._courses, self._starts, from_zero=self._from_zero)
        ready = filled_gaps.with_placeholders(ready, gaps, self._style) if self._queues_stay else ready
        filled = filled_gaps.fill(ready, self._record_at, self._last_neighbour(), self._style)
        self._end = max([self._end, *(plug.end for plug in ready if not plug.closes)])
        lost = named_by_gaps(
            [*sacrificed, *filled.lost],
            gaps,
            filled.damages,
            self._indexed_starts,
            filled.closed,
            partial(self._is_elsewhere, filled.damages),
        )
        behind = list(self._lost_behind())
        behind += self._indexed_behind(behind)
        lost += [*self._unplaced, *behind, *self._doubtful_behind(behind), *self._absent_behind(behind)]
        edits = merged([*self._edits, *filled.edits])
        return LogRepair(
            self._future(edits, filled.damages, ready),
            edits,
            tuple(self._file_edits()),
            _once(lost),
            tuple(self._notes),
            self._store,
        )

    # Damage

    def _holes_of(self, result: FileSurvey) -> Iterator[Hole]:
        """Yield the holes of a file; in the last one, bytes that no record follows are the tail of the log and no hole."""
        last = result is self._kept[-1]
        end = self._log.full(result.file).end
        for hole in result.holes:
            if not hole.to_file_end:
                yield self._up_to_file_end(hole, end) if self._is_blank_before_old_one(hole, end) else hole
            elif not last:
                yield self._up_to_file_end(hole, end)
        if last or any(hole.to_file_end for hole in result.holes):
            return
        if result.tail is not None:
            yield Hole(result.tail.start, end, result.tail.reason, True)
        elif result.end is None or result.end.reason is not Stop.BLANK:
            yield Hole(result.file.end if result.end is None else result.end.position, end, Stop.END_OF_DATA, True)

    def _foreign_end(self, result: FileSurvey) -> Hole | None:
        """Return the bytes from the BLANK of a file on if the last record before it is one of another place: so is the BLANK."""
        displaced = max((one.position for one in result.suspects.values() if Fault.PHYSICAL_OFFSET in one.faults), default=-1)
        in_place = [one.position for one in result.suspects.values() if Fault.PHYSICAL_OFFSET not in one.faults]
        if result.end is None or result.end.reason is not Stop.BLANK or displaced < max(result.last_sound, *in_place, 0):
            return None
        return Hole(result.end.position, self._log.full(result.file).end, Stop.NONE, True)

    def _begins_correctable(self, result: FileSurvey) -> bool:
        """Return whether a file without valid records, after the last one with records, begins with a record with one wrong field."""
        start, end = result.file.start, self._log.full(result.file).end - BLANK_SIZE
        if start not in _unreadable(result):
            return False
        data = self._bytes(start, min(end - start, _MENDED_AT_ONCE))
        return any(corrections.of_structure(data[:size], start) is not None for size in corrections.sizes_at(data))

    def _fits(self, unit: LostUnit) -> bool:
        """Return whether the record of a queue unit can have been in its file: a BLANK at least has to follow it."""
        position = unit.position % self._log.file_size
        return _SMALLEST <= unit.size <= self._log.file_size - BLANK_SIZE - position

    @staticmethod
    def _up_to_file_end(hole: Hole, end: int) -> Hole:
        return replace(hole, end=end, to_file_end=True)

    def _is_blank_before_old_one(self, hole: Hole, end: int) -> bool:
        """Return whether a hole begins as a BLANK with one wrong field, and an old BLANK follows it; `end` is that of the file.

        Files of a transient store pool keep bytes of former files after their BLANK, and with them the BLANK of such a file.
        """
        size, magic = self._two_integers(hole.start)
        return (magic == BLANK_MAGIC or size == end - hole.start) and self._two_integers(hole.end) == (end - hole.end, BLANK_MAGIC)

    def _two_integers(self, position: int) -> tuple[int, int]:
        """Return size and magic at a physical offset, -1 for both where the log ends."""
        data = self._bytes(position, BLANK_SIZE)
        if len(data) < BLANK_SIZE:
            return -1, -1
        fields = BLANK.parse(data)
        return int(fields.total_size), int(fields.magic_code)

    # Repair

    def _judge_suspects(self) -> None:
        """Correct suspect records, or make holes of them."""
        odd = [
            _Odd(suspect, self._record_bytes(suspect.position), self._units_at(suspect.position), self._log.full(result.file))
            for result in self._kept
            for _, suspect in sorted(result.suspects.items())
        ]
        confirmed = self._renumbered({one.suspect.position: one for one in odd})
        proposals = [
            proposal
            for one in odd
            if one.suspect.position not in confirmed and (proposal := self._judge.proposal(one.suspect, one.raw, one.units)) is not None
        ]
        evidence = Evidence(self._store, proposals)
        confirmed |= {proposal.position: proposal.change for proposal in proposals if evidence.confirms(proposal)}
        for one in odd:
            self._judge_suspect(one, confirmed.get(one.suspect.position))
        refused = [proposal for proposal in proposals if proposal.position not in confirmed]
        if refused:
            self._notes.append(_contradicted(refused))
        self._unplaced = [_without_place(proposal) for proposal in refused if evidence.has_no_place(proposal)]

    def _renumbered(self, odd: Mapping[int, Suspected]) -> dict[int, Correction]:
        """Return the corrections of QUEUEOFFSETs that the records around contradict, by physical offset."""
        found: dict[int, Correction] = {}
        for one in self._misnumbered:
            changes = renumbered(one, odd, self._judge.unit)
            found |= changes
            if one.run.certain and one.run.starts is not None:
                self._starts |= {segment.first: start for segment, start in zip(one.run.segments, one.run.starts, strict=True)}
            self._starts |= {
                segment.first: int.from_bytes(changes[segment.first].new, "big") for segment in one.run.segments if segment.first in changes
            }
        return found

    def _judge_suspect(self, odd: _Odd, confirmed: Correction | None) -> None:
        suspect, raw = odd.suspect, odd.raw
        verdict = self._judge.judge(suspect, raw, odd.units, confirmed)
        for change in verdict.changes:
            self._correct(suspect.position, change, verdict.code)
        if verdict.why is None and not verdict.changes:
            self._last_kept = max(self._last_kept, suspect.position)
        if verdict.why is not None:
            end = suspect.position + len(raw)
            known = witnesses(self._units, suspect.position, end) or self._named(suspect, raw)
            self._plugs.append(FilledGap(odd.file, suspect.position, end, verdict.why, verdict.code or "RMQ-CL-DAMAGE", known))

    def _units_at(self, position: int) -> Sequence[LostUnit]:
        low = bisect_left(self._units, position, key=lambda unit: unit.position)
        return self._units[low : bisect_left(self._units, position + 1, lo=low, key=lambda unit: unit.position)]

    def _length(self, suspect: SuspectRecord) -> int:
        """Return how many bytes of a suspect record may have been other records: all of one of another place."""
        return len(self._record_bytes(suspect.position)) if Fault.PHYSICAL_OFFSET in suspect.faults else 1

    def _record_bytes(self, position: int) -> bytes:
        return self._bytes(position, int.from_bytes(self._bytes(position, 4), "big"))

    def _named(self, suspect: SuspectRecord, raw: bytes) -> tuple[LostRecord, ...]:
        """Return the record that the header of a lost record names, unless it is that of a record of another place."""
        if Fault.PHYSICAL_OFFSET in suspect.faults:
            return ()
        record = decode_record(raw)
        return (LostRecord(suspect.position, len(raw), record.topic, record.queue_id, record.queue_offset),)

    def _correct(self, position: int, change: Correction, code: str | None) -> None:
        reason = f"{change.field} corrected: the rest of the record allows no other value"
        self._edits.append(Edit(Patch.write(position + change.offset, change.new), reason, code))
        self._corrected.append(position)

    def _plug_hole(self, file: MappedFile, hole: Hole) -> None:
        """Correct the record at the start of a hole if one field is all that is wrong, and fill the rest."""
        code = DAMAGE_CODES.get(hole.reason, "RMQ-CL-PHYOFFSET")
        start = hole.start
        while start < hole.end:
            size = self._correct_at(start, hole.end, code, exactly=not hole.to_file_end)
            if not size:
                break
            start += size
        if start == hole.end:
            return
        known = witnesses(self._units, start, hole.end) or self._header_at(start, hole.end)
        why = DAMAGE_TEXTS.get(hole.reason, "records of another place")
        self._plugs.append(FilledGap(file, start, hole.end, why, code, known, closes=hole.to_file_end))

    def _correct_at(self, start: int, end: int, code: str, *, exactly: bool) -> int:
        """Correct the record at `start` of a hole; return its size, 0 without a correction. `exactly`: records follow the hole."""
        data = self._bytes(start, min(end - start, _MENDED_AT_ONCE))
        sizes = {size for size in corrections.sizes_at(data) if not exactly or size + self._style.smallest <= end - start}
        if exactly and len(data) == end - start:
            sizes.add(len(data))
        units = self._units_at(start)
        sizes |= {unit.size for unit in units if unit.size <= len(data)}
        for size in sorted(sizes, reverse=True):
            change = corrections.of_structure(data[:size], start, units, partial(self._unqueued, start))
            if change is not None:
                record = decode_record(change.applied(data[:size]))
                self._filled.add((record.topic, record.queue_id, record.queue_offset))
                self._correct(start, change, code)
                return size
        return 0

    @cached_property
    def _last_queued(self) -> int:
        return last_position(self._store, self._end)

    def _unqueued(self, position: int) -> TransactionType | None:
        """Return the type of a record that queues leave out while they hold later ones; only prepared ones of these are in the index."""
        if self._units_at(position) or self._last_queued <= position:
            return None
        return TransactionType.PREPARED if indexed_starts(self._store, [(position, position + 1)]) else TransactionType.ROLLBACK

    def _header_at(self, start: int, end: int) -> tuple[LostRecord, ...]:
        """Return the record that the first bytes of a hole name, if they look like those of a record."""
        head = self._bytes(start, RECORD_PREFIX.sizeof())
        if len(head) < RECORD_PREFIX.sizeof():
            return ()
        fields = RECORD_PREFIX.parse(head)
        if fields.physical_offset != start or not self._style.smallest <= fields.total_size <= end - start:
            return ()
        return (LostRecord(start, fields.total_size, None, fields.queue_id, fields.queue_offset),)

    def _close_log(self, last: FileSurvey) -> None:
        """Correct the last record, if it is whole but for one field, and zero the bytes after it."""
        end = self._log.full(last.file).end
        if last.tail is None and not any(hole.to_file_end for hole in last.holes):
            return
        kind = "bytes" if last.tail is None else last.tail.kind
        code, text = TAIL_TEXTS[kind]
        size = self._correct_at(self._end, end - BLANK_SIZE, code, exactly=False) if kind != "stale" else 0
        self._end += size
        self._edits.append(Edit(Patch(self._end, end), f"zeroed: {text}", code))

    # Results

    def _indexed_starts(self, ranges: Sequence[tuple[int, int]]) -> list[int]:
        return indexed_starts(self._store, ranges)

    def _last_neighbour(self) -> Neighbour:
        """Return the values that fillers after the last valid record take over from it."""
        position = max([self._last_kept, *(result.last_sound for result in self._kept)])
        record = self._record_at(position) if position >= 0 else None
        return Neighbour() if record is None else Neighbour(record.store_timestamp, record.store_host)

    def _lost_behind(self) -> Iterator[LostMessage]:
        """Yield messages after the end that queue units name: records one after the other, and those that fit between two of them.

        Between them were records that get no units, such as those of transactions. A unit that is alone after all others is bogus.
        """
        most = self._end + (len(self._log.files) + _MOST_FILES_BEHIND) * self._log.file_size
        units = witnesses(self._units, self._end, most)
        starts = {unit.start for unit in units}
        ends = {unit.end for unit in units} | {self._end}
        joined = [unit for unit in units if unit.start in ends or unit.end in starts or unit.start % self._log.file_size == 0]
        for unit in units:
            number = bisect_left(joined, unit.start, key=lambda other: other.start)
            fits = number < len(joined) and unit.end <= joined[number].start and (not number or joined[number - 1].end <= unit.start)
            if unit in joined[number : number + 1] or fits:
                text = "it has no bytes here: the log ends before it, as in a copy of a running store"
                yield LostMessage(unit.topic, unit.queue_id, unit.queue_offset, unit.start, unit.size, text)

    def _indexed_behind(self, known: Sequence[LostMessage]) -> Iterator[LostMessage]:
        """Yield the messages after the end that only index entries name, each up to the next one that is known."""
        most = self._end + (len(self._log.files) + _MOST_FILES_BEHIND) * self._log.file_size
        ends = sorted(((one.physical_offset or 0) + (one.size or 0), one.physical_offset or 0) for one in known)
        begins = sorted(begin for _, begin in ends)
        starts = indexed_behind(self._store, self._end)
        for number, start in enumerate(starts if starts and starts[-1] < most else ()):
            place = bisect_right(ends, (start, _BEYOND))
            if place < len(ends) and ends[place][1] <= start:
                continue
            following = [*starts[number + 1 : number + 2], *begins[(low := bisect_right(begins, start)) : low + 1]]
            limit = start - start % self._log.file_size + self._log.file_size
            text = "it has no bytes here: the log ends before it, and an index entry points at it"
            yield LostMessage(physical_offset=start, size=min([*following, limit]) - start if following else None, why=text)

    def _doubtful_behind(self, known: Sequence[LostMessage]) -> Iterator[LostMessage]:
        """Yield the bytes after the end that are no record, apart from `known` messages: there may have been messages or not."""
        places = sorted((message.physical_offset or 0, message.size or 0) for message in known)
        ranges = sorted(piece for result in (self._kept[-1], *self._behind) for piece in self._doubtful(result))
        for start, end in ranges:
            reached = max(start, self._end)
            low = bisect_left(places, (reached, 0))
            for position, size in [*places[low : bisect_left(places, (end, 0))], (end, 0)]:
                if position - reached >= _SMALLEST:
                    why = "bytes after the end of the log that are no record: it is unknown whether there were messages"
                    yield LostMessage(physical_offset=reached, size=position - reached, why=why, doubt=Doubt.EXISTENCE)
                reached = max(reached, position + size)

    def _absent_behind(self, known: Sequence[LostMessage]) -> Iterator[LostMessage]:
        """Yield the files after the end that are missing, although the file before is full, and of which no message is `known`.

        A file after them, or an entry in their place, shows that they existed. An empty file is one that a broker has just created.
        """
        last, size = self._kept[-1], self._log.file_size
        if last.end is None or last.end.reason is not Stop.BLANK:
            return
        begin = self._log.full(last.file).end
        most = begin + _MOST_FILES_BEHIND * size
        present = {result.file.start for result in self._behind}
        entries = {parse_offset_name(entry.path.name): entry.kind for entry in self._log.odd}
        places = [start for start in (*present, *entries) if start is not None and begin <= start < most and start % size == 0]
        named = {(message.physical_offset or 0) // size for message in known}
        for start in range(begin, max(places, default=0) + 1, size):
            if start not in present and start // size not in named and entries.get(start) is not ProblemKind.ZERO_LENGTH:
                why = "its file is missing, and the file before it is full: it is unknown whether there were messages"
                yield LostMessage(physical_offset=start, size=size, why=why, doubt=Doubt.EXISTENCE)

    def _doubtful(self, result: FileSurvey) -> list[Range]:
        """Return the ranges of a file that hold bytes, and neither records, those of other places among them, nor leftovers."""
        found, tail = _unreadable(result), result.tail
        if tail is not None and tail.kind == "stale":
            head = RECORD_PREFIX.parse(self._bytes(tail.start, RECORD_PREFIX.sizeof()).ljust(RECORD_PREFIX.sizeof(), b"\0"))
            if (head.physical_offset - tail.start) % self._log.file_size:
                found[tail.start] = tail.end
        former = self._relocation.former(result.file)
        ranges = subtract(sorted(found.items()), foreign_ranges(former, self._log.file_size) if found else ())
        # A range that extends to the end of the file may end in zeros, which are no bytes of anything.
        return [(start, end if end < former.end else former.start + end_of_nonzero(former, start - former.start)) for start, end in ranges]

    def _is_elsewhere(self, damages: Sequence[Range], place: Place) -> bool:
        """Return whether a corrected record is at a place, or its queue unit points at a valid record of the queue outside of damage."""
        topic, queue_id, queue_offset = place
        if place in self._filled:
            return True
        found = self._judge.unit((topic, queue_id), queue_offset)
        if found is None or damage_at(damages, found[0]) is not None:
            return False
        record = self._record_at(found[0])
        return record is not None and (record.topic, record.queue_id, record.size) == (topic, queue_id, found[1])

    def _file_edits(self) -> Iterator[FileEdit]:
        made = frozenset(file.path for file in self._made)
        yield from segments.gone(self._log.odd, made)
        for result in self._behind:
            if result.tail is not None:
                code, text = TAIL_TEXTS[result.tail.kind]
                yield FileEdit(self._relocation.place(result.file), FileAction.QUARANTINED, f"nothing but {text}", code)
            else:
                text = "a file without records after the end of the log"
                yield FileEdit(self._relocation.place(result.file), FileAction.QUARANTINED, text, "RMQ-CL-PREALLOC")
        lengths = {file.path: file.length for file in self._store.commitlog.files}
        for result in self._kept:
            one = self._relocation.assembled.get(result.file.path)
            if one is not None:
                fate = FileAction.REPLACED if one.exists else FileAction.CREATED
                yield FileEdit(one.path, fate, one.reason, "RMQ-CL-MOVED", one.staged, one.like)
            elif lengths[result.file.path] != self._log.file_size:
                yield FileEdit(
                    result.file.path, FileAction.REPLACED, f"brought to its full length of {self._log.file_size} bytes", "RMQ-CL-FILELEN"
                )
        there = {entry.path for entry in self._log.odd}
        for file in self._made:
            yield FileEdit(
                file.path,
                FileAction.REPLACED if file.path in there else FileAction.CREATED,
                "fillers in place of a missing file",
                "RMQ-CL-GAP",
            )

    def _future(self, edits: Sequence[Edit], damages: tuple[tuple[int, int], ...], filled: Sequence[FilledGap]) -> FutureLog:
        present = {str(result.file.path): result.file.length for result in self._kept} | {str(file.path): 0 for file in self._made}
        files = sorted([*(self._log.full(result.file) for result in self._kept), *self._made], key=lambda file: file.start)
        places = {unit for unit in self._units if damage_at(damages, unit.position) is not None}
        places |= {place for plug in filled for record in plug.known if (place := record.place) is not None}
        units = tuple(sorted(places, key=lambda unit: (unit.position, unit.topic, unit.queue_id)))
        return FutureLog(tuple(files), self._end, tuple(edit.patch for edit in edits), damages, units, present, tuple(self._corrected))

    # Reading

    def _bytes(self, start: int, length: int) -> bytes:
        """Return up to `length` bytes at a physical offset, fewer at the end of the bytes there."""
        file = self._store.commitlog.find(start)
        return b"" if file is None else read_at(file, start - file.start, min(length, file.end - start))

    def _record_at(self, offset: int) -> Record | None:
        return record_at(self._store.commitlog, offset)


def _unreadable(result: FileSurvey) -> dict[int, int]:
    """Return the ranges of a file, after its last live record, that hold bytes and no records; ends by starts."""
    found = {hole.start: hole.end for hole in result.holes if hole.to_file_end or not result.records}
    if result.tail is not None and result.tail.kind == "bytes":
        found[result.tail.start] = result.tail.end
    return found


def _once(lost: Sequence[LostMessage]) -> tuple[LostMessage, ...]:
    """Return the messages by physical offset, each one once.

    Of two at different physical offsets with one place in a queue, as queues that were exchanged give it, the second is only a range.
    """
    by_place: dict[object, LostMessage] = {}
    found: dict[int | None, LostMessage] = {}
    for message in lost:
        if message.queue_offset is not None:
            first = by_place.setdefault((message.topic, message.queue_id, message.queue_offset), message)
            if first is not message and _overlap(first, message):
                continue
            if first is not message:
                message = replace(message, topic=None, queue_id=None, queue_offset=None)
        found.setdefault(message.physical_offset, message)
    return tuple(sorted(found.values(), key=lambda message: message.physical_offset or 0))


def _overlap(one: LostMessage, other: LostMessage) -> bool:
    start, end = one.physical_offset or 0, (one.physical_offset or 0) + (one.size or 1)
    return (other.physical_offset or 0) < end and start < (other.physical_offset or 0) + (other.size or 1)


def _contradicted(refused: Sequence[Proposal]) -> str:
    first = refused[0]
    place = first.proposed
    return (
        f"{len(refused)} records differ from the queue entries that point at them, and no other evidence supports the entries: the records "
        f"stay unchanged, the queues follow them. The first is at physical offset {first.position}; its entry is that of "
        f"{place.topic}/{place.queue_id} at queue offset {place.queue_offset}."
    )


def _without_place(proposal: Proposal) -> LostMessage:
    entry = proposal.proposed
    why = (
        f"it is there, but its queue has no place for it: it is no queue, or the records before and after it leave other queue offsets; "
        f"the entry of {entry.topic}/{entry.queue_id} at queue offset {entry.queue_offset} pointed at it"
    )
    return filled_gaps.lost_message(decode_record(proposal.raw), why)


def _style(store: Store, profile: Profile, placeholders: bool) -> Style:
    config = store.config
    property_crc = profile.verifies_property_crc and (config.flag("enabledAppendPropCRC") or config.flag("forceVerifyPropCRC"))
    largest = min(LARGEST_FILLER, max(config.integer("maxMessageSize"), 4096))
    return Style(largest, property_crc, placeholders)


def require_property_crcs(store: Store, profile: Profile, results: Sequence[FileSurvey]) -> None:
    """Raise RefusedError for records without property CRC: with forceVerifyPropCRC each is damage to a broker (commit log Q12)."""
    without = sum(result.without_property_crc for result in results)
    if without and profile.verifies_property_crc and store.config.flag("forceVerifyPropCRC"):
        raise RefusedError(
            f"forceVerifyPropCRC is set, but {without} records carry no property CRC: every start would cut the log at the first of them.",
            "Set forceVerifyPropCRC=false in broker.conf, and repair with --set forceVerifyPropCRC=false.",
        )
