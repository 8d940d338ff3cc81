"""ConsumeQueueExt: loaded, recovered, cut and appended to as the broker does (fact sheet queues §3; all releases)."""

from __future__ import annotations

from rmqstore.formats import consumequeue_ext as declared
from rmqstore.prediction.blockers import BlockerCode, LoadStopped
from rmqstore.prediction.changes import Changes
from rmqstore.prediction.java import remainder
from rmqstore.prediction.log.mappedfiles import MappedFiles, SimulatedFile
from rmqstore.versions import Profile

NO_ADDRESS = 1
"""Any number that is no address: cutting by it does nothing."""
_SIZE_WIDTH = 2
_PUT_TRIES = 3
_PIECE = 1 << 20


class ExtQueue:
    """The extension of one consume queue. Addresses are the tagsCode values of queue units."""

    def __init__(self, directory: str, file_size: int, changes: Changes) -> None:
        self.files = MappedFiles([directory], file_size, changes)

    def load(self, profile: Profile) -> None:
        """Map the files. Raises LoadStopped."""
        self.files.load(profile)

    def recover(self) -> None:
        """Walk from unit to unit through all files by their sizes; what follows the last unit is cut. Raises LoadStopped.

        Only sizes are checked; one that leads beyond the end of a file throws, and the broker does not start.
        """
        if not self.files.files:
            return
        for file in self.files.files:
            position = _end_of_units(file)
        end = self.files.files[-1].start + position
        self.files.flushed_where = end
        self.files.truncate_dirty(end)

    def put(self, tags_code: int, store_timestamp: int) -> int:
        """Append a unit without a bitmap and return its address, or NO_ADDRESS if it could not be written."""
        unit = declared.UNIT.build({"tags_code": tags_code, "msg_store_time": store_timestamp, "filter_bit_map": b""})
        for _ in range(_PUT_TRIES):
            file = self.files.last_for_append(0)
            if len(unit) <= file.length - file.wrote - declared.END_SPACE:
                address = declared.encode_address(file.start + file.wrote)
                file.append(unit)
                return address
            file.put(file.wrote, declared.END_MARK)
            file.wrote = file.length
        return NO_ADDRESS

    def truncate_by_max_address(self, address: int) -> None:
        """Cut after the unit at `address`; nothing happens if there is none."""
        if not declared.is_address(address):
            return
        offset = declared.decode_address(address)
        file = self.files.find(offset)
        if file is None:
            return
        position = remainder(offset, self.files.file_size)
        if position >= file.wrote:
            return
        head = file.read(position, declared.UNIT_PREFIX_SIZE)
        size = int.from_bytes(head[:_SIZE_WIDTH], "big", signed=True)
        if size >= 1:
            self.files.truncate_dirty(offset + size)

    def truncate_by_min_address(self, address: int) -> None:
        """Delete files that end before the unit at `address`."""
        if not declared.is_address(address):
            return
        offset = declared.decode_address(address)
        for file in list(self.files.files):
            if file.end < offset:
                self.files.delete(file)


def _end_of_units(file: SimulatedFile) -> int:
    """Return the byte of the file at which no unit follows."""
    position = piece_start = 0
    piece = b""
    while True:
        at = position - piece_start
        if at + _SIZE_WIDTH > len(piece):
            piece_start, at, piece = position, 0, file.read(position, _PIECE)
        if len(piece) < _SIZE_WIDTH:
            raise LoadStopped(BlockerCode.EXT_FILE, "load exception: a unit leads beyond the end of the file", file.path)
        size = int.from_bytes(piece[at : at + _SIZE_WIDTH], "big", signed=True)
        if size <= 0:
            return position
        position += size
