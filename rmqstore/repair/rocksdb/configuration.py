"""Plans of a new `config/rdb`: topics, groups and consumer offsets as `configManagerVersion=v2` keeps them (5.3.2 and later).

A start with that setting reads neither JSON files nor databases of v1, so a broker that gets it begins without any of these entries.
Formats: fact sheet queues §9.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from construct import ConstructError

from rmqstore.errors import RefusedError
from rmqstore.formats import rocksdb
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.rocksdb.database import made_database, send_family, send_pair
from rmqstore.store.mapped import list_directory
from rmqstore.store.rocksdb.configuration import DatabaseOfFile, damaged_configuration
from rmqstore.store.rocksdb.databases import USERS, V2, DatabaseUse, databases
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, GROUPS, TOPICS, State, in_rocksdb, in_use, read_both, texts_in_database
from rmqstore.versions import Profile
from rmqstore.wording import counted

_TABLES = {TOPICS: rocksdb.TOPICS, GROUPS: rocksdb.GROUPS, CONSUMER_OFFSETS: rocksdb.CONSUMER_OFFSETS}
_ENTRIES = {TOPICS: "topicConfigTable", GROUPS: "subscriptionGroupTable", CONSUMER_OFFSETS: "offsetTable"}
_VERSION_KEY = b"data_version"
_SEPARATOR = "@"
_REASON = "kept in config/rdb from now on"
_START = (
    "Before the next start, put configManagerVersion=v2 into the broker.conf: with another setting a broker does not read this database."
)
_MOST_NAMED = 20
_MOST_SHOWN = 100  # characters of a key

Objects = Mapping[str, Mapping[str, Any]]
Pair = tuple[bytes, bytes]


def plan_configuration(planning: Planning, store: Store) -> None:
    """Plan that topics, groups and consumer offsets are in `config/rdb`. Nothing for a store that has this database.

    Raises RefusedError for a release without it, or a configuration that cannot be read, UnreadableError, OSError.
    """
    builder = planning.builder
    if not planning.profile.config_v2:
        raise RefusedError(
            f"A broker of {builder.broker_version} knows no configManagerVersion=v2.",
            "Name the release with --broker-version: 5.3.2 or later.",
        )
    directory = store.config_path / V2
    if (directory / "CURRENT").exists():
        builder.note("Topics, groups and consumer offsets are in config/rdb already.")
        return
    objects = _objects(store)
    if not any(objects.values()):
        builder.note("The store has no topics, groups and consumer offsets that could be moved.")
        return
    others = _plan_database(builder, directory, objects, "a database with the entries of the configuration")
    for name in objects:
        for path in (store.config_path / name, store.config_path / f"{name}.bak"):
            builder.quarantine(path, reason=_REASON)
    quarantine_databases(builder, store, _REASON)
    topics, groups, pairs_of_offsets = (len(_entries(name, objects[name])) - len(others[name]) for name in _TABLES)
    held = f"{counted(topics, 'topic')}, {counted(groups, 'group')} and {counted(pairs_of_offsets, 'pair')}"
    builder.note(f"The database has {held} of group and topic with offsets.")
    _note_on_others(builder, objects, others)
    builder.note(_START)


def replaced_databases(store: Store, profile: Profile) -> list[DatabaseOfFile]:
    """Return the damaged databases of the configuration, by file, for which a start can get their entries in another way.

    Those of v1 become JSON files, which a start reads into new databases; that of v2 is made here. Raises UnreadableError, OSError.
    """
    if not profile.rocksdb_imports_json:
        return []
    return [one for one in damaged_configuration(store) if one.database.directory.name != V2 or profile.config_v2]


def plan_new_configuration(builder: PlanBuilder, damaged: DatabaseOfFile, objects: Objects) -> None:
    """Plan a new `config/rdb` in the place of one that cannot be read. Raises OSError, RmqstoreError where the library fails."""
    directory = damaged.database.directory
    for entry in list_directory(directory):
        builder.quarantine(entry.path, reason="RocksDB does not read it", code=damaged.code)
    others = _plan_database(builder, directory, objects, "a new database with what is left", damaged.code)
    builder.note(f"config/{V2} cannot be read; a new database with what is left replaces it. {damaged.why}")
    _note_on_others(builder, objects, others)


def quarantine_databases(builder: PlanBuilder, store: Store, reason: str) -> None:
    """Plan that the databases of topics, groups and consumer offsets leave the store."""
    for database in databases(store, DatabaseUse.CONFIGURATION):
        if database.directory.name not in USERS:
            builder.quarantine_directory(database.directory, reason=reason)


def _plan_database(
    builder: PlanBuilder, directory: Path, objects: Objects, reason: str, code: str | None = None
) -> Mapping[str, list[str]]:
    """Plan the files of a database, and return the keys of what it does not hold, by JSON file."""
    found = {name: _pairs(name, value) for name, value in objects.items()}
    pairs = [pair for of_file, _ in found.values() for pair in of_file]
    for name, staged in made_database(builder.staging, ("default",), lambda target: _send(target, pairs)).items():
        builder.create(directory / name, staged, reason=reason, code=code)
    return {name: others for name, (_, others) in found.items()}


def _objects(store: Store) -> Objects:
    """Return the objects of the JSON files, as a start reads them without v2."""
    if in_rocksdb(store):
        texts = texts_in_database(store)
    else:
        texts = {name: in_use(*read_both(store.config_path / name)) for name in _TABLES}
    for name in _TABLES:
        if texts[name].value is not None or (texts[name].state is State.MISSING and not texts[name].in_database):
            continue
        raise RefusedError(
            f"{name} cannot be read{' from RocksDB' if texts[name].in_database else ''}.",
            "`rmqstore verify` names what is wrong with it, and `rmqstore recover` repairs it; pass the settings of the broker with "
            "--broker-conf.",
        )
    return {name: texts[name].value or {} for name in _TABLES}


def _send(target: IO[bytes], pairs: list[Pair]) -> None:
    send_family(target, 0)
    for key, value in sorted(pairs):
        send_pair(target, key, value)


def _pairs(name: str, value: Mapping[str, Any]) -> tuple[list[Pair], list[str]]:
    """Return the entries of the database for a JSON file, and the keys of those that it cannot hold."""
    version = value.get("dataVersion")
    version = version if isinstance(version, dict) else {}
    fields = {"state_version": "stateVersion", "timestamp": "timestamp", "counter": "counter"}
    numbers = {field: _number(version, stored) for field, stored in fields.items()}
    pairs, others = [(_key(name, rocksdb.DATA_VERSION, _VERSION_KEY), rocksdb.CONFIG_VERSION.build(numbers))], []
    for key, entry in _entries(name, value).items():
        try:
            pairs += list(_of_offsets(key, entry) if name == CONSUMER_OFFSETS else _of_name(name, key, entry))
        except (ConstructError, ValueError, OverflowError):
            others.append(key)
    return pairs, others


def _of_name(name: str, key: str, entry: Any) -> Iterator[Pair]:
    """Yield the entry of a topic or group. Raises ValueError, ConstructError."""
    if not isinstance(entry, dict):
        raise ValueError("no object")
    text = key.encode("utf-8", "surrogateescape")
    place = rocksdb.CONFIG_NAME.build({"length": len(text), "name": text})
    yield _key(name, rocksdb.DATA, place), bytes([rocksdb.JSON_VALUE]) + json.dumps(entry, ensure_ascii=False).encode()


def _of_offsets(key: str, entry: Any) -> Iterator[Pair]:
    """Yield the entries of a topic and a group. Raises ValueError, OverflowError, ConstructError."""
    topic, group = (part.encode("utf-8", "surrogateescape") for part in key.split(_SEPARATOR))
    if not isinstance(entry, dict) or not all(isinstance(offset, int) for offset in entry.values()):
        raise ValueError("no offsets")
    for queue_id, offset in entry.items():
        names = {"group_length": len(group), "group": group, "topic_length": len(topic), "topic": topic}
        place = rocksdb.CONFIG_OFFSET.build({**names, "queue_id": int(queue_id)})
        yield _key(CONSUMER_OFFSETS, rocksdb.DATA, place), offset.to_bytes(8, "big", signed=True)


def _entries(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    table = value.get(_ENTRIES[name])
    return table if isinstance(table, dict) else {}


def _key(name: str, record: int, rest: bytes) -> bytes:
    key: bytes = rocksdb.CONFIG_HEAD.build({"table": _TABLES[name], "record": record, "rest": rest})
    return key


def _number(version: Mapping[str, Any], name: str) -> int:
    value = version.get(name)
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else 0


def _note_on_others(builder: PlanBuilder, objects: Objects, others: Mapping[str, list[str]]) -> None:
    """Name what the database does not hold."""
    for name, keys in others.items():
        if keys:
            named = ", ".join(repr(key[:_MOST_SHOWN]) for key in keys[:_MOST_NAMED])
            more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
            builder.note(f"Not kept of {name}, because their keys or values have no place in config/rdb: {named}{more}.")
    forbidden = objects[GROUPS].get("forbiddenTable")
    if forbidden:
        builder.note(f"The forbidden topics of {counted(len(forbidden), 'group')} are not kept: v2 has no place for them.")
