"""A process that lets the RocksDB library open and read one database, so that a crash of the library ends this process alone.

`python -m rmqstore.store.rocksdb.child DIRECTORY LIMIT RECOVERY_MODE FAMILY KEY` prints one JSON object, in it the value of one
KEY (hex). The library puts a file of its own (`rocksdict-config.json`) into the directory, so that must not be the directory of a store.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from typing import Any

from rocksdict import AccessType, BlockBasedOptions, Cache, DBRecoveryMode, Options, Rdict, ReadOptions

_ADDRESS_SPACE = 8 << 30
_WRITTEN = 1 << 20
"""Bytes of the longest file that this process may write: its own small ones."""
_CACHE = 16 << 20
_READAHEAD = 1 << 20
_STRICT = "tolerate_corrupted_tail_records"
_FILE_SIZE = "rocksdb.live-sst-files-size"


def main() -> None:
    """Print what the library reports about a database."""
    directory, limit, mode, family, key = sys.argv[1:]
    restrict()
    sys.stdout.write(json.dumps(_probe(directory, int(limit), mode, family, bytes.fromhex(key))))


def restrict(written: int = _WRITTEN) -> None:
    """Limit what this process may use, to files of `written` bytes, and let it have as many files open as it may."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (written, written))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _probe(directory: str, limit: int, mode: str, family: str, key: bytes) -> dict[str, Any]:
    try:
        database, handles = open_families(directory, mode)
    except Exception as error:  # the library has no class of its own for a database that it refuses
        return {"refused": str(error)}
    names = list(handles)
    sizes = {name: handle.property_int_value(_FILE_SIZE) or 0 for name, handle in handles.items()}
    result = []
    for name in sorted(names, key=lambda name: sizes[name]):
        limit -= sizes[name]
        read = {"name": name, "bytes": sizes[name], "entries": None, "error": None}
        result.append(read if limit < 0 else read | _read(handles[name]))
    tables = sorted({file["name"].lstrip("/") for file in database.live_files()})
    said = {"tables": tables, "families": result, "value": _value(handles.get(family), key)}
    database.close()
    return said | {"log": _damage_of_log(directory, names)}


def open_families(directory: str, mode: str) -> tuple[Rdict, dict[str, Rdict]]:
    """Return a database that is open for reading only, and its column families by name. Raises what the library raises."""
    names = Rdict.list_cf(directory, _options(mode))
    families = {name: _options(mode) for name in names}
    database = Rdict(directory, _options(mode), column_families=families, access_type=AccessType.read_only(False))
    return database, {name: database.get_column_family(name) for name in names}


def pairs_of(family: Rdict | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a column family; every block is compared with its checksum. Raises what the library raises."""
    if family is None:
        return
    key = None
    for key, value in family.items(read_opt=_reading()):
        yield key, value  # type: ignore[misc]  # in raw mode both are bytes
    # That iterator, which takes half the time of a cursor, ends at a damaged block as at the last entry.
    cursor = family.iter(_reading())
    if key is None:
        cursor.seek_to_first()
    else:
        cursor.seek(key)
        cursor.next()
    while cursor.valid():
        yield cursor.key(), cursor.value()
        cursor.next()
    cursor.status()


def _damage_of_log(directory: str, names: list[str]) -> str | None:
    """Return what is wrong with the write-ahead log, whose end may be missing; a broker continues without what it cannot read."""
    families = {name: _options(_STRICT) for name in names}
    try:
        Rdict(directory, _options(_STRICT), column_families=families, access_type=AccessType.read_only(False)).close()
    except Exception as error:
        return str(error)
    return None


def _options(mode: str) -> Options:
    """Return options as a broker opens it – every table, every check – but with index blocks in a cache of fixed size."""
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(_CACHE))
    tables.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(tables)
    options.set_paranoid_checks(True)
    options.set_max_open_files(-1)
    options.set_wal_recovery_mode(getattr(DBRecoveryMode, mode)())
    return options


def _reading() -> ReadOptions:
    """Return options to read a column family from its beginning to its end, every block compared with its checksum."""
    options = ReadOptions()
    options.set_verify_checksums(True)
    options.set_readahead_size(_READAHEAD)
    return options


def _read(family: Rdict) -> dict[str, Any]:
    """Return how many entries of a column family were read, and why no more."""
    entries, error = 0, None
    try:
        cursor = family.iter(_reading())
        cursor.seek_to_first()
        while cursor.valid():
            entries += 1
            cursor.next()
        cursor.status()
    except Exception as stopped:
        error = str(stopped)
    return {"entries": entries, "error": error}


def _value(family: Rdict | None, key: bytes) -> str | None:
    """Return the value of a key as hex digits, None without the key or a readable value."""
    try:
        value = None if family is None else family.get(key)
    except Exception:  # the read of the family reports it
        return None
    return None if value is None else value.hex()


if __name__ == "__main__":
    main()
