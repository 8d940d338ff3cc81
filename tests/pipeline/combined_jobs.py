"""Many jobs as one, so that Spark is asked once for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rmqstore.pipeline.job import Job, Packet, Part
from rmqstore.reading.progress import Advance

_MOST_PACKETS = 1_000_000


@dataclass(frozen=True, slots=True)
class Together:
    """The jobs side by side, all parts of one in one task.

    Results of the job with number 3 have keys that begin with `00003/`, and go on with the place of the part where its packets are results.
    """

    jobs: Sequence[Job]

    @property
    def title(self) -> str:
        return "together"

    @property
    def parts(self) -> Sequence[Part]:
        return [Part(number, f"job {number}", sum(part.size for part in job.parts)) for number, job in enumerate(self.jobs)]

    @property
    def shuffles(self) -> bool:
        return True

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        job = self.jobs[part.number]
        for place, own in enumerate(job.parts):
            for packet in job.map(own, advance):
                of_place = "" if job.shuffles else f"{place:05d}/"
                yield Packet(f"{part.number:05d}/{of_place}{packet.key}", place * _MOST_PACKETS + packet.order, packet.data)

    def reduce(self, key: str, packets: Iterator[bytes]) -> bytes:
        number, _, own = key.partition("/")
        return self.jobs[int(number)].reduce(own, packets)
