"""New databases, and one of queues with the entries of staged queue files, as brokers of 5.2.0 and later write it.

Formats: fact sheet queues §8.2, §8.3. An entry has the store time of its record, which queue files do not have; it is read from the log.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from rmqstore.children import environment
from rmqstore.errors import RmqstoreError
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.formats.rocksdb import QUEUE_END, QUEUE_END_KEY, QUEUE_ENTRY, QUEUE_KEY
from rmqstore.rebuild.result import RebuiltQueue
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.staging import StagedFile, Staging
from rmqstore.scan.columns import integer_columns
from rmqstore.scan.kernels.offsets import BORN_HOST, BORN_HOST_V6, HOST_V4_WIDTH, HOST_V6_WIDTH, SYS_FLAG
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.store.mapped import MappedFile
from rmqstore.store.rocksdb.databases import ENTRIES, OFFSETS, REACHED_KEY
from rmqstore.store.rocksdb.framing import END, FAMILY, LENGTH, OFFSET_SIZE, framed, with_length
from rmqstore.store.window import Window, map_window
from rmqstore.verify.queues.spans import QueueKey

_VALUE = integer_columns(QUEUE_ENTRY)
_ENTRY = np.dtype([("queue_offset", ">i8"), ("value", _VALUE)])
_OFFSETS, _ENTRIES = 0, 1
"""Numbers of the families."""
_TOGETHER = 1 << 14
"""Entries of a piece."""
_OPEN_FILES = 16
_NOT_NEEDED = ("LOG", "LOCK", "rocksdict-config")
"""Beginnings of the names of files that a broker does not need to open the database."""


def made_database(staging: Staging, families: Sequence[str], send: Callable[[IO[bytes]], None]) -> dict[str, StagedFile]:
    """Return the files of a new database by name; `send` writes its entries as `rmqstore.repair.rocksdb.child` reads them.

    Raises what `send` raises, OSError, RmqstoreError where the library fails.
    """
    with staging.attempts() as directory:
        command = [sys.executable, "-m", "rmqstore.repair.rocksdb.child", str(directory), *families]
        with subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as child:
            assert child.stdin is not None and child.stderr is not None
            try:
                send(child.stdin)
                child.stdin.write(END)
                child.stdin.close()
            except BrokenPipeError:
                pass
            said = child.stderr.read().decode(errors="replace").strip().splitlines()
        if child.returncode:
            raise RmqstoreError(
                f"The RocksDB library did not make the database: {said[-1] if said else f'it ended with {child.returncode}'}",
                "Nothing was changed. Install rmqstore with all that it depends on, or make room on the disk of the store.",
            )
        files = sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith(_NOT_NEEDED))
        return {path.name: staging.adopt(StagedFile(path, path.name, path.stat().st_size)) for path in files}


def send_family(target: IO[bytes], number: int) -> None:
    """Send that what follows goes into the family of this number."""
    target.write(FAMILY + number.to_bytes(LENGTH, "big"))


def send_pair(target: IO[bytes], key: bytes, value: bytes) -> None:
    """Send an entry."""
    target.write(framed([(key, value)]))


def queue_database(
    staging: Staging,
    log: FutureLog,
    queues: Mapping[QueueKey, RebuiltQueue],
    made: Mapping[str, StagedFile],
    emptied: Mapping[QueueKey, int],
) -> dict[str, StagedFile]:
    """Return the files of a new database of queues by name.

    `made` are the files of `queues`, which have no ext files; `emptied`: next queue offsets of queues without a record in the log.
    Raises UnreadableError, StoreChangedError, OSError, RmqstoreError where the library fails.
    """
    return made_database(staging, (OFFSETS, ENTRIES), lambda target: _send(target, log, queues, made, emptied))


def _send(
    target: IO[bytes],
    log: FutureLog,
    queues: Mapping[QueueKey, RebuiltQueue],
    made: Mapping[str, StagedFile],
    emptied: Mapping[QueueKey, int],
) -> None:
    times = _StoreTimes(log)
    send_family(target, _OFFSETS)
    send_pair(target, REACHED_KEY, log.end_offset.to_bytes(OFFSET_SIZE, "big"))
    for key, queue in sorted(queues.items()):
        first = last = None
        send_family(target, _ENTRIES)
        target.write(b"Q" + with_length(_prefix(key)))
        for offsets, units in _units(queue, made):
            entries = np.empty(len(units), _ENTRY)
            entries["queue_offset"] = offsets
            for name in ("physical_offset", "size", "tags_code"):
                entries["value"][name] = units[name]
            entries["value"]["store_timestamp"] = times.of(units["physical_offset"].astype(np.int64))
            target.write(b"E" + len(entries).to_bytes(LENGTH, "big") + entries.tobytes())
            first = entries[0] if first is None else first
            last = entries[-1]
        send_family(target, _OFFSETS)
        if first is not None and last is not None:
            _send_end(target, key, b"min", int(first["value"]["physical_offset"]), int(first["queue_offset"]))
            _send_end(target, key, b"max", int(last["value"]["physical_offset"]), int(last["queue_offset"]))
    for key, end in sorted(emptied.items()):
        _send_end(target, key, b"min", 0, end)
        _send_end(target, key, b"max", 0, end - 1)


def _prefix(key: QueueKey) -> bytes:
    topic = key[0].encode("utf-8", "surrogateescape")
    whole: bytes = QUEUE_KEY.build({"length": len(topic), "topic": topic, "queue_id": key[1], "queue_offset": 0})
    return whole[:-OFFSET_SIZE]


def _send_end(target: IO[bytes], key: QueueKey, kind: bytes, physical_offset: int, queue_offset: int) -> None:
    topic = key[0].encode("utf-8", "surrogateescape")
    name = QUEUE_END_KEY.build({"length": len(topic), "topic": topic, "kind": kind, "queue_id": key[1]})
    value = QUEUE_END.build({"physical_offset": physical_offset, "queue_offset": queue_offset})
    send_pair(target, name, value)


def _units(queue: RebuiltQueue, made: Mapping[str, StagedFile]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]]:
    """Yield queue offsets and units from the first message of a queue to its end."""
    for path in queue.files:
        start = int(Path(path).name) // UNIT_SIZE
        file = MappedFile(made[path].path, 0, made[path].length, made[path].length)
        first, end = max(queue.first_offset - start, 0), min(queue.end_offset - start, file.length // UNIT_SIZE)
        for begin in range(first, end, _TOGETHER):
            count = min(_TOGETHER, end - begin)
            with map_window(file, begin * UNIT_SIZE, count * UNIT_SIZE) as window:
                yield start + begin + np.arange(count), np.frombuffer(window.array.tobytes(), UNIT_ROWS)


class _StoreTimes:
    """Store times of records by their physical offset."""

    def __init__(self, log: FutureLog) -> None:
        self._log = log
        self._starts = np.array([file.start for file in log.files], np.int64)
        self._window = lru_cache(_OPEN_FILES)(self._opened)

    def _opened(self, file: MappedFile) -> Window:
        return self._log.window(file, 0, file.length)

    def of(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the store times (ms) of the records that begin at `positions`."""
        times = np.zeros(len(positions), np.int64)
        # Damaged logs have files of other lengths than the first one.
        numbers = np.searchsorted(self._starts, positions, side="right") - 1
        for number in np.unique(numbers).tolist():
            file = self._log.files[number]
            rows = np.flatnonzero(numbers == number)
            data, at = self._window(file).array, positions[rows] - file.start
            is_v6 = (_gathered(data, at + SYS_FLAG, ">i4") & BORN_HOST_V6) != 0
            times[rows] = _gathered(data, at + BORN_HOST + np.where(is_v6, HOST_V6_WIDTH, HOST_V4_WIDTH), ">i8")
        return times


def _gathered(data: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], kind: str) -> npt.NDArray[np.int64]:
    width = np.dtype(kind).itemsize
    return np.ascontiguousarray(data[places[:, None] + np.arange(width)]).view(kind)[:, 0].astype(np.int64)
