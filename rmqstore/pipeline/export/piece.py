"""The export of one piece of a log: its messages into the files of an attempt."""

from __future__ import annotations

from rmqstore.pipeline.export.attempt import Attempt, PieceDone
from rmqstore.pipeline.export.request import ExportRequest, Format
from rmqstore.pipeline.logparts import LogPiece
from rmqstore.reading.progress import Advance


def export_piece(piece: LogPiece, request: ExportRequest, attempt: Attempt, advance: Advance) -> PieceDone:
    """Write the requested messages of a piece. Raises NotWrittenError, StoreChangedError, UnreadableError."""
    write = _write_lines if request.format is Format.JSONL else _write_rows
    damages = [(start, length) for start, length in write(piece, request, attempt, advance) if _asked_for(request, start, start + length)]
    return PieceDone(
        part=piece.number,
        attempt=attempt.name,
        files=tuple(attempt.done),
        messages=sum(file.rows for file in attempt.done),
        damaged_ranges=len(damages),
        damaged_bytes=sum(length for _, length in damages),
    )


def _write_lines(piece: LogPiece, request: ExportRequest, attempt: Attempt, advance: Advance) -> list[tuple[int, int]]:
    from rmqstore.pipeline.export.lines import PieceLines

    lines = PieceLines(piece, request)
    file, rows = None, 0
    for data, count in lines.chunks():
        file = file or attempt.file()
        file.write(data)
        rows += count
    if file is not None:
        attempt.finish(file, rows)
    advance(piece.size)
    return lines.damages


def _write_rows(piece: LogPiece, request: ExportRequest, attempt: Attempt, advance: Advance) -> list[tuple[int, int]]:
    from rmqstore.pipeline.export.rows import PieceRows
    from rmqstore.pipeline.export.writers import writer_of

    rows, writer = PieceRows(piece, request), writer_of(request, attempt)
    for batch in rows.batches(advance):
        writer.write(batch)
    writer.close()
    return rows.damages


def _asked_for(request: ExportRequest, start: int, end: int) -> bool:
    """Return whether a damaged range touches the exported offsets: pieces may be read from a little before."""
    low, high = request.filters.from_offset, request.filters.to_offset
    return (low is None or end > low) and (high is None or start < high)
