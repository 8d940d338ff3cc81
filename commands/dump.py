"""`rmqstore dump`: decode any file or part of a store."""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqstore.commands import denied
from rmqstore.commands.common import View, on_interrupt, output_options, store_options
from rmqstore.commands.engines import at_hand_until_the_end, path_or_uri_argument
from rmqstore.commands.filters import filter_options

if TYPE_CHECKING:
    from rmqstore.dump.items import Watched
    from rmqstore.dump.request import Filters
    from rmqstore.dump.target import Target

_PARTS = (
    "commitlog",
    "consumequeue",
    "consumequeue_ext",
    "batchconsumequeue",
    "index",
    "checkpoint",
    "abort",
    "lock",
    "timerwheel",
    "timerlog",
    "timercheck",
    "epoch",
    "dledger",
    "dledger_index",
    "compaction",
    "compaction_log",
    "compaction_queue",
    "tiered_index",
    "properties",
    "json",
    "rocksdb",
)


@click.command("dump", short_help="Decode any file or part of a store.")
@path_or_uri_argument
@click.option("--part", type=click.Choice(_PARTS), help="Part of a root, or kind of a file; determined from PATH if not given.")
@filter_options
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N objects.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="The last N objects.")
@click.option("--body", type=click.Choice(["none", "text", "hex", "base64"]), default="none", show_default=True, help="Show bodies.")
@click.option("--decompress", is_flag=True, help="Decompress bodies (zlib, LZ4, Zstandard; up to 32 MiB each).")
@click.option("--slots", is_flag=True, help="Also print the hash slots of index files.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads for a large log; one per processor if not given.")
@store_options
@output_options
def command(
    path: Path | str,
    part: str | None,
    broker_conf: Path | None,
    settings: dict[str, str],
    view: View,
    threads: int | None,
    filters: Filters,
    limit: int | None,
    tail: int | None,
    body: str,
    decompress: bool,
    slots: bool,
) -> None:
    """Decode a store: PATH is a root (its commit log, or the part that --part names), a directory of a part, queue or RocksDB
    database, or one file.

    Damage does not end the dump: it is shown as an object of its own with range and reason, and the dump continues with the next plausible
    record. The exit status is still 0; run `rmqstore verify` for a verdict. Files and directories of PATH without read permission are
    findings at the end, and the exit status is 1. PATH may be the URI of a store (s3, gs, hdfs), of which only the ranges that are
    needed are fetched.
    """
    from rmqstore.dump.items import Watched
    from rmqstore.dump.request import BodyForm, Request
    from rmqstore.dump.run import Engine, dump
    from rmqstore.dump.target import find_readable_target

    request = Request(filters, limit, tail, BodyForm(body), decompress, slots)
    engine = Engine(threads, partial(_compile, view))
    with ExitStack() as stack:
        target = find_readable_target(at_hand_until_the_end(path), part, broker_conf, settings, filters, stack)
        _print(Watched(dump(target, request, engine)), target, view)
        denied.report(target.denied, view)


def _compile(view: View) -> None:
    from rmqstore.render.progress import note
    from rmqstore.scan import machinecode

    note(machinecode.COMPILING, quiet=view.quiet)
    machinecode.load(quiet=True)


def _print(items: Watched, target: Target, view: View) -> None:
    from rmqstore.dump.items import objects, write_json
    from rmqstore.dump.shapes import columns, is_tree
    from rmqstore.terminal import line_sink
    from rmqstore.wording import counted

    on_interrupt(lambda: f"{items.count} objects were written")
    to_terminal = sys.stdout.isatty()
    with nullcontext() if to_terminal else view.progress("dump", None, unit="objects") as bar:
        items.advance = None if bar is None else bar.advance
        if view.format == "json":
            write_json(items, line_sink(sys.stdout))
        elif is_tree(target.kind):
            output = view.output(data=True)
            for value in objects(items):
                output.object(value)
        else:
            view.output(data=True).rows(objects(items), columns(target.kind, view.format))
    if items.damages:
        ranges = "range" if items.damages == 1 else "ranges"
        view.verdict_of_data(
            f"DAMAGED: {items.damages} damaged {ranges}, {items.damaged_bytes} bytes; run `rmqstore verify` for details", bad=True
        )
    else:
        view.verdict_of_data(f"DUMPED {counted(items.count, 'object')}")
