"""A copy of a stopped or running store, cut at a record, and left as a clean stop leaves a store.

Everything that is derived from the log is copied before the log, and the log up to the end of a record that was complete by then: so
nothing in the copy points beyond its log. Recovery of the copy then makes queues, index, checkpoint and `abort` agree with it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rmqstore.errors import RefusedError, UnreadableError
from rmqstore.prediction.release import choose_release
from rmqstore.reading.progress import Advance, silent
from rmqstore.repair import procedure
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan.model import Action, Plan
from rmqstore.repair.recover import Recovery
from rmqstore.repair.snapshot.copying import Copier
from rmqstore.repair.snapshot.earlier import EarlierCopy
from rmqstore.repair.transaction.folder import Transaction
from rmqstore.scan.tail import tail_records
from rmqstore.store.ends import LogEnds, log_ends, queue_ends
from rmqstore.store.liveness import liveness
from rmqstore.store.mapped import MappedFile
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import in_rocksdb
from rmqstore.wording import counted

_LEFT_OUT = frozenset({PartKind.LOCK, PartKind.TOOL, PartKind.COMMITLOG})
_ORDER = (PartKind.CONFIG, PartKind.TIMERWHEEL, PartKind.TIMERLOG, PartKind.INDEX)
_TRIES = 5
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Snapshot:
    """A copy: its log is [begin, end); `last_time` is the store time of its last record. `errors`: findings of its verification by code.

    `complete`: queues, index, checkpoint and `abort` were made to agree with the log; not of a store whose log is damaged.
    """

    store: Path
    target: Path
    release: str
    begin: int
    end: int
    last_time: int | None
    in_use: bool
    copier: Copier
    complete: bool
    errors: dict[str, int]
    notes: tuple[str, ...]


def take_snapshot(
    store: Store,
    target: Path,
    release: str = "auto",
    *,
    link: bool = False,
    since: Path | None = None,
    writer: Writer | None = None,
    advance: Advance = silent,
) -> Snapshot:
    """Copy a store to `target`, which must not exist or be empty; nothing is written into the store.

    `since`: the manifest of an earlier copy, from which the full log files are taken that did not change.
    Raises RefusedError, UnreadableError, UsageError, StoreChangedError, OSError.
    """
    earlier = None if since is None else EarlierCopy.read(since)
    target = target.resolve()
    used = liveness(store).in_use
    _require_possible(store, target, in_use=used)
    chosen = _listed_again(store, lambda listed: choose_release(listed, release).release)
    with ThreadPoolExecutor(1, "digest") as pool:
        taking = _Taking(store, target, writer or Writer(), pool, link=link, earlier=earlier, advance=advance)
        taking.derived()
        end, last_time = taking.log()
    begin = store.commitlog.min_offset
    notes = list(taking.notes)
    complete, errors = _recover(store, target, chosen, taking.writer, notes)
    return Snapshot(store.root, target, chosen, begin, end, last_time, used, taking.copier, complete, errors, tuple(notes))


def open_target(store: Store, target: Path) -> Store:
    """Open a copy with the settings of its store, apart from those that name directories."""
    settings = {key: value for key, value in store.config.given.items() if not key.startswith("storePath")}
    return Store.open(target, settings=settings)


def _require_possible(store: Store, target: Path, *, in_use: bool) -> None:
    if store.only is not None or store.dledger is not None:
        what = f"only the part {store.only} of one" if store.only is not None else "a member of a DLedger group"
        raise RefusedError(f"{store.root} is not a store with its own commit log, but {what}.", "Copy the files of the stopped broker.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RefusedError(f"{target} exists already.", "Name a directory that does not exist, or is empty.")
    inside, root = target.resolve(), store.root.resolve()
    directories = (root, *(path.resolve() for path in store.commitlog_directories.writable))
    if any(inside.is_relative_to(path) or path.is_relative_to(inside) for path in directories):
        raise RefusedError(f"{target} and the store are inside one another.", "Name a directory outside of the store.")
    if in_use and (store.rocksdb_queues or in_rocksdb(store)):
        raise RefusedError(
            "The store is in use, and its queues or its configuration are in RocksDB, which cannot be copied while it is written.",
            "Stop the broker first.",
        )


class _Taking:
    def __init__(
        self, store: Store, target: Path, writer: Writer, pool: Executor, *, link: bool, earlier: EarlierCopy | None, advance: Advance
    ) -> None:
        self._store = store
        self._target = target
        self._advance = advance
        self.writer = writer
        self.copier = Copier(writer, pool, link=link, earlier=earlier)
        self.notes: list[str] = []
        if link:
            self.notes.append("Files of the log are hard links: a recovery of STORE or of the copy that cuts the log changes both.")
        if earlier is not None:
            self.notes.append(
                f"Log files that did not change are those of {earlier.directory}, and were not read: `rmqstore verify` compares them with "
                "the manifest. Where they are hard links, a broker that cuts the log of one copy changes both."
            )

    def derived(self) -> None:
        """Copy everything but the log."""
        if not self._target.exists():
            self.writer.mkdir(self._target, 0o755)
        names = [entry.name for entry in sorted(os.scandir(self._store.root), key=lambda entry: entry.name)]
        directories = {path.name for path in self._store.commitlog_directories.writable if path.parent == self._store.root}
        wanted = [name for name in names if part_kind(name) not in _LEFT_OUT and name not in directories]
        for name in sorted(wanted, key=_place):
            self._copy(self._store.root / name, self._target / name)

    def log(self) -> tuple[int, int | None]:
        """Copy the log up to the end of its last whole record; return that offset and the store time of the record (ms)."""
        store, ends = _listed_again(self._store.reopened(), lambda listed: (listed, _ends_of_log(listed)))
        directory = self._target / PartKind.COMMITLOG.value
        if not directory.exists():
            self.writer.mkdir(directory, 0o755)
        for file in store.commitlog.files:
            if file.start < ends.end_offset:
                self._copy_log_file(file, directory / file.path.name, ends.end_offset)
        return ends.end_offset, None if ends.last is None else ends.last.store_timestamp

    def _copy_log_file(self, file: MappedFile, target: Path, end: int) -> None:
        try:
            self.copier.copy(file.path, target, None if file.end <= end else end - file.start, linkable=True)
        except UnreadableError:
            if file.path.exists():
                raise
            return  # expired meanwhile
        self._advance(file.length)

    def _copy(self, source: Path, target: Path) -> None:
        for path, kind in _entries(source):
            here = target / path.relative_to(source)
            if kind == "directory":
                self.writer.mkdir(here, 0o755)
            elif kind == "file":
                self._copy_file(path, here)
            else:
                self.notes.append(f"{path} is {kind} and was not copied.")

    def _copy_file(self, path: Path, target: Path) -> None:
        for _ in range(_TRIES):  # a broker that replaces a file removes it first
            try:
                return self.copier.copy(path, target)
            except UnreadableError:
                if path.exists():
                    raise
        return None


def _listed_again(store: Store, read: Callable[[Store], _Read]) -> _Read:
    """Return what `read` finds; a broker removes expired files between the listing and the reading, so it may be called again."""
    for _ in range(_TRIES - 1):
        try:
            return read(store)
        except UnreadableError:
            store = store.reopened()
    return read(store)


def _ends_of_log(store: Store) -> LogEnds:
    queues = () if store.rocksdb_queues else store.queue_directories()
    hint = max((queue_ends(queue.files).last_physical_offset for queue in queues), default=-1)
    return log_ends(store.commitlog, hint=hint, far=tail_records)


def _entries(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield what is at a path and below it, and its kind: file, directory, or a text for anything else. A part can be a link."""
    try:
        mode = path.stat().st_mode
    except OSError:
        if path.is_symlink():
            yield path, "a link that leads nowhere"
        return
    if stat.S_ISREG(mode):
        yield path, "file"
    elif stat.S_ISDIR(mode):
        yield path, "directory"
        for below in sorted(path.iterdir()):
            if below.is_symlink():
                yield below, "a link"
            else:
                yield from _entries(below)
    else:
        yield path, "a special file"


