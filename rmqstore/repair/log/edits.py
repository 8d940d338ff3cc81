"""Edits of a commit log as data, and their transfer into a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from rmqstore.repair.log.future import FutureLog, Patch
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.model import LostMessage, TakenRange
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from rmqstore.store.window import data_extents, map_window

_PIECE = 8 << 20


class FileAction(StrEnum):
    """The action on a whole file."""

    CREATED = "created"
    REPLACED = "replaced"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Edit:
    """New bytes, the reason, and the finding that they repair."""

    patch: Patch
    reason: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A whole file that is created, replaced or quarantined. `assembled`: the staged file that holds its bytes before the edits."""

    path: Path
    fate: FileAction
    reason: str
    code: str | None = None
    assembled: StagedFile | None = None
    like: Path | None = None

    @property
    def read_at(self) -> Path:
        """Path of the bytes before the edits."""
        return self.path if self.assembled is None else self.assembled.path


@dataclass(frozen=True)
class LogRepair:
    """Changes to the commit log by a repair, and the log as it will be then. Edits are ascending and apart from each other.

    `store`: the store with the log files that the edits are made for, where some were assembled; None for the store as it is.
    `taken`: what comes from other copies.
    """

    future: FutureLog
    edits: tuple[Edit, ...] = ()
    files: tuple[FileEdit, ...] = ()
    lost: tuple[LostMessage, ...] = ()
    notes: tuple[str, ...] = ()
    store: Store | None = None
    taken: tuple[TakenRange, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the log stays as it is."""
        return not self.edits and not self.files


def plan_log(builder: PlanBuilder, repair: LogRepair) -> None:
    """Add the actions of `repair` to the builder. Raises UnreadableError, StoreChangedError, OSError."""
    whole = {edit.read_at: edit for edit in repair.files}
    for edit in repair.files:
        if edit.fate is not FileAction.QUARANTINED:
            continue
        if edit.path.is_dir() and not builder.holds(edit.path):
            builder.note(f"{edit.path} is {edit.reason}, on another disk; brokers of 4.9 do not start with it: move it away by hand.")
        else:
            builder.quarantine(edit.path, reason=edit.reason, code=edit.code)
    for file in repair.future.files:
        planned = whole.get(file.path)
        if planned is None:
            _in_place(builder, file, repair.edits)
        else:
            put = builder.create if planned.fate is FileAction.CREATED else builder.replace
            content = _staged(builder.staging, repair.future, file, planned)
            put(planned.path, content, reason=planned.reason, code=planned.code, like=planned.like)
    for message in repair.lost:
        builder.lose(message)
    for taken in repair.taken:
        builder.take(taken)
    for note in repair.notes:
        builder.note(note)


def _in_place(builder: PlanBuilder, file: MappedFile, edits: Sequence[Edit]) -> None:
    for edit in edits:
        patch = edit.patch
        if not file.start <= patch.start < file.end:
            continue
        if patch.data is None:
            builder.zero(file.path, patch.start - file.start, patch.end - patch.start, reason=edit.reason, code=edit.code)
        else:
            builder.write(file.path, patch.start - file.start, patch.data, reason=edit.reason, code=edit.code)


def _staged(staging: Staging, future: FutureLog, file: MappedFile, edit: FileEdit) -> StagedFile:
    """Return the file as it will be; its zeros take no space."""
    name = str(file.path)
    present = future.present.get(name, file.length)
    if edit.assembled is not None:
        target = staging.reopen(name, edit.assembled)
    else:
        target = staging.open(name, file.length)
    if present and edit.assembled is None:
        there = replace(file, length=present)
        for start, end in data_extents(there):
            for begin in range(start, end, _PIECE):
                with map_window(there, begin, min(_PIECE, end - begin)) as window:
                    target[begin : begin + window.array.size] = window.array
    for patch in future.patches:
        if file.start <= patch.start < file.end:
            begin, end = patch.start - file.start, patch.end - file.start
            if patch.data is not None:
                target[begin:end] = np.frombuffer(patch.data, np.uint8)
            elif begin < present:
                target[begin : min(end, present)] = 0
    return staging.close(name)


def merged(patches: Sequence[Edit]) -> tuple[Edit, ...]:
    """Return the edits by offset."""
    return tuple(sorted(patches, key=lambda edit: edit.patch.start))
