"""The plan for one consume queue or batch queue: which files change, which are new, and which leave the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.formats import batchconsumequeue, consumequeue
from rmqstore.formats.naming import offset_to_file_name
from rmqstore.rebuild.result import RebuiltQueue
from rmqstore.rebuild.settings import Mode, Settings
from rmqstore.repair.derived.batchqueues import batch_files
from rmqstore.repair.derived.ext import Addresses, ExtFiles
from rmqstore.repair.derived.queue_files import Bytes, FileFitter, Wanted
from rmqstore.repair.derived.targets import QueueTarget, Sources, Units, padded
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import StagedFile
from rmqstore.scan.unitruns import UNIT_ROWS
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.parts import PartKind
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.store.window import data_extents, map_window
from rmqstore.verify.queues.exchanged import Held
from rmqstore.verify.queues.spans import QueueKey

EMPTY = MappedFileQueue(())
_NO_FILE = "the queue should not have this file"


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason of the actions of a queue, and the code of the finding that led to it."""

    reason: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """The planned change of a queue.

    `end`: the queue offset after its last message then; None for a batch queue without records. `new_ext`: its ext files are all new.
    """

    changes: bool
    end: int | None
    new_ext: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """Common data of the plans of all queues of a store.

    `made`: the staged files of the rebuild by path below the root; `exchanged`: queue files that hold units of another place.
    """

    builder: PlanBuilder
    store: Store
    settings: Settings
    log: FutureLog
    mode: Mode
    made: Mapping[str, StagedFile]
    exchanged: Mapping[Path, Held]

    def read_made(self, path: str, units: int) -> Units:
        """Return the first units of a rebuilt file. Its holes say nothing: some systems report what is not on the disk yet as one."""
        return _read(_file(self.made[path]), units * consumequeue.UNIT_SIZE).view(UNIT_ROWS)


def plan_simple_queue(
    work: Work,
    key: QueueKey,
    found: QueueDirectory | None,
    ext: QueueDirectory | None,
    rebuilt: RebuiltQueue | None,
    why: Reason,
    placeholders: Mapping[int, bytes],
) -> Planned:
    """Plan a consume queue and its extension. Raises UnreadableError, StoreChangedError, OSError."""
    size = consumequeue.file_size(work.settings.mapped_file_size_consume_queue)
    files = found.files if found is not None else EMPTY
    good = _holders(work, key, _good_files(files, size), size)
    made = {_number(path, size): path for path in (rebuilt.files if rebuilt is not None else ())}

    # Each file is read several times in a row.
    @lru_cache(maxsize=2)
    def read_found(number: int) -> Units | None:
        return _units(good[number]) if number in good else None

    @lru_cache(maxsize=2)
    def read_made(number: int) -> Units | None:
        return work.read_made(made[number], min(end - number * capacity, capacity)) if number in made else None

    capacity, end = size // consumequeue.UNIT_SIZE, rebuilt.end_offset if rebuilt is not None else 0
    sources = Sources(read_found, tuple(sorted(good)), read_made, tuple(sorted(made)), end, capacity)
    extension = _Extension(work, key, ext, rebuilt, why)
    fitter = FileFitter(work.builder, consumequeue.UNIT_SIZE, why.reason, why.code)
    directory = _directory(work.store, PartKind.CONSUMEQUEUE, key, found)
    fit = _Fit(fitter, files, directory)
    target = QueueTarget(sources, work.log, work.mode, placeholders)
    for number, units in target.files():
        units = extension.settle(units, read_found(number))
        rebuilt_units = read_made(number)
        as_rebuilt = rebuilt_units is not None and bool(np.array_equal(rebuilt_units.view(np.uint8), units.view(np.uint8)))
        fit.file(number * size, units.view(np.uint8), size, work.made[made[number]] if as_rebuilt else None)
    changed = fit.take_away_others()
    return Planned(extension.plan() or changed, target.end, extension.is_new)


def plan_batch_queue(work: Work, key: QueueKey, found: QueueDirectory | None, rebuilt: RebuiltQueue | None, why: Reason) -> Planned:
    """Plan a batch queue. Raises UnreadableError, StoreChangedError, OSError."""
    size = work.settings.mapper_file_size_batch_consume_queue
    files = found.files if found is not None else EMPTY
    good = _good_files(files, size)
    staged = [work.made[path] for path in (rebuilt.files if rebuilt is not None else ())]
    made = [_read(_file(each), each.length) for each in staged]
    fitter = FileFitter(work.builder, batchconsumequeue.UNIT_SIZE, why.reason, why.code)
    fit = _Fit(fitter, files, _directory(work.store, PartKind.BATCHCONSUMEQUEUE, key, found))
    for number, data in batch_files([good[number] for number in sorted(good)], made, work.log.min_offset, size):
        fit.file(number * size, data, size, None)
    return Planned(fit.take_away_others(), rebuilt.end_offset if rebuilt is not None else None)


