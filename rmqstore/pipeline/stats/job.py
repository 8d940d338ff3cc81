"""The job that counts stores: a packet of counts per piece of a log, all of them added up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rmqstore.pipeline.job import Packet, Part, StoreAt
from rmqstore.pipeline.logparts import LARGEST_PIECE, LogPiece, log_pieces
from rmqstore.pipeline.remote import at_hand, is_remote, stored_bytes
from rmqstore.pipeline.stats.counts import Counts, added
from rmqstore.pipeline.stats.weights import StoreFacts
from rmqstore.reading.progress import Advance

STORE = "store"
_KEY = "counts"


@dataclass(frozen=True, slots=True)
class RemoteStore(Part):
    """A store that its worker fetches."""

    store: StoreAt


@dataclass(frozen=True, slots=True)
class StatsJob:
    """The pieces of the logs of stores, and what is known of each store beforehand. A remote store is a part of its own."""

    parts: Sequence[LogPiece | RemoteStore]
    facts: Mapping[StoreAt, StoreFacts]
    stores: int

    @classmethod
    def over(cls, stores: Sequence[StoreAt], *, largest: int = LARGEST_PIECE) -> StatsJob:
        """Return the job for stores; pieces have about `largest` bytes. Raises as opening stores, UnreadableError, StoreChangedError."""
        parts: list[LogPiece | RemoteStore] = []
        facts: dict[StoreAt, StoreFacts] = {}
        for store in stores:
            if is_remote(store.path):
                parts.append(RemoteStore(len(parts), store.path, stored_bytes(store.path), store))
            else:
                parts += log_pieces(store, first_number=len(parts), largest=largest)
                facts[store] = StoreFacts.of(store.open())
        return cls(parts, facts, len(stores))

    @property
    def shuffles(self) -> bool:
        """Return True: all packets have one key."""
        return True

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield the counts of a piece, or of a whole remote store. Raises StoreChangedError, UnreadableError, and what `at_hand` raises."""
        assert isinstance(part, LogPiece | RemoteStore)
        counts = _counted_remote(part, advance) if isinstance(part, RemoteStore) else _counted(part, self.facts[part.store], advance)
        if self.stores > 1:
            counts.of(STORE).add(part.store.path, counts.totals.messages, counts.totals.bytes)
        yield Packet(_KEY, 0, counts.pack())

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """Return the sum of all counts."""
        return added(packets).pack()


def _counted(piece: LogPiece, facts: StoreFacts, advance: Advance) -> Counts:
    from rmqstore.pipeline.stats.piece import PieceCounter

    return PieceCounter(piece, facts).counts(advance)


def _counted_remote(part: RemoteStore, advance: Advance) -> Counts:
    with at_hand(part.store) as here:
        job = StatsJob.over([here])
        return counts_of((_KEY, packet.data) for piece in job.parts for packet in job.map(piece, advance))


def counts_of(results: Iterator[tuple[str, bytes]]) -> Counts:
    """Return the counts of a finished job; empty counts for stores without a log."""
    return added(data for _, data in results)
