"""The epoch file of the controller mode (`epochFileCheckpoint`): text, with a CRC over its entry lines.

Source: `CheckpointFile`, `EpochEntry`; fact sheet commitlog §8.3 (≥5.0.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rmqstore.formats.crc import epoch_crc
from rmqstore.formats.javahash import INT_MAX, INT_MIN, LONG_MAX, parse_java_integer

# Stored instead of a CRC: readers do not check it.
NO_CHECKSUM = 0


class EpochEntry(NamedTuple):
    """One mastership: its number and the physical offset where it started."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EpochFile:
    """Content of an epoch file. `checksum` is the stored one."""

    entries: tuple[EpochEntry, ...]
    checksum: int
    line_separator: str = "\n"

    @property
    def checksum_matches(self) -> bool:
        return self.checksum in (NO_CHECKSUM, epoch_checksum(self.entries, self.line_separator))

    @property
    def increases(self) -> bool:
        """Return whether epochs and start offsets strictly increase, as every broker writes them."""
        return all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(self.entries))


def epoch_checksum(entries: tuple[EpochEntry, ...], line_separator: str = "\n") -> int:
    """Return the CRC of the entry lines with their line ends."""
    return epoch_crc(_entry_lines(entries, line_separator).encode())


def parse_epoch_file(data: bytes) -> EpochFile:
    """Return entries and stored checksum; raises ValueError for another form, or another number of entries than the first line says."""
    text = data.decode("ascii")
    separator = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(separator)
    if lines[-1] != "" or len(lines) < 3:
        raise ValueError("the epoch file ends within a line")
    count, checksum = (_number(line, INT_MIN, INT_MAX) for line in lines[:2])
    entries = tuple(_entry(line) for line in lines[2:-1])
    if count != len(entries):
        raise ValueError(f"the epoch file announces {count} entries and has {len(entries)}")
    return EpochFile(entries, checksum, separator)


def build_epoch_file(file: EpochFile) -> bytes:
    """Return the bytes of an epoch file with the checksum that `file` gives."""
    end = file.line_separator
    return f"{len(file.entries)}{end}{file.checksum}{end}{_entry_lines(file.entries, end)}".encode()


def _entry_lines(entries: tuple[EpochEntry, ...], line_separator: str) -> str:
    return "".join(f"{entry.epoch}-{entry.start_offset}{line_separator}" for entry in entries)


def _entry(line: str) -> EpochEntry:
    epoch, dash, start_offset = line.partition("-")
    if not dash:
        raise ValueError(f"{line!r} is not an epoch entry")
    return EpochEntry(_number(epoch, 0, INT_MAX), _number(start_offset, 0, LONG_MAX))


def _number(text: str, low: int, high: int) -> int:
    value = parse_java_integer(text, low, high)
    if value is None:
        raise ValueError(f"{text!r} is not a number")
    return value
