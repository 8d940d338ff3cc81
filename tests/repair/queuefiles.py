"""What can happen to the files of a queue or of the index: a table of injuries, each a function of one file."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from rmqstore.formats.consumequeue import PRE_BLANK, UNIT_SIZE

Injury = Callable[[Path], object]


def used(path: Path) -> int:
    """Bytes up to the last one that is not zero."""
    return len(path.read_bytes().rstrip(b"\0"))


def overwrite(path: Path, position: int, data: bytes) -> None:
    """New bytes; the length stays."""
    with path.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)


def flip(share: float) -> Injury:
    """One bit, after this share of the bytes that are used."""

    def injure(path: Path) -> None:
        position = int(used(path) * share)
        overwrite(path, position, bytes([path.read_bytes()[position] ^ 1]))

    return injure


def _hole(path: Path) -> None:
    overwrite(path, used(path) // 2 // UNIT_SIZE * UNIT_SIZE, bytes(UNIT_SIZE))


def _shift(path: Path) -> None:
    path.write_bytes(path.read_bytes()[UNIT_SIZE:] + bytes(UNIT_SIZE))


def _beside(name: str, content: Callable[[Path], bytes]) -> Injury:
    return lambda path: path.with_name(name).write_bytes(content(path))


INJURIES: dict[str, Injury] = {
    "deleted": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "too long": lambda path: path.write_bytes(path.read_bytes() + bytes(100)),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(path.stat().st_size)),
    "shifted": _shift,
    "hole": _hole,
    "first bit": flip(0),
    "middle bit": flip(0.5),
    "last bit": flip(0.99),
    "foreign file beside it": _beside("backup", lambda path: path.read_bytes()),
}

QUEUE_INJURIES: dict[str, Injury] = {
    **INJURIES,
    "no units at the end": lambda path: overwrite(path, max(used(path) // UNIT_SIZE - 2, 0) * UNIT_SIZE, bytes(2 * UNIT_SIZE)),
    "file of zeros behind it": lambda path: path.with_name(f"{int(path.name) + path.stat().st_size:020d}").write_bytes(
        bytes(path.stat().st_size)
    ),
    "pre-blanks only": lambda path: path.write_bytes(PRE_BLANK + bytes(path.stat().st_size - UNIT_SIZE)),
}
