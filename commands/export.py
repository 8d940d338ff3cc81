"""`rmqstore export`: write messages of a store to files for other programs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, csv_raw_option, on_interrupt, store_options, view_options
from rmqstore.commands.engines import engine_options, path_or_uri, store_or_uri_argument
from rmqstore.commands.filters import filter_options
from rmqstore.commands.pacing import rate_limit_option

if TYPE_CHECKING:
    from rmqstore.dump.request import Filters
    from rmqstore.pipeline.engine import Choice, EngineOptions
    from rmqstore.pipeline.export.destination import Destination
    from rmqstore.pipeline.export.request import ExportRequest
    from rmqstore.pipeline.logparts import LogPiece

PIECES_OF_A_RUN = 256
"""Pieces that a runner gets at a time; finished pieces are published at the end of such a run at the latest."""


def _names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())


@click.command("export", short_help="Export messages as JSON lines, CSV or Parquet; resumable.")
@store_or_uri_argument
@click.argument("out", callback=path_or_uri)
@click.option("--format", "file_format", type=click.Choice(["jsonl", "csv", "parquet"]), default="jsonl", show_default=True, help="Files.")
@click.option("--columns", metavar="A,B,...", callback=_names, help="Only these fields of messages, in this order.")
@click.option(
    "--body",
    type=click.Choice(["none", "raw", "decoded"]),
    default="none",
    show_default=True,
    help="Bodies: as stored, or decompressed (up to 32 MiB each); in jsonl and csv raw as base64, decoded as text if UTF-8.",
)
@click.option(
    "--partition-by",
    metavar="A,B,...",
    callback=_names,
    help="Parquet files in folders by topic, queue_id or day, for example topic,day.",
)
@filter_options
@store_options
@engine_options
@csv_raw_option
@view_options
@rate_limit_option
def command(
    store: Path | str,
    out: Path | str,
    file_format: str,
    columns: tuple[str, ...] | None,
    body: str,
    partition_by: tuple[str, ...] | None,
    filters: Filters,
    broker_conf: Path | None,
    settings: dict[str, str],
    wish: EngineOptions,
    view: View,
) -> None:
    """Write the messages of STORE to files in OUT, a directory or a URI, one or more for each piece of the log, in the order of the log.

    The fields of a message are those of `rmqstore dump --format json`. An interrupted export is continued by the same command: the
    files in OUT stay. Damage does not stop the export; it is summarised at the end. Run `rmqstore verify` for details.

    STORE may be a URI (s3, gs, hdfs), of which only the ranges that are needed are fetched; each worker of Spark fetches its own. Files for
    a URI are written to TMPDIR first, of one piece at a time.
    """
    from rmqstore.pipeline.engine import EXPORT, choose
    from rmqstore.pipeline.export.destination import DirectoryDestination
    from rmqstore.pipeline.export.objects import ObjectDestination
    from rmqstore.pipeline.export.request import Body, ExportRequest, Format
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.pipeline.tables.message_parts import wanted_pieces
    from rmqstore.scan.compilation import compile_kernels

    started = time.monotonic()
    request = ExportRequest.of(Format(file_format), columns, Body(body), partition_by or (), filters, csv_raw=view.csv_raw)
    with ExitStack() as stack:
        at = StoreAt.of(store, broker_conf, settings)
        pieces = wanted_pieces(at, request.conditions)
        place: Destination
        if isinstance(out, str):
            target, place = out, ObjectDestination(out, at.open(), request, pieces)
        else:
            target, place = str(out.absolute()), DirectoryDestination(out.absolute(), at.open(), request, pieces)
        destination = stack.enter_context(place)
        missing = destination.missing(pieces)
        _note_begun(len(pieces) - len(missing), len(pieces), view)
        choice = choose(wish, sum(piece.size for piece in missing), EXPORT)
        if choice.engine == "local":
            compile_kernels(quiet=view.quiet)
        _run(destination, missing, request, target, choice, wish, view)
        sums = destination.finish()
    engine = {"engine": choice.engine, "engine_because": choice.why, "seconds": round(time.monotonic() - started, 3)}
    view.output().summary({**sums, **engine})
    _note_damage(sums, view)
    view.verdict_of_data(f"EXPORTED {sums['messages']} messages")


def _run(
    destination: Destination,
    missing: Sequence[LogPiece],
    request: ExportRequest,
    out: str,
    choice: Choice,
    wish: EngineOptions,
    view: View,
) -> None:
    from rmqstore.pipeline.engine import runner_of
    from rmqstore.pipeline.export.attempt import PieceDone
    from rmqstore.pipeline.export.job import ExportJob

    if not missing:
        return
    on_interrupt(lambda: f"{len(destination.done)} pieces of the log are exported; run the same command to continue")
    with view.progress("export", sum(piece.size for piece in missing) or None) as bar:
        runner = runner_of(choice, wish)
        for start in range(0, len(missing), PIECES_OF_A_RUN):
            job = ExportJob(missing[start : start + PIECES_OF_A_RUN], request, out, uuid.uuid4().hex)
            for _, data in runner.run(job, bar.advance):
                destination.publish(PieceDone.unpack(data))


def _note_begun(there: int, pieces: int, view: View) -> None:
    from rmqstore.render.progress import note

    if there:
        rest = "nothing is left to do" if there == pieces else "continuing with the rest"
        note(f"{there} of {pieces} pieces of the log exist already; {rest}.", quiet=view.quiet)


def _note_damage(sums: dict[str, Any], view: View) -> None:
    from rmqstore.render.progress import note

    if sums["damaged_ranges"]:
        ranges = "range" if sums["damaged_ranges"] == 1 else "ranges"
        note(
            f"{sums['damaged_ranges']} damaged {ranges}, {sums['damaged_bytes']} bytes; run `rmqstore verify` for details", quiet=view.quiet
        )
