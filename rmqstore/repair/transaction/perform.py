"""Execution of one action, from any intermediate state, so that doing it again after a stop in the middle completes it.

Changes that another process made meanwhile are not overwritten. A range may hold old and new bytes only, byte by byte; a file
moves only while it is the file of the undo record; a new file takes a free name only.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath, copies, entries
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan import fingerprint
from rmqstore.repair.plan.attributes import of_status
from rmqstore.repair.plan.fingerprint import BLOCK, blocks_with_data
from rmqstore.repair.plan.model import Action, ActionKind, Attributes, FileStamp
from rmqstore.repair.plan.paths import Devices, Places
from rmqstore.repair.transaction.folder import Transaction, resume_commands
from rmqstore.repair.transaction.journal import Before, Journal, Story
from rmqstore.store.window import read_descriptor

_PAGE = 4096

Reader = Callable[[int, int], bytes]


class ForeignChangeError(RefusedError):
    """Another process changed the store while a transaction was changing it."""

    def __init__(self, transaction: Transaction, what: str) -> None:
        continued, undone = resume_commands(transaction)
        way = undone if transaction.plan.undoes is None else continued
        super().__init__(
            f"Another process changed the store meanwhile, and transaction {transaction.id} stopped: {what}.",
            f"Stop the broker, then restore what can be restored with `{way}`.",
        )


class Performer:
    """Execution of the actions of one transaction."""

    def __init__(self, transaction: Transaction, places: Places, writer: Writer, journal: Journal, story: Story) -> None:
        self._transaction = transaction
        self._places = places
        self._writer = writer
        self._journal = journal
        self._before = story.before
        self._copying = set(story.copying)
        self._unsynced: set[Path] = set()
        self._unsettled: dict[str, Attributes] = {}
        self._devices = Devices()
        self._present: set[str] = set()  # directories that were there, or made, when an action looked

    def perform(self, number: int, action: Action) -> None:
        """Do one action. Names of files are on the disk after `sync` only, and directories have their attributes only then.

        Raises ForeignChangeError, OSError, UnreadableError.
        """
        before = self._before[number]
        if action.in_place:
            if before.linked:
                self._take_own_copy(number, action, before)
            self._overwrite(action, before)
            self._settle_directories(action, before)
            return
        self._make_directories(action)
        if action.kind is ActionKind.CREATE:
            self._bring_in(number, action, before)
        elif action.kind is ActionKind.QUARANTINE:
            self._take_out(action, before)
        else:
            if number not in self._copying and beneath.exists(self._transaction.source(number, action)):
                self._take_out(action, before)
            self._bring_in(number, action, before)
        self._settle_directories(action, before)

    def sync(self) -> None:
        """Give directories their attributes, and force the names of all files that were added or removed to the disk."""
        for name, attributes in self._unsettled.items():
            path = self._places.directory(name)
            if beneath.is_directory(path):
                self._writer.set_directory_attributes(path, attributes)
        self._unsettled.clear()
        self._writer.fsync_all([directory for directory in sorted(self._unsynced) if beneath.is_directory(directory)])
        self._unsynced.clear()

    # Bytes of a file that stays

    def _take_own_copy(self, number: int, action: Action, before: Before) -> None:
        """Replace a file with other names by its copy; the other names keep the file."""
        copy, path = self._transaction.copy_of(number), self._places.path(action.path)
        assert before.attributes is not None
        if beneath.exists(copy):
            if fingerprint.stamp(path) != FileStamp(before.size or 0, before.attributes.mtime_ns or 0):
                raise ForeignChangeError(self._transaction, f"{action.path} is no longer the same file")
            self._writer.rename(copy, path)
        self._moved(copy, path)

    def _overwrite(self, action: Action, before: Before) -> None:
        path = self._places.path(action.path)
        attributes = action.attributes or before.attributes
        assert before.undo is not None and attributes is not None
        if not beneath.is_file(path):
            raise ForeignChangeError(self._transaction, f"{action.path} is no longer the same file")
        old_path = self._transaction.directory / before.undo
        with ExitStack() as stack:
            descriptor = stack.enter_context(self._writer.change(path))
            status = os.fstat(descriptor)
            if status.st_size != before.size or status.st_nlink > 1:
                raise ForeignChangeError(self._transaction, f"{action.path} is no longer the same file, or has another name")
            old = stack.enter_context(_reader(old_path))
            new = stack.enter_context(self._new_bytes(action))
            for begin, size in self._pieces(action, path):
                here = begin - action.position
                found, kept, wanted = read_descriptor(descriptor, path, begin, size), old(here, size), new(here, size)
                if found not in (kept, wanted) and not _mixed(found, kept, wanted):
                    what = f"{action.path} has bytes at {begin} that are neither the old nor the new ones"
                    raise ForeignChangeError(self._transaction, what)
                # Compare with the old bytes, not those found: bytes that a stopped run wrote may never have reached the disk.
                for first, last in _differing_pages(kept, wanted, begin):
                    self._writer.write(descriptor, path, first, wanted[first - begin : last - begin])
            for begin, end in action.holes:
                self._punch(descriptor, path, begin, end)
            self._writer.set_attributes(descriptor, path, attributes)
            self._writer.fsync(descriptor, path)

    def _pieces(self, action: Action, path: Path) -> Iterator[tuple[int, int]]:
        if action.kind is ActionKind.ZERO:
            yield from list(blocks_with_data(path, action.position, action.length))
            return
        end = action.position + action.length
        yield from ((begin, min(BLOCK, end - begin)) for begin in range(action.position, end, BLOCK))

    @contextmanager
    def _new_bytes(self, action: Action) -> Iterator[Reader]:
        contents = action.contents
        if contents is None:
            yield lambda begin, size: bytes(size)
        elif (data := contents.data) is not None:
            yield lambda begin, size: data[begin : begin + size]
        else:
            with _reader(self._transaction.contents(contents)) as reader:
                yield reader

    def _punch(self, descriptor: int, path: Path, begin: int, end: int) -> None:
        """Turn zeros into a hole again; other bytes in these blocks stay."""
        for first, size in list(blocks_with_data(path, begin, end - begin)):
            if read_descriptor(descriptor, path, first, size).count(0) == size:
                with _unless_unsupported():
                    self._writer.punch(descriptor, path, first, first + size)

    # Files that are added or removed

    def _take_out(self, action: Action, before: Before) -> None:
        source, target = entries.path_of(self._places, action), self._transaction.quarantined(action)
        if before.attributes is None:
            return None  # there was none to remove, only directories
        if not beneath.exists(source):
            if not beneath.exists(target):
                raise ForeignChangeError(self._transaction, f"{action.path} does not exist any more")
            return self._moved(source, target)
        if fingerprint.stamp(source) != FileStamp(before.size or 0, before.attributes.mtime_ns or 0):
            raise ForeignChangeError(self._transaction, f"{action.path} is no longer the same file")
        if beneath.exists(target):
            if copies.same_device(source, target.parent):
                raise ForeignChangeError(self._transaction, f"{action.path} exists again")
            self._writer.unlink(source)
        else:
            self._make_quarantine(target.parent)
            copies.move(self._writer, source, target, before.attributes)
        return self._moved(source, target)

    def _bring_in(self, number: int, action: Action, before: Before) -> None:
        source, target = self._transaction.source(number, action), entries.path_of(self._places, action)
        assert action.attributes is not None
        attributes = replace(action.attributes, mtime_ns=before.placed)
        found, there = beneath.status(source), beneath.status(target)
        if found is None:
            if there is None or fingerprint.stamp_of(there) != FileStamp(action.length, before.placed or 0):
                raise ForeignChangeError(self._transaction, f"{action.path} is not the file that was written there")
            return self._moved(source, target)
        if there is not None:
            if number not in self._copying:
                raise ForeignChangeError(self._transaction, f"{action.path} already exists")
            self._writer.unlink(target)
        if entries.is_special_status(found):
            self._writer.rename(source, target)  # a rename leaves its attributes as they are
        elif found.st_dev == self._devices.of_directory(target.parent):
            # By its modification time a file that was moved is recognised, so that must be on the disk before the name is; it is since
            # the transaction was prepared, unless an earlier version did that.
            if of_status(found) != attributes:
                with self._writer.hold(source) as descriptor:
                    self._writer.set_attributes(descriptor, source, attributes)
                    self._writer.fsync(descriptor, source)
            self._writer.rename(source, target)
        else:
            # No second name may ever be in a directory of the log, so the copy has its final name from the start.
            self._journal.copying(number)
            self._copying.add(number)
            copies.copy_range(self._writer, source, 0, action.length, target, attributes)
            self._writer.fsync_directory(target.parent)
            self._writer.unlink(source)
        return self._moved(source, target)

    def _moved(self, source: Path, target: Path) -> None:
        """Note directories for `sync`, also of a move before the last stop: it may not have reached the disk."""
        self._unsynced |= {source.parent, target.parent}

    # Directories

    def _make_directories(self, action: Action) -> None:
        for wanted in action.directories:
            if wanted.path in self._present:
                continue
            path = self._places.directory(wanted.path)
            if wanted.attributes is not None:
                if not beneath.is_directory(path):
                    self._writer.mkdir(path, wanted.attributes.mode)
                    self._unsynced.add(path.parent)
                self._present.add(wanted.path)

    def _settle_directories(self, action: Action, before: Before) -> None:
        """Remove those that shall not stay if they are empty; the others will be as they were, or as the action says."""
        wanted = {one.path: one.attributes for one in (*before.directories, *action.directories)}
        for one in reversed(action.directories):
            if one.attributes is None and beneath.is_directory(path := self._places.directory(one.path)):
                self._present.discard(one.path)
                with _unless_filled():
                    self._writer.rmdir(path)
                    self._unsynced.add(path.parent)
        self._unsettled |= {path: attributes for path, attributes in wanted.items() if attributes is not None}

    def _make_quarantine(self, directory: Path) -> None:
        if not beneath.is_directory(directory):
            self._make_quarantine(directory.parent)
            self._writer.mkdir(directory)
            self._unsynced.add(directory.parent)


@contextmanager
def _reader(path: Path) -> Iterator[Reader]:
    with beneath.reading(path) as descriptor:
        yield lambda begin, size: read_descriptor(descriptor, path, begin, size)


def _mixed(found: bytes, old: bytes, new: bytes) -> bool:
    """Return whether every byte is the old or the new one, as a write that was stopped in the middle leaves them."""
    return all(one in both for one, *both in zip(found, old, new, strict=True))


def _differing_pages(found: bytes, wanted: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Yield the pages [begin, end) of the file in which two pieces at `position` differ; neighbours are joined."""
    first: int | None = None
    begin = position
    end = position + len(wanted)
    while begin < end:
        following = min((begin // _PAGE + 1) * _PAGE, end)
        same = found[begin - position : following - position] == wanted[begin - position : following - position]
        if same and first is not None:
            yield first, begin
            first = None
        elif not same and first is None:
            first = begin
        begin = following
    if first is not None:
        yield first, end


@contextmanager
def _unless_filled() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


@contextmanager
def _unless_unsupported() -> Iterator[None]:
    """Ignore that a file system has no holes: it keeps zeros on the disk instead, which read the same."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
