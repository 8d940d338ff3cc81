"""The job that counts stores: packets of counts per piece of a log, by dimension and share of its values, all of them added up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rmqstore.pipeline.job import Packet, Part, StoreAt
from rmqstore.pipeline.logparts import LARGEST_PIECE, LogPiece, log_pieces
from rmqstore.pipeline.stats.counts import Counts, added
from rmqstore.pipeline.stats.weights import StoreFacts
from rmqstore.reading.progress import Advance

STORE = "store"


@dataclass(frozen=True, slots=True)
class StatsJob:
    """The pieces of the logs of stores, and what is known of each store beforehand."""

    parts: Sequence[LogPiece]
    facts: Mapping[StoreAt, StoreFacts]
    stores: int

    @classmethod
    def over(cls, stores: Sequence[StoreAt], *, largest: int = LARGEST_PIECE) -> StatsJob:
        """Return the job for stores; pieces have about `largest` bytes. Raises as opening stores, UnreadableError, StoreChangedError."""
        parts: list[LogPiece] = []
        facts: dict[StoreAt, StoreFacts] = {}
        for store in stores:
            marked = store.marked()
            parts += log_pieces(marked, first_number=len(parts), largest=largest)
            facts[marked] = StoreFacts.of(marked.open())
        return cls(parts, facts, len(stores))

    @property
    def title(self) -> str:
        """Return the work and its extent."""
        return f"stats of {self.stores:,} stores: {len(self.parts):,} pieces of logs"

    @property
    def shuffles(self) -> bool:
        """Return True: a key is a share of the values of a dimension."""
        return True

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield the counts of a piece. Raises StoreChangedError, UnreadableError, and what opening the store raises."""
        assert isinstance(part, LogPiece)
        counts = _counted(part, self.facts[part.store], advance)
        if self.stores > 1:
            counts.of(STORE).add(part.store.path, counts.totals.messages, counts.totals.bytes)
        for key, data in counts.packets():
            yield Packet(key, 0, data)

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        """Return the sum of the counts of a share."""
        return added(key, packets)


def _counted(piece: LogPiece, facts: StoreFacts, advance: Advance) -> Counts:
    from rmqstore.pipeline.stats.piece import PieceCounter

    return PieceCounter(piece, facts).counts(advance)
