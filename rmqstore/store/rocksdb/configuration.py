"""Topics, groups and consumer offsets in RocksDB, as the objects of the JSON files that they replace.

Fact sheets queues §9.1, §9.2, releases 5.3.4 to 5.5 §8.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from construct import ConstructError

from rmqstore.errors import UnreadableError
from rmqstore.formats import rocksdb
from rmqstore.store import fastjson
from rmqstore.store.liveness import liveness
from rmqstore.store.mapped import once
from rmqstore.store.rocksdb.databases import USERS, V2, Database, DatabaseUse, databases, is_needed
from rmqstore.store.rocksdb.library import Report, probe
from rmqstore.store.rocksdb.streams import pairs_left, pairs_of_database
from rmqstore.store.root import Store

TOPICS, GROUPS, OFFSETS = "topics.json", "subscriptionGroup.json", "consumerOffset.json"
_TABLES = {TOPICS: "topicConfigTable", GROUPS: "subscriptionGroupTable", OFFSETS: "offsetTable"}
_SEPARATE = {"topics": TOPICS, "subscriptionGroups": GROUPS, "consumerOffsets": OFFSETS}
_ONE = "metadata"
_FAMILIES = {TOPICS: "topic", GROUPS: "subscriptionGroup", OFFSETS: "consumerOffset"}
_DEFAULT, _VERSION, _VERSION_KEY = "default", "kvDataVersion", b"kvDataVersionKey"

_MOST_REPAIRED = 1 << 30
"""Bytes of tables of a database of which a copy is repaired."""

Pairs = Mapping[str, Mapping[bytes, bytes]]
"""Keys and values by column family."""


@dataclass(frozen=True, slots=True)
class DatabaseConfiguration:
    """Objects by the name of the JSON file they replace, each with its table, and the entries that are no configuration, as text."""

    objects: Mapping[str, Mapping[str, Any]]
    others: tuple[str, ...]


def configuration_in_database(store: Store) -> DatabaseConfiguration | None:
    """Return the configuration, None where RocksDB does not have it, or where it is not certain which database a start uses.

    Raises UnreadableError if the library fails, OSError.
    """
    found = {one.directory.name: one for one in databases(store, DatabaseUse.CONFIGURATION) if is_needed(store, one)}
    of_topics = {name: one for name, one in found.items() if name not in USERS}
    if not of_topics or liveness(store).in_use or any(not probe(one).sound or probe(one).unlisted for one in of_topics.values()):
        return None
    reader = _Reader()
    if of_topics.keys() == {V2}:
        reader.read_v2(_pairs(pairs_of_database(of_topics[V2])))
    elif of_topics.keys() == {_ONE}:
        pairs = _pairs(pairs_of_database(of_topics[_ONE]))
        for name, family in _FAMILIES.items():
            reader.read_v1(name, pairs.get(family, {}), pairs.get(f"{family}Version", {}))
    elif of_topics.keys() <= _SEPARATE.keys():
        for name, database in of_topics.items():
            pairs = _pairs(pairs_of_database(database))
            reader.read_v1(_SEPARATE[name], pairs.get(_DEFAULT, {}), pairs.get(_VERSION, {}))
    else:
        return None  # several kinds: settings decide, and what an earlier mode left is a stale copy
    return DatabaseConfiguration(reader.objects, tuple(reader.others))


@dataclass(frozen=True, slots=True)
class DatabaseOfFile:
    """A database that is used in the place of a JSON file, `name`, and the object with the entries of that file.

    `why` RocksDB does not read it, None if it does: then `value` has all of it, else what a repair of a copy left. `code`: of the finding.
    """

    database: Database
    name: str
    why: str | None
    code: str | None
    value: Mapping[str, Any]


def damaged_configuration(store: Store) -> list[DatabaseOfFile]:
    """Return the databases that are used in the place of JSON files, if RocksDB does not read one of them.

    None where it is not certain which databases a start uses, or where something uses the store.
    Raises UnreadableError, OSError.
    """
    return once(("damaged configuration in RocksDB", store.root), lambda: _damaged_configuration(store))


def _damaged_configuration(store: Store) -> list[DatabaseOfFile]:
    found = [one for one in databases(store, DatabaseUse.CONFIGURATION) if is_needed(store, one) and one.directory.name not in USERS]
    names = {one.directory.name for one in found}
    if liveness(store).in_use or not (names <= _SEPARATE.keys() or names in ({_ONE}, {V2})):
        return []
    if any(one.table_bytes > _MOST_REPAIRED for one in found):
        return []
    reports = [probe(one) for one in found]
    # After a crash, tables that a compaction replaced may be there.
    lacks_tables = [bool(report.unlisted) and not store.abort_present for report in reports]
    if not any(report.refused or report.damaged for report in reports) and not any(lacks_tables):
        return []
    if any(report.failed for report in reports):
        return []
    return [one for report, lacks in zip(reports, lacks_tables, strict=True) for one in _of_files(report, lacks_tables=lacks)]


def _of_files(report: Report, *, lacks_tables: bool) -> Iterator[DatabaseOfFile]:
    reasons = {
        "RMQ-RD-OPEN": report.refused,
        "RMQ-RD-BLOCK": next((family.error for family in report.damaged), None),
        "RMQ-RD-UNLISTED": f"its MANIFEST does not list {report.unlisted[0]}" if lacks_tables else None,
        "RMQ-RD-WAL": report.log_damage,
    }
    code, why = next(((code, why) for code, why in reasons.items() if why is not None), (None, None))
    entries = pairs_of_database if why is None else pairs_left
    try:
        pairs = _pairs(entries(report.database))
    except UnreadableError:
        if why is None:
            raise
        pairs = {}  # the library finds nothing to repair
    reader = _Reader()
    if report.database.directory.name == V2:
        reader.read_v2(pairs)
        for name in _TABLES:
            yield DatabaseOfFile(report.database, name, why, code, reader.objects[name])
        return
    separate = _SEPARATE.get(report.database.directory.name)
    families = _FAMILIES if separate is None else {separate: _DEFAULT}
    for name, family in families.items():
        version = f"{family}Version" if separate is None else _VERSION
        reader.read_v1(name, pairs.get(family, {}), pairs.get(version, {}))
        yield DatabaseOfFile(report.database, name, why, code, reader.objects[name])


def _pairs(entries: Iterable[tuple[str, tuple[bytes, bytes] | None]]) -> Pairs:
    found: dict[str, dict[bytes, bytes]] = {}
    for family, pair in entries:
        table = found.setdefault(family, {})
        if pair is not None:
            table[pair[0]] = pair[1]
    return found


class _Reader:
    """Collects the objects."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {name: {table: {}} for name, table in _TABLES.items()}
        self.others: list[str] = []

    def read_v1(self, name: str, pairs: Mapping[bytes, bytes], version: Mapping[bytes, bytes]) -> None:
        """Take the entries of one JSON file: names and JSON values."""
        table = self.objects[name][_TABLES[name]]
        for key, value in pairs.items():
            parsed = self._json(key, value)
            if name == OFFSETS and parsed is not None:
                parsed = parsed.get("offsetTable")
            if isinstance(parsed, dict):
                table[key.decode("utf-8", "replace")] = parsed
        if _VERSION_KEY in version:
            self.objects[name]["dataVersion"] = self._json(_VERSION_KEY, version[_VERSION_KEY])

    def read_v2(self, pairs: Pairs) -> None:
        """Take the entries of all JSON files from the one family of v2."""
        for key, value in pairs.get(_DEFAULT, {}).items():
            try:
                for name, place, parsed in _of_v2(key, value):
                    target = self.objects[name]
                    for step in place[:-1]:
                        target = target.setdefault(step, {})
                    target[place[-1]] = parsed
            except (ConstructError, ValueError):
                self.others.append(repr(key))

    def _json(self, key: bytes, value: bytes) -> dict[str, Any] | None:
        try:
            parsed = fastjson.parse(value).value
        except ValueError:
            parsed = None
        if isinstance(parsed, dict):
            return parsed
        self.others.append(repr(key))
        return None