def _place(name: str) -> tuple[int, str]:
    """Return the order in which parts are copied: what refers to other parts first, the checkpoint last."""
    kind = part_kind(name)
    if kind in (PartKind.CHECKPOINT, PartKind.ABORT):
        return len(_ORDER) + 1, name
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER)), name


def _recover(store: Store, target: Path, release: str, writer: Writer, notes: list[str]) -> tuple[bool, dict[str, int]]:
    """Make the parts of the copy agree; return whether that was done, and the errors of its verification by code."""
    request = procedure.RepairRequest("snapshot", release, lambda: open_target(store, target), Recovery(release).plan, trial=False)
    dialog = _OnlyWithoutLoss()
    try:
        result = procedure.execute(request, dialog, writer=writer)
    except RefusedError as error:
        if dialog.lost:
            lost = counted(dialog.lost, "message")
            notes.append(f"The log is damaged: the copy is as it was found, and `rmqstore recover` would lose {lost} of it.")
        else:
            notes.append(f"The copy is as it was found: {error.message}")
        return False, dict(procedure.verification_errors(open_target(store, target)))
    if result.transaction is not None:
        result.transaction.discard(writer)
    return True, dict(result.errors or {})


@dataclass
class _OnlyWithoutLoss:
    """The consent to a plan that loses no message."""

    lost: int = 0

    def show(self, plan: Plan) -> None:
        """Note how many messages a plan loses."""
        self.lost = len(plan.lost)

    def confirm(self, plan: Plan) -> bool:
        """Return whether it loses none."""
        return not plan.lost

    def started(self, transaction: Transaction, plan: Plan) -> None:
        """Do nothing: the copy is not in use."""

    def advance(self, action: Action) -> None:
        """Do nothing."""
