"""Finding records at unknown offsets: the next one after damage, and the one around a position."""

from __future__ import annotations

from rmqstore.errors import StoreChangedError
from rmqstore.formats.crc import body_crc
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.record import (
    BLANK_MAGIC,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    MIN_RECORD_SIZE_V1,
    RECORD_PREFIX,
    RecordError,
    StopReason,
    decode_record,
)
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import data_extents, map_window, read_at

_FIRST_WINDOW, _WINDOW = 512 << 10, 16 << 20
"""Bytes that are searched at a time, at first few: most records are small, and of a file at a URI all of them are fetched."""
_FEW = 8 << 10
# How far back a record is searched: the largest message that brokers accept by default, then larger common settings.
_NEAR, _FAR = 5 << 20, 64 << 20
_PREFIX = fixed_layout(RECORD_PREFIX)
_HEAD = RECORD_PREFIX.sizeof()
_SIZE, _MAGIC, _OWN_OFFSET = _PREFIX["total_size"], _PREFIX["magic_code"], _PREFIX["physical_offset"]
_MAGICS = [magic.to_bytes(_MAGIC.width, "big") for magic in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2, BLANK_MAGIC)]


def next_record(file: MappedFile, position: int) -> int | None:
    """Return the position in the file of the next plausible record at or after `position`, or of the BLANK that ends the file.

    Plausible: magic, PHYSICALOFFSET = position, consistent lengths and a matching body CRC. None when nothing follows.
    """
    position = _behind_hole(file, position)
    found = found_nearby(file, position) if position < file.length else None
    return found_by_kernel(file, position) if found is None else found


def found_nearby(file: MappedFile, position: int) -> int | None:
    """Return what the next bytes show to be the next record or BLANK, without loading machine code; None if they do not suffice."""
    data = read_at(file, position, min(_FEW, file.length - position))
    at = 0
    while places := [place for magic in _MAGICS if (place := data.find(magic, at + _MAGIC.offset)) >= 0]:
        at = min(places) - _MAGIC.offset
        size, magic, own = (int.from_bytes(data[at + field.offset : at + field.end], "big") for field in (_SIZE, _MAGIC, _OWN_OFFSET))
        if magic == BLANK_MAGIC and size == file.length - position - at:
            return position + at
        try:
            record = decode_record(data, at) if own == file.start + position + at else None
        except RecordError as error:
            if error.reason in (StopReason.SIZE_BEYOND_FILE, StopReason.TRUNCATED):
                return None
            record = None
        if record is not None and record.body_crc == body_crc(record.body):
            return position + at
        at += 1
    return None


def found_by_kernel(file: MappedFile, position: int) -> int | None:
    """Return what the compiled search finds, however far away; as `next_record`, but loads the machine code."""
    from rmqstore.scan import sigbus
    from rmqstore.scan.columns import Stop
    from rmqstore.scan.kernels.record import resync

    sigbus.install()
    known_faults = sigbus.faults()
    length = _FIRST_WINDOW
    while (position := _behind_hole(file, position)) < file.length:
        length = min(length, file.length - position)
        with map_window(file, position, length) as window:
            base = window.array.ctypes.data
            found, stop = resync(base, 0, length, file.length - position, file.start + position, 0)
        if sigbus.faults() != known_faults:
            raise StoreChangedError(f"{file.path} shrank while it was read.", "Stop the broker or work on a snapshot, then try again.")
        if stop in (Stop.NONE, Stop.BLANK):
            return position + int(found)
        if stop == Stop.TRUNCATED:
            return None
        # A record that claims to be longer than the window is checked again with more of the file.
        length = min(length * 2, _WINDOW) if found else length * 2
        position += int(found)
    return None


def _behind_hole(file: MappedFile, position: int) -> int:
    """Return `position`, or where the next record can begin if it is in a hole of a sparse file; the file's length after all data."""
    if position >= file.length or any(read_at(file, position, min(_SIZE.width, file.length - position))):
        return position
    begin = next((begin for begin, end in data_extents(file) if end > position), file.length)
    # The first bytes of TOTALSIZE are zero, and a hole may hold them.
    return max(position, min(begin - _SIZE.width, file.length)) if begin < file.length else file.length


def record_around(file: MappedFile, position: int) -> tuple[int, int] | None:
    """Return begin and end of the record (or BLANK) at its own PHYSICALOFFSET that `position` in the file is strictly inside of."""
    reach = min(_NEAR, position)
    while True:
        found = _record_before(file, position - reach, position)
        if found is not None or reach in (position, _FAR):
            return found if found is not None and found[1] > position else None
        reach = min(_FAR, position)


def _record_before(file: MappedFile, start: int, position: int) -> tuple[int, int] | None:
    """Return begin and end of the last record that begins in [start, position), None if none begins there."""
    data = read_at(file, start, min(position + _HEAD, file.length) - start)
    at = position - start
    while (at := max(data.rfind(magic, 0, at + _MAGIC.end - 1) for magic in _MAGICS) - _MAGIC.offset) >= 0:
        magic, own = (int.from_bytes(data[at + field.offset : at + field.end], "big") for field in (_MAGIC, _OWN_OFFSET))
        size = int.from_bytes(data[at + _SIZE.offset : at + _SIZE.end], "big", signed=True)
        closes_file = magic == BLANK_MAGIC and start + at + size == file.length
        if closes_file or (magic != BLANK_MAGIC and own == file.start + start + at and size >= MIN_RECORD_SIZE_V1):
            return start + at, start + at + size
    return None
