"""Entries of the index in RocksDB, made of the records of a batch and hashed by compiled code."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from rmqstore.formats.indexentry import index_pairs
from rmqstore.formats.sysflag import SysFlag
from rmqstore.scan.kernels.entries import ENTRY_DTYPE, Reading, hash_entries, write_entries
from rmqstore.scan.walk import Batch
from rmqstore.store.rocksdb.framing import framed

_ROOM = 1 << 20
"""Bytes: more than one entry can have, whose topic, key and unique key are at most 32,767 bytes each."""
_ROWS = 1 << 14
_EVERY = -(1 << 63)


class EntryWriter:
    """Writer of entries in the form of `rmqstore.store.rocksdb.framing`. A message can have the same entry more than once."""

    def __init__(self) -> None:
        self._out = np.empty(_ROOM, np.uint8)
        self._numbers = np.zeros(3, np.int64)

    def frames(self, batch: Batch, topic: Callable[[int], str], *, least: int = 0) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the entries of the messages at or after physical offset `least`, in pieces (uint8) that last until the next one.

        `topic` returns the name of a dense number.
        """
        records = batch.records
        wanted = records["position"] >= least
        wanted &= records["sys_flag"] & int(SysFlag.TRANSACTION_MASK) != int(SysFlag.TRANSACTION_ROLLBACK)
        rows = np.flatnonzero(wanted)
        at = done = 0
        while at < len(rows):
            at, done, written, reason = write_entries(
                batch.window.ctypes.data,
                batch.origin,
                records.ctypes.data,
                rows.ctypes.data,
                at,
                len(rows),
                done,
                self._numbers.ctypes.data,
                self._out.ctypes.data,
                len(self._out),
            )
            if written:
                yield self._out[:written]
            if reason == Reading.UNUSUAL:
                row = int(rows[at])
                offset, time = int(records["position"][row]), int(records["store_timestamp"][row])
                pairs = index_pairs(topic(int(records["topic"][row])), batch.properties(row), offset, time)
                yield np.frombuffer(framed(pairs), np.uint8)
                at += 1


class EntryHasher:
    """Hashes entries with a seed of its own, so that no store can be made whose entries have the same hashes."""

    def __init__(self, *, least: int = _EVERY) -> None:
        """`least`: entries of a smaller physical offset are left out."""
        self._least = least
        self._seed = secrets.randbits(63)
        self._rows = np.empty(_ROWS, ENTRY_DTYPE)

    def hashed(self, data: npt.NDArray[np.uint8], at: int = 0) -> tuple[npt.NDArray[np.void], int, Reading]:
        """Return entries (ENTRY_DTYPE, their places in `data`) from place `at` on, where they end, and why they end there."""
        memory = data.ctypes.data
        at, count, reason = hash_entries(memory, at, len(data), self._least, self._seed, self._rows.ctypes.data, 0, len(self._rows))
        return self._rows[:count].copy(), at, Reading(reason)

    def all_hashed(self, frames: npt.NDArray[np.uint8]) -> Iterator[npt.NDArray[np.void]]:
        """Yield the entries (ENTRY_DTYPE) of whole frames, all of which are entries of the index."""
        at = 0
        while at < len(frames):
            rows, at, reason = self.hashed(frames, at)
            yield rows
            assert reason is Reading.FULL or at == len(frames)
