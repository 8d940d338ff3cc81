"""The runner of this process: parts in threads, packets of a shared key kept in temporary files until all parts are done."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import IO

from rmqstore.pipeline.job import Job, Packet, Part
from rmqstore.reading.progress import Advance

_IN_MEMORY = 4 << 20
_HEAD = struct.Struct("<qqq")
"""Part, order and length before every packet in a spool."""


class LocalRunner:
    """Runs jobs with a number of threads; what works on bytes releases the interpreter lock."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        """Yield (key, result): by key for a job that shuffles, else every packet in the order of parts. Raises what the job raises."""
        if job.shuffles:
            yield from self._shuffled(job, advance)
        else:
            for packets in self._mapped(job, advance):
                for packet in packets:
                    yield packet.key, packet.data

    def _mapped(self, job: Job, advance: Advance) -> Iterator[list[Packet]]:
        """Yield the packets of every part, in the order of parts; at most one part more than there are threads is in progress."""
        parts = iter(job.parts)
        waiting: list[Future[list[Packet]]] = []

        def work(part: Part) -> list[Packet]:
            return list(job.map(part, advance))

        with ThreadPoolExecutor(self._threads) as pool:
            try:
                for part in parts:
                    waiting.append(pool.submit(work, part))
                    if len(waiting) > self._threads:
                        yield waiting.pop(0).result()
                while waiting:
                    yield waiting.pop(0).result()
            finally:
                for future in waiting:
                    future.cancel()

    def _shuffled(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        with ExitStack() as stack:
            spools: dict[str, IO[bytes]] = {}
            for part, packets in zip(job.parts, self._mapped(job, advance), strict=True):
                for packet in packets:
                    if packet.key not in spools:
                        spools[packet.key] = stack.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
                    spools[packet.key].write(_HEAD.pack(part.number, packet.order, len(packet.data)))
                    spools[packet.key].write(packet.data)
            keys = sorted(spools)
            with ThreadPoolExecutor(self._threads) as pool:
                yield from zip(keys, pool.map(job.reduce, keys, (_in_order(spools[key]) for key in keys)), strict=True)


def _in_order(spool: IO[bytes]) -> Iterator[bytes]:
    """Yield the packets of a spool in the order of (part, order)."""
    places = []
    spool.seek(0)
    while head := spool.read(_HEAD.size):
        part, order, length = _HEAD.unpack(head)
        places.append((part, order, spool.tell(), length))
        spool.seek(length, 1)
    for _, _, position, length in sorted(places):
        spool.seek(position)
        yield spool.read(length)
