"""The table of findings: the result of a verification of the store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rmqstore.findings import Finding
from rmqstore.pipeline.job import Part, StoreAt
from rmqstore.pipeline.tables.fileparts import batches_of_rows
from rmqstore.pipeline.tables.selection import Selection
from rmqstore.pipeline.tables.table import LARGEST_PART, Column, StorePart, schema
from rmqstore.reading.progress import Advance

_BATCH_ROWS = 1024


class Findings:
    """Findings in the order in which `rmqstore verify` prints them; they come from comparing everything with everything."""

    name = "findings"
    summary = "The findings of a verification, which runs when the table is read."
    columns: tuple[Column, ...] = (
        Column("code", "string", "stable code; `rmqstore explain CODE` documents it"),
        Column("severity", "string", "info, warning or error"),
        Column("file", "string", "path of the file below the root of the store"),
        Column("position", "bigint", "where in the file, in bytes"),
        Column("length", "bigint", "bytes concerned"),
        Column("offset", "bigint", "physical offset in the commit log, if it concerns one"),
        Column("topic", "string", "topic"),
        Column("queue_id", "bigint", "queue id"),
        Column("queue_offset", "bigint", "queue offset"),
        Column("message", "string", "what was found, in words"),
        Column("expected", "string", "what should be there: text, or a number or more as JSON"),
        Column("found", "string", "what is there, in the same form"),
        Column("mend", "string", "what to do"),
    )
    selectable: tuple[str, ...] = ("topic", "queue_id")

    def parts(self, at: StoreAt, selection: Selection, largest: int = LARGEST_PART) -> Sequence[Part]:
        """Return the whole store."""
        return [StorePart(0, at.path, at.open().message_log.length, at)]

    def read(self, part: Part, selection: Selection, advance: Advance) -> Iterator[pa.RecordBatch]:
        """Yield all findings that meet the conditions."""
        assert isinstance(part, StorePart)
        from rmqstore.doctor.foresight import foresee
        from rmqstore.scan.compilation import compile_kernels
        from rmqstore.verify.engine import Verification

        compile_kernels(quiet=True)
        yield from self.batches(Verification(part.store.open(), foresight=foresee).run(advance), part.store, selection)

    def batches(self, found: Iterable[Finding], at: StoreAt, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Yield those of the findings of a store that meet the conditions."""
        from rmqstore.verify.advice import spelled_out

        rows = (_row(spelled_out(finding, at.path, at.options)) for finding in found)
        yield from batches_of_rows(rows, selection, schema(self, selection.columns), _BATCH_ROWS)


def _row(finding: Finding) -> dict[str, Any]:
    value = replace(finding, count=None).as_json()
    return value | {name: _text(value[name]) for name in ("expected", "found")}


def _text(evidence: Any) -> str | None:
    return evidence if evidence is None or isinstance(evidence, str) else json.dumps(evidence, ensure_ascii=False)


TABLE = Findings()
