"""The entries that a new database gets, column family by column family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from rmqstore.repair.rocksdb.database import send_family
from rmqstore.store.rocksdb.databases import Database
from rmqstore.store.rocksdb.framing import framed
from rmqstore.store.rocksdb.streams import pairs_of_database

Pair = tuple[bytes, bytes]
Piece = tuple[int, bytes | memoryview]
"""How many entries, and they as `rmqstore.store.rocksdb.framing` has them."""


@dataclass(frozen=True, slots=True)
class Content:
    """The entries of a column family, which `pieces` yields. `why`: how the present ones differ, None if they do not."""

    pieces: Callable[[], Iterator[Piece]]
    why: str | None = None


def content_of(pairs: Callable[[], Iterator[Pair]], why: str | None = None) -> Content:
    """Return the content that has these entries."""
    return Content(lambda: single(pairs()), why)


def copied(database: Database | None, family: str) -> Content:
    """Return what a column family has now, nothing without a database."""
    return content_of(lambda: pairs_in(database, family))


def single(pairs: Iterator[Pair]) -> Iterator[Piece]:
    """Yield each entry as a piece."""
    return ((1, framed([pair])) for pair in pairs)


def pairs_in(database: Database | None, family: str) -> Iterator[Pair]:
    """Yield the entries of a column family, nothing without a database. Raises UnreadableError if the library fails, OSError."""
    if database is not None:
        yield from (pair for _, pair in pairs_of_database(database, family) if pair is not None)


def send(target: IO[bytes], contents: Mapping[str, Content]) -> dict[str, int]:
    """Send the entries to the process that makes a database with these families in this order, and return the numbers of entries."""
    counts = dict.fromkeys(contents, 0)
    for number, (name, content) in enumerate(contents.items()):
        send_family(target, number)
        for count, frames in content.pieces():
            target.write(frames)
            counts[name] += count
    return counts
