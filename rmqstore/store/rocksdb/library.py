"""The report of the RocksDB library on a database of a store. Nothing is written there: the library gets a directory of links.

The library opens the database read-only in a separate process. Even so it puts a file beside the database, so it is given a private
directory in which the files of the database are symbolic links; the links cost nothing, whatever the length of the files.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqstore.children import environment
from rmqstore.store.access import is_denied
from rmqstore.store.rocksdb.databases import OFFSETS, REACHED_KEY, Database, DatabaseUse
from rmqstore.store.window import source_of

EVERYTHING = 1 << 62
"""A limit that no database reaches: every block is read."""
START = 64 << 20
"""Bytes of tables that are read to predict a start. Beyond them only the smallest column families are read."""

_CHILD = "rmqstore.store.rocksdb.child"
_MODES = {DatabaseUse.CONFIGURATION: "skip_any_corrupted_record"}
"""How a broker treats damage in the write-ahead log; a database of another use is opened in the mode of the library."""
_DEFAULT_MODE = "point_in_time"
_SECONDS, _BYTES_PER_SECOND = 120, 8 << 20
_LONGEST_TEXT = 1000
_LONG_DIGITS = 16
_LINKED = re.compile(r"CURRENT|IDENTITY|MANIFEST-[0-9]+|[0-9]{6,}\.(sst|log|blob)")
_BLOCK = re.compile(r"(?P<file>[0-9]{6,}\.sst)(?: offset (?P<offset>[0-9]+) size (?P<size>[0-9]+))?")
_FILE = re.compile(r"[0-9]{6,}\.(?:sst|log|blob)|MANIFEST-[0-9]+|CURRENT")


@dataclass(frozen=True, slots=True)
class Family:
    """A column family: bytes of its tables, entries that were read (None: it was not read), and what stopped the reading."""

    name: str
    bytes: int
    entries: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """The report of the library. One of the following holds.

    `failed`: the library itself ended, and nothing is known. `refused`: it does not open the database, for this reason. Neither: it opens
    it, and `families` and `unlisted` (tables that the MANIFEST does not list) have its content.
    """

    database: Database
    failed: str | None = None
    refused: str | None = None
    families: tuple[Family, ...] = ()
    unlisted: tuple[str, ...] = ()
    log_damage: str | None = None
    """The fault of the write-ahead log, None for none; if only its end is missing, that cannot be detected."""
    reached: int | None = None
    """Physical offset up to which the log was dispatched into the queues, None if unknown."""

    @property
    def damaged(self) -> tuple[Family, ...]:
        """Return the families that cannot be read to their end."""
        return tuple(family for family in self.families if family.error is not None)

    @property
    def sound(self) -> bool:
        """Return whether the library found nothing wrong in what it read."""
        return self.failed is None and self.refused is None and not self.damaged and self.log_damage is None


@dataclass(frozen=True, slots=True)
class Place:
    """The file that a text of the library is about, relative to the database, and the range of bytes in it, if it names one."""

    file: str
    position: int | None = None
    length: int | None = None


def place_of(text: str) -> Place | None:
    """Return the table or other file that a text of the library names first."""
    block = _BLOCK.search(text)
    if block is not None:
        offset, size = block["offset"], block["size"]
        return Place(block["file"], None if offset is None else int(offset), None if size is None else int(size))
    file = _FILE.search(text)
    return None if file is None else Place(file[0])


def probe(database: Database, limit: int = EVERYTHING) -> Report:
    """Return the report of the library. Column families are read, smallest first, up to `limit` bytes of tables in all.

    The same database is probed once per process. Raises OSError if no temporary directory can be made.
    """
    return _probe(database, limit, _state(database))


@functools.lru_cache(maxsize=256)
def _probe(database: Database, limit: int, state: tuple[tuple[int, ...], ...]) -> Report:
    for name in database.files:
        if is_denied(database.directory / name):
            return Report(database, failed=f"{name}: permission denied")
    seconds = longest_seconds(min(database.table_bytes, limit))
    with linked(database) as links:
        said = _ask(links, limit, _MODES.get(database.use, _DEFAULT_MODE), seconds)
        return _report(database, said, links)


def longest_seconds(table_bytes: int) -> int:
    """Return how long the library may take to read so many bytes of tables."""
    return _SECONDS + table_bytes // _BYTES_PER_SECOND


@contextmanager
def linked(database: Database) -> Iterator[str]:
    """Yield a private directory in which the files of a database are symbolic links. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="rmqstore-rocksdb-") as links:
        for source, name in _files(database):
            (Path(links) / name).symlink_to(source)
        yield links


@contextmanager
def copied(database: Database) -> Iterator[str]:
    """Yield a private directory with copies of the files of a database. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="rmqstore-rocksdb-") as copy:
        for source, name in _files(database):
            shutil.copyfile(source, Path(copy) / name)
        yield copy


def _files(database: Database) -> Iterator[tuple[Path, str]]:
    """Yield the files that the library reads, each with its name."""
    yield from ((source_of(database.directory / name), name) for name in database.files if _LINKED.fullmatch(name))


def _state(database: Database) -> tuple[tuple[int, ...], ...]:
    """Return length and times of every file, which identify a state of a database: programs can set the modification time back."""
    status = [(database.directory / name).stat() for name in database.files]
    return tuple((one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in status)


def _ask(directory: str, limit: int, mode: str, seconds: float) -> Mapping[str, Any]:
    command = [sys.executable, "-m", _CHILD, directory, str(limit), mode, OFFSETS, REACHED_KEY.hex()]
    try:
        done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"failed": f"the RocksDB library did not finish in {seconds:.0f} s"}
    if done.returncode == 0:
        said: Mapping[str, Any] = json.loads(done.stdout)
        return said
    if done.returncode < 0:
        return {"failed": f"the RocksDB library ended with {signal.Signals(-done.returncode).name}"}
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return {"failed": f"the RocksDB library ended with status {done.returncode}: {' '.join(last)}"}


def _report(database: Database, said: Mapping[str, Any], links: str) -> Report:
    def text(found: str | None) -> str | None:
        """Return a text of the library on one line, with paths below the parent of the database."""
        return None if found is None else " ".join(found.replace(links, database.directory.name).split())[:_LONGEST_TEXT]

    if "failed" in said or "refused" in said:
        return Report(database, failed=text(said.get("failed")), refused=text(said.get("refused")))
    families = tuple(Family(family["name"], family["bytes"], family["entries"], text(family["error"])) for family in said["families"])
    listed = set(said["tables"])
    unlisted = tuple(name for name in database.tables if name not in listed)
    reached = _reached(database, families, said["value"])
    return Report(database, families=families, unlisted=unlisted, log_damage=text(said["log"]), reached=reached)


def _reached(database: Database, families: Sequence[Family], value: str | None) -> int | None:
    offsets = next((family for family in families if family.name == OFFSETS), None)
    if database.use is not DatabaseUse.QUEUES or (offsets is not None and (offsets.error is not None or offsets.entries is None)):
        return None
    return int(value[:_LONG_DIGITS], 16) if value is not None and len(value) >= _LONG_DIGITS else 0
