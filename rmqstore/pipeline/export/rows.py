"""Messages of a piece as Arrow batches with the columns that are exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rmqstore.dump.bodies import BodyError, decompress, encode
from rmqstore.formats.sysflag import SysFlag
from rmqstore.pipeline.export.request import Body, ExportRequest, Format
from rmqstore.pipeline.logparts import LogPiece, PieceReader
from rmqstore.pipeline.tables import messages
from rmqstore.pipeline.tables.message_columns import BatchColumns
from rmqstore.pipeline.tables.table import TYPES, schema
from rmqstore.reading.progress import Advance
from rmqstore.render import formulas
from rmqstore.render.text import compact_json
from rmqstore.scan.columns import Check

_FAULTY_BODY = "compression"
"""The name in `rmqstore dump` of a body that contradicts SYSFLAG."""
_PORTION = 32 << 20
"""Bytes of bodies that are enough for one batch."""


class PieceRows:
    """The rows of one piece. `damages` are the (start, length) of bytes that are no record, filled while `batches` are read."""

    def __init__(self, piece: LogPiece, request: ExportRequest) -> None:
        """Raise what PieceReader raises."""
        self._request = request
        self._reader = PieceReader(piece, Check.BODY_CRC if "faults" in request.columns else Check(0))
        self._columns = _needed(request)
        self._maker = BatchColumns(
            self._reader.scanner, self._reader.store.config.known_delay_levels, schema(messages.TABLE, self._columns)
        )

    @property
    def damages(self) -> list[tuple[int, int]]:
        """Return ranges that begin in the piece and are no records."""
        return [(damage.start, damage.end - damage.start) for damage in self._reader.damages]

    def batches(self, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield batches with the exported columns, then those that files are divided by. Raises UnreadableError, StoreChangedError."""
        conditions = self._request.conditions
        for batch in self._reader.batches(advance):
            rows = messages.wanted_rows(batch, self._reader, conditions)
            if len(rows):
                made = self._chosen(self._maker.make(batch, rows))
                for arrays in self._decoded(made):
                    yield self._as_written(arrays)

    def _chosen(self, made: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the requested tag and key."""
        tag, key = self._request.filters.tag, self._request.filters.key
        if tag is not None:
            made = made.filter(pc.equal(made["tags"], tag))
        if key is not None:
            # Few rows hold the text at all; those are decoded as `rmqstore dump` does.
            likely = pc.or_kleene(pc.equal(made["unique_key"], key), pc.match_substring(pc.coalesce(made["keys"], pa.scalar("")), key))
            made = made.filter(likely)
            keys = zip(made["unique_key"].to_pylist(), made["keys"].to_pylist(), strict=True)
            made = made.filter(pa.array([key == unique or key in (others or "").split(" ") for unique, others in keys], pa.bool_()))
        return made

    def _decoded(self, made: pa.RecordBatch) -> Iterator[dict[str, pa.Array]]:
        """Yield the columns of the rows, of those with decompressed bodies in portions."""
        decodes = self._request.body is Body.DECODED and "body" in self._columns
        start = 0
        while start < made.num_rows:
            count, replaced = _decompressed(made.slice(start)) if decodes else (made.num_rows, {})
            yield {name: made[name].slice(start, count) for name in self._columns} | replaced
            start += count

    def _as_written(self, arrays: dict[str, pa.Array]) -> pa.RecordBatch:
        """Return the rows as they are written."""
        if self._request.format is Format.CSV:
            _spell(arrays, self._request)
        names = exported(self._request)
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=export_schema(self._request, names))


def exported(request: ExportRequest) -> list[str]:
    """Return the columns of the batches: those that are exported, then the others that files are divided by."""
    extra = ["store_timestamp" if name == "day" else name for name in request.partition_by]
    return list(dict.fromkeys([*request.columns, *extra]))


def export_schema(request: ExportRequest, names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of exported columns; in CSV, what is no plain value is text."""
    known = {column.name: TYPES[column.type] for column in messages.COLUMNS}
    texts = ("properties", "faults", "body", "body_encoding") if request.format is Format.CSV else ()
    return pa.schema([(name, pa.string() if name in texts else known[name]) for name in names])


def _needed(request: ExportRequest) -> list[str]:
    """Return the columns of the table of messages that the exported ones are made of."""
    needed = [name for name in exported(request) if name != "body_encoding"]
    if not {"body", "body_encoding"}.isdisjoint(request.columns):
        needed += ["body", "sys_flag", "faults"] if request.body is Body.DECODED else ["body"]
    if request.filters.tag is not None:
        needed += ["tags"]
    if request.filters.key is not None:
        needed += ["keys", "unique_key"]
    return list(dict.fromkeys(needed))


def _decompressed(made: pa.RecordBatch) -> tuple[int, dict[str, pa.Array]]:
    """Return the number of rows taken, and their changed columns; a body that contradicts SYSFLAG stays and is a fault of its message.

    A few bytes can become a large body, so rows are taken only until their bodies are many bytes.
    """
    flags = made["sys_flag"].to_pylist()
    if not any(flag & SysFlag.COMPRESSED for flag in flags):
        return made.num_rows, {}
    stored, faults = made["body"], made["faults"].to_pylist()
    bodies: list[bytes] = []
    size = 0
    for row, flag in enumerate(flags):
        if size >= _PORTION:
            break
        body = stored[row].as_py()
        try:
            bodies.append(decompress(body, flag) if flag & SysFlag.COMPRESSED else body)
        except BodyError:
            bodies.append(body)
            faults[row] = [*(faults[row] or ()), _FAULTY_BODY]
        size += len(bodies[-1] or b"")
    count = len(bodies)
    return count, {"body": pa.array(bodies, TYPES["binary"]), "faults": pa.array(faults[:count], TYPES["array<string>"])}


def _spell(arrays: dict[str, pa.Array], request: ExportRequest) -> None:
    """Convert columns for CSV: bodies to text, and what is no plain value to JSON."""
    if "body" in arrays:
        spelled = [encode(body, request.body_form) for body in arrays["body"].to_pylist()]
        arrays["body"] = pa.array([text for text, _ in spelled], pa.string())
        arrays["body_encoding"] = pa.array([encoding for _, encoding in spelled], pa.string())
    for name, plain in _AS_JSON.items():
        if name in arrays:
            values = arrays[name].to_pylist()
            arrays[name] = pa.array([None if value is None else compact_json(plain(value)) for value in values], pa.string())
    if not request.csv_raw:
        for name in arrays.keys() & set(request.columns):
            if pa.types.is_string(arrays[name].type):
                arrays[name] = _defused(arrays[name])


def _defused(texts: pa.Array) -> pa.Array:
    """Return the texts as `formulas.defused` makes them."""
    risky = pc.and_not(
        pc.match_substring_regex(texts, f"^{formulas.STARTS}"),
        pc.match_substring_regex(texts, f"^(?:{formulas.NUMBER})$"),
    )
    if not pc.any(risky).as_py():
        return texts
    return pc.if_else(risky, pc.binary_join_element_wise(formulas.MARK, texts, ""), texts)


_AS_JSON: dict[str, Callable[[Any], Any]] = {"properties": dict, "faults": list}
