"""Rebuild over the future log: its records in, staged files out, with the settings that this store was written with."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RefusedError, StoreChangedError
from rmqstore.formats.sysflag import SysFlag
from rmqstore.reading.progress import Advance
from rmqstore.rebuild import Builder, IndexBuilder, Mode, QueueBuilder, rebuild
from rmqstore.repair.derived.multidispatch import as_written
from rmqstore.repair.derived.requests import IndexRequest, Planning, QueueRequest, Rebuilt
from rmqstore.repair.derived.settings_evidence import settings_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.scan.ahead import BATCH, BUFFERS
from rmqstore.scan.columns import Check, Mark
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.root import Store
from rmqstore.versions import Profile


class StagedFiles:
    """A rebuild's sink in the staging area. `files` are those that are complete, by path below the root of the store."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self.files: dict[str, StagedFile] = {}

    def open(self, relative_path: str, length: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of a new file, zeros. Raises OSError."""
        return self._staging.open(relative_path, length)

    def create(self, relative_path: str, length: int) -> None:
        """Make a new file of zeros that is not kept open. Raises OSError."""
        self._staging.create(relative_path, length)

    def write(self, relative_path: str, position: int, data: npt.NDArray[np.uint8]) -> None:
        """Write bytes into a file that is not complete. Raises OSError."""
        self._staging.write(relative_path, position, data)

    def read(self, relative_path: str, position: int, length: int) -> bytes:
        """Return bytes of a file that `create` made. Raises OSError."""
        return self._staging.read(relative_path, position, length)

    def discard(self, relative_path: str) -> None:
        """Remove a file that `create` made. Raises OSError."""
        self._staging.discard(relative_path)

    def close(self, relative_path: str) -> StagedFile:
        """Complete a file and return it. Raises OSError."""
        staged = self.files[relative_path] = self._staging.close(relative_path)
        return staged


@dataclass(frozen=True)
class FutureRecords:
    """The records of the future log with the scanner that numbers their queues."""

    scanner: LogScanner
    log: FutureLog

    def __iter__(self) -> Iterator[Batch]:
        return self.log.batches(self.scanner)


def entry_header_of(store: Store, log: FutureLog) -> int:
    """Return the number of bytes that lead every record of `log`. Raises RefusedError where DLedger entries follow on plain records."""
    leads = {store.entry_header(file) for file in log.files}
    if len(leads) > 1:
        raise RefusedError(
            "The log of this store begins with plain files and continues with those of DLedger; derived files cannot be rebuilt from both.",
            "Let the broker expire the old files first.",
        )
    return max(leads, default=0)


def records_of(store: Store, log: FutureLog, *, keys: bool) -> FutureRecords:
    """Return the records of `log`, with their index keys if asked. Raises RefusedError where DLedger entries follow on plain records."""
    lead = entry_header_of(store, log)
    delays = store.config.known_delay_levels
    checks = Check.KEYS if keys else Check(0)
    return FutureRecords(LogScanner(checks=checks, delays=delays, lead=lead, windows=log.window, batch=BATCH, buffers=BUFFERS), log)


def inner_batch_topics(store: Store, log: FutureLog) -> frozenset[str]:
    """Return the topics with inner batches, which brokers take in topics with batch queues only (fact sheet queues §4.2)."""
    records, found = records_of(store, log, keys=False), set()
    for batch in records:
        inner = (batch.records["marks"] & int(Mark.INNER_BATCH) != 0) & (batch.records["sys_flag"] & int(SysFlag.INNER_BATCH) != 0)
        found |= {records.scanner.queue(number)[0] for number in np.unique(batch.records["queue"][inner]).tolist()}
    return frozenset(found)


def rebuild_derived(
    planning: Planning, store: Store, log: FutureLog, *, queues: QueueRequest | None = None, index: Sequence[IndexRequest] = ()
) -> Rebuilt:
    """Build what is asked for into the staging area.

    Queues and the first index files are built in one pass over the log. Raises RefusedError, UnreadableError, StoreChangedError, OSError.
    """
    if queues is None and not index:
        return Rebuilt(None, ())
    profile = planning.profile
    if queues is not None and queues.mode is Mode.USEFUL:
        profile = as_written(store, profile)
    if planning.rebuilder is not None:
        return planning.rebuilder.rebuild(planning, log, profile, queues, index)
    first, rest = (index[0], index[1:]) if queues is not None and index else (None, index)
    made = [] if queues is None else [_pass(planning, store, log, profile, queues, first)]
    made += [_pass(planning, store, _touched(log, request), profile, None, request) for request in rest]
    return Rebuilt(made[0].queues, [each for one in made for each in one.index])


def _pass(
    planning: Planning, store: Store, log: FutureLog, profile: Profile, queues: QueueRequest | None, index: IndexRequest | None
) -> Rebuilt:
    """Return what one pass over the log builds."""
    records, settings, staging = records_of(store, log, keys=index is not None), settings_of(store), planning.staging
    builders: list[Builder] = []
    for_queues, for_index = StagedFiles(staging), StagedFiles(staging)
    if queues is not None:
        wanted = queues.wanted
        queue_builder = QueueBuilder(
            records.scanner.queue,
            queues.settings(settings),
            profile,
            for_queues,
            log_start=log.min_offset,
            mode=queues.mode,
            wanted=lambda topic, queue_id: wanted((topic, queue_id)),
        )
        builders.append(queue_builder)
    if index is not None:
        index_builder = IndexBuilder(records.scanner.queue, settings, profile, for_index, follows=index.follows)
        builders.append(_Chosen(index, index_builder, profile.indexes_tags))
    with _reporting_full_disk(staging):
        rebuild(advancing(records, planning.advance), *builders)
        return Rebuilt(
            None if queues is None else (queue_builder.finish(), for_queues.files),
            [] if index is None else [(index_builder.finish(), for_index.files)],
        )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A builder of the index that gets only the records and keys of a request."""

    request: IndexRequest
    builder: IndexBuilder
    tags: bool

    def put(self, batch: Batch) -> None:
        for chosen in self.request.select([batch], tags=self.tags):
            self.builder.put(chosen)


def _touched(log: FutureLog, request: IndexRequest) -> FutureLog:
    """Return the log with only the files that keys of the request can be in."""
    return replace(log, files=tuple(file for file in log.files if request.touches(file.start, file.end)))


@contextmanager
def _reporting_full_disk(staging: Staging) -> Iterator[None]:
    """Raise OSError for a full disk: lost pages count for the whole process, so those of a file made there look like those of the log."""
    try:
        yield
    except StoreChangedError as error:
        if staging.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(staging.directory)) from error
        raise


def advancing(records: FutureRecords, advance: Advance) -> Iterator[Batch]:
    """Yield the batches, and call `advance` with the bytes of the log as they go by."""
    reached = records.log.min_offset
    for batch in records:
        end = int(batch.records["position"][-1])
        advance(end - reached)
        reached = end
        yield batch
