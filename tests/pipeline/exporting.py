"""Exports of sample stores, and what they should hold."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rmqstore.dump.request import Filters
from rmqstore.pipeline.export.attempt import PieceDone
from rmqstore.pipeline.export.destination import DirectoryDestination
from rmqstore.pipeline.export.job import ExportJob
from rmqstore.pipeline.export.request import Body, ExportRequest, Format
from rmqstore.pipeline.job import Packet, Part, Runner, StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.tables.message_parts import wanted_pieces
from rmqstore.reading.progress import Advance, silent
from rmqstore.render.formulas import defused
from rmqstore.render.text import cell
from tests.support.cli import rmqstore
from tests.support.stores import case

Message = dict[str, Any]
FORMATS = [str(one) for one in Format]


def request(
    format: str,
    *,
    columns: Sequence[str] | None = None,
    body: str = "none",
    partition_by: Sequence[str] = (),
    filters: Filters | None = None,
) -> ExportRequest:
    return ExportRequest.of(Format(format), columns, Body(body), partition_by, filters or Filters())


def export(
    name: str,
    root: Path,
    out: Path,
    wanted: ExportRequest,
    *,
    largest: int = 1 << 30,
    threads: int = 1,
    runner: Runner | None = None,
    make_job: type[ExportJob] = ExportJob,
) -> dict[str, Any]:
    """Exports a store in pieces of about `largest` bytes; the sums."""
    at = StoreAt.of(root, settings=case(name).settings(root))
    pieces = wanted_pieces(at, wanted.conditions, largest=largest)
    with DirectoryDestination(out, at.open(), wanted, pieces) as destination:
        job = make_job(destination.missing(pieces), wanted, str(out), "run")
        for _, data in (runner or LocalRunner(threads)).run(job, silent):
            destination.publish(PieceDone.unpack(data))
        return destination.finish()


def dumped(name: str, root: Path, *options: str) -> list[Message]:
    """The messages that a dump tells, those inside of DLedger entries as well; without their type."""
    run = rmqstore("dump", root, "--format", "json", *case(name).set_options(root), *options)
    assert run.status == 0, run.err
    found = (one.get("message") if one["type"] == "dledger_entry" else one for one in run.objects)
    return [{key: item for key, item in one.items() if key not in ("type", "schema")} for one in found if one and one["type"] == "message"]


def parts_of(out: Path, format: str) -> list[Path]:
    """The exported files in the order of the log."""
    return sorted(out.rglob(f"part-*.{format}"), key=lambda path: path.name)


def lines_of(out: Path) -> bytes:
    return b"".join(path.read_bytes() for path in parts_of(out, "jsonl"))


def read(out: Path, format: str) -> list[Message]:
    """The exported messages, as a dump tells them: without fields that are null because they are not always there."""
    return [_as_dumped(one) for path in parts_of(out, format) for one in _READERS[format](path)]


def spelled(messages: list[Message]) -> list[dict[str, str]]:
    """Messages as CSV spells them."""
    return [{key: defused(item) if isinstance(item, str) else cell(item) for key, item in one.items()} for one in messages]


def _jsonl(path: Path) -> list[Message]:
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{key: item for key, item in one.items() if key not in ("type", "schema")} for one in found]


def _csv(path: Path) -> list[Message]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _parquet(path: Path) -> list[Message]:
    # The file alone: what its folders say is no part of it.
    table: pa.Table = pq.ParquetFile(path).read()
    table.validate(full=True)
    return list(table.to_pylist(maps_as_pydicts="strict"))


def _as_dumped(message: Message) -> Message:
    return {key: item for key, item in message.items() if key != "faults" or item}


_READERS = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}


@dataclass(frozen=True, slots=True)
class Dying(ExportJob):
    """The worker that exports piece 1 for the first time is killed when all its files are written."""

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        mark = Path(self.out).with_suffix(".died")
        for packet in ExportJob.map(self, part, advance):
            if part.number == 1 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield packet
