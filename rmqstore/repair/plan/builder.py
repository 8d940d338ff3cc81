"""The builder that planners call for each change: it reads the disk, drops what is so already, and makes a plan of the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.formats import checkpoint
from rmqstore.repair.files import beneath, entries, hardlinks
from rmqstore.repair.plan import fingerprint
from rmqstore.repair.plan.attributes import Neighbours, attributes_of, of_new_file
from rmqstore.repair.plan.fingerprint import BLOCK, blocks_with_data
from rmqstore.repair.plan.model import (
    Action,
    ActionKind,
    ConfigEntry,
    Contents,
    Directory,
    Expected,
    LostMessage,
    Phase,
    Plan,
    TakenRange,
)
from rmqstore.repair.plan.overlaps import Touched
from rmqstore.repair.plan.paths import Places, device
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.store.root import Store
from rmqstore.store.window import read_descriptor

INLINE_LIMIT = 4096
"""Length in bytes up to which contents are part of the plan; longer ones are staged."""

_NOTHING = "nothing"  # represents the files of an empty directory


class PlanBuilder:
    """Collector of the actions of one plan. Paths are absolute, or relative to the store root.

    A path is created, replaced or removed once at most, and then never changed in place too; ranges changed in place do not overlap.
    Every method raises ValueError when a planner breaks these rules or leaves the store, UnreadableError when the store cannot be read.
    """

    def __init__(self, store: Store, staging: Staging, command: str, broker_version: str) -> None:
        """Take the fingerprint of the store: make the builder before anything is read."""
        self._store = store
        self._places = Places(store)
        self.staging = staging
        self._command = command
        self.broker_version = broker_version
        self._files = fingerprint.take(self._places)
        self._actions: dict[str, list[Action]] = {}
        self._touched = Touched()
        self._neighbours = Neighbours(store.root)
        self._lost: list[LostMessage] = []
        self._notes: list[str] = []
        self._taken_ranges: list[TakenRange] = []
        self._configuration: list[ConfigEntry] = []
        self._freed: set[Path] = set()  # directories that leave the store
        self._taken: dict[Path, Action] = {}  # other entries that leave it

    # Changes in place

    def write(self, path: Path | str, position: int, data: bytes, *, reason: str, code: str | None = None) -> None:
        """Plan to write `data` at a position of an existing file, never beyond its length; nothing if these bytes are there already."""
        file = self._inside(path, position, len(data))
        if _differs(file, position, len(data), lambda begin, size: data[begin : begin + size]):
            self._in_place(
                Action(ActionKind.WRITE, self._places.name(file), position, len(data), reason, _stamp(file), code, self._contents(data))
            )

    def zero(self, path: Path | str, position: int, length: int, *, reason: str, code: str | None = None) -> None:
        """Plan to zero a range of an existing file. Only bytes that are not zero already are written: holes stay holes."""
        file = self._inside(path, position, length)
        bounds = _nonzero_bounds(file, position, length)
        if bounds is not None:
            begin, end = bounds
            self._in_place(Action(ActionKind.ZERO, self._places.name(file), begin, end - begin, reason, _stamp(file), code))

    # Whole files

    def create(
        self, path: Path | str, staged: StagedFile | bytes, *, reason: str, code: str | None = None, like: Path | None = None
    ) -> None:
        """Plan a new file with mode and owner of a sibling, or of `like` and then with its mtime too. Missing directories are made.

        Anything but a file in its place is moved to quarantine.
        """
        file = self._entry(path)
        if not beneath.is_file(file):
            self.quarantine(file, reason=reason, code=code)
        taken = self._taken.pop(file, None)
        if taken is not None:
            self._drop(taken)
        elif beneath.exists(file) and file not in self._freed:
            raise ValueError(f"{file} already exists")
        contents = self._contents(staged)
        self._add(
            Action(
                ActionKind.CREATE if taken is None else ActionKind.REPLACE,
                self._places.name(file),
                0,
                contents.length,
                reason,
                Expected(None) if taken is None else taken.expect,
                code,
                contents,
                self._neighbours.like_sibling(file) if like is None else of_new_file(attributes_of(like)),
                directories=self._neighbours.missing_directories(file, self._places),
            )
        )

    def replace(
        self, path: Path | str, staged: StagedFile | bytes, *, reason: str, code: str | None = None, like: Path | None = None
    ) -> None:
        """Plan to replace a file by a new one with its mode and owner, and its mtime or that of `like`. Nothing if equal.

        The old file is moved to quarantine. Anything but a file is replaced as `create` does.
        """
        if not beneath.is_file(self._entry(path)):
            self.create(path, staged, reason=reason, code=code, like=like)
            return
        file = self._file(path)
        if not _same(file, staged):
            contents = self._contents(staged)
            name, expect = self._places.name(file), _stamp(file)
            attributes = of_new_file(attributes_of(file))
            if like is not None:
                attributes = replace(attributes, mtime_ns=attributes_of(like).mtime_ns)
            self._add(Action(ActionKind.REPLACE, name, 0, contents.length, reason, expect, code, contents, attributes))

    def quarantine(self, path: Path | str, *, reason: str, code: str | None = None) -> None:
        """Plan to move any entry out of the store, into the folder of the transaction: a link itself, a directory with its contents.

        Nothing if there is none, or if it is moved out already. Raises RefusedError for a special file on another file system, which
        cannot be copied.
        """
        file = self._store.root / path
        if beneath.is_directory(file):
            self.quarantine_directory(file, reason=reason, code=code)
        elif beneath.exists(self._entry(file)) and file not in self._taken:
            self._taken[file] = self._take(file, _stamp(file), reason, code, ())
            beneath.leaves(file)

    def quarantine_directory(self, path: Path | str, *, reason: str, code: str | None = None) -> None:
        """Plan to move a directory out of the store with its contents; a file may replace it afterwards. Nothing if there is none."""
        top = self._store.root / path
        if not beneath.is_directory(top):
            self.quarantine(top, reason=reason, code=code)
            return
        if top in self._freed:
            return
        self._freed.add(top)
        for path_here, inner, others in os.walk(top, topdown=False):
            here = Path(path_here)
            above = tuple(Directory(self._places.spell(parent), None) for parent in _down_to(here, top))
            # The walk counts links to directories among these, and does not enter them.
            names = [*others, *(name for name in inner if not beneath.is_directory(here / name))]
            for name in names:
                self._take(here / name, _stamp(here / name), reason, code, above)
            if not inner and not names:
                self._take(here / _NOTHING, Expected(None), reason, code, above)

    # Single files of the root

    def set_abort(self, content: bytes = b"", *, reason: str, code: str | None = None) -> None:
        """Plan that the next start is one with crash recovery. Nothing if `abort` exists, with any content."""
        if not self._store.abort_present:
            self.create(self._store.abort_path, content, reason=reason, code=code)

    def remove_abort(self, *, reason: str, code: str | None = None) -> None:
        """Plan that the next start is a normal one."""
        self.quarantine(self._store.abort_path, reason=reason, code=code)

    def write_checkpoint(self, data: bytes, *, reason: str, code: str | None = None) -> None:
        """Plan to write the whole checkpoint file, `formats.checkpoint.FILE_SIZE` bytes."""
        path = self._store.checkpoint_path
        if len(data) != checkpoint.FILE_SIZE:
            raise ValueError(f"a checkpoint of {len(data)} bytes")
        if path in self._freed or path in self._taken or not beneath.exists(path):
            self.create(path, data, reason=reason, code=code)
        elif _stamp(path).size == len(data):
            self.write(path, 0, data, reason=reason, code=code)
        else:
            self.replace(path, data, reason=reason, code=code)

    # Other parts of a plan

    def holds(self, path: Path) -> bool:
        """Return whether a path is below the root of the store."""
        return path.is_relative_to(self._store.root)

    @property
    def changes_something(self) -> bool:
        """Whether there is an action so far."""
        return bool(self._actions)

    def lose(self, message: LostMessage) -> None:
        """Add a lost message."""
        self._lost.append(message)

    def take(self, taken: TakenRange) -> None:
        """Name a range of the log whose bytes come from another copy."""
        self._taken_ranges.append(taken)

    def configure(self, entries: Iterable[ConfigEntry]) -> None:
        """Add entries of configuration files that are written from other sources than a whole file."""
        self._configuration.extend(entries)

    def note(self, text: str) -> None:
        """Add a sentence for the user."""
        self._notes.append(text)

    def build(self) -> Plan:
        """Return the plan, in the order of the phases, in a phase in the order of the calls. Raises RefusedError if the store changed."""
        changed = next(fingerprint.differences(self._files, fingerprint.take(self._places)), None)
        if changed is not None:
            raise RefusedError(f"The store changed while it was read: {changed}.", "Stop the process that writes to it, then try again.")
        order = list(Phase)
        actions = [action for actions in self._actions.values() for action in actions]
        actions.sort(key=lambda action: order.index(self._places.phase(action.path)))
        self.staging.sync()
        return Plan(
            self._command,
            str(self._store.root),
            self.broker_version,
            dict(self._store.config.given),
            None,
            tuple(actions),
            tuple(self._lost),
            tuple(self._configuration),
            (*self._notes, *hardlinks.notes(actions, self._places)),
            taken=tuple(self._taken_ranges),
            files=self._files,
        )

    def _file(self, path: Path | str) -> Path:
        return self._places.path(self._places.name(path))

    def _entry(self, path: Path | str) -> Path:
        return entries.entry_path(self._places, self._places.name(path))

    def _inside(self, path: Path | str, position: int, length: int) -> Path:
        file = self._file(path)
        size = _stamp(file).size or 0
        if position < 0 or length < 1 or position + length > size:
            raise ValueError(f"bytes {position} to {position + length} of {file}, which has {size}")
        return file

    def _contents(self, staged: StagedFile | bytes) -> Contents:
        if isinstance(staged, bytes):
            if len(staged) <= INLINE_LIMIT:
                return Contents(len(staged), data=staged)
            staged = self.staging.add(staged)
        return Contents(staged.length, file=staged.name)

    def _in_place(self, action: Action) -> None:
        digest = fingerprint.digest(self._places.path(action.path), action.position, action.length)
        self._add(replace(action, expect=replace(action.expect, digest=digest)))

    def _take(self, file: Path, expect: Expected, reason: str, code: str | None, directories: tuple[Directory, ...]) -> Action:
        if entries.is_special(file) and device(file) != self._store.root.stat().st_dev:
            raise RefusedError(f"{file} is in the way, and on another file system than the store.", "Move it away by hand, then try again.")
        name = self._places.name(file)
        action = Action(ActionKind.QUARANTINE, name, 0, expect.size or 0, reason, expect, code, directories=directories)
        self._add(action)
        return action

    def _add(self, action: Action) -> None:
        clash = self._touched.add(action)
        if clash is not None:
            raise ValueError(clash)
        self._actions.setdefault(action.path, []).append(action)

    def _drop(self, action: Action) -> None:
        """Drop an action that another one replaces."""
        self._touched.drop(action)
        del self._actions[action.path]


def _down_to(directory: Path, top: Path) -> list[Path]:
    """Return the directories from `top` to `directory`, outermost first."""
    found = [directory]
    while found[0] != top:
        found.insert(0, found[0].parent)
    return found


def _stamp(file: Path) -> Expected:
    if entries.is_special(file):  # never opened
        status = beneath.status(file)
        assert status is not None
    else:
        with beneath.reading(file) as descriptor:
            status = os.fstat(descriptor)
    return Expected(status.st_size, status.st_mtime_ns)


def _same(file: Path, staged: StagedFile | bytes) -> bool:
    length = len(staged) if isinstance(staged, bytes) else staged.length
    if _stamp(file).size != length:
        return False
    if isinstance(staged, bytes):
        return not _differs(file, 0, length, lambda begin, size: staged[begin : begin + size])
    with beneath.reading(staged.path) as descriptor:
        return not _differs(file, 0, length, lambda begin, size: read_descriptor(descriptor, staged.path, begin, size))


def _differs(file: Path, position: int, length: int, wanted: Callable[[int, int], bytes]) -> bool:
    """Return whether any of `length` bytes from `position` on differs from `wanted(begin, size)`, `begin` counted from `position`."""
    with beneath.reading(file) as descriptor:
        return any(
            read_descriptor(descriptor, file, position + begin, size) != wanted(begin, size)
            for begin in range(0, length, BLOCK)
            for size in [min(BLOCK, length - begin)]
        )


def _nonzero_bounds(file: Path, position: int, length: int) -> tuple[int, int] | None:
    """Return the range from the first byte that is not zero to after the last one; None if all are zero."""
    first = last = None
    with beneath.reading(file) as descriptor:
        for begin, size in blocks_with_data(file, position, length):
            block = read_descriptor(descriptor, file, begin, size)
            kept = block.lstrip(b"\0")
            if kept:
                first = begin + size - len(kept) if first is None else first
                last = begin + len(block.rstrip(b"\0"))
    return None if first is None or last is None else (first, last)
