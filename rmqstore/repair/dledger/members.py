"""Entries from other members of the group: the bytes at one physical offset are the same on all members that have them committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rmqstore.errors import RefusedError
from rmqstore.formats.dledger import ENTRY_HEADER_SIZE
from rmqstore.reading.ledger import EntryChain
from rmqstore.reading.recordtables import INVALID
from rmqstore.repair.dledger.survey import Anchor, Gap
from rmqstore.repair.log.edits import Edit
from rmqstore.repair.log.future import Patch
from rmqstore.repair.plan.model import TakenRange
from rmqstore.repair.sources.copies import Source
from rmqstore.scan.columns import Check, Stop
from rmqstore.scan.walk import Batch, Damage, LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import DLedgerLog, Store
from rmqstore.store.window import read_at

_LARGEST_GAP = 256 << 20  # bytes; they are in memory at one time
_CODE = "RMQ-DL-ENTRY"


@dataclass(frozen=True, slots=True)
class Member:
    """Another member: its name and its data files by physical offset."""

    name: str
    files: Mapping[int, MappedFile]

    def fill(self, gap: Gap) -> tuple[list[Edit], TakenRange, Anchor] | None:
        """Return the edits that put the entries of this member into a gap, and the last of these entries; None if they do not fit.

        They fit if all of them are valid, their numbers and terms continue those on both sides, and the entries beside the gap are the
        same here and there. Raises UnreadableError, StoreChangedError.
        """
        theirs = self.files.get(gap.file.start)
        if theirs is None or gap.end - gap.start > _LARGEST_GAP:
            return None
        beside = [anchor for anchor in (gap.before, gap.after) if anchor is not None and _is_inside(anchor, gap.file)]
        compared = [anchor for anchor in beside if anchor.end > anchor.begin]
        if any(_bytes(theirs, one.begin, one.end) != _bytes(gap.file, one.begin, one.end) for one in compared):
            return None
        if not (compared or gap.is_entry):
            return None
        found = _entries(theirs, gap)
        if found is None:
            return None
        last, end = found
        data = read_at(theirs, gap.start - theirs.start, end - gap.start)
        edits = [] if data == _bytes(gap.file, gap.start, end) else [Edit(Patch.write(gap.start, data), f"entries of {self.name}", _CODE)]
        if end < gap.end:
            edits.append(Edit(Patch(end, gap.end), "zeros after the last entry", _CODE))
        return edits, TakenRange(f"{self.name}/{theirs.path.name}", gap.start, end), last


def open_member(source: Source, log: DLedgerLog) -> Member:
    """Open another member of the group of `log`. Raises UnreadableError, NotAStoreError, RefusedError."""
    path, name = source
    other = Store.open(path).dledger
    if other is None:
        raise RefusedError(f"{name} has no log of DLedger.", "Name the store of another member of the group, or its directory `dledger-…`.")
    own = {file.path.stat().st_ino for file in log.data.files}
    if any(file.path.stat().st_ino in own for file in other.data.files):
        raise RefusedError(f"{name} is the store itself, or shares files with it.", "Name another copy.")
    plain = (file for file in other.data.files if not file.path.is_symlink() and file.length)
    return Member(name, {file.start: file for file in plain})


def _is_inside(anchor: Anchor, file: MappedFile) -> bool:
    return file.start <= anchor.begin and anchor.end <= file.end


def _bytes(file: MappedFile, start: int, end: int) -> bytes | None:
    """Return the bytes at physical offsets, None where the file does not hold them."""
    if not file.start <= start <= end <= file.end:
        return None
    return read_at(file, start - file.start, end - start)


def _entries(theirs: MappedFile, gap: Gap) -> tuple[Anchor, int] | None:
    """Return the last of the valid entries that fill a gap, and the physical offset after what is to be taken; None if they do not."""
    if gap.start >= theirs.end:
        return None
    chain = EntryChain()
    scanner = LogScanner(checks=Check.BODY_CRC | Check.PROPERTY_CRC, lead=ENTRY_HEADER_SIZE)
    last, expected = gap.before, gap.start
    for event in scanner.scan(theirs, start=gap.start):
        if isinstance(event, Batch):
            rows = chain.follow(event)
            count = int((rows.starts < gap.end).sum())
            fits = (event.records["faults"] & int(INVALID)) == 0
            for name, values in rows.wanted.items():
                fits &= rows.headers[name] == values
            if not count:
                break
            number, term = int(rows.numbers[0]), int(rows.terms[0])
            steps = np.diff(rows.terms[:count], prepend=term if last is None else last.term)
            if not fits[:count].all() or rows.breaks or (steps < 0).any() or int(rows.starts[0]) != expected:
                return None
            if last is not None and number != last.number + 1:
                return None
            expected = int(rows.starts[count - 1] + rows.wanted["size"][count - 1])
            last = Anchor(int(rows.starts[count - 1]), expected, int(rows.numbers[count - 1]), int(rows.terms[count - 1]))
            if count < len(rows.starts):
                break
        elif isinstance(event, Damage):
            return None
        elif event.reason is Stop.BLANK:
            expected = theirs.end if gap.closes else event.position
    if last is None or last is gap.before:
        return None
    if gap.after is None:
        return last, expected
    continues = last.number + 1 == gap.after.number and last.term <= gap.after.term
    return (last, gap.end) if continues and expected == gap.end else None


def fill_gaps(gaps: Sequence[Gap], members: Sequence[Member]) -> tuple[list[Edit], list[TakenRange], list[Gap], Anchor | None]:
    """Return the edits that fill gaps, what they take, the gaps that remain, and the last entry if the log ends with one of them."""
    edits: list[Edit] = []
    taken: list[TakenRange] = []
    left: list[Gap] = []
    last = None
    for gap in gaps:
        filled = next((found for member in members if (found := member.fill(gap)) is not None), None)
        if filled is None:
            left.append(gap)
            continue
        edits += filled[0]
        taken.append(filled[1])
        last = filled[2] if gap.after is None else last
    return edits, taken, left, last
