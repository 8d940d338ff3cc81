"""The data of every check of a verification: the store, what was asked for, and, once the log was read, what it holds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from rmqstore.catalogue import finding
from rmqstore.findings import Finding
from rmqstore.formats.record import Record
from rmqstore.reading.records import record_at
from rmqstore.store.mapped import list_directory
from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a verification. Empty `parts`, `topics` or `queues` mean all; `quick` leaves bodies out.

    A queue is (topic, queue id), with None for every topic.

    `crashed`: whether the broker counts as killed; None: if `abort` exists. `given_up` are ranges [start, end) of the log that a repair
    fills, ascending: units into them show nothing.
    """

    parts: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    quick: bool = False
    threads: int = 2
    crashed: bool | None = None
    given_up: Sequence[tuple[int, int]] = ()
    queues: frozenset[tuple[str | None, int]] = frozenset()

    def wants(self, part: str) -> bool:
        """Return whether this part is to be verified."""
        return not self.parts or part in self.parts

    def wants_queue(self, topic: str, queue_id: int | None) -> bool:
        """Return whether findings of a queue are wanted, or, without a queue id, of a topic."""
        if self.topics and topic not in self.topics:
            return False
        if not self.queues:
            return True
        if queue_id is None:
            return any(named in (None, topic) for named, _ in self.queues)
        return (topic, queue_id) in self.queues or (None, queue_id) in self.queues


@dataclass
class LogFacts:
    """Results of the pass over the commit log, for the checks that come after it."""

    min_offset: int = 0
    end_offset: int = 0  # after the last live record
    records: int = 0
    without_records: bool = False  # it has bytes, and not one record of its own
    last_filler: int = -1  # physical offset of the last record that a repair wrote in place of a lost one, -1 without any
    first_timestamp: int = 0
    last_timestamp: int = 0
    damages: list[tuple[int, int]] = field(default_factory=list)  # ranges [start, end) without records, sorted, apart from each other

    def is_damaged(self, offset: int) -> bool:
        """Return whether this physical offset is in a range that could not be read."""
        before = bisect_right(self.damages, offset, key=itemgetter(0))
        return before > 0 and offset < self.damages[before - 1][1]


class Context:
    """The data that all checks of one verification share."""

    def __init__(self, store: Store, options: Options) -> None:
        self.store = store
        self.options = options
        self.crashed = store.abort_present if options.crashed is None else options.crashed
        self.log = LogFacts()
        self.database_reached: int | None = None  # up to where queues in RocksDB know the log; None: their entries were not compared
        self.database_ends: Mapping[tuple[str, int], int] | None = None  # the ends of these queues
        self.uncompared: str | None = None  # why that failed
        self._names: dict[Path, str] = {}  # of files of the log, relative to the root: damages can be many

    def finding(self, code: str, message: str, **where: Any) -> Finding:
        """Return a finding of the catalogue, with the severity it has in this store. `file` may be a Path."""
        file = where.get("file")
        if isinstance(file, Path):
            where["file"] = self.store.relative(file)
        if where.get("expected") is not None and where["expected"] == where.get("found"):
            del where["expected"]  # two equal numbers are no evidence
        return finding(code, message, crashed=self.crashed, **where)

    @cached_property
    def delays(self) -> tuple[int, ...]:
        """Delay in ms per level, level 1 first."""
        return self.store.config.known_delay_levels

    @cached_property
    def last_write_ms(self) -> int:
        """The newest modification time (ms since epoch) among the log, the files of the root and the configuration; 0 without files."""
        directories = (self.store.root, self.store.config_path)
        paths = [file.path for file in self.store.message_log.files]
        paths += [Path(entry.path) for directory in directories if directory.is_dir() for entry in list_directory(directory)]
        return max((modified_ms(path) for path in paths), default=0)

    def place(self, offset: int) -> tuple[str | None, int | None]:
        """Return (file relative to the root, position in it) of a physical offset; (None, None) where no file is."""
        file = self.store.message_log.find(offset)
        if file is None:
            return None, None
        name = self._names.get(file.path)
        if name is None:
            name = self._names[file.path] = self.store.relative(file.path)
        return name, offset - file.start

    def log_finding(self, code: str, message: str, offset: int, length: int | None = None, **where: Any) -> Finding:
        """Return a finding about bytes of the commit log."""
        file, position = self.place(offset)
        return self.finding(code, message, file=file, position=position, offset=offset, length=length, **where)

    def record_at(self, offset: int) -> Record | None:
        """Return the record that begins at a physical offset, None without one. Bytes after the live end count as none."""
        return record_at(self.store.message_log, offset) if offset < self.log.end_offset else None


def modified_ms(path: Path) -> int:
    """Return the modification time of a file in ms since epoch, 0 where there is none."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:  # removed since it was listed, or a broken link
        return 0
