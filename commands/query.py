"""`rmqstore query`: find single messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqstore.commands.common import View, output_options, store_options
from rmqstore.commands.engines import open_at_hand, store_or_uri_argument

if TYPE_CHECKING:
    from rmqstore.query.search import Report

_NOT_FOUND = 1


@click.command("query", short_help="Find messages by key, message id, queue offset, time or physical offset.")
@store_or_uri_argument
@click.option("--key", metavar="KEY", help="Messages with this key, one of KEYS or the unique key.")
@click.option("--unique-key", metavar="ID", help="Messages with this unique key, the message id of the client.")
@click.option("--offset-id", metavar="ID", help="The message with this offset message id, 32 or 56 hexadecimal digits.")
@click.option("--queue", metavar="TOPIC/ID@N", help="The message with queue offset N, or those of TOPIC/ID@FROM..TO.")
@click.option("--time", metavar="FROM..TO", help="Messages stored in this time: ISO 8601 (UTC unless it has an offset) or epoch ms.")
@click.option("--physical-offset", type=click.IntRange(min=0), metavar="BYTES", help="The message that begins at this physical offset.")
@click.option("--topic", metavar="TOPIC", help="With --key, --unique-key or --time: only messages of this topic.")
@click.option("--scan", is_flag=True, help="Search the whole log, whatever the index and the queues contain.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N messages.")
@click.option("--body", type=click.Choice(["none", "text", "hex", "base64"]), default="none", show_default=True, help="Show bodies.")
@click.option("--decompress", is_flag=True, help="Decompress bodies (zlib, LZ4, Zstandard; up to 32 MiB each).")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads for a search of the log; one per processor if not given.")
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    store: Path | str,
    key: str | None,
    unique_key: str | None,
    offset_id: str | None,
    queue: str | None,
    time: str | None,
    physical_offset: int | None,
    topic: str | None,
    scan: bool,
    limit: int | None,
    body: str,
    decompress: bool,
    threads: int | None,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Find messages of STORE through the index, the queues or the order of store times.

    Parts of the log that these do not cover are searched record by record. Each message has its `way`: index, queue, time, offset or scan.
    What was searched is printed on standard error. The exit status is 1 if no message was found.
    STORE may be a URI (s3, gs, hdfs), of which only the ranges that are needed are fetched.
    """
    import sys
    from itertools import islice

    from rmqstore.dump.items import write_json
    from rmqstore.dump.request import BodyForm, Request
    from rmqstore.dump.shapes import columns
    from rmqstore.query.search import Search
    from rmqstore.query.wanted import wanted_by
    from rmqstore.store.kinds.identify import FileKind
    from rmqstore.terminal import line_sink

    wanted = wanted_by(
        key=key, unique_key=unique_key, offset_id=offset_id, queue=queue, time=time, physical_offset=physical_offset, topic=topic
    )
    request = Request(body=BodyForm(body), decompress=decompress)
    opened = open_at_hand(store, broker_conf, settings)
    search = Search(opened, wanted, request, scan=scan, threads=threads)
    found = islice(search.messages(), limit)
    if view.format == "json":
        write_json(found, line_sink(sys.stdout))
    else:
        view.output(data=True).rows(found, ("way", *(columns(FileKind.COMMITLOG, view.format) or ())))
    _report(search.report, view)
    context.exit(0 if search.report.found else _NOT_FOUND)


def _report(report: Report, view: View) -> None:
    from rmqstore.render.progress import note

    messages = "1 message" if report.found == 1 else f"{report.found or 'no'} messages"
    head = "FOUND" if report.found else "NOT FOUND"
    note(f"{head}: {messages}; searched: {'; '.join(report.searched) or 'the record at this offset'}", quiet=view.quiet)
    if report.damages:
        size = sum(length for _, length in report.damages)
        note(f"{len(report.damages)} damaged ranges ({size} bytes) in there can hide messages; run `rmqstore verify`", quiet=view.quiet)