class _Fit:
    """The files of one directory while they are fitted; those that were not asked for are quarantined."""

    def __init__(self, fitter: FileFitter, files: MappedFileQueue, directory: Path) -> None:
        self._fitter = fitter
        self._directory = directory
        self._found = {file.start: file for file in files.files}
        self._odd = _odd_files(files)
        self._changed = False

    def file(self, start: int, data: Bytes, length: int, staged: StagedFile | None) -> None:
        """Fit the file that begins at byte `start` of the queue to `data` and zeros up to `length`, which is what `staged` holds."""
        wanted = Wanted(self._directory / offset_to_file_name(start), data, length, staged)
        found = self._found.pop(start, None)
        if wanted.path in self._odd:
            self._odd.remove(wanted.path)
            found = MappedFile(wanted.path, start, 0, 0) if wanted.path.is_file() else None
        self._changed = self._fitter.fit(wanted, found) or self._changed

    def take_away_others(self) -> bool:
        """Quarantine every other file of the directory; return whether anything changes."""
        for path in [*(file.path for file in self._found.values()), *self._odd]:
            self._fitter.take_away(path, _NO_FILE)
            self._changed = True
        return self._changed


class _Extension:
    """The extension of one queue: left alone without one; rebuilt if it has no file; else its addresses are found again."""

    def __init__(self, work: Work, key: QueueKey, found: QueueDirectory | None, rebuilt: RebuiltQueue | None, why: Reason) -> None:
        self._work = work
        self._why = why
        self._made = rebuilt.ext_files if rebuilt is not None else ()
        self._size = work.settings.mapped_file_size_consume_queue_ext
        self._files = found.files if found is not None else EMPTY
        self._directory = _directory(work.store, PartKind.CONSUMEQUEUE_EXT, key, found)
        good = _good_files(self._files, self._size)
        self._addresses: Addresses | None = None
        if self._made and good:
            self._found = ExtFiles(tuple(good[number] for number in sorted(good)))
            made = (MappedFile(work.made[path].path, _start(path), work.made[path].length, 0) for path in self._made)
            self._addresses = Addresses(ExtFiles(tuple(made)), self._found, work.log.min_offset)

    @property
    def is_new(self) -> bool:
        """Whether all ext files come from the rebuild."""
        return bool(self._made) and self._addresses is None

    def settle(self, units: Units, found: Units | None) -> Units:
        """Return the units of a file with the tagsCodes that they are to have."""
        if self._addresses is None:
            return units
        return self._addresses.settle(units, padded(found, len(units)))

    def plan(self) -> bool:
        """Plan the ext files. Return whether anything changes."""
        fitter = FileFitter(self._work.builder, 1, self._why.reason, self._why.code)
        if self._addresses is not None:
            return self._correct(fitter, self._addresses)
        if not self.is_new:
            return False
        fit = _Fit(fitter, self._files, self._directory)
        for path in self._made:
            staged = self._work.made[path]
            fit.file(_start(path), _read(_file(staged), staged.length), staged.length, staged)
        return fit.take_away_others()

    def _correct(self, fitter: FileFitter, addresses: Addresses) -> bool:
        """Plan to write damaged heads again, and to clear what follows the last named unit: a start would cut it, or not get through."""
        builder, why = self._work.builder, self._why
        good = {file.path for file in self._found.files}
        wrong = [path for path in (*(file.path for file in self._files.files), *_odd_files(self._files)) if path not in good]
        for path in wrong:
            fitter.take_away(path, _NO_FILE)
        for head in addresses.heads:
            file = self._found.holds(head.offset)
            if file is not None:
                builder.write(file.path, head.offset - file.start, head.data, reason=why.reason, code=why.code)
        if addresses.last is not None:
            for file in self._found.files:
                if file.start >= addresses.last:
                    fitter.take_away(file.path, _NO_FILE)
                elif addresses.last < file.end:
                    place = addresses.last - file.start
                    builder.zero(file.path, place, file.length - place, reason=why.reason, code=why.code)
        return bool(addresses.heads or wrong)


def _good_files(files: MappedFileQueue, size: int) -> dict[int, MappedFile]:
    """Return the files of the right length under valid names, by number."""
    return {file.start // size: file for file in files.files if file.length == size and file.start % size == 0}


def _holders(work: Work, key: QueueKey, good: Mapping[int, MappedFile], size: int) -> dict[int, MappedFile]:
    """Return the files that hold the units of a queue, by number: its own, and those in other places for own files with other units."""
    capacity = size // consumequeue.UNIT_SIZE
    exchanged = {
        held.first // capacity: MappedFile(path, held.first * consumequeue.UNIT_SIZE, size, 0)
        for path, held in work.exchanged.items()
        if held.owner == key and held.first % capacity == 0 and path.stat().st_size == size
    }
    return exchanged | {number: file for number, file in good.items() if file.path not in work.exchanged}


def _odd_files(files: MappedFileQueue) -> list[Path]:
    """Return the entries of the directory of a queue that are none of its files: foreign names, empty files, directories, special files."""
    return [entry.path for entry in files.odd]


def _directory(store: Store, kind: PartKind, key: QueueKey, found: QueueDirectory | None) -> Path:
    return found.directory if found is not None else store.path_of(kind) / key[0] / str(key[1])


def _start(path: str) -> int:
    return int(path.rpartition("/")[2])


def _number(path: str, size: int) -> int:
    return _start(path) // size


def _file(staged: StagedFile) -> MappedFile:
    return MappedFile(staged.path, 0, staged.length, 0)


def _units(file: MappedFile) -> Units:
    """Return the units of a file of the store, without those in the hole at its end."""
    filled = max((stop for _, stop in data_extents(file)), default=0)
    return _read(file, min(-(-filled // consumequeue.UNIT_SIZE) * consumequeue.UNIT_SIZE, file.length)).view(UNIT_ROWS)


def _read(file: MappedFile, length: int) -> npt.NDArray[np.uint8]:
    with map_window(file, 0, length) as window:
        return window.array.copy()