def _of_v2(key: bytes, value: bytes) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yield the file, the keys that lead to a value in it, and the value, of one entry. Raises ConstructError, ValueError."""
    head = rocksdb.CONFIG_HEAD.parse(key)
    names = {rocksdb.TOPICS: TOPICS, rocksdb.GROUPS: GROUPS, rocksdb.CONSUMER_OFFSETS: OFFSETS}
    name = names.get(head.table)
    if name is None:
        return  # offsets of a pull consumer that only clients read
    if head.record == rocksdb.DATA_VERSION:
        version = rocksdb.CONFIG_VERSION.parse(value)
        numbers = {"stateVersion": version.state_version, "timestamp": version.timestamp, "counter": version.counter}
        yield name, ("dataVersion",), numbers
    elif name == OFFSETS:
        place = rocksdb.CONFIG_OFFSET.parse(head.rest)
        topic, group = place.topic.decode(), place.group.decode()
        yield name, (_TABLES[name], f"{topic}@{group}", str(place.queue_id)), int.from_bytes(value, "big", signed=True)
    else:
        parsed = fastjson.parse(value[1:]).value
        if value[:1] != bytes([rocksdb.JSON_VALUE]) or not isinstance(parsed, dict):
            raise ValueError("not a JSON object")
        yield name, (_TABLES[name], rocksdb.CONFIG_NAME.parse(head.rest).name.decode()), parsed
