"""The next start of a broker for a verification: the content of the queues and of the index afterwards."""

from __future__ import annotations

from rmqstore.errors import RmqstoreError
from rmqstore.formats import index
from rmqstore.prediction.options import Options
from rmqstore.prediction.outcome import Dispatched, Outcome
from rmqstore.prediction.places import places_of
from rmqstore.prediction.release import AUTO, choose_release
from rmqstore.prediction.simulation import simulate
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store
from rmqstore.store.window import read_at
from rmqstore.verify.nextstart import IndexAfter, NextStart
from rmqstore.versions import profile_of


def foresee(store: Store, release: str | None = None) -> NextStart | None:
    """Simulate the next start, of the newest broker that can have written the store unless `release` names another one.

    Return None if the outcome is unknown, and if the broker does not start.
    """
    if store.only is not None:
        return None
    try:
        return next_start(store, simulate(store, choose_release(store, release or AUTO).release, counts_lost=False))
    except RmqstoreError:
        return None


def next_start(store: Store, outcome: Outcome) -> NextStart | None:
    """Return the content of queues and index after a simulated start, None if that is unknown, and if the broker does not start.

    Raises UnreadableError, StoreChangedError.
    """
    if not outcome.starts or outcome.after_start is None:
        return None
    after, queues = _index_after(store, outcome), outcome.after_start.queues
    if queues is None:
        return NextStart(outcome.release, None, after)
    ends = {name: (queue.min_offset, queue.max_offset) for name, queue in queues.items() if not queue.shifted}
    numbered = {(topic, int(number)): end for name, end in ends.items() for topic, _, number in [name.rpartition("/")]}
    return NextStart(outcome.release, numbered, after)


def _index_after(store: Store, outcome: Outcome) -> IndexAfter:
    """Return the effect of a start on the index files. Reads headers and first entries. Raises UnreadableError, StoreChangedError."""
    slots = places_of(store).index_slots
    listed = [file for file in store.index_files() if file.named_right and file.length >= index.HEADER_SIZE]
    files = {file.path.name: file.mapped for file in listed}
    headers = {header.name: header for header in outcome.index_deleted if header.name in files}
    deleted = {name: _first_message(files[name], slots, header.begin_phy_offset) for name, header in headers.items() if name is not None}
    kept = [file for name, file in sorted(files.items()) if name not in deleted]
    # Messages before the end of the last file that remains count as indexed.
    indexed = int(index.HEADER.parse(read_at(kept[-1], 0, index.HEADER_SIZE)).end_phy_offset) if kept else 0
    since = _dispatched_from(outcome) if Options.of(store.config).builds_index(profile_of(outcome.release)) else None
    return IndexAfter(deleted, None if since is None else max(since, indexed))


def _dispatched_from(outcome: Outcome) -> int | None:
    """Return the physical offset from which all messages are dispatched, None for none.

    Records of an older file in the place of another have offsets before the scan: brokers dispatch them, and not what was there.
    """
    load, start = outcome.dispatched_in_load or Dispatched(), outcome.dispatched_after_start or Dispatched()
    if load.first is None or load.last is None or load.last_size is None:
        return start.first
    if not load.ascending or (outcome.scan is not None and load.first < int(outcome.scan.first_file)):
        return None
    return load.first if start.first is None or start.first <= load.last + load.last_size else start.first


def _first_message(file: MappedFile, slots: int, begin_phy_offset: int) -> int | None:
    """Return the physical offset of the first message in an index file, the lower one of entry 1 and header; None without entries."""
    item = read_at(file, index.item_position(1, slots), index.ITEM_SIZE) if index.file_size(slots, 2) <= file.length else b""
    return min(int(index.ITEM.parse(item).phy_offset), begin_phy_offset) if any(item) else None
