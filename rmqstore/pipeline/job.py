"""Jobs for a runner: parts that are read separately, packets that come from them, results made of the packets of one key.

Everything here travels between processes, so parts and jobs are values that can be pickled, and packets are bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from rmqstore.reading.progress import Advance
from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class StoreAt:
    """A store by its path and configuration; every process opens it separately."""

    path: str
    broker_conf: str | None = None
    settings: tuple[tuple[str, str], ...] = ()

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
        """Open the store. Raises what `Store.open` raises."""
        conf = None if self.broker_conf is None else Path(self.broker_conf)
        return Store.open(self.path, broker_conf=conf, settings=dict(self.settings))


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
