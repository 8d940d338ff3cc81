"""Files that the commit log will have: foreign ones leave it; too short, too long or missing ones are made in full length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.formats.message import BLANK, BLANK_MAGIC, BLANK_SIZE
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.repair.log.edits import FileAction, FileEdit
from rmqstore.store.mapped import MappedFile, OddEntry, ProblemKind, infer_file_size, parse_offset_name
from rmqstore.store.root import Store
from rmqstore.store.window import read_at
from rmqstore.verify.log.runs import runs_of
from rmqstore.verify.parts.files import evidence_of_messages

_ODD_CODES = {
    ProblemKind.FOREIGN_NAME: ("RMQ-CL-NAME", "a foreign file among the files of the log"),
    ProblemKind.DIRECTORY: ("RMQ-ST-FOREIGN", "a directory among the files of the log"),
    ProblemKind.DUPLICATE_NAME: ("RMQ-CL-OVERLAP", "another directory of the log has a file of this name"),
    ProblemKind.ZERO_LENGTH: ("RMQ-CL-ZEROLEN", "an empty file, which holds nothing"),
}


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Files of a log. `files`: those that can hold records, as they are, too long ones cut to `file_size` bytes; `odd`: all that leave."""

    files: tuple[MappedFile, ...]
    odd: tuple[OddEntry, ...]
    file_size: int

    def full(self, file: MappedFile) -> MappedFile:
        """Return the file in the length it will have."""
        return replace(file, length=self.file_size)


def files_of(store: Store) -> LogFiles:
    """Return the files of the commit log of `store`, none for one that never held a message.

    Raises RefusedError for a log that cannot be repaired from what is there, UnreadableError.
    """
    if store.dledger is not None:
        raise RefusedError(
            "The commit log belongs to a DLedger group, whose members repair each other.",
            "Copy the store of a healthy member, or let the group rebuild this one from an empty store.",
        )
    log = store.commitlog
    if not log.files and not log.odd:
        require_no_messages(store)
    size = log.file_size or store.config.integer("mappedFileSizeCommitLog")
    inferred = infer_file_size(log.files, size)
    alike = [file for file in log.files if file.length == inferred]
    if inferred != size and 2 * len(alike) > len(log.files) and (len(alike) > 1 or not _is_resized(alike[0], size)):
        raise RefusedError(
            f"mappedFileSizeCommitLog is {size}, but the files of the log have {inferred} bytes.",
            "Give the broker's own configuration with --broker-conf FILE, or --set mappedFileSizeCommitLog=BYTES.",
        )
    misnamed = [file for file in log.files if file.start % size]
    for file in misnamed:
        if any(not run.shift for run in runs_of(file)):
            raise RefusedError(
                f"{store.relative(file.path)} is named by an offset that is no multiple of the file length {size}, and holds its records.",
                "Give the broker's own configuration with --broker-conf FILE, or --set mappedFileSizeCommitLog=BYTES.",
            )
    files = tuple(replace(file, length=min(file.length, size)) for file in log.files if file not in misnamed)
    odd = (*log.odd, *(OddEntry(file.path, ProblemKind.FOREIGN_NAME, file.length, "the name is no offset of a file") for file in misnamed))
    _require_directories(store, files, size)
    return LogFiles(files, odd, size)


def _is_resized(file: MappedFile, size: int) -> bool:
    """Return whether nothing in a single file supports its own length: it is no multiple or part of `size`, and no BLANK ends there.

    Nor does a valid record reach beyond `size`.
    """
    if not max(size, file.length) % min(size, file.length):
        return False
    last = max((run.position_end for run in runs_of(file) if not run.shift), default=0)
    if last > size:
        return False
    end = read_at(file, last, min(BLANK_SIZE, file.length - last)) if last < file.length else b""
    return last < file.length - BLANK_SIZE and end != BLANK.build({"total_size": file.length - last, "magic_code": BLANK_MAGIC})


def require_no_messages(store: Store) -> None:
    """Raise RefusedError for a store without a log file in which there is other evidence of messages."""
    evidence = evidence_of_messages(store)
    if evidence is not None:
        raise RefusedError(
            f"There is no commit log file in {store.commitlog_directories.writable[0]}, but {evidence}.",
            "Mount the volume, or name the directory with --set storePathCommitLog=DIR, or restore the files. Up to 4.9.3 it is "
            "store/commitlog in the home directory of the broker's user if no setting names it.",
        )


def _require_directories(store: Store, files: Sequence[MappedFile], size: int) -> None:
    """Raise RefusedError for missing log files if a directory of the log does not exist, as when a volume is not mounted."""
    directories = store.commitlog_directories
    absent = next((path for path in (*directories.writable, *directories.read_only) if not path.is_dir()), None)
    if absent is not None and next(missing(files, size), None) is not None:
        raise RefusedError(
            f"Files of the commit log are missing, and so is {absent}, one of the directories of the log.",
            "Mount the volume or restore the files; if they are lost for good, create an empty directory there.",
        )


def gone(entries: tuple[OddEntry, ...], made: frozenset[Path] = frozenset()) -> Iterator[FileEdit]:
    """Yield the unexpected entries that leave the log; `made` are paths that a new file takes, together with the bytes there."""
    for entry in entries:
        if entry.path not in made:
            code, reason = _ODD_CODES.get(entry.kind, _ODD_CODES[ProblemKind.FOREIGN_NAME])
            yield FileEdit(entry.path, FileAction.QUARANTINED, reason, code)


def brought_to_length(store: Store, kept: Sequence[MappedFile], size: int) -> Iterator[FileEdit]:
    """Yield files that have another length than they should: no broker starts on them."""
    lengths = {file.path: file.length for file in store.commitlog.files}
    for file in kept:
        if lengths[file.path] != size:
            yield FileEdit(file.path, FileAction.REPLACED, f"brought to its full length of {size} bytes", "RMQ-CL-FILELEN")


def emptied(odd: Sequence[OddEntry], first: MappedFile, size: int) -> Iterator[MappedFile]:
    """Yield the files before the `first` one of the log, from the first empty one on: expired files are deleted, not emptied."""
    starts = {parse_offset_name(entry.path.name): entry.path for entry in odd if entry.kind is ProblemKind.ZERO_LENGTH}
    before = {start: path for start, path in starts.items() if start is not None and start < first.start and start % size == 0}
    for start in range(min(before, default=first.start), first.start, size):
        yield MappedFile(before.get(start, first.path.with_name(offset_to_file_name(start))), start, size, 0)


def missing(files: Sequence[MappedFile], size: int, place: Callable[[MappedFile], Path] = lambda file: file.path) -> Iterator[MappedFile]:
    """Yield files that do not exist and should, between those that do, in the directory of the file before, which is at `place`."""
    for before, behind in pairwise(files):
        for start in range(before.start + size, behind.start, size):
            yield MappedFile(place(before).with_name(offset_to_file_name(start)), start, size, 0)
