"""`rmqstore stats`: count what a store holds."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import NOTHING_TO_DO, View, on_interrupt, output_options, store_options
from rmqstore.commands.engines import engine_options, stores_argument
from rmqstore.commands.pacing import rate_limit_option
from rmqstore.commands.reporting import made
from rmqstore.errors import RmqstoreError
from rmqstore.render.progress import note

if TYPE_CHECKING:
    from rmqstore.pipeline.engine import EngineOptions
    from rmqstore.pipeline.job import Runner
    from rmqstore.pipeline.stats.counts import Counts
    from rmqstore.pipeline.stats.job import StatsJob

SHOWN_VALUES = 20


@click.command("stats", short_help="Count messages and bytes by topic, queue, time, tag, host, size; reclaimable bytes.")
@stores_argument
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=SHOWN_VALUES,
    show_default=True,
    metavar="N",
    help="The N heaviest topics, queues, tags, hosts and stores; the others are summed up.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False, readable=False),
    metavar="FILE",
    help="Also write a report with plots: one page that needs no network.",
)
@store_options
@engine_options
@output_options
@rate_limit_option
@click.pass_context
def command(
    context: click.Context,
    stores: tuple[Path | str, ...],
    top: int,
    html: Path | None,
    broker_conf: Path | None,
    settings: dict[str, str],
    wish: EngineOptions,
    view: View,
) -> None:
    """Count the messages of STORE and their bytes by topic, queue, day, hour, tag, host of the producer, size and compression.

    The last table divides the bytes of the log: live messages, retries and dead letters, topics of the broker itself, messages that are
    past their retention time, before the start of their queue or of a deleted topic, and bytes that are not messages.

    Several stores are added up, with a table by store; one that cannot be opened is left out and named (status 4). A store may be a URI
    (s3, gs, hdfs), of which the log is read in ranges.
    """
    from rmqstore.pipeline.engine import STATS, choose, runner_of
    from rmqstore.pipeline.filesystems import is_remote
    from rmqstore.pipeline.job import StoreAt

    started = time.monotonic()
    places = [StoreAt.of(store, broker_conf, settings) for store in dict.fromkeys(stores)]
    size, status = 0, 0
    for at in [at for at in places if not is_remote(at.path)]:
        try:
            size += at.open().message_log.length
        except RmqstoreError as error:
            if len(places) == 1:  # the only one, or the last of those that cannot be opened
                raise
            # Another store is counted all the same.
            note(f"{error.message} {error.hint}")
            places.remove(at)
            status = error.exit_status
    here = [at for at in places if not is_remote(at.path)]
    choice = choose(wish, size, STATS, remote=len(here) < len(places))
    # Spark, if it is the engine, starts here, and slow imports happen meanwhile.
    runner = runner_of(choice, wish)
    from rmqstore.pipeline.stats.job import StatsJob
    from rmqstore.pipeline.stats.result import objects, summary

    job = StatsJob.over(places)
    if choice.engine == "local":
        from rmqstore.scan.compilation import compile_kernels

        compile_kernels(quiet=view.quiet)
    counts = _run(job, runner, view)
    found = list(objects(counts, top))
    sums = summary(counts, job.stores)
    engine = {"engine": choice.engine, "engine_because": choice.why, "seconds": round(time.monotonic() - started, 3)}
    if html is not None:
        _write_report(html, found, sums, stores)
    _print(found, {**sums, **engine}, view)
    context.exit(status)


def _run(job: StatsJob, runner: Runner, view: View) -> Counts:
    from rmqstore.pipeline.stats.counts import Counts

    total = sum(part.size for part in job.parts)
    covered = 0
    on_interrupt(lambda: f"counted {covered} of {total} bytes of the log")
    with view.progress("stats", total or None) as bar:

        def advance(count: int) -> None:
            nonlocal covered
            covered += count
            bar.advance(count)

        return Counts.of_results(runner.run(job, advance))


def _print(found: list[dict[str, Any]], sums: dict[str, Any], view: View) -> None:
    from rmqstore.pipeline.stats.result import FIELDS
    from rmqstore.render.bars import tables
    from rmqstore.wording import counted

    output = view.output()
    output.verdict(f"COUNTED {counted(sums['messages'], 'message')}")
    if view.format == "table":
        output.object(tables(found, plain=not (sys.stdout.encoding or "").lower().startswith("utf")))
    else:
        output.rows(found, FIELDS)
    output.summary(sums)
    output.next(NOTHING_TO_DO)


def _write_report(path: Path, found: list[dict[str, Any]], sums: dict[str, Any], stores: tuple[Path | str, ...]) -> None:
    from rmqstore.pipeline.publish import write_whole
    from rmqstore.render.report import page

    title = f"Statistics of {stores[0]}" if len(stores) == 1 else f"Statistics of {len(stores)} stores"
    write_whole(path, page(found, sums, title, made()).encode("utf-8", "backslashreplace"))
