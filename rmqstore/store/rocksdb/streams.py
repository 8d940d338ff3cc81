"""The output of a child process that reads a database, as a stream of bytes."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import IO

from rmqstore.children import environment
from rmqstore.errors import UnreadableError
from rmqstore.store.rocksdb import framing
from rmqstore.store.rocksdb.databases import Database
from rmqstore.store.rocksdb.library import copied, linked, longest_seconds

_LENGTH = struct.Struct(">I")
_PAIRS, _REPAIRED = "rmqstore.store.rocksdb.pairs", "rmqstore.store.rocksdb.repaired"
_PIPE = 1 << 20
"""Bytes: as many as a process without privileges may ask for."""
RECOVERY = "skip_any_corrupted_record"


@contextmanager
def output_of(database: Database, module: str, *words: str) -> Iterator[IO[bytes]]:
    """Yield the standard output of `python -m MODULE WORD…`. Raises UnreadableError if it ends before `exactly` has what it wants."""
    command = [sys.executable, "-m", module, *words]
    with subprocess.Popen(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pipesize=_PIPE,
    ) as child:
        assert child.stdout is not None
        timer = Timer(longest_seconds(database.table_bytes), child.kill)
        timer.start()
        try:
            yield child.stdout
        except EOFError:
            raise UnreadableError(
                f"{database.directory}: the RocksDB library ended before it had read everything.",
                "Run `rmqstore verify` again, with more memory.",
            ) from None
        finally:
            timer.cancel()
            child.kill()


def exactly(stream: IO[bytes], size: int) -> bytes:
    """Return the next `size` bytes. Raises EOFError."""
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data


def prefixed(stream: IO[bytes]) -> bytes:
    """Return the next bytes, whose length is before them. Raises EOFError."""
    return exactly(stream, _LENGTH.unpack(exactly(stream, _LENGTH.size))[0])


def pairs_of_database(database: Database, family: str | None = None) -> Iterator[tuple[str, tuple[bytes, bytes] | None]]:
    """Yield the name of each column family, or of that one, and None, then with the same name each of its keys and values, ascending.

    Raises UnreadableError if the library fails, OSError.
    """
    with framed_pairs(database, family) as stream:
        yield from _pairs(stream)


@contextmanager
def framed_pairs(database: Database, family: str | None = None) -> Iterator[IO[bytes]]:
    """Yield the stream of the entries of all column families, or of that one, as `rmqstore.store.rocksdb.pairs` writes it.

    Raises UnreadableError if the library fails, OSError.
    """
    words = [] if family is None else [family]
    with linked(database) as links, output_of(database, _PAIRS, links, RECOVERY, *words) as stream:
        yield stream


def pairs_left(database: Database) -> Iterator[tuple[str, tuple[bytes, bytes] | None]]:
    """Yield as `pairs_of_database` what the library leaves of a damaged database, of which it repairs a copy.

    Raises UnreadableError if the library fails, OSError.
    """
    with copied(database) as copy, output_of(database, _REPAIRED, copy) as stream:
        yield from _pairs(stream)


def _pairs(stream: IO[bytes]) -> Iterator[tuple[str, tuple[bytes, bytes] | None]]:
    name = ""
    while (kind := exactly(stream, 1)) != framing.END:
        if kind == framing.FAMILY:
            name = prefixed(stream).decode()
            yield name, None
        else:
            key = prefixed(stream)
            yield name, (key, prefixed(stream))
