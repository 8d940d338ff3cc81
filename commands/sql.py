"""`rmqstore sql`: query a store in SQL, in this process or on Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, on_interrupt, output_options, store_options
from rmqstore.commands.engines import engine_options, store_or_uri_argument
from rmqstore.errors import RmqstoreError

if TYPE_CHECKING:
    from rmqstore.pipeline.engine import EngineOptions
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.pipeline.sqlresult import Result
    from rmqstore.reading.progress import Advance

    Engine = Callable[[str, Advance], Result]
    """Runs a statement, with the report of progress."""


@click.command("sql", short_help="Query a store in SQL: messages, consume queues, index, timer, findings.")
@store_or_uri_argument
@click.argument("statement", required=False)
@engine_options
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    store: Path | str,
    statement: str | None,
    wish: EngineOptions,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Answer STATEMENT from the tables of STORE: messages, consumequeue, index, timer, findings, topics, queues, consumer_groups,
    consumer_offsets, delay_offsets, checkpoint, log_files. Without one, statements are read from standard input, each up to a
    semicolon at the end of a line; on a terminal at a prompt with a history.

    This process answers, in the SQL of DuckDB; --engine spark, --master and --spark-conf let Spark answer, in its own.
    Only statements that read are possible: select, with, values, describe, show, explain. `describe TABLE` lists the columns of a table.
    Only what a query needs is read: its columns, and files that can hold the offsets, times, topics and queues that it selects.
    STORE may be a URI (s3, gs, hdfs), of which only the ranges that are needed are fetched; each worker of Spark fetches its own.

    \b
    rmqstore sql STORE "select topic, count(*) from messages group by topic"
    rmqstore sql STORE "select tags, properties from messages where physical_offset = 1024"
    """
    from rmqstore.pipeline.engine import chosen_for_sql
    from rmqstore.pipeline.job import StoreAt

    is_local = chosen_for_sql(wish) == "local"
    at = StoreAt.of(store, broker_conf, settings)
    at.open()
    run, unit = _local(wish, at) if is_local else _spark(wish, at)
    if statement is not None:
        _prepare(statement, view)
        _answer(statement, run, unit, view)
        return
    context.exit(_answer_all(run, unit, view))


def _local(wish: EngineOptions, at: StoreAt) -> tuple[Engine, str]:
    """Return what runs statements in this process, and the unit of its progress."""

    def run(text: str, advance: Advance) -> Result:
        from rmqstore.pipeline.sql import query

        return query(at, text, wish.cores, advance)

    return run, "bytes"


def _spark(wish: EngineOptions, at: StoreAt) -> tuple[Engine, str]:
    """Return what runs statements on Spark, which begins to start here, and the unit. Raises UsageError, RefusedError."""
    from rmqstore.pipeline.spark.session import begin_session

    # Slow imports happen while Spark starts.
    session = begin_session(wish.master, {"spark.sql.session.timeZone": "UTC", **wish.conf})

    def run(text: str, advance: Advance) -> Result:
        from rmqstore.pipeline.spark.sql import query

        return query(session(), at, text, advance)

    return run, "tasks"


def _answer_all(run: Engine, unit: str, view: View) -> int:
    """Answer the statements of standard input; return the exit status, on a terminal 0, else that of the first one that is wrong."""
    from rmqstore.commands.sql_prompt import statements
    from rmqstore.render.progress import note

    status = 0
    for text in statements():
        try:
            _prepare(text, view)
            _answer(text, run, unit, view)
        except RmqstoreError as error:
            note(f"error: {error.message}")
            note(f"hint: {error.hint}")
            status = status or error.exit_status
    return 0 if sys.stdin.isatty() else status


def _answer(statement: str, run: Engine, unit: str, view: View) -> None:
    to_terminal = sys.stdout.isatty()
    count = 0
    on_interrupt(lambda: f"{count} rows were written")
    with ExitStack() as shown:
        bar = shown.enter_context(view.progress("sql", None, unit=unit))
        result = run(statement, bar.advance)

        def counted() -> Iterator[Mapping[str, Any]]:
            nonlocal count
            for row in result.rows:
                if to_terminal and not count:
                    shown.close()
                count += 1
                yield row

        view.output(data=True, plain=True).rows(counted(), result.columns)
        view.verdict_of_data(f"ANSWERED: {count} {'row' if count == 1 else 'rows'}")


def _prepare(statement: str, view: View) -> None:
    """Compile what reading messages needs, with a note, before an engine would do so without one."""
    from rmqstore.pipeline.tables.registry import named_in

    if {"messages", "findings"} & set(named_in(statement)):
        from rmqstore.scan.compilation import compile_kernels

        compile_kernels(quiet=view.quiet)
