"""Jobs for a runner: parts that are read separately, packets that come from them, results made of the packets of one key.

Everything here travels between processes, so parts and jobs are values that can be pickled, and packets are bytes.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from rmqstore.errors import RefusedError, RmqstoreError
from rmqstore.pipeline.fetching import kept_copy, remove_copies
from rmqstore.pipeline.filesystems import is_remote
from rmqstore.pipeline.mark import Mark
from rmqstore.reading.progress import Advance
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class StoreAt:
    """A store by its path or URI, and its configuration; every process opens it separately.

    Of a store at a URI each process keeps a copy whose large files are fetched as they are read.
    """

    path: str
    broker_conf: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    mark: Mark | None = None
    """By which a process recognizes the store, so that none reads another one under the same path."""

    @classmethod
    def of(cls, path: Path | str, broker_conf: Path | None = None, settings: Mapping[str, str] | None = None) -> StoreAt:
        """Return the value for the input of a command: a path, made absolute because workers have their own directory, or a URI as text."""
        conf = None if broker_conf is None else str(broker_conf.absolute())
        return cls(path if isinstance(path, str) else str(path.absolute()), conf, tuple((settings or {}).items()))

    @property
    def options(self) -> list[str]:
        """Return the configuration as words of a command line."""
        conf = [] if self.broker_conf is None else ["--broker-conf", self.broker_conf]
        return [*conf, *(word for key, value in self.settings for word in ("--set", f"{key}={value}"))]

    def open(self) -> Store:
        """Open the store. Raises what `Store.open` raises; RefusedError with the name of this host if it is not the marked store."""
        self.require()
        return self._opened()

    def require(self) -> None:
        """Raise RefusedError with the name of this host if there is a mark and the store here does not have it."""
        if self.mark is not None:
            _require_marked(self)

    @property
    def directory(self) -> Path:
        """Return the directory of the store in this process: its path, or that of the copy. Raises NotAStoreError, UnreadableError."""
        if not is_remote(self.path):
            return Path(self.path)
        return kept_copy(self.path)

    def file_here(self, file: MappedFile, name: str) -> MappedFile:
        """Return a file of the store, of which another process has the path, at its place in this process; `name`: below the root."""
        return replace(file, location=self.directory / name) if is_remote(self.path) else file

    def marked(self) -> StoreAt:
        """Return the value for other processes. A store that cannot be opened here has no mark; what reads it reports why."""
        if self.mark is not None:
            return self
        try:
            return replace(self, mark=replace(Mark.of(self._opened()), path=self.path))
        except RmqstoreError:
            return self

    def _opened(self) -> Store:
        conf = None if self.broker_conf is None else Path(self.broker_conf)
        return Store.open(self.directory, broker_conf=conf, settings=dict(self.settings))


@lru_cache(maxsize=1024)
def _require_marked(at: StoreAt) -> None:
    """Compare a store with its mark, once per process."""
    assert at.mark is not None
    try:
        if is_remote(at.path):
            _require_newest(at)
        else:
            at.mark.require(at._opened())
    except RefusedError:
        raise
    except RmqstoreError as error:
        raise at.mark.refuse_for(error) from error


def _require_newest(at: StoreAt) -> None:
    """Compare a store at a URI with its mark; a copy of an older state, from an earlier job, is made once more."""
    assert at.mark is not None
    try:
        at.mark.require(at._opened())
    except RefusedError:
        remove_copies()
        at.mark.require(at._opened())


def require_shared(exists: bool, shown: str, instead: str = "") -> None:
    """Raise RefusedError with the name of this host if a directory that the command made in `shown` does not exist here.

    `instead`: what else to do.
    """
    if not exists:
        message = f"Host {socket.gethostname()} does not have the files of this command in {shown}."
        hint = f"Use a directory that every host which runs executors shares with this one, such as a network file system{instead}."
        raise RefusedError(message, hint)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the input: its number among all parts, its name for messages, and its bytes, by which work is balanced."""

    number: int
    name: str
    size: int


class Packet(NamedTuple):
    """Bytes for the result `key`. `order` sorts the packets of one part and key; a packet should stay below some MiB."""

    key: str
    order: int
    data: bytes


class Job(Protocol):
    """The work. `map` and `reduce` run anywhere, maybe twice for the same part, so their side effects must be repeatable."""

    @property
    def title(self) -> str:
        """Return what the job does, for those who watch a cluster: "verify broker-a: 1,024 files"."""

    @property
    def parts(self) -> Sequence[Part]:
        """Return all parts, numbered from 0 in order."""

    @property
    def shuffles(self) -> bool:
        """Return whether packets of several parts share a key. If not, results are the packets themselves, in the order of the parts."""

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield the packets of a part. An RmqstoreError ends the job; other errors are retried where that can help."""

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """Return the result of a key from its packets, in the order of (part, order)."""


class Runner(Protocol):
    """Runs jobs."""

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        """Yield (key, result): by key for a job that shuffles, else every packet in the order of parts."""


class MapOnly:
    """Methods of a job without shared keys, besides `parts` and `map`."""

    __slots__ = ()

    @property
    def shuffles(self) -> bool:
        """Return False: results are the packets themselves."""
        return False

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """Return the packets of a key, concatenated."""
        return b"".join(packets)
