"""Plan that brings the files of several commit log directories into one of them, or into another directory.

A broker has several directories from 4.9.2 on (`storePathCommitLog` with commas, fact sheet commit log §1.4). Files are copied with
holes and times, on whatever disk they are; the old ones go to the folder of the transaction.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from rmqstore.errors import RefusedError, UsageError
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.log.relocation import copy_into
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from rmqstore.wording import counted


class Merge:
    """A request to bring all files of the log into the directory `into`, one of those of the log."""

    def __init__(self, into: Path) -> None:
        self._into = into.absolute()
        self._number = 0
        """Which of the directories it is: a planned store has them at other paths."""

    def plan(self, planning: Planning, store: Store) -> None:
        """Plan it.

        Raises UsageError for another directory, RefusedError for files that cannot be brought together, UnreadableError,
        StoreChangedError, OSError.
        """
        if not self._into.is_dir():
            raise UsageError(f"{self._into} is no directory.", "Create it first, on a disk with room for the whole log.")
        directories = _directories(store)
        if self._into not in directories:
            all_of_them = store.config.text("multiPathSplitter").join(map(str, (*directories, self._into)))
            raise UsageError(
                f"{self._into} is none of the directories of the commit log.",
                f"Name it as the last one of them: --set {shlex.quote(f'storePathCommitLog={all_of_them}')}",
            )
        self._number = directories.index(self._into)
        self.plan_again(planning, store)

    def plan_again(self, planning: Planning, store: Store) -> None:
        """Plan it for the store as it will be after `plan`. Raises as `plan` does."""
        builder, directories = planning.builder, _directories(store)
        target = directories[self._number]
        if store.dledger is not None:
            raise RefusedError("The commit log belongs to a DLedger group, which has one directory.", "There is nothing to merge.")
        odd = next((entry for entry in store.commitlog.odd if entry.path.parent != target), None)
        if odd is not None:
            raise RefusedError(
                f"{odd.path} is no file of the log, or one of the same name is in another directory.",
                "`rmqstore recover` moves out of the directories what no broker puts there.",
            )
        moved = [file for file in store.commitlog.files if file.path.parent != target]
        for file in moved:
            _move(planning, file, target)
            planning.advance(file.length)
        if moved:
            origins = ", ".join(sorted({str(file.path.parent) for file in moved}))
            builder.note(f"{counted(len(moved), 'file')} moved into {target}, from {origins}.")
        if len(directories) > 1:
            builder.note(
                f"Before the next start, put storePathCommitLog={target} into the broker.conf: with the former setting a broker puts new "
                "files into all directories again."
            )


def _directories(store: Store) -> tuple[Path, ...]:
    return (*store.commitlog_directories.writable, *store.commitlog_directories.read_only)


def _move(planning: Planning, file: MappedFile, target: Path) -> None:
    """Plan a copy of a file in another directory, and that the file leaves its own."""
    builder, staging = planning.builder, planning.staging
    name = str(file.path)
    if file.length:
        copy_into(file, 0, staging.open(name, file.length))
        content = staging.close(name)
        builder.create(target / file.path.name, content, reason=f"moved from {file.path.parent}", like=file.path)
    builder.quarantine(file.path, reason=f"moved into {target}")
