"""Extended units of a queue under repair: rebuilt units get back the addresses under which their ext units are stored.

A filter bitmap cannot be rebuilt from the log (fact sheet queues §3.5), so ext units that are there are found again rather than
replaced: each is stored after that of the unit before. A damaged head is written again around its bitmap. A unit whose ext unit is gone
gets the plain tagsCode, as a broker writes it that could not put an ext unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqstore.formats import consumequeue_ext as declared
from rmqstore.formats.layout import fixed_layout
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import map_window

HEAD_ROWS = np.dtype([(name, f">i{place.width}") for name, place in fixed_layout(declared.UNIT_PREFIX).items()])
_HEAD_SIZE = HEAD_ROWS.itemsize


@dataclass(frozen=True, slots=True)
class Head:
    """A head to be written at `offset` of the ext queue."""

    offset: int
    data: bytes


class ExtFiles:
    """The ext units of one queue, read by address; `files` by offset, of full length."""

    def __init__(self, files: tuple[MappedFile, ...]) -> None:
        self.files = files
        self._starts = np.array([file.start for file in files], np.int64)

    def heads(self, addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return the heads (HEAD_ROWS) at these addresses, zeros where no file holds one. Raises UnreadableError, StoreChangedError."""
        offsets = addresses - declared.encode_address(0)
        heads = np.zeros(len(offsets), HEAD_ROWS)
        which = np.searchsorted(self._starts, offsets, side="right") - 1
        for number in np.unique(which[which >= 0]).tolist():
            file = self.files[number]
            rows = np.flatnonzero((which == number) & (offsets + _HEAD_SIZE <= file.end))
            with map_window(file, 0, file.length) as window:
                places = (offsets[rows] - file.start)[:, None] + np.arange(_HEAD_SIZE)
                heads[rows] = window.array[places].reshape(-1).view(HEAD_ROWS)
        return heads

    def holds(self, offset: int) -> MappedFile | None:
        """Return the file that holds a head at `offset`."""
        return next((file for file in self.files if file.start <= offset and offset + _HEAD_SIZE <= file.end), None)


class Addresses:
    """The addresses of the present ext units for the rebuilt units, in the order of the queue.

    `made`: the ext units of the rebuild, which the rebuilt units name; `found`: those that are there, at least one file of them.
    """

    def __init__(self, made: ExtFiles, found: ExtFiles, log_start: int) -> None:
        self._made = made
        self._found = found
        self._log_start = log_start
        self._next = declared.encode_address(found.files[0].start)
        self.heads: list[Head] = []
        self.last: int | None = None
        """Offset after the last ext unit that a unit names."""

    def settle(self, units: npt.NDArray[np.void], found: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Return the rebuilt `units` (UNIT_ROWS) of a file with the tagsCodes they are to have; `found` are those in their places."""
        settled = units.copy()
        named = (units["tags_code"] <= declared.MAX_ADDRESS) & (units["size"] > 0)
        rebuilt = np.flatnonzero(named & (units["physical_offset"] >= self._log_start))
        addresses = units["tags_code"][rebuilt].astype(np.int64)
        distinct, first, which = np.unique(addresses, return_index=True, return_inverse=True)
        if distinct.size:
            rows = rebuilt[first]
            same = (found["physical_offset"][rows] == units["physical_offset"][rows]) & (found["size"][rows] == units["size"][rows])
            claimed = np.where(same, found["tags_code"][rows], 0).astype(np.int64)
            codes = self._codes(self._made.heads(distinct), claimed)
            settled["tags_code"][rebuilt] = codes[which]
        return settled

    def _codes(self, made: npt.NDArray[np.void], claimed: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return tagsCodes of the messages of the heads `made`, whose units claim the addresses `claimed` (not an address: none)."""
        codes = claimed.copy()
        there = self._found.heads(claimed)
        sound = _is_sound(there) & _agree(there, made)
        for row in range(len(codes)):
            if sound[row]:
                self._step(int(codes[row]), int(there["size"][row]))
                continue
            behind = int(claimed[row + 1]) if row + 1 < len(codes) else 0
            codes[row] = self._code(made[row], there[row], int(claimed[row]), behind)
        return codes

    def _code(self, made: np.void, there: np.void, claimed: int, behind: int) -> int:
        """Return the tagsCode of a message whose unit claims an address with another head `there`; `behind`: the next unit's claim."""
        for address in self._likely():
            head = self._found.heads(np.array([address], np.int64))
            if bool((_is_sound(head) & _agree(head, made))[0]):
                self._step(address, int(head["size"][0]))
                return address
        offset = declared.decode_address(claimed)
        if claimed == self._next and self._found.holds(offset) is not None:
            size = int(there["size"]) if bool(_is_sound(there)) else behind - claimed if _is_size(behind - claimed) else _HEAD_SIZE
            head = np.array([(size, made["tags_code"], made["msg_store_time"], size - _HEAD_SIZE)], HEAD_ROWS)
            self.heads.append(Head(offset, head.tobytes()))
            self._step(claimed, size)
            return claimed
        return int(made["tags_code"])

    def _likely(self) -> list[int]:
        """Return where the next ext unit can be: after the last one, or at the beginning of the next file."""
        offset = declared.decode_address(self._next)
        return [self._next, *(declared.encode_address(file.start) for file in self._found.files if file.start > offset)][:2]

    def _step(self, address: int, size: int) -> None:
        self._next = address + size
        self.last = declared.decode_address(self._next)


def _is_size(size: int) -> bool:
    return _HEAD_SIZE <= size <= np.iinfo(HEAD_ROWS["size"]).max


def _is_sound(heads: npt.NDArray[np.void] | np.void) -> npt.NDArray[np.bool_]:
    sound: npt.NDArray[np.bool_] = (heads["bit_map_size"] >= 0) & (heads["size"] == heads["bit_map_size"].astype(np.int32) + _HEAD_SIZE)
    return sound


def _agree(heads: npt.NDArray[np.void], made: npt.NDArray[np.void] | np.void) -> npt.NDArray[np.bool_]:
    agree: npt.NDArray[np.bool_] = (heads["tags_code"] == made["tags_code"]) & (heads["msg_store_time"] == made["msg_store_time"])
    return agree
