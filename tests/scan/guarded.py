"""Runs as a program: bytes that touch an inaccessible page go through every kernel that reads at addresses.

A kernel that reads one byte too far (or before the start) ends this process with a signal. Prints how many inputs were read.
"""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Iterator

import numpy as np

from rmqstore.scan.columns import KEY_DTYPE, RECORD_DTYPE, Fault, Mark, Oddity, Stop
from rmqstore.scan.further import FurtherQueues
from rmqstore.scan.kernels.index import ITEM_SIZE, LINK_DTYPE, MATCHED_DTYPE, ODDITY_DTYPE, SCRATCH_BYTES, follow_chains, match_items
from rmqstore.scan.kernels.offsets import ENTRY_HEADER_SIZE, QUEUE_ID
from rmqstore.scan.kernels.raw import first_nonzero
from rmqstore.scan.kernels.record import resync, walk
from rmqstore.scan.kernels.registry import TOPIC_LENGTH, TOPIC_START
from rmqstore.scan.names import QueueRegistry
from rmqstore.scan.walk import Batch
from tests.scan.samples import encoded, varied
from tests.scan.walking import EVERYTHING, walked

PAGE = mmap.PAGESIZE
ROOM = 4 * PAGE
DELAYS = np.array([0, 1000, 5000], np.int64)
RECORDS, KEYS = np.zeros(16, RECORD_DTYPE), np.zeros(512, KEY_DTYPE)
HOSTILE = (2**31 - 1, -1, -(2**31), 2**16, 92)


class Guarded:
    """Readable memory with an inaccessible page before and behind it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, ROOM + 2 * PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) + PAGE
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (self.start - PAGE, self.start + ROOM):
            if libc.mprotect(ctypes.c_void_p(page), PAGE, 0) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")

    def at_end(self, data: bytes) -> int:
        """Address of `data`, whose last byte is the last that can be read."""
        ctypes.memmove(self.start + ROOM - len(data), data, len(data))
        return self.start + ROOM - len(data)

    def at_start(self, data: bytes) -> int:
        """Address of `data`, whose first byte is the first that can be read."""
        ctypes.memmove(self.start, data, len(data))
        return self.start


def inputs() -> Iterator[bytes]:
    kinds = varied()
    generator = random.Random(5)
    for kind, data in kinds.items():
        yield from (data[:length] for length in range(len(data) + 1))
        if kind in ("v2-ipv6", "property-crc", "delayed", "unicode", "batch"):
            for bit in range(8 * len(data)):
                yield (int.from_bytes(data, "big") ^ 1 << bit).to_bytes(len(data), "big")
        for position in range(len(data) - 3):
            for value in HOSTILE:
                yield data[:position] + value.to_bytes(4, "big", signed=True) + data[position + 4 :]
    for _ in range(3000):
        noise = bytearray(generator.choice(list(kinds.values())) + encoded())
        start = generator.randrange(len(noise))
        noise[start : start + 16] = generator.randbytes(16)
        yield bytes(noise[: generator.randint(1, len(noise))])
    # properties that end at every distance from the border of a 64-byte block
    for length in range(140):
        yield encoded(properties=b"k\x01v\x02" * (length // 4) + b"TAGS\x01"[: length % 4 + 1])
        yield encoded(properties=b"KEYS\x01" + b"a " * length)


def through(base: int, data: bytes, file_end: int, lead: int) -> None:
    """Walks from the start on, with names that know nothing before."""
    names = QueueRegistry(8)
    at = count = key_count = 0
    while True:
        place = (base, at, len(data), file_end, 0, lead, int(EVERYTHING), DELAYS.ctypes.data, DELAYS.size - 1, names.state.ctypes.data)
        at, count, key_count, stop = walk(*place, RECORDS.ctypes.data, count, RECORDS.size, KEYS.ctypes.data, key_count, KEYS.size)
        if stop != Stop.UNKNOWN_QUEUE:
            return
        start, queue_id = int(names.state[TOPIC_START]), at + lead + QUEUE_ID
        topic = data[start : start + int(names.state[TOPIC_LENGTH])]
        names.number(topic, int.from_bytes(data[queue_id : queue_id + 4], "big", signed=True))


def further(memory: Guarded) -> None:
    """Reads the further queues of records whose properties end where the bytes do."""
    generator = random.Random(7)
    block = b"INNER_MULTI_DISPATCH\x01%LMQ%a,b\x02INNER_MULTI_QUEUE_OFFSET\x0112,13"
    for length in range(len(block) + 1):
        for _ in range(40):
            noise = bytearray(block[:length])
            for _ in range(min(length, generator.randrange(3))):
                noise[generator.randrange(length)] = generator.choice(b"\x00\x01\x02,0I")
            data = encoded(properties=bytes(noise))
            window = np.ctypeslib.as_array(ctypes.cast(memory.at_end(data), ctypes.POINTER(ctypes.c_uint8)), (len(data),))
            batch = Batch(walked(data).records, KEYS, window, 0, Fault(0), Mark(0), Oddity(0))
            FurtherQueues(light=True).read(batch, np.arange(1))


def main() -> None:
    memory = Guarded()
    count = 0
    for data in inputs():
        count += 1
        size = len(data)
        for base in (memory.at_end(data), memory.at_start(data)):
            # the file may go on behind the readable bytes
            for file_end in (size, size + 4096):
                for lead in (0, ENTRY_HEADER_SIZE):
                    through(base, data, file_end, lead)
                resync(base, 0, size, file_end, 0, 0)
            first_nonzero(base, 0, size)
    newest, links = np.zeros(7 + SCRATCH_BYTES // 4, np.int32), np.zeros(4, LINK_DTYPE)
    matched, oddities = np.zeros(1, MATCHED_DTYPE), np.zeros(64, ODDITY_DTYPE)
    outputs = (matched.ctypes.data, oddities.ctypes.data, oddities.size)
    for number in range(40):
        items = random.Random(number).randbytes(number * ITEM_SIZE)
        place = memory.at_end(items)
        follow_chains(place, 1, number, newest.ctypes.data, newest.size - SCRATCH_BYTES // 4, links.ctypes.data, links.size, 0)
        for item in range(number):
            match_items(RECORDS.ctypes.data, KEYS.ctypes.data, 0, KEYS.size, place, 1, item, number, 1, 0, 0, *outputs)
    further(memory)
    print(count)


if __name__ == "__main__":
    main()
