"""Stores by path or URI, at a place where their files can be mapped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rmqstore.errors import RmqstoreError
from rmqstore.pipeline.fetching import fetch, stored_bytes
from rmqstore.pipeline.filesystems import is_remote, reading
from rmqstore.pipeline.job import StoreAt
from rmqstore.store.absent import fetched


@contextmanager
def at_hand(at: StoreAt, *, by_range: bool = False) -> Iterator[StoreAt]:
    """Yield the store at a place where its files can be mapped.

    `by_range`: large files are fetched as this process reads them; no other process can read them.
    Raises UsageError, NotAStoreError, UnreadableError.
    """
    if not is_remote(at.path):
        yield at
        return
    with TemporaryDirectory(prefix="rmqstore-") as made:
        directory = os.path.realpath(made)
        with reading(at.path):
            later = fetch(at.path, Path(directory), by_range=by_range)
        try:
            with fetched(directory, later):
                yield replace(at, path=directory)
        except RmqstoreError as error:
            # Messages must not name the copy.
            raise type(error)(error.message.replace(directory, at.path), error.hint) from error


def log_size(at: StoreAt) -> int:
    """Return the bytes of a store's log, of a remote store's files; 0 if it cannot be opened; the reader reports why."""
    try:
        return stored_bytes(at.path) if is_remote(at.path) else at.open().message_log.length
    except RmqstoreError:
        return 0
