"""Cut of the log at a record boundary: the rest of that file becomes zeros, later files leave, no length changes (commit log §9.5)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

from rmqstore.errors import RefusedError
from rmqstore.reading.progress import Advance, silent
from rmqstore.repair.log import segments
from rmqstore.repair.log.edits import Edit, FileAction, FileEdit, LogRepair
from rmqstore.repair.log.future import FutureLog, Patch
from rmqstore.repair.log.segments import LogFiles
from rmqstore.repair.log.survey import FileSurvey, require_records, survey
from rmqstore.repair.plan.model import LostMessage
from rmqstore.scan.columns import Check, Fault, Stop
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from rmqstore.versions import profile_of

_MOST_LISTED = 100_000
_DAMAGED = Fault.BODY_CRC | Fault.PHYSICAL_OFFSET | Fault.PROPERTY_CRC


def truncate(store: Store, release: str, at: int | None = None, *, why: str = "cut off", advance: Advance = silent) -> LogRepair:
    """Return the cut of the log of `store` at physical offset `at`, or, without one, after its last valid record.

    Damage before the cut stays. Raises RefusedError (`at` is no record boundary, no record at all), UnreadableError,
    StoreChangedError.
    """
    log = segments.files_of(store)
    if not log.files:
        return LogRepair(FutureLog((), 0))
    results = survey(store, list(log.files), reads_v2=profile_of(release).reads_v2, advance=advance)
    require_records(results)
    natural = max((result.end_offset for result in results if result.records), default=log.files[0].start)
    if at is not None and at not in (natural, _closed_at(log, results)):
        require_boundary([log.full(file) for file in log.files], at, log.files[0].start, natural)
    return _cut(store, log, results, natural if at is None else at, why)


def cut_where_broker_stops(store: Store, release: str, at: int, *, advance: Advance = silent) -> LogRepair:
    """Cut as `truncate` does, at the offset where the recovery of a broker of `release` stops reading."""
    log = segments.files_of(store)
    results = survey(store, list(log.files), reads_v2=profile_of(release).reads_v2, advance=advance)
    require_records(results)
    natural = max((result.end_offset for result in results if result.records), default=log.files[0].start)
    return _cut(store, log, results, min(at, natural), f"a broker of {release} stops reading here")


def _cut(store: Store, log: LogFiles, results: Sequence[FileSurvey], at: int, why: str) -> LogRepair:
    kept = [result for number, result in enumerate(results) if number == 0 or result.file.start < at]
    last = log.full(kept[-1].file)
    edits: list[Edit] = []
    # At the border of two files the file before keeps its BLANK, and a broker continues there (fact sheet commit log §5.3).
    end = kept[-1].end_offset if at >= last.end else at
    closed = _is_closed(kept[-1]) and kept[-1].end_offset == at
    if at < last.end and not closed and _scanner().last_nonzero(kept[-1].file, at) is not None:
        edits.append(Edit(Patch(at, last.end), f"zeroed: {why}", "RMQ-CL-TAILBYTES"))
    behind = results[len(kept) :]
    files = [FileEdit(result.file.path, FileAction.QUARANTINED, f"it is after the end of the log: {why}") for result in behind]
    files += segments.brought_to_length(store, [result.file for result in kept], log.file_size)
    present = {str(result.file.path): result.file.length for result in kept}
    future = FutureLog(tuple(log.full(result.file) for result in kept), end, tuple(edit.patch for edit in edits), present=present)
    lost, about_lost = records_after(log.files, at, why)
    return LogRepair(future, tuple(edits), tuple(files), lost, (*_notes(kept, at), *about_lost))


def records_after(files: Sequence[MappedFile], at: int, why: str, *, entry_header: int = 0) -> tuple[tuple[LostMessage, ...], list[str]]:
    """Return the valid records that a cut at a physical offset removes, up to a number of them, and a note if there are more.

    `entry_header` bytes are before each record. Raises UnreadableError, StoreChangedError.
    """
    lost = tuple(islice(_records_behind(files, at, why, entry_header), _MOST_LISTED + 1))
    more = [f"More than {_MOST_LISTED} messages are cut off; the list has the first of them."] if len(lost) > _MOST_LISTED else []
    return lost[:_MOST_LISTED], more


def require_boundary(files: Sequence[MappedFile], at: int, first: int, end: int, *, entry_header: int = 0) -> None:
    """Raise RefusedError for a physical offset where no record, with the bytes before it, begins or ends between `first` and `end`."""
    if not first <= at < end:
        raise RefusedError(f"{at} is outside of the log, whose records go from {first} to {end}.", "Name an offset inside of it.")
    file = next((file for file in files if file.start <= at < file.end), None)
    boundaries = [] if file is None else _boundaries(file, entry_header)
    if at in boundaries:
        return
    number = bisect_left(boundaries, at)
    around = [str(offset) for offset in boundaries[max(0, number - 1) : number + 1]]
    hint = f"The nearest boundaries are {' and '.join(around)}." if around else "The file that should hold it is missing."
    raise RefusedError(f"No record begins or ends at {at}.", hint)


def _is_closed(result: FileSurvey) -> bool:
    """Return whether a file ends with a BLANK."""
    return result.end is not None and result.end.reason is Stop.BLANK


def _closed_at(log: LogFiles, results: Sequence[FileSurvey]) -> int | None:
    """Return the end of the last file with records, if a BLANK closes it: there the log ends, too."""
    last = max((result for result in results if result.records), key=lambda result: result.file.start, default=None)
    return log.full(last.file).end if last is not None and _is_closed(last) else None


def _boundaries(file: MappedFile, entry_header: int) -> list[int]:
    """Return where records of a file begin and end, ascending."""
    found = {file.start}
    for batch in _scanner(entry_header).batches(file):
        found.update((batch.records["position"] - entry_header).tolist())
        found.update((batch.records["position"] + batch.records["size"]).tolist())
    return sorted(found)


def _records_behind(files: Sequence[MappedFile], at: int, why: str, entry_header: int) -> Iterator[LostMessage]:
    """Yield the valid records that the cut removes."""
    scanner = _scanner(entry_header)
    for file in files:
        if file.end <= at:
            continue
        for batch in scanner.batches(file, start=max(at, file.start)):
            for record in batch.records[(batch.records["faults"] & int(_DAMAGED)) == 0]:
                topic, queue_id = scanner.queue(int(record["queue"]))
                place = int(record["position"]), int(record["size"])
                yield LostMessage(topic, queue_id, int(record["queue_offset"]), *place, why)


def _scanner(entry_header: int = 0) -> LogScanner:
    return LogScanner(checks=Check.BODY_CRC | Check.PROPERTY_CRC, lead=entry_header)


def _notes(kept: Sequence[FileSurvey], at: int) -> Iterator[str]:
    damaged = [hole.start for result in kept for hole in result.holes if hole.end <= at]
    damaged += [
        suspect.position for result in kept for suspect in result.suspects.values() if suspect.faults & _DAMAGED and suspect.position < at
    ]
    if damaged:
        places = "1 damaged place is" if len(damaged) == 1 else f"{len(damaged)} damaged places are"
        yield f"{places} before the cut, first at {min(damaged)}: `rmqstore recover` repairs or fills them and keeps what is after them."
