"""Owners that an action would give to files: checked before anything changes, because a change of the owner may be refused."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files.hardlinks import is_linked
from rmqstore.repair.plan.attributes import MODE_OF_FILES, attributes_of, may_give
from rmqstore.repair.plan.model import Action, Attributes
from rmqstore.repair.plan.paths import Devices
from rmqstore.repair.transaction.folder import Transaction
from rmqstore.repair.transaction.journal_check import problems_of_attributes


def require_attributes(
    transaction: Transaction, number: int, action: Action, path: Path, found: Attributes | None, devices: Devices
) -> None:
    """Raise RefusedError if an action would give a file or directory to a user or group that this run has no right to give it to.

    `found` is the file at the path of the action. A file that keeps its owner may belong to any user, unless it is copied.
    """
    if found is not None:
        for problem in problems_of_attributes(found, MODE_OF_FILES):
            raise RefusedError(f"{path} has {problem}.", f"Remove the other bits: `chmod ug-s,-t {shlex.quote(str(path))}`.")
    for wanted in _given(transaction, number, action, path, found, devices):
        if not may_give(wanted):
            message = f"{path} would have to belong to user {wanted.uid} and group {wanted.gid}, which user {os.geteuid()} cannot set."
            raise RefusedError(message, "docs/security.md says what to do with stores whose files have several owners.")


def _given(
    transaction: Transaction, number: int, action: Action, path: Path, found: Attributes | None, devices: Devices
) -> Iterator[Attributes]:
    """Yield the owners that the action gives, without those that a file has already."""
    yield from (directory.attributes for directory in action.directories if directory.attributes is not None)
    if action.in_place:
        if found is not None and is_linked(path):
            yield found
        if action.attributes is not None and not _same_owner(action.attributes, found):
            yield action.attributes
        return
    if action.attributes is not None:
        source = transaction.source(number, action)
        if devices.of(source) != devices.of(path) or not _same_owner(action.attributes, attributes_of(source)):
            yield action.attributes
    if found is not None and devices.of(path) != devices.of(transaction.directory):
        yield found


def _same_owner(one: Attributes, other: Attributes | None) -> bool:
    return other is not None and (one.uid, one.gid) == (other.uid, other.gid)
