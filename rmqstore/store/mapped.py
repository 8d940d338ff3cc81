"""Mapped file queues: the files of one logical byte range, named by the offset of their first byte.

A queue is listed without opening a file. Entries that do not belong to it, or do not fit their neighbours, are kept as data, so that
verification can report them (fact sheet commit log §1.2, §4.2; queues §2.1, §2.7).
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from rmqstore.errors import GoneError, UnreadableError
from rmqstore.store.entries import Entry

Made = TypeVar("Made")
OFFSET_NAME_LENGTH = 20
_LARGEST_OFFSET = 2**63 - 1


class ProblemKind(StrEnum):
    """The problems of entries of a mapped file queue."""

    GAP = "gap"
    OVERLAP = "overlap"
    WRONG_LENGTH = "wrong_length"
    ZERO_LENGTH = "zero_length"
    FOREIGN_NAME = "foreign_name"
    DIRECTORY = "directory"
    DUPLICATE_NAME = "duplicate_name"
    MISALIGNED_NAME = "misaligned_name"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of one entry. `expected` and `found` are bytes or offsets, if the kind has them.

    For `GAP` and `OVERLAP`, `path` is the file after the border, `expected` the end of the file before it, `found` its own start.
    """

    kind: ProblemKind
    path: Path
    detail: str
    expected: int | None = None
    found: int | None = None


