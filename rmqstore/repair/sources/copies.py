"""Other copies of the log of a store: a store, a directory of log files, or one file. They are read only, and never trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from rmqstore.errors import RefusedError, UsageError
from rmqstore.formats.epoch import EpochEntry, parse_epoch_file
from rmqstore.repair.derived.rescue.sources import ConfigCopy
from rmqstore.store.mapped import MappedFile, parse_offset_name
from rmqstore.store.parts import PartKind
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole

_LARGEST_EPOCHS = 16 << 20


class Source(NamedTuple):
    """The place of another copy, and its name for messages and plans."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class OtherCopy:
    """Another copy: its log files by the offset in their name, none of them a link, as far as files of this store go; its epochs."""

    source: Source
    files: Mapping[int, MappedFile]
    epochs: tuple[EpochEntry, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the copy."""
        return self.source.name

    def name_of(self, file: MappedFile) -> str:
        """Return the name of one of its files."""
        path = self.source.path
        return f"{self.name}/{file.path.relative_to(path).as_posix()}" if file.path != path else self.name

    @property
    def end(self) -> int:
        """Return the offset after its last file."""
        return max((file.end for file in self.files.values()), default=0)


def open_copy(source: Source, store: Store, file_size: int) -> OtherCopy:
    """Open another copy of a store whose log files have `file_size` bytes.

    Raises UnreadableError, NotAStoreError, UsageError, RefusedError for the store itself.
    """
    path, name = source
    if path.is_file():
        start = parse_offset_name(path.name)
        if start is None:
            raise UsageError(f"{name} is not named by an offset, so it is no log file.", "Name a store, its commitlog, or a file of it.")
        found: list[MappedFile] = [MappedFile(path.absolute(), start, path.stat().st_size, 0)]
        epochs: tuple[EpochEntry, ...] = ()
    else:
        other = Store.open(path)
        if other.dledger is not None:
            raise RefusedError(f"{name} has a log of DLedger, which has other bytes.", "Name a copy that is of the same kind.")
        found = list(other.commitlog.files)
        epochs = epochs_of(other)
    if not found:
        raise RefusedError(f"{name} has no file of a commit log.", "Name a store, its commitlog, or a file of it.")
    if any(_is_of(file, store) for file in found):
        raise RefusedError(f"{name} is the store itself, or shares files with it.", "Name another copy.")
    plain = (file for file in found if not file.path.is_symlink() and file.length)
    return OtherCopy(source, {file.start: replace(file, length=min(file.length, file_size)) for file in plain}, epochs)


def configurations(sources: Sequence[Source]) -> list[ConfigCopy]:
    """Return the configuration directories of the copies that are whole stores. Raises UnreadableError, NotAStoreError."""
    stores = ((Store.open(path), name) for path, name in sources if path.is_dir())
    return [ConfigCopy(one.config_path, name) for one, name in stores if one.only is None and one.config_path.is_dir()]


def _is_of(file: MappedFile, store: Store) -> bool:
    own = store.commitlog.find(file.start)
    return own is not None and own.path.is_file() and own.path.samefile(file.path)


def epochs_of(store: Store) -> tuple[EpochEntry, ...]:
    """Return the epochs of a store; none without an epoch file, or with a damaged one. Raises UnreadableError."""
    path = store.root / PartKind.EPOCH.value
    try:
        return parse_epoch_file(read_whole(path, _LARGEST_EPOCHS)).entries if path.is_file() else ()
    except ValueError:
        return ()


def epoch_limit(one: tuple[EpochEntry, ...], other: tuple[EpochEntry, ...]) -> int | None:
    """Return the offset at which the first mastership begins that only one of two copies knows, None if there is none."""
    if not one or not other:
        return None
    shared = next((number for number, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other)))
    rest = [*one[shared : shared + 1], *other[shared : shared + 1]]
    return min((entry.start_offset for entry in rest), default=None)
