"""What a runner runs: parts that are read on their own, packets that come from them, results made of the packets of one key.

Everything here travels between processes, so parts and jobs are values that can be pickled, and packets are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from rmqstore.store.root import Store

Advance = Callable[[int], None]
"""Is told the bytes of a part as they are read."""


def silent(count: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class StoreAt:
    """A store by where it lies and how it is configured; every process opens it for itself."""

    path: str
    broker_conf: str | None = None
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, path: Path | str, broker_conf: Path | None = None, settings: Mapping[str, str] | None = None) -> StoreAt:
        """From what a command is given: a path, which becomes absolute because a worker has a directory of its own, or a URI as text."""
        conf = None if broker_conf is None else str(broker_conf.absolute())
        return cls(path if isinstance(path, str) else str(path.absolute()), conf, tuple((settings or {}).items()))

    @property
    def options(self) -> list[str]:
        """The configuration as words of a command line."""
        conf = [] if self.broker_conf is None else ["--broker-conf", self.broker_conf]
        return [*conf, *(word for key, value in self.settings for word in ("--set", f"{key}={value}"))]

    def open(self) -> Store:
        """Raises what `Store.open` raises."""
        conf = None if self.broker_conf is None else Path(self.broker_conf)
        return Store.open(self.path, broker_conf=conf, settings=dict(self.settings))


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the input: its place among all parts, what people call it, and the bytes that it reads, by which work is balanced."""

    number: int
    name: str
    size: int


class Packet(NamedTuple):
    """Bytes for the result `key`. `order` sorts the packets of one part and key; a packet should stay below some MiB."""

    key: str
    order: int
    data: bytes


class Job(Protocol):
    """The work. `map` and `reduce` run anywhere, maybe twice for the same part: whatever they leave behind must not mind."""

    @property
    def parts(self) -> Sequence[Part]:
        """All parts, numbered from 0 in their order."""

    @property
    def shuffles(self) -> bool:
        """Whether packets of several parts share a key. Without that, results are the packets themselves, in the order of the parts."""

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """The packets of a part. What it raises as RmqstoreError ends the job; other errors are tried again where that can help."""

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """The result of a key from its packets, in the order of (part, order)."""


class Runner(Protocol):
    """What runs jobs."""

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        """(key, result): by key for a job that shuffles, else every packet in the order of parts."""


class MapOnly:
    """What a job needs besides `parts` and `map` when no two parts share a key."""

    __slots__ = ()

    @property
    def shuffles(self) -> bool:
        """Results are the packets themselves."""
        return False

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """The packets of a key, one behind the other."""
        return b"".join(packets)
