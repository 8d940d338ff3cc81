"""Lookups of topics and queues in the table of a `QueueRegistry`, for compiled code."""

from __future__ import annotations

from rmqstore.scan import names
from rmqstore.scan.kernels.declare import inlined
from rmqstore.scan.kernels.raw import native32, native64, store64, tail32
from rmqstore.scan.kernels.rows import field_offset

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
# Odd multipliers for the words of a topic; any would do.
_MIX = tuple((GOLDEN * factor) % (1 << 63) | 1 for factor in (3, 5, 7, 11, 13))
_MIX_A, _MIX_B, _MIX_C, _MIX_D, _MIX_E = _MIX

_ENTRY_BYTES = names.ENTRY_DTYPE.itemsize
_TAIL, _LENGTH_AND_QUEUE, _TEXT, QUEUE = (field_offset(names.ENTRY_DTYPE, name) for name in ("tail", "length_and_queue", "text", "queue"))
# Words of the shared state as byte offsets.
_TABLE, _MASK, _FREE, _NEW_START, _NEW_LENGTH = (
    8 * word for word in (names.TABLE, names.MASK, names.FREE, names.TOPIC_START, names.TOPIC_LENGTH)
)


@inlined
def find_queue(state: int, base: int, topic_start: int, length: int, queue_id: int) -> int:
    """Return the address of the entry of (topic, queue id) in the table of names, or of the free entry where it belongs."""
    a, b, c, d = tail32(base, topic_start + length, length)
    length_and_queue = length | (queue_id << 32)
    table = native64(state, _TABLE)
    mask = native64(state, _MASK)
    mixed = a * _MIX_A + b * _MIX_B + c * _MIX_C + d * _MIX_D + length_and_queue * _MIX_E
    mixed = (mixed ^ (mixed >> 32)) * GOLDEN
    slot = (mixed >> 40) & mask
    while True:
        entry = table + slot * _ENTRY_BYTES
        if native32(entry, QUEUE) < 0:
            return entry
        # One branch for all words: it is nearly always the same way.
        different = (native64(entry, _TAIL) ^ a) | (native64(entry, _TAIL + 8) ^ b)
        different |= (native64(entry, _TAIL + 16) ^ c) | (native64(entry, _TAIL + 24) ^ d)
        if (different | (native64(entry, _LENGTH_AND_QUEUE) ^ length_and_queue)) == 0:
            # A longer topic is compared from its start, in words that may reach into the tail.
            text = native64(entry, _TEXT)
            i = 0
            while i < length - 32 and native64(text, i) == native64(base, topic_start + i):
                i += 8
            if i >= length - 32:
                return entry
        slot = (slot + 1) & mask


@inlined
def note_unknown(state: int, entry: int, topic_start: int, length: int) -> None:
    """Note the free entry, and the topic in the window, of a queue that was not found: `QueueRegistry.learn` takes them from there."""
    store64(state, _FREE, (entry - native64(state, _TABLE)) // _ENTRY_BYTES)
    store64(state, _NEW_START, topic_start)
    store64(state, _NEW_LENGTH, length)
