"""Messages of a piece as Arrow batches with the columns that are exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rmqstore.dump.bodies import BodyError, decompress, encode
from rmqstore.formats.sysflag import SysFlag
from rmqstore.pipeline.export.request import Body, ExportRequest, Format
from rmqstore.pipeline.job import Advance
from rmqstore.pipeline.logparts import LogPiece, PieceReader
from rmqstore.pipeline.tables import messages
from rmqstore.pipeline.tables.message_columns import BatchColumns
from rmqstore.pipeline.tables.table import TYPES, schema
from rmqstore.render.output import compact_json
from rmqstore.scan.columns import Check

_FAULTY_BODY = "compression"
"""What `rmqstore dump` calls a body that is not what SYSFLAG says."""


class PieceRows:
    """The rows of one piece. `damages` are the (start, length) of what is no record, filled while `batches` are taken."""

    def __init__(self, piece: LogPiece, request: ExportRequest) -> None:
        """Raises what PieceReader raises."""
        self._request = request
        self._reader = PieceReader(piece, Check.BODY_CRC if "faults" in request.columns else Check(0))
        self._columns = _needed(request)
        self._maker = BatchColumns(
            self._reader.scanner, self._reader.store.config.known_delay_levels, schema(messages.TABLE, self._columns)
        )

    @property
    def damages(self) -> list[tuple[int, int]]:
        """Ranges that begin in the piece and are no records."""
        return [(damage.start, damage.end - damage.start) for damage in self._reader.damages]

    def batches(self, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Batches with the exported columns, and behind them those that files are divided by. Raises UnreadableError, StoreChangedError."""
        conditions = self._request.conditions
        for batch in self._reader.batches(advance):
            rows = messages.wanted_rows(batch, self._reader, conditions)
            if len(rows):
                made = self._chosen(self._maker.make(batch, rows))
                if made.num_rows:
                    yield self._told(made)

    def _chosen(self, made: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the wanted tag and key."""
        tag, key = self._request.filters.tag, self._request.filters.key
        if tag is not None:
            made = made.filter(pc.equal(made["tags"], tag))
        if key is not None:
            # Few rows hold the text at all; those are looked at as `rmqstore dump` does it.
            likely = pc.or_kleene(pc.equal(made["unique_key"], key), pc.match_substring(pc.coalesce(made["keys"], pa.scalar("")), key))
            made = made.filter(likely)
            keys = zip(made["unique_key"].to_pylist(), made["keys"].to_pylist(), strict=True)
            made = made.filter(pa.array([key == unique or key in (others or "").split(" ") for unique, others in keys], pa.bool_()))
        return made

    def _told(self, made: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as they are written."""
        arrays = {name: made[name] for name in self._columns}
        if self._request.body is Body.DECODED:
            _decode(arrays)
        if self._request.format is Format.CSV:
            _spell(arrays, self._request)
        names = exported(self._request)
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=export_schema(self._request, names))


def exported(request: ExportRequest) -> list[str]:
    """The columns of the batches: those that are exported, then what else files are divided by."""
    extra = ["store_timestamp" if name == "day" else name for name in request.partition_by]
    return list(dict.fromkeys([*request.columns, *extra]))


def export_schema(request: ExportRequest, names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of exported columns; in CSV, what is no plain value is text."""
    known = {column.name: TYPES[column.type] for column in messages.COLUMNS}
    texts = ("properties", "faults", "body", "body_encoding") if request.format is Format.CSV else ()
    return pa.schema([(name, pa.string() if name in texts else known[name]) for name in names])


def _needed(request: ExportRequest) -> list[str]:
    """The columns of the table of messages that the exported ones are made of."""
    needed = [name for name in exported(request) if name != "body_encoding"]
    if not {"body", "body_encoding"}.isdisjoint(request.columns):
        needed += ["body", "sys_flag", "faults"] if request.body is Body.DECODED else ["body"]
    if request.filters.tag is not None:
        needed += ["tags"]
    if request.filters.key is not None:
        needed += ["keys", "unique_key"]
    return list(dict.fromkeys(needed))


def _decode(arrays: dict[str, pa.Array]) -> None:
    """Decompresses bodies; one that is not what SYSFLAG says stays as it is and is a fault of its message."""
    if "body" not in arrays:
        return
    flags = arrays["sys_flag"].to_pylist()
    if not any(flag & SysFlag.COMPRESSED for flag in flags):
        return
    bodies, faults = arrays["body"].to_pylist(), arrays["faults"].to_pylist()
    for row, flag in enumerate(flags):
        if flag & SysFlag.COMPRESSED:
            try:
                bodies[row] = decompress(bodies[row], flag)
            except BodyError:
                faults[row] = [*(faults[row] or ()), _FAULTY_BODY]
    arrays["body"] = pa.array(bodies, TYPES["binary"])
    arrays["faults"] = pa.array(faults, TYPES["array<string>"])


def _spell(arrays: dict[str, pa.Array], request: ExportRequest) -> None:
    """Columns of CSV: bodies as text, and what is no plain value as JSON."""
    if "body" in arrays:
        spelled = [encode(body, request.body_form) for body in arrays["body"].to_pylist()]
        arrays["body"] = pa.array([text for text, _ in spelled], pa.string())
        arrays["body_encoding"] = pa.array([encoding for _, encoding in spelled], pa.string())
    for name, plain in _AS_JSON.items():
        if name in arrays:
            values = arrays[name].to_pylist()
            arrays[name] = pa.array([None if value is None else compact_json(plain(value)) for value in values], pa.string())


_AS_JSON: dict[str, Callable[[Any], Any]] = {"properties": dict, "faults": list}