@dataclass(frozen=True, slots=True)
class MappedFile:
    """One file of a queue: `start` is the offset in its name, `length` its size, `allocated` the bytes the file system spent.

    `location` is its path, which is kept as text: a Path takes as much memory as all the rest four times.
    """

    location: Path | str
    start: int
    length: int
    allocated: int

    def __post_init__(self) -> None:
        if not isinstance(self.location, str):
            object.__setattr__(self, "location", str(self.location))

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return Path(self.location)

    @property
    def end(self) -> int:
        """Return the offset after the last byte of the file."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class OddEntry:
    """An entry of the directory that is not a file of the queue: foreign name, directory, empty file, second file of one name."""

    path: Path
    kind: ProblemKind
    length: int
    detail: str


def parse_offset_name(name: str) -> int | None:
    """Return the offset in bytes of a 20-digit file name; None for any other name."""
    if len(name) == OFFSET_NAME_LENGTH and name.isascii() and name.isdigit():
        offset = int(name)
        return offset if offset <= _LARGEST_OFFSET else None
    return None


def _former_file(entry: OddEntry) -> MappedFile | None:
    """Return a file whose name is an offset with more after it, such as `.bak`, under that offset."""
    start = parse_offset_name(entry.path.name[:OFFSET_NAME_LENGTH]) if entry.kind is ProblemKind.FOREIGN_NAME else None
    return MappedFile(entry.path, start, entry.length, 0) if start is not None and entry.length else None


@dataclass(frozen=True, slots=True)
class MappedFileQueue:
    """The files of one queue in offset order, and the other entries of its directories. `file_size` is the length all files should have."""

    files: tuple[MappedFile, ...]
    odd: tuple[OddEntry, ...] = ()
    file_size: int | None = None

    @classmethod
    def scan(
        cls, directories: Sequence[Path] | Path, *, configured_size: int | None = None, expected_size: int | None = None
    ) -> MappedFileQueue:
        """List `directories` (missing ones count as empty) as one queue.

        `configured_size` is the length in the broker's configuration and always wins; without it the length is inferred from the files,
        and `expected_size` (bytes) decides if they show none. Raises UnreadableError.
        """
        entries: list[Entry] = []
        for directory in [directories] if isinstance(directories, Path) else directories:
            entries.extend(list_directory(directory))
        return cls.of_entries(entries, configured_size=configured_size, expected_size=expected_size)

    @classmethod
    def of_entries(
        cls, entries: Iterable[Entry], *, configured_size: int | None = None, expected_size: int | None = None
    ) -> MappedFileQueue:
        """Return the queue of directory entries; the first directory wins if two hold the same name."""
        files: dict[int, MappedFile] = {}
        odd: list[OddEntry] = []
        for entry in entries:
            result = _classify(entry)
            if isinstance(result, OddEntry):
                odd.append(result)
            elif result.start in files:
                detail = f"the same name is in {files[result.start].path.parent}"
                odd.append(OddEntry(result.path, ProblemKind.DUPLICATE_NAME, result.length, detail))
            else:
                files[result.start] = result
        ordered = tuple(files[start] for start in sorted(files))
        odd.sort(key=lambda entry: (entry.path.name, entry.path))
        # A single file says little about its length; files with more after the offset in their names were files of this queue as well.
        former = [] if len(ordered) != 1 else [file for entry in odd if (file := _former_file(entry)) is not None]
        beside = [file for file in former if file.start not in files]
        alike = sorted([*ordered, *beside], key=attrgetter("start"))
        return cls(ordered, tuple(odd), configured_size or infer_file_size(alike, expected_size))

    @property
    def is_even(self) -> bool:
        """Return whether all files have the length of the queue, and names that are multiples of it."""
        return all(file.length == self.file_size and file.start % self.file_size == 0 for file in self.files)

    def find(self, offset: int) -> MappedFile | None:
        """Return the file that holds `offset` (bytes), or None in a gap, before the first or after the last file."""
        index = bisect_right(self.files, offset, key=attrgetter("start")) - 1
        if index >= 0 and offset < self.files[index].end:
            return self.files[index]
        return None

    @property
    def min_offset(self) -> int:
        """Return the offset of the first byte of the first file, 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def max_offset(self) -> int:
        """Return the offset after the last byte of the last file, 0 without files. Written data usually ends before it."""
        return self.files[-1].end if self.files else 0

    @property
    def length(self) -> int:
        """Return the sum of the file lengths in bytes."""
        return sum(file.length for file in self.files)

    @property
    def allocated(self) -> int:
        """Return the bytes that the file system spent on the files."""
        return sum(file.allocated for file in self.files)

    @property
    def last_name(self) -> str:
        """The name that sorts last, of files and of other entries, empty without any: brokers delete an empty file of that name."""
        # Names of files are offsets of 20 digits, so they sort as the files do.
        return max([*(file.path.name for file in self.files[-1:]), *(entry.path.name for entry in self.odd)], default="")

    def problems(self) -> Iterator[Problem]:
        """Yield everything that does not fit, in offset order, foreign entries last."""
        previous: MappedFile | None = None
        for file in self.files:
            if previous is not None:
                yield from self._border(previous, file)
            if self.file_size and file.start % self.file_size:
                aligned = file.start - file.start % self.file_size
                detail = f"the name is not a multiple of the file length {self.file_size}"
                yield Problem(ProblemKind.MISALIGNED_NAME, file.path, detail, aligned, file.start)
            if self.file_size and file.length != self.file_size:
                detail = f"{file.length} bytes long, the files of this queue have {self.file_size}"
                yield Problem(ProblemKind.WRONG_LENGTH, file.path, detail, self.file_size, file.length)
            previous = file
        for entry in self.odd:
            expected = self.file_size if entry.kind is ProblemKind.ZERO_LENGTH else None
            yield Problem(entry.kind, entry.path, entry.detail, expected, entry.length)

    def _border(self, previous: MappedFile, file: MappedFile) -> Iterator[Problem]:
        # A file of the wrong length is reported as such; its neighbours are judged by the length it should have.
        end = previous.start + (self.file_size or previous.length)
        if file.start > end:
            detail = f"{file.start - end} bytes are missing after {previous.path.name}"
            yield Problem(ProblemKind.GAP, file.path, detail, end, file.start)
        elif file.start < end:
            detail = f"begins {end - file.start} bytes before {previous.path.name} ends"
            yield Problem(ProblemKind.OVERLAP, file.path, detail, end, file.start)


def infer_file_size(files: Sequence[MappedFile], expected_size: int | None = None) -> int | None:
    """Return the length in bytes that all `files` should have: what most lengths and names agree with (fact sheet commit log §1.2)."""
    if not files:
        return expected_size
    lengths = Counter(file.length for file in files)
    distances = Counter(right.start - left.start for left, right in itertools.pairwise(files))
    candidates = [size for size in {*lengths, *distances, expected_size or 0} if size > 0]

    def votes(size: int) -> tuple[int, bool, int, int, int]:
        fitting = sum(file.start % size == 0 for file in files)
        # A distance is a length only if no file is missing, so it can confirm lengths but is never worth more than one, and
        # less than a length that several files have: a file under a wrong name is likelier than several files of a wrong length.
        return lengths[size] + distances[size] + fitting, lengths[size] > 1, fitting, lengths[size], -size

    return max(candidates, key=votes)


class Skipped(IntEnum):
    """The entries that `list_directory` skips without read permission."""

    NOTHING = 0
    DIRECTORIES = 1
    FILES = 2


_SKIPPED: ContextVar[Skipped] = ContextVar("skipped", default=Skipped.NOTHING)


