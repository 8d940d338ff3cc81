"""The checkpoint file: times and offsets up to which the parts of the store were written.

Source: `StoreCheckpoint`; fact sheet commitlog §4.5, sheet of the newer releases §6.
Three longs up to 4.9.x, the fourth since 5.0.0, the fifth since 5.1.1, the sixth since 5.5.0.
"""

from __future__ import annotations

from typing import Any

from construct import Bytes, Default, Int64sb, Struct

FILE_SIZE = 4096
_FIELDS_SIZE = 6 * 8

CHECKPOINT = Struct(
    "physic_msg_timestamp" / Int64sb * "STORETIMESTAMP up to which the commit log was flushed (ms)",
    "logics_msg_timestamp" / Int64sb * "STORETIMESTAMP up to which the queues were written (ms)",
    "index_msg_timestamp" / Int64sb * "end_timestamp of the newest full index file (ms)",
    "master_flushed_offset" / Int64sb * "≥5.0.0: flushed offset of the master, kept by a slave",
    "confirm_phy_offset" / Int64sb * "≥5.1.1: confirmed physical offset, the start of a record",
    "logics_physical_offset" / Int64sb * "≥5.5.0: start of the last record appended to a file queue before its last full flush",
    "reserved" / Default(Bytes(FILE_SIZE - _FIELDS_SIZE), bytes(FILE_SIZE - _FIELDS_SIZE)) * "zeros",
)


RECOVERY_MARGIN = 3000
"""Milliseconds that recovery goes back before the older of the two flush times (`StoreCheckpoint.getMinTimestamp`)."""


def parse_checkpoint(data: bytes) -> Any:
    """Return the fields of a checkpoint file. A short file is extended with zeros, as in the broker; bytes after 4096 are ignored."""
    return CHECKPOINT.parse(data[:FILE_SIZE].ljust(FILE_SIZE, b"\0"))
