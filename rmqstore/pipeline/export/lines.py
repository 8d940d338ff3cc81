"""Messages of a piece as JSON lines: those that `rmqstore dump --format json` prints, by the same compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rmqstore.dump.items import Item, Lines
from rmqstore.dump.log import LogDump
from rmqstore.dump.message import json_line, message_object
from rmqstore.formats.record import decode_record
from rmqstore.pipeline.export.request import ExportRequest
from rmqstore.pipeline.logparts import LogPiece, PieceReader
from rmqstore.reading.progress import silent
from rmqstore.scan.columns import Check
from rmqstore.store.mapped import MappedFile
from rmqstore.store.root import Store

Chunk = tuple[bytes | memoryview, int]
"""Complete lines and their number; a view is valid until the next chunk is requested."""


class PieceLines:
    """The lines of one piece. `damages` are the (start, length) of bytes that are no record, filled while `chunks` are read."""

    def __init__(self, piece: LogPiece, request: ExportRequest) -> None:
        """Raise what PieceReader raises."""
        self.damages: list[tuple[int, int]] = []
        self._piece = piece
        self._request = request
        self._reader = PieceReader(piece, Check(0))

    def chunks(self) -> Iterator[Chunk]:
        """Yield the lines, in the order of the log. Raises UnreadableError, StoreChangedError."""
        store, file = self._reader.store, self._reader.file
        items = self._entries(store) if self._piece.lead else self._records(store, file)
        for item in items:
            if isinstance(item, Lines):
                yield (item.data, item.count) if self._request.whole_lines else (b"".join(map(self._line, item.values())), item.count)
            elif item["type"] == "damage":
                self.damages.append((item["physical_offset"], item["length"]))
            elif item["type"] == "message":
                yield self._line(item), 1

    def _records(self, store: Store, file: MappedFile) -> Iterator[Item]:
        wanted = self._request.filters
        start = max(self._piece.start, wanted.from_offset or self._piece.start)
        end = self._piece.end if wanted.to_offset is None else min(self._piece.end, wanted.to_offset)
        request = self._request.dump_request(replace(wanted, from_offset=start, to_offset=end))
        log = LogDump((file,), lambda one: store.relative(one.path), request, store.config.known_delay_levels)
        return log.items(slow_records=0, threads=1)

    def _entries(self, store: Store) -> Iterator[Item]:
        """Yield messages inside of DLedger entries, one by one."""
        request = self._request.dump_request(self._request.filters)
        delays = store.config.known_delay_levels
        for batch in self._reader.batches(silent):
            for row, position in enumerate(batch.records["position"].tolist()):
                record = decode_record(batch.record_bytes(row))
                value = message_object(record, position, delays, request.body, request.decompress)
                if request.filters.accept(value):
                    yield value
        for damage in self._reader.damages:
            yield {"type": "damage", "physical_offset": damage.start, "length": damage.end - damage.start}

    def _line(self, value: dict[str, Any]) -> bytes:
        if self._request.whole_lines:
            return json_line(value)
        return json_line({name: value.get(name) for name in self._request.columns})
