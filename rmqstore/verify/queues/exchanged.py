"""Files of a consume queue that hold the units of another queue, as after a wrong `mv` or a restore into the wrong directory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmqstore.findings import Finding
from rmqstore.formats.consumequeue import PRE_BLANK_SIZE, UNIT_SIZE
from rmqstore.formats.naming import can_exist
from rmqstore.scan.ranges import in_ranges
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import data_extents, read_at
from rmqstore.verify.context import Context
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.verify.queues.targets import Targets

CODE = "RMQ-CQ-EXCHANGED"
_LOOKED_AT = 4096  # units of a file
_KNOWN = 0.9  # share of them that has to point at a record of one queue alone
# Findings about single units that such a file explains.
_EXPLAINED = frozenset({"RMQ-CQ-UNIT", "RMQ-CQ-SURPLUS", "RMQ-CQ-SHIFTED", "RMQ-CQ-ORDER", "RMQ-CQ-SIZE", "RMQ-CQ-TAGS", "RMQ-CQ-LOST"})


@dataclass(frozen=True, slots=True)
class Held:
    """The content of a file: the units of queue `owner` from queue offset `first` on."""

    owner: QueueKey
    first: int

    def __str__(self) -> str:
        return f"{self.owner[0]}/{self.owner[1]} from queue offset {self.first}"


def exchanged_files(context: Context, targets: Targets, key: QueueKey, directory: QueueDirectory) -> dict[Path, Held]:
    """Return the files of queue `key` that hold units of another place: all point at records of one queue, in their order.

    A file whose units show nothing, as their messages expired, is judged like the other files of its directory. `other_sides` finds
    directories of which no file shows anything. Raises UnreadableError.
    """
    shifts = {file.path: _shift(context, targets, key, file) for file in directory.files.files}
    named = {shift for shift in shifts.values() if shift is not None}
    rest = next(iter(named)) if len(named) == 1 else None
    found: dict[Path, Held] = {}
    for file in directory.files.files:
        owner, shift = shifts[file.path] or rest or (key, 0)
        first = file.start // UNIT_SIZE + shift
        # A queue whose units are not at their QUEUEOFFSETs is no exchange: brokers leave some so. No file holds a place below 0.
        if first >= 0 and (owner != key or (shift and shift * UNIT_SIZE % file.length == 0)):
            found[file.path] = Held(owner, first)
    return found


def other_sides(
    context: Context, targets: Targets, queues: Mapping[QueueKey, QueueDirectory], exchanged: Mapping[Path, Held]
) -> dict[QueueKey, dict[Path, Held]]:
    """Return what files of directories hold whose units show nothing, and whose own units are in the directory of one other queue.

    They hold those of the other queue: so the files of a queue whose messages have all expired are known after an exchange. `exchanged` are
    the files that show what they hold. Raises UnreadableError.
    """
    holders: dict[QueueKey, set[QueueKey]] = defaultdict(set)
    for key, directory in queues.items():
        for file in directory.files.files:
            if file.path in exchanged:
                holders[exchanged[file.path].owner].add(key)
    found: dict[QueueKey, dict[Path, Held]] = {}
    for owner, places in holders.items():
        (place, *more) = places
        here, there = queues.get(owner), queues[place]
        if more or here is None or place in holders or place == owner or any(file.path in exchanged for file in here.files.files):
            continue
        in_place = all(exchanged.get(file.path) == Held(owner, file.start // UNIT_SIZE) for file in there.files.files)
        unshown = all(_shift(context, targets, owner, file) is None for file in here.files.files)
        if in_place and unshown and _are_of_two_queues(here, there):
            found[owner] = {file.path: Held(place, file.start // UNIT_SIZE) for file in here.files.files}
    return found


def _are_of_two_queues(one: QueueDirectory, other: QueueDirectory) -> bool:
    """Return whether the units of one directory are no earlier state, and no first files, of those in the other one."""
    (first, last), (begin, _) = _ends(one), _ends(other)
    if first == last or last == begin:
        return False
    file, there = one.files.find(first), other.files.find(first)
    if file is None or there is None:
        return True
    return read_at(file, first - file.start, UNIT_SIZE) != read_at(there, first - there.start, UNIT_SIZE)


def _ends(directory: QueueDirectory) -> tuple[int, int]:
    """Return where the first unit of a queue that is not zero begins and the last one ends, in bytes of the queue; else 0, 0."""
    used: list[int] = []
    for file in directory.files.files:
        for start, end in data_extents(file):
            first = start // UNIT_SIZE
            units = np.frombuffer(read_at(file, first * UNIT_SIZE, (end // UNIT_SIZE - first) * UNIT_SIZE), UNIT_ROWS)
            filled = np.flatnonzero(units["size"] > 0)
            if filled.size:
                used += [file.start + (first + int(filled[0])) * UNIT_SIZE, file.start + (first + int(filled[-1]) + 1) * UNIT_SIZE]
    return (used[0], used[-1]) if used else (0, 0)


def _shift(context: Context, targets: Targets, key: QueueKey, file: MappedFile) -> tuple[QueueKey, int] | None:
    """Return the one queue whose records the units of a file point at, and QUEUEOFFSET minus place, equal for all; None without one."""
    log = context.log
    found: set[tuple[QueueKey, int]] = set()
    looked = 0
    for start, end in data_extents(file):
        first, count = start // UNIT_SIZE, min(end // UNIT_SIZE - start // UNIT_SIZE, _LOOKED_AT - looked)
        units = np.frombuffer(read_at(file, first * UNIT_SIZE, count * UNIT_SIZE), UNIT_ROWS)
        offsets = units["physical_offset"].astype(np.int64)
        live = (offsets >= log.min_offset) & (offsets < log.end_offset) & (units["size"] > 0) & (units["size"] != PRE_BLANK_SIZE)
        live &= ~(in_ranges(offsets, log.damages) | in_ranges(offsets, context.options.given_up))
        if not live.any():
            continue
        looked += int(np.count_nonzero(live))
        keys, rows, places = targets.owners(key, units[live])
        shifts = places - (file.start // UNIT_SIZE + first + np.flatnonzero(live))
        # A negative QUEUEOFFSET, which no release writes, does not show a place.
        shown = (places >= 0) & (rows >= 0)
        shifts[places < 0] = shifts[shown][0] if shown.any() else 0
        if np.count_nonzero(rows >= 0) < _KNOWN * len(rows):
            return None
        # A record of a queue that no broker creates has a damaged field.
        pairs = set(zip(rows.tolist(), shifts.tolist(), strict=True))
        found |= {(keys[row], shift) for row, shift in pairs if row >= 0 and can_exist(*keys[row])}
        if len(found) > 1:
            return None
    return found.pop() if found else None


def summed_up(
    context: Context, key: QueueKey, directory: QueueDirectory, exchanged: Mapping[Path, Held], findings: list[Finding]
) -> Iterator[Finding]:
    """Yield a finding per exchanged file in place of the `findings` about its single units, then the other findings."""
    whole = len(exchanged) == len(directory.files.files)
    for path, held in exchanged.items():
        yield context.finding(
            CODE,
            f"{'every file of this queue' if whole else 'this file'} holds entries of another place: {held}",
            file=path,
            position=0,
            topic=key[0],
            queue_id=key[1],
            expected=f"{key[0]}/{key[1]}",
            found=f"{held.owner[0]}/{held.owner[1]}",
        )
    hidden = {context.store.relative(path) for path in (*exchanged, directory.directory)}
    yield from (one for one in findings if one.code not in _EXPLAINED or one.file not in hidden)
