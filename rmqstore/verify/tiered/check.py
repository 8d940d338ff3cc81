"""The check of tiered storage as a whole, and what of it could not be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rmqstore.findings import Finding
from rmqstore.reading.tieredstore import METADATA, keeps_tiers, segments_directory
from rmqstore.store.root import Store
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.verify.queues.spans import QueueKey
from rmqstore.verify.tiered import index, metadata
from rmqstore.verify.tiered.items import ItemStore
from rmqstore.verify.tiered.messages import QueueChecker
from rmqstore.verify.tiered.state import Tiered, tiered_of


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about tiered storage. Reads all of its segments once, and its index files."""
    store = context.store
    if store.only is not None or not keeps_tiers(store):
        return
    path = store.config_path / METADATA
    yield from guarded(context, path, lambda: limited(context, path, _check(context)))


def _check(context: Context) -> Iterator[Finding]:
    tiered = tiered_of(context.store)
    local = index.local_files(context.store)
    if tiered.is_unused and not local:
        return
    yield from metadata.check(context, tiered)
    with ItemStore() as items:
        for file in local:
            yield from guarded(context, file.path, partial(index.check_file, context, file, items, known=False))
        for file in index.segments(tiered):
            yield from guarded(context, file.path, partial(index.check_file, context, file, items, known=True))
        if tiered.files is not None:
            yield from _queues(context, tiered, items)


def _queues(context: Context, tiered: Tiered, items: ItemStore) -> Iterator[Finding]:
    checker = QueueChecker(context, tiered, items)
    for key, path in tiered.queues.items():
        if context.options.wants_queue(*key) and tiered.files is not None:
            place = tiered.files.directory / path
            yield from guarded(context, place, partial(_queue, checker, place, key, path))


def _queue(checker: QueueChecker, place: Path, key: QueueKey, path: str) -> Iterator[Finding]:
    return limited(checker.context, place, checker.check(key, path))


def unread(context: Context) -> Iterator[tuple[str, str]]:
    """Yield what was not looked at, and why: segments whose place is not known, index files whose layout is not known."""
    if not keeps_tiers(context.store):
        return
    yield from unread_segments(context.store)
    names = [file.path.name for file in index.local_files(context.store) if index.layout_is_unknown(context, file)]
    if names:
        reason = "name tieredStoreIndexFileMaxHashSlotNum and tieredStoreIndexFileMaxIndexNum with --broker-conf or --set"
        yield f"index file {names[0]} of tiered storage", reason


def unread_segments(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the segments, and why they were not looked at, where their place is not known or not there."""
    directory = segments_directory(store)
    if directory is None:
        yield "segments of tiered storage", "tieredStoreFilePath is not in the settings; name it with --broker-conf or --set"
    elif not directory.is_dir():
        yield "segments of tiered storage", f"{directory} does not exist here"
