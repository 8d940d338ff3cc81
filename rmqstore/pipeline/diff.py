"""Comparison of two stores as a job: the files of their logs pair by pair.

The comparison is `rmqstore.diff` alone; this module moves its inputs to the workers and its results back.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rmqstore.diff.logs import LogDifference, Pair, Passes, compare_files, headers_of
from rmqstore.pipeline.job import MapOnly, Packet, Part, Runner, StoreAt
from rmqstore.reading.progress import Advance
from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class PairsJob(MapOnly):
    """The comparison of files of two logs, pair by pair, and the bytes before each record in them; no task lists a directory.

    `names`: of the files of each pair, below the roots of their stores.
    """

    pairs: tuple[Pair, ...]
    names: tuple[tuple[str, str], ...]
    headers: tuple[tuple[int, int], ...]
    stores: tuple[StoreAt, StoreAt]

    @property
    def title(self) -> str:
        """Return the work and its extent."""
        return f"diff {' '.join(at.path for at in self.stores)}: {len(self.pairs):,} pairs of log files"

    @property
    def parts(self) -> Sequence[Part]:
        """Return the pairs, in order."""
        return [Part(number, f"{begin} to {end}", end - begin) for number, (_, _, begin, end) in enumerate(self.pairs)]

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield one packet: the result, pickled. Raises UnreadableError, StoreChangedError, RefusedError."""
        for at in self.stores:
            at.require()
        first, second, begin, end = self.pairs[part.number]
        (one, other), (name, other_name) = self.stores, self.names[part.number]
        pair = one.file_here(first, name), other.file_here(second, other_name), begin, end
        yield Packet(part.name, 0, pickle.dumps(compare_files(pair, self.headers[part.number], advance)))


def passes_of(runner: Runner, stores: tuple[StoreAt, StoreAt], one: Store, other: Store) -> Passes:
    """Return the comparison of pairs of files of two stores, run by a runner; `stores` as other processes open them."""
    marked = stores[0].marked(), stores[1].marked()

    def passes(pairs: Sequence[Pair], advance: Advance) -> Iterable[LogDifference]:
        names = tuple((one.relative(first.path), other.relative(second.path)) for first, second, _, _ in pairs)
        job = PairsJob(tuple(pairs), names, tuple(headers_of(one, other, pair) for pair in pairs), marked)
        return [pickle.loads(data) for _, data in runner.run(job, advance)]

    return passes
