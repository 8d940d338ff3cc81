"""Readable parts of a configuration file, its `.tmp` and its `.bak`, merged entry by entry.

A newer source wins, and a whole one is the last that counts: what it does not have was deleted by then. Up to 5.0.0 a crash can leave the
newest text in the `.tmp`; in later releases it is in the file itself, and `.bak` has the text before it (fact sheet timer §3.2). After all
of them comes the newest whole file of another copy of the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmqstore.formats.naming import is_legal_topic
from rmqstore.repair.plan.model import ConfigEntry, Origin
from rmqstore.store.fastjson import parse, readable_part
from rmqstore.store.rocksdb.configuration import DatabaseOfFile
from rmqstore.store.window import read_whole
from rmqstore.verify.parts import config
from rmqstore.verify.parts.config import State, Text

_LARGEST = 64 << 20
_FURTHER = {config.GROUPS: ("forbiddenTable",), config.LMQ_OFFSETS: ("lmqOffsetTable",)}
"""Tables beside the main one."""
_MAPS_OF_QUEUES = frozenset({config.CONSUMER_OFFSETS, config.LMQ_OFFSETS})
"""Files whose entries are offsets by queue id, each of which is of use alone."""
_OWN_NAME = {config.TOPICS: "topicName", config.GROUPS: "groupName"}


@dataclass(slots=True)
class Rescued:
    """The content that a configuration file gets: its tables, the entries with their origins, sentences for the user.

    `sources`: the files that any of it comes from.
    """

    path: Path
    tables: dict[str, dict[str, Any]]
    version: Mapping[str, Any] | None = None
    entries: list[ConfigEntry] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)

    @property
    def table(self) -> dict[str, Any]:
        """The main table."""
        return self.tables[config.TABLES[self.path.name]]

    @property
    def is_nothing(self) -> bool:
        """Whether no entry is left of a file that no broker writes without any."""
        return self.path.name in config.NEVER_EMPTY and not self.table

    @property
    def value(self) -> dict[str, Any]:
        """The object of the file."""
        version = None if self.version is None else {**self.version, "counter": self.version["counter"] + 1}
        return {**({} if version is None else {"dataVersion": version}), **self.tables}

    def add(self, key: str, value: Any, origin: Origin, why: str, *, table: str | None = None, guess: bool = False) -> None:
        """Add an entry unless it is there."""
        entries = self.table if table is None else self.tables[table]
        if key not in entries:
            entries[key] = value
            self.entries.append(ConfigEntry(self.path.name, key, origin, why, guess))


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    origin: Origin
    value: Mapping[str, Any]
    cut: tuple[str, ...] = ()
    whole: bool = False
    copy: str | None = None
    database: str | None = None

    @property
    def why(self) -> str:
        """Return in words what is taken from it."""
        if self.copy is not None:
            return f"{self.copy}/{self.path.parent.name}/{self.path.name}"
        if self.database is not None:
            return f"{'' if self.whole else 'the readable part of '}the database {self.database}"
        return f"{'' if self.whole else 'the readable part of '}{self.path.name}"

    @property
    def version(self) -> Mapping[str, Any] | None:
        version = self.value.get("dataVersion")
        numbers = isinstance(version, dict) and all(type(version.get(name)) is int for name in ("counter", "timestamp"))
        return version if numbers and "dataVersion" not in self.cut else None

    @property
    def age(self) -> tuple[int, int]:
        return (0, 0) if self.version is None else (self.version["timestamp"], self.version["counter"])


@dataclass(frozen=True, slots=True)
class ConfigCopy:
    """The configuration directory of another copy of the store, and the name of the copy."""

    directory: Path
    name: str


def merged(path: Path, copies: Sequence[ConfigCopy] = (), database: DatabaseOfFile | None = None) -> Rescued:
    """Return what can be read of a file, its `.tmp` and `.bak`, then of `copies`; empty tables for nothing. Raises UnreadableError.

    A `database` that a broker uses in its place is newer.
    """
    name = path.name
    rescued = Rescued(path, {table: {} for table in (config.TABLES[name], *_FURTHER.get(name, ()))})
    sources = list(_sources(path))
    if len(sources) > 1 and sources[-1].version and sources[0].version and sources[-1].age > sources[0].age:
        sources.reverse()  # the file is older than its .bak
    if database is not None:
        where = database.database.directory
        is_whole, title = database.why is None, f"{where.parent.name}/{where.name}"
        sources.insert(0, _Source(where, Origin.FILE, database.value, whole=is_whole, database=title))
        # A start takes over a file only if its data version has counted more changes than the new database.
        rescued.version = sources[0].version or {"stateVersion": 0, "timestamp": 0, "counter": 0}
    others = [one for copy in copies for one in _whole_ones(copy, path.name)]
    for source in [*sources, *sorted(others, key=lambda one: one.age, reverse=True)]:
        before = len(rescued.entries)
        for table in rescued.tables:
            _take(rescued, source, table)
        rescued.version = rescued.version or source.version
        if len(rescued.entries) > before or source.whole:
            rescued.sources.append(source.path)
        if source.whole:
            break
    return rescued


def _sources(path: Path) -> Iterator[_Source]:
    """Yield the readable ones, in the order in which they were written, newest first."""
    unfinished = path.with_name(f"{path.name}.tmp")
    for source, origin in ((unfinished, Origin.UNFINISHED), (path, Origin.FILE), (path.with_name(f"{path.name}.bak"), Origin.BACKUP)):
        if not source.is_file() or not 0 < source.stat().st_size <= _LARGEST:
            continue
        if origin is Origin.UNFINISHED and (path.is_file() or _older(source, path.with_name(f"{path.name}.bak"))):
            continue
        data = read_whole(source, _LARGEST)
        table = config.TABLES[path.name]
        try:
            value = parse(data).value
            if isinstance(value, dict) and isinstance(value.get(table), dict):
                yield _Source(source, origin, value, whole=True)
        except ValueError:
            part = readable_part(data)
            if isinstance(part.value.get(table), dict):
                yield _Source(source, origin, part.value, part.cut)


def _whole_ones(copy: ConfigCopy, name: str) -> Iterator[_Source]:
    """Yield the file of another copy, or its `.bak` where the file cannot be read."""
    text = restored(*config.read_both(copy.directory / name))
    if text.state is State.WHOLE and isinstance(text.value, dict):
        yield _Source(text.path, Origin.COPY, text.value, whole=True, copy=copy.name)


def restored(text: Text, backup: Text) -> Text:
    """Return the one of a file and its `.bak` that a repair keeps: a file that is not whole gives way to a whole `.bak`."""
    return backup if text.state is not State.WHOLE and backup.state is State.WHOLE else text


def _older(path: Path, other: Path) -> bool:
    return other.is_file() and path.stat().st_mtime_ns < other.stat().st_mtime_ns


def _take(rescued: Rescued, source: _Source, table: str) -> None:
    entries = source.value.get(table)
    incomplete = source.cut[1] if len(source.cut) > 1 and source.cut[0] == table else None
    for key, value in entries.items() if isinstance(entries, dict) else ():
        if key == incomplete and rescued.path.name not in _MAPS_OF_QUEUES:
            continue
        if not _is_valid(rescued.path.name, table, key, value):
            continue
        present = rescued.tables[table].get(key)
        if rescued.path.name in _MAPS_OF_QUEUES and isinstance(present, dict):
            further = {queue: offset for queue, offset in value.items() if queue not in present}
            if further:
                present.update(further)
                rescued.entries.append(ConfigEntry(rescued.path.name, f"{key}: {', '.join(further)}", source.origin, source.why))
        elif value != {} or key != incomplete:
            rescued.add(key, value, source.origin, source.why, table=table)


def _is_valid(name: str, table: str, key: str, value: Any) -> bool:
    """Return whether an entry is one that a broker wrote, as far as its form shows that."""
    if name in _MAPS_OF_QUEUES:
        if table == "lmqOffsetTable":
            return key.count("@") == 1 and type(value) is int
        return key.count("@") == 1 and isinstance(value, dict) and all(type(offset) is int for offset in value.values())
    if name == config.DELAY_OFFSETS:
        return key.isdecimal() and type(value) is int
    named = value.get(_OWN_NAME[name], key) == key if name in _OWN_NAME and isinstance(value, dict) else True
    return isinstance(value, dict) and named and is_legal_topic(key.replace("@", "-").encode("utf-8", "replace"))
