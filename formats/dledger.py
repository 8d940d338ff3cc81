"""The DLedger commit log: the entry header before every record, the mark at the end of a file, and the unit of its index.

Source: DLedger 0.3.1.2 `DLedgerEntryCoder`, `DLedgerMmapFileStore`; fact sheet commitlog §8.4 (4.9.8 – 5.3.4).
"""

from __future__ import annotations

from construct import Const, Int32sb, Int64sb, Struct

ENTRY_MAGIC = 1
END_MAGIC = -1

ENTRY_HEADER = Struct(
    "magic" / Int32sb * "1; −1 ends the file",
    "size" / Int32sb * "length of header and body",
    "index" / Int64sb * "number of the entry",
    "term" / Int64sb * "term of the leader",
    "pos" / Int64sb * "physical offset of this header",
    "channel" / Int32sb * "0",
    "chain_crc" / Int32sb * "0, unused",
    "body_crc" / Int32sb * "0, unused",
    "body_len" / Int32sb * "size − 48; the body is a record whose PHYSICALOFFSET is pos + 48",
)

# The fields are in the reverse order of RocketMQ's own BLANK.
END_OF_FILE = Struct(
    "magic" / Const(END_MAGIC, Int32sb) * "−1",
    "size" / Int32sb * "bytes left in the file, these 8 included; zeros follow",
)

INDEX_UNIT = Struct(
    "magic" / Int32sb * "1",
    "pos" / Int64sb * "physical offset of the entry header",
    "size" / Int32sb * "length of header and body",
    "index" / Int64sb * "number of the entry, also the number of this unit",
    "term" / Int64sb * "term of the leader",
)

ENTRY_HEADER_SIZE: int = ENTRY_HEADER.sizeof()
INDEX_UNIT_SIZE: int = INDEX_UNIT.sizeof()
DEFAULT_INDEX_FILE_SIZE = 5 * 1024 * 1024 * INDEX_UNIT_SIZE
