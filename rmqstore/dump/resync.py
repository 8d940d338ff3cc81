"""Finding the next plausible record behind damage: the compiled search of `rmqstore.scan`, window by window."""

from __future__ import annotations

from rmqstore.errors import StoreChangedError
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import map_window

_WINDOW = 16 << 20


def next_record(file: MappedFile, position: int) -> int | None:
    """Position in the file of the next record at or behind `position` that is plausible, or of the BLANK that ends the file.

    Plausible: magic, PHYSICALOFFSET = position, consistent lengths and a matching body CRC. None when nothing follows.
    """
    from rmqstore.scan import sigbus
    from rmqstore.scan.columns import Stop
    from rmqstore.scan.kernels_record import resync

    sigbus.install()
    known_faults = sigbus.faults()
    length = _WINDOW
    while position < file.length:
        length = min(length, file.length - position)
        with map_window(file, position, length) as window:
            base = window.array.ctypes.data
            found, stop = resync(base, 0, length, file.length - position, file.start + position)
        if sigbus.faults() != known_faults:
            raise StoreChangedError(f"{file.path} shrank while it was read.", "Stop the broker or work on a snapshot, then try again.")
        if stop in (Stop.NONE, Stop.BLANK):
            return position + int(found)
        if stop == Stop.TRUNCATED:
            return None
        # A record that claims to be longer than the window is looked at again with more of the file.
        length = _WINDOW if found else length * 2
        position += int(found)
    return None
