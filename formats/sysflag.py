"""The SYSFLAG bits of a record.

Source: `MessageSysFlag`; fact sheet commitlog §2.4. IPv6 bits since 4.6.0, compression types, NEED_UNWRAP and INNER_BATCH since 4.9.4.
"""

from __future__ import annotations

from enum import IntEnum


class SysFlag(IntEnum):
    """Bits and masks of SYSFLAG."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    COMPRESSION_TYPE_MASK = 0x700


KNOWN_SYS_FLAGS = 0x7FF
"""All bits that some release writes."""


class TransactionType(IntEnum):
    """Value below TRANSACTION_MASK."""

    NONE = 0x0
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC


UNLISTED = frozenset({TransactionType.PREPARED, TransactionType.ROLLBACK})
"""Records that get no entry in a queue."""


class CompressionType(IntEnum):
    """Value below COMPRESSION_TYPE_MASK, shifted down by 8; values above 3 are an error for every reader."""

    ZLIB_OF_OLD_CLIENTS = 0
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def transaction_type(sys_flag: int) -> TransactionType:
    """Return the role of the record in a transaction."""
    return TransactionType(sys_flag & SysFlag.TRANSACTION_MASK)


def compression_type(sys_flag: int) -> CompressionType | None:
    """Return the compression of the body; None if it is not compressed. Raises ValueError for a type that no release knows."""
    if not sys_flag & SysFlag.COMPRESSED:
        return None
    return CompressionType((sys_flag & SysFlag.COMPRESSION_TYPE_MASK) >> 8)
