"""Offsets of the fixed fields of a commit-log record, as numbers that compiled code is built with; they come from the declarations."""

from __future__ import annotations

import numpy as np

from rmqstore.formats import dledger
from rmqstore.formats import record as declared
from rmqstore.formats.layout import fixed_layout

_PREFIX = fixed_layout(declared.RECORD_PREFIX)
PREFIX_ROWS = np.dtype([(name, f">i{place.width}") for name, place in _PREFIX.items()])
SIZE = _PREFIX["total_size"].offset
MAGIC = _PREFIX["magic_code"].offset
BODY_CRC = _PREFIX["body_crc"].offset
QUEUE_ID = _PREFIX["queue_id"].offset
FLAG = _PREFIX["flag"].offset
QUEUE_OFFSET = _PREFIX["queue_offset"].offset
PHYSICAL_OFFSET = _PREFIX["physical_offset"].offset
SYS_FLAG = _PREFIX["sys_flag"].offset
BORN_TIMESTAMP = _PREFIX["born_timestamp"].offset
BORN_HOST = _PREFIX["born_timestamp"].end

MAGIC_V1, MAGIC_V2, MAGIC_BLANK = declared.MESSAGE_MAGIC_V1, declared.MESSAGE_MAGIC_V2, declared.BLANK_MAGIC
MIN_SIZE = declared.MIN_RECORD_SIZE_V1
BORN_HOST_V6 = int(declared.SysFlag.BORN_HOST_V6)
STORE_HOST_V6 = int(declared.SysFlag.STORE_HOST_V6)
HOST_V4_WIDTH, HOST_V6_WIDTH = 8, 20

# The header of the DLedger entry that contains a record.
_ENTRY = fixed_layout(dledger.ENTRY_HEADER)
ENTRY_MAGIC, ENTRY_SIZE, ENTRY_POSITION, ENTRY_BODY = (_ENTRY[name].offset for name in ("magic", "size", "pos", "body_len"))
ENTRY_HEADER_SIZE = dledger.ENTRY_HEADER_SIZE
ENTRY_MAGIC_CODE, END_MAGIC_CODE = dledger.ENTRY_MAGIC, dledger.END_MAGIC
