"""Exchanged blocks: a move whose block of the disk holds, in its source, the bytes that are missing there.

The records of a move say where its block belongs, but not where that begins and ends: no checksum covers topic and properties of most
records, so one across a border can look valid with bytes of the other block. The exchange is whole if both blocks leave valid records only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rmqstore.formats.message import BLANK, BLANK_MAGIC, BLANK_SIZE
from rmqstore.repair.log.corrections import is_proven
from rmqstore.repair.log.moves import PAGE, SECTOR, Move, Moves
from rmqstore.store.mapped import MappedFile
from rmqstore.store.window import read_at
from rmqstore.verify.queues.judgement import subtract

LARGEST_BORDER = 8 << 20
"""Bytes between moved bytes and the next valid records that are searched for a record across the border."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block that moves, and the range of the log whose records are valid with it."""

    move: Move
    start: int
    end: int


def with_exchanges(moves: Moves, files: Sequence[MappedFile], file_size: int) -> Moves:
    """Return the moves, those of exchanged blocks whole and with the opposite ones; `files` are those of the log.

    Raises UnreadableError, StoreChangedError.
    """
    exchanged, settled, single = _found(moves, files, file_size)
    rest = [move for move in single if not _overlaps(settled, move)]
    taken = sorted([*subtract(moves.taken, settled), *settled])
    return replace(moves, moves=tuple(sorted([*rest, *exchanged], key=lambda one: one.start)), taken=tuple(taken))


def only_exchanges(moves: Moves, files: Sequence[MappedFile], file_size: int) -> Moves:
    """Return the moves of whole blocks that were exchanged with each other, without all others. Raises as `with_exchanges` does."""
    exchanged, settled, _ = _found(moves, files, file_size)
    placed = [(run.start, run.end) for run in moves.placed]
    taken = sorted([*subtract(placed, settled), *settled])
    return replace(moves, moves=tuple(sorted(exchanged, key=lambda one: one.start)), taken=tuple(taken), copies=())


def _found(moves: Moves, files: Sequence[MappedFile], file_size: int) -> tuple[list[Move], list[tuple[int, int]], list[Move]]:
    """Return the moves of exchanged blocks, the ranges of the log that these leave valid, ascending, and the other moves."""
    by_start, by_path = {file.start: file for file in files}, {file.path: file for file in files}
    single: list[Move] = []
    exchanged: list[Move] = []
    settled: list[tuple[int, int]] = []
    for move in moves.moves:
        here, there = by_start.get(move.start - move.start % file_size), by_path.get(move.file.path)
        blocks = () if here is None or there is None or _overlaps(settled, move) else _exchange(moves, move, here, there)
        if len(blocks) == 2:
            exchanged += [block.move for block in blocks]
            settled += [(block.start, block.end) for block in blocks]
            settled.sort()
        else:
            single += [move, *(block.move for block in blocks)]
    return exchanged, settled, single


def _overlaps(settled: Sequence[tuple[int, int]], move: Move) -> bool:
    """Return whether bytes of the place of a move are in one of these ranges, ascending and apart from each other."""
    number = bisect_left(settled, (move.end, 0))
    return number > 0 and settled[number - 1][1] > move.start


def _exchange(moves: Moves, move: Move, here: MappedFile, there: MappedFile) -> Sequence[_Block]:
    """Return both blocks of the exchange that a move is part of; the opposite one alone where the block of the move is damaged as well.

    `here` is the file that the bytes belong to, `there` the one they are in.
    """
    shift = move.start - there.start - move.position
    alone: Sequence[_Block] = ()
    for low, high in _borders(move, shift):
        inside = here.start <= low < high <= here.end and there.start <= low - shift < high - shift <= there.end
        if not inside or abs(shift) < high - low:
            continue
        away = Move(here, low - here.start, low - shift, high - low, 0)
        back = Move(there, low - shift - there.start, low, high - low, move.records)
        own, opposite = _placed(moves, (back, away), here), _placed(moves, (away, back), there)
        if own is not None and opposite is not None:
            return own, opposite
        only = None if alone else _placed(moves, (away,), there)
        if only is not None and moves.is_free(away.start, away.end):
            alone = (only,)
    return alone


def _borders(move: Move, shift: int) -> Iterator[tuple[int, int]]:
    """Yield where the blocks that moved may begin and end: the last record of a move may look as if it crossed the end."""
    for block in (SECTOR, PAGE):
        low = move.start - move.start % block
        if not shift % block:
            yield from ((low, high) for high in (-(-move.end // block) * block, move.end - move.end % block) if high > low)


def _placed(moves: Moves, blocks: Sequence[Move], file: MappedFile) -> _Block | None:
    """Return the first of some blocks in its place in `file`; None where the records there are not all valid with them."""
    move = blocks[0]
    start, limit = moves.record_before(move.start), min(moves.taken_after(move.end), file.end, move.end + LARGEST_BORDER)
    start = max(start, file.start)
    if move.start - start > LARGEST_BORDER:
        return None
    data = bytearray(read_at(file, start - file.start, limit - start))
    for block in blocks:
        low, high = max(block.start, start), min(block.end, limit)
        if low < high:
            data[low - start : high - start] = read_at(block.file, block.position + low - block.start, high - low)
    end = records_end(bytes(data), start, file.end, move.end)
    return None if end is None else _Block(move, start, end)


def records_end(data: bytes, start: int, file_end: int, stop: int) -> int | None:
    """Return where valid records, one after another from physical offset `start` on, end at `stop` or after, or with a BLANK.

    None where bytes before `stop` are no such records. `file_end` is the end of their file.
    """
    at = 0
    while start + at < stop:
        if data[at : at + BLANK_SIZE] == BLANK.build({"total_size": file_end - start - at, "magic_code": BLANK_MAGIC}):
            return file_end
        size = int.from_bytes(data[at : at + 4], "big")
        if not 0 < size <= len(data) - at or not is_proven(data[at : at + size], start + at):
            return None
        at += size
    return start + at
