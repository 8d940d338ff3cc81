"""Runs a rebuild over the future log: its records in, staged files out, with the settings that this store was written with."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RefusedError, StoreChangedError
from rmqstore.formats.naming import LMQ_PREFIX
from rmqstore.rebuild import IndexBuilder, IndexResult, Mode, QueueBuilder, QueueResult, Settings, rebuild
from rmqstore.recovery.options import Options
from rmqstore.recovery.places import places_of
from rmqstore.repair.indexranges import KeyRange
from rmqstore.repair.logview import FutureLog
from rmqstore.repair.staging import StagedFile, Staging
from rmqstore.scan.ahead import BATCH, BUFFERS
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.verify.units import QueueKey
from rmqstore.versions import Profile

Advance = Callable[[int], None]


class Rebuilder(Protocol):
    """Builds in other processes what the functions here build in this one. Both raise what those raise."""

    def queues(
        self, log: FutureLog, profile: Profile, staging: Staging, mode: Mode, wanted: Callable[[QueueKey], bool], advance: Advance
    ) -> tuple[QueueResult, dict[str, StagedFile]]:
        """The wanted queues, and their files by path below the root of the store."""

    def index(
        self, log: FutureLog, profile: Profile, staging: Staging, keys: KeyRange | None, follows: tuple[int, int], advance: Advance
    ) -> tuple[IndexResult, dict[str, StagedFile]]:
        """Index files with the keys of a range of the log, all without one, and the files by path below the root of the store."""


class StagedFiles:
    """A rebuild's sink in the staging area. `files` are those that are complete, by path below the root of the store."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self.files: dict[str, StagedFile] = {}

    def open(self, relative_path: str, length: int) -> npt.NDArray[np.uint8]:
        """The bytes of a new file, zeros, or those of one that was closed before. Raises OSError."""
        before = self.files.pop(relative_path, None)
        return self._staging.open(relative_path, length) if before is None else self._staging.reopen(relative_path, before)

    def close(self, relative_path: str) -> StagedFile:
        """The file is complete, for now. Raises OSError."""
        staged = self.files[relative_path] = self._staging.close(relative_path)
        return staged


@dataclass(frozen=True)
class FutureRecords:
    """The records of the future log with the scanner that numbers their queues."""

    scanner: LogScanner
    log: FutureLog

    def __iter__(self) -> Iterator[Batch]:
        return self.log.batches(self.scanner)


def records_of(store: Store, log: FutureLog, *, keys: bool) -> FutureRecords:
    """The records of `log`, with their index keys if asked. Raises RefusedError where DLedger entries follow on plain records."""
    leads = {store.entry_header(file) for file in log.files}
    if len(leads) > 1:
        raise RefusedError(
            "The log of this store begins with plain files and goes on with those of DLedger; derived files cannot be rebuilt from both.",
            "Let the broker expire the old files first.",
        )
    delays = np.array([0, *store.config.known_delay_levels], np.int64)
    checks = Check.KEYS if keys else Check(0)
    lead = max(leads, default=0)
    return FutureRecords(LogScanner(checks=checks, delays=delays, lead=lead, windows=log.window, batch=BATCH, buffers=BUFFERS), log)


def settings_of(store: Store) -> Settings:
    """What the broker was configured to write: by its settings, and where they say nothing, by what lies in the store."""
    options, places = Options.of(store.config), places_of(store)
    has_light_queues = any(queue.topic.startswith(LMQ_PREFIX) for queue in store.queue_directories())

    def flag(name: str, value: bool, sign: bool) -> bool:
        return value if store.config.explicit(name) is not None else value or sign

    return Settings(
        mapped_file_size_consume_queue=places.queues.simple_file_size,
        mapper_file_size_batch_consume_queue=places.queues.batch_file_size,
        mapped_file_size_consume_queue_ext=places.queues.ext_file_size,
        batch_topics=places.queues.batch_topics,
        enable_consume_queue_ext=flag(
            "enableConsumeQueueExt", options.enable_consume_queue_ext, store.path_of(PartKind.CONSUMEQUEUE_EXT).is_dir()
        ),
        enable_lmq=flag("enableLmq", options.enable_lmq, has_light_queues),
        enable_multi_dispatch=flag("enableMultiDispatch", options.enable_multi_dispatch, has_light_queues),
        message_index_enable=options.message_index_enable,
        index_file_write_enable=options.index_file_write_enable,
        max_hash_slot_num=places.index_slots,
        max_index_num=places.index_items,
    )


def rebuild_queues(
    store: Store,
    log: FutureLog,
    profile: Profile,
    staging: Staging,
    *,
    mode: Mode,
    wanted: Callable[[QueueKey], bool],
    advance: Advance = lambda count: None,
    rebuilder: Rebuilder | None = None,
) -> tuple[QueueResult, dict[str, StagedFile]]:
    """Builds the wanted queues into the staging area; their files by path below the root of the store.

    Raises RefusedError, UnreadableError, StoreChangedError, OSError.
    """
    if rebuilder is not None:
        return rebuilder.queues(log, profile, staging, mode, wanted, advance)
    records, sink = records_of(store, log, keys=False), StagedFiles(staging)
    builder = QueueBuilder(
        records.scanner.queue,
        settings_of(store),
        profile,
        sink,
        log_start=log.min_offset,
        mode=mode,
        wanted=lambda topic, queue_id: wanted((topic, queue_id)),
    )
    with _full_disk_told(staging):
        rebuild(told(records, advance), builder)
        return builder.finish(), sink.files


def rebuild_index(
    store: Store,
    log: FutureLog,
    profile: Profile,
    staging: Staging,
    *,
    keys: KeyRange | None,
    follows: tuple[int, int],
    advance: Advance = lambda count: None,
    rebuilder: Rebuilder | None = None,
) -> tuple[IndexResult, dict[str, StagedFile]]:
    """Builds index files with the keys of a range into the staging area, as `rebuild_queues` does it."""
    if rebuilder is not None:
        return rebuilder.index(log, profile, staging, keys, follows, advance)
    records, sink = records_of(store, log, keys=True), StagedFiles(staging)
    builder = IndexBuilder(records.scanner.queue, settings_of(store), profile, sink, follows=follows)
    batches = told(records, advance)
    with _full_disk_told(staging):
        rebuild(batches if keys is None else keys.select(batches, tags=profile.indexes_tags), builder)
        return builder.finish(), sink.files


@contextmanager
def _full_disk_told(staging: Staging) -> Iterator[None]:
    """Lost pages are counted for the whole process: those of a file that is made on a full disk look to the scan like those of the log."""
    try:
        yield
    except StoreChangedError as error:
        if staging.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(staging.directory)) from error
        raise


def told(records: FutureRecords, advance: Advance) -> Iterator[Batch]:
    """The batches, and `advance` is told the bytes of the log as they go by."""
    reached = records.log.min_offset
    for batch in records:
        end = int(batch.records["position"][-1])
        advance(end - reached)
        reached = end
        yield batch
