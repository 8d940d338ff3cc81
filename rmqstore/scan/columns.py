"""The columns that a commit-log scan produces, and the closed sets of bits and codes in them.

A batch of records is one numpy structured array of `RECORD_DTYPE`; everything downstream (verification, rebuild, statistics) reads these
columns and never raw bytes.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rmqstore.formats.layout import fixed_layout

if TYPE_CHECKING:
    from construct import Struct


def integer_columns(struct: Struct) -> np.dtype[np.void]:
    """Return a declared structure of signed integers as a numpy type."""
    layout = fixed_layout(struct)
    return np.dtype(
        {
            "names": list(layout),
            "formats": [f">i{place.width}" for place in layout.values()],
            "offsets": [place.offset for place in layout.values()],
            "itemsize": int(struct.sizeof()),
        }
    )


RECORD_DTYPE = np.dtype(
    [
        ("position", "i8"),  # physical offset where the record was found
        ("physical_offset", "i8"),  # the PHYSICALOFFSET field
        ("queue_offset", "i8"),
        ("store_timestamp", "i8"),  # ms since epoch
        ("born_timestamp", "i8"),  # ms since epoch
        ("prepared_transaction_offset", "i8"),
        ("tags_code", "i8"),  # tagsCode of the queue unit, as the broker computes it
        ("size", "i4"),  # bytes
        ("queue_id", "i4"),
        ("sys_flag", "i4"),
        ("flag", "i4"),
        ("body_crc", "i4"),
        ("reconsume_times", "i4"),
        ("body_length", "i4"),  # bytes
        ("properties_length", "i4"),  # bytes
        ("topic", "i4"),  # dense number of the topic in the scanner's names
        ("queue", "i4"),  # dense number of (topic, queue id) in the scanner's names
        ("store_host", "u4"),  # hash of the STOREHOST bytes: equal hosts have equal numbers
        ("faults", "u4"),  # Fault bits
        ("marks", "u4"),  # Mark bits
        ("key_count", "i4"),  # index keys this record produced
        ("batch_size", "i4"),  # queue offsets the record takes: INNER_NUM of an inner batch, else 1
    ]
)

KEY_DTYPE = np.dtype(
    [
        ("hash", "i4"),  # the non-negative key hash of an index entry
        ("record", "i4"),  # row of the batch
        ("is_tag", "i4"),  # 1 for the tag entry that releases from 5.4.0 on add
    ]
)


class Fault(IntFlag):
    """The faults of a record whose lengths are nevertheless consistent."""

    BODY_CRC = 1
    PHYSICAL_OFFSET = 2
    PROPERTY_CRC = 4
    QUEUE_ID = 8
    SYS_FLAG = 16
    STORE_TIMESTAMP = 32
    BORN_TIMESTAMP = 64
    PREPARED_OFFSET = 128
    TOPIC = 256
    COMPRESSION = 512
    DELAY = 1024
    HOST = 2048
    RECONSUME_TIMES = 4096
    PROPERTIES = 8192  # they begin or end with a zero byte: a part of the record was not written, or is lost


class Mark(IntFlag):
    """Features of a record that compiled code leaves to the reader of its properties."""

    MULTI_DISPATCH = 1  # INNER_MULTI_DISPATCH: extra queues
    INNER_BATCH = 2  # INNER_NUM or INNER_BASE
    MALFORMED_TEXT = 4  # a tag or key that is not UTF-8: hashes are not meaningful
    SCHEDULED = 8  # tags_code is a deliver time
    PROPERTY_CRC = 16  # carries a property CRC


READ_PROPERTIES = Mark.MULTI_DISPATCH | Mark.INNER_BATCH | Mark.MALFORMED_TEXT
"""Marks of records whose properties are read after the scan; of others, columns and keys are enough."""


class Oddity(IntFlag):
    """Features of at least one record of a batch; without it, the records need not be checked for it."""

    TIME_GOES_BACK = 1  # STORETIMESTAMP smaller than that of the record before
    HOST_CHANGES = 2  # STOREHOST differs from that of the record before
    COMMITS = 4  # a committed transaction


class Stop(IntEnum):
    """Why the walker stopped. Up to SIZE_MISMATCH these are the reasons of the declarations, in the order of the checks."""

    NONE = 0
    TRUNCATED = 1
    BLANK = 2
    END_OF_DATA = 3
    ILLEGAL_MAGIC = 4
    SIZE_TOO_SMALL = 5
    SIZE_BEYOND_FILE = 6
    BODY_LENGTH = 7
    TOPIC_LENGTH = 8
    PROPERTIES_LENGTH = 9
    SIZE_MISMATCH = 10
    WINDOW_END = 20  # the record is not completely in the mapped window
    BATCH_FULL = 21
    UNKNOWN_QUEUE = 22  # a queue that the names do not have yet
    KEYS_FULL = 23  # no room for the keys of the record


class Check(IntFlag):
    """Checks of the walker beyond the structure."""

    BODY_CRC = 1
    PROPERTY_CRC = 2
    KEYS = 4


def select(
    records: npt.NDArray[np.void], keys: npt.NDArray[np.void], wanted: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Return copies of the wanted records (one bool per row) and of their keys, renumbered for the remaining rows."""
    # `take` copies a row at once, an index in brackets every field of it separately, in 20 times the time.
    kept = keys.take(np.flatnonzero(wanted[keys["record"]]))
    kept["record"] = (np.cumsum(wanted) - 1)[kept["record"]]
    return records.take(np.flatnonzero(wanted)), kept
