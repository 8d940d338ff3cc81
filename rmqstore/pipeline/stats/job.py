"""The job that counts stores: a packet of counts per piece of a log, all of them added up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rmqstore.pipeline.job import Advance, Packet, Part, StoreAt
from rmqstore.pipeline.logparts import LARGEST_PIECE, LogPiece, log_pieces
from rmqstore.pipeline.stats.counts import Counts, added
from rmqstore.pipeline.stats.weights import StoreFacts

STORE = "store"
_KEY = "counts"


@dataclass(frozen=True, slots=True)
class StatsJob:
    """The pieces of the logs of stores, and what is known of each store beforehand."""

    pieces: Sequence[LogPiece]
    facts: Mapping[StoreAt, StoreFacts]

    @classmethod
    def over(cls, stores: Sequence[StoreAt], *, largest: int = LARGEST_PIECE) -> StatsJob:
        """The job for stores; pieces have about `largest` bytes. Raises what opening stores raises, UnreadableError, StoreChangedError."""
        pieces: list[LogPiece] = []
        for store in stores:
            pieces += log_pieces(store, first_number=len(pieces), largest=largest)
        return cls(pieces, {store: StoreFacts.of(store.open()) for store in stores})

    @property
    def parts(self) -> Sequence[Part]:
        """The pieces of the logs."""
        return self.pieces

    @property
    def shuffles(self) -> bool:
        """All packets come together."""
        return True

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """The counts of a piece. Raises StoreChangedError, UnreadableError."""
        from rmqstore.pipeline.stats.piece import PieceCounter

        assert isinstance(part, LogPiece)
        counts = PieceCounter(part, self.facts[part.store]).counts(advance)
        if len(self.facts) > 1:
            counts.of(STORE).add(part.store.path, counts.totals.messages, counts.totals.bytes)
        yield Packet(_KEY, 0, counts.pack())

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """The sum of all counts."""
        return added(packets).pack()


def counts_of(results: Iterator[tuple[str, bytes]]) -> Counts:
    """The counts of a job that was run; nothing for stores without a log."""
    return added(data for _, data in results)