def list_directory(directory: Path | str, *, skips: Skipped | None = None) -> list[Entry]:
    """Return the entries of a directory by name, none if there is no directory. Raises UnreadableError.

    A file or a link to itself in place of a directory is a finding of verification, and holds no entries. `skips` counts instead of
    what this context skips. Within `listing_once` the list is shared: callers leave it as it is.
    """
    path, skipped = str(directory), _SKIPPED.get() if skips is None else skips
    return once((path, skipped), lambda: _list(path, skipped))


def _list(directory: str, skips: Skipped) -> list[Entry]:
    if skips is not Skipped.NOTHING:
        entries = list_directory(directory, skips=Skipped.NOTHING) if os.access(directory, os.R_OK | os.X_OK) else []
        left_out = skips is Skipped.FILES
        return [entry for entry in entries if not entry.is_file() or os.access(entry.path, os.R_OK)] if left_out else entries
    within = directory if directory.endswith("/") else f"{directory}/"
    try:
        with os.scandir(directory) as found:
            return sorted([Entry(within, entry) for entry in found], key=attrgetter("name"))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return []
        raise unreadable(directory, error) from error


_LISTED: ContextVar[dict[Hashable, Any] | None] = ContextVar("listed", default=None)


@contextmanager
def listing_once(*, afresh: bool = False) -> Iterator[None]:
    """List every directory at most once in this context and thread, for one look at a store; with `afresh` list it every time.

    The listings end with the look: to see what changed, look again. In a context within another one the listings of the outer one count.
    """
    token = _LISTED.set(None if afresh else {} if _LISTED.get() is None else _LISTED.get())
    try:
        yield
    finally:
        _LISTED.reset(token)


def with_listings(function: Callable[[], Made]) -> Callable[[], Made]:
    """Return the function with the listings of this context, for another thread."""
    listed = _LISTED.get()

    def run() -> Made:
        token = _LISTED.set(listed)
        try:
            return function()
        finally:
            _LISTED.reset(token)

    return run


def once(key: Hashable, make: Callable[[], Made]) -> Made:
    """Return what `make` returns; within `listing_once` what it returned first for this key, which names what this context skips."""
    listed = _LISTED.get()
    if listed is None:
        return make()
    if key not in listed:
        listed[key] = make()
    made: Made = listed[key]
    return made


def skipped() -> Skipped:
    """Return what this context skips."""
    return _SKIPPED.get()


@contextmanager
def skipping_denied(*, files: bool = False) -> Iterator[None]:
    """In this context and thread, list a directory without read permission as empty, and with `files` leave out such files.

    For readers that report denied paths (`store.access`) and conclude nothing from what seems to be missing.
    """
    token = _SKIPPED.set(Skipped.FILES if files else Skipped.DIRECTORIES)
    try:
        yield
    finally:
        _SKIPPED.reset(token)


def unreadable(path: Path | str, error: OSError) -> UnreadableError:
    """Return the error for users if the operating system refuses `path`."""
    if isinstance(error, FileNotFoundError):
        return GoneError(f"{path} does not exist.", "Check the path; it may have been removed while it was read.")
    if isinstance(error, PermissionError):
        return UnreadableError(f"{path}: permission denied.", "Run as the user that the broker runs as, or as root.")
    return UnreadableError(
        f"{path} could not be read: {error.strerror or error}.", "Look at the device and the kernel log, or work on a copy."
    )


def _classify(entry: Entry) -> MappedFile | OddEntry:
    try:
        status = entry.stat()
    except OSError as error:
        return OddEntry(Path(entry.path), ProblemKind.FOREIGN_NAME, 0, f"cannot be accessed: {error.strerror or error}")
    start = parse_offset_name(entry.name)
    if start is not None and status.st_size and stat.S_ISREG(status.st_mode):
        return MappedFile(entry.path, start, status.st_size, status.st_blocks * 512)
    path = Path(entry.path)
    if stat.S_ISDIR(status.st_mode):
        return OddEntry(path, ProblemKind.DIRECTORY, 0, "a directory among the files of a queue")
    if not stat.S_ISREG(status.st_mode):
        return OddEntry(path, ProblemKind.FOREIGN_NAME, 0, "neither a file nor a directory")
    if start is None:
        detail = "a number, but not of 20 digits" if entry.name.isascii() and entry.name.isdigit() else "the name is no offset"
        return OddEntry(path, ProblemKind.FOREIGN_NAME, status.st_size, detail)
    return OddEntry(path, ProblemKind.ZERO_LENGTH, 0, "an empty file, left by a broker that died or ran out of space while creating it")
