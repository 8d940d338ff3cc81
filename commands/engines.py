"""Options of commands that can run on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import Decorated, parse_settings, uris_of_copies
from rmqstore.errors import RefusedError

if TYPE_CHECKING:
    from rmqstore.pipeline.engine import EngineOptions
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.repair.derived.requests import Rebuilder
    from rmqstore.store.root import Store


def paths_and_uris(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Path | str, ...]:
    """Expand patterns that the shell did not expand, and those of URIs."""
    from rmqstore.pipeline.fetching import matching, remove_copies
    from rmqstore.pipeline.filesystems import is_remote

    found: list[Path | str] = []
    for text in values:
        if is_remote(text):
            found += matching(text)
            context.call_on_close(remove_copies)
            continue
        matches = [] if Path(text).exists() or not has_magic(text) else sorted(glob(text))  # noqa: PTH207  -- patterns may be absolute
        found += map(Path, matches or [text])
    return tuple(found)


stores_argument = click.argument("stores", metavar="STORE...", nargs=-1, required=True, callback=paths_and_uris)
"""STORE... → `stores: tuple[Path | str, ...]`, text for a URI; what they are is checked by the package that opens them."""


def path_or_uri(context: click.Context, parameter: click.Parameter, text: str) -> Path | str:
    """Return a path; a URI stays a text."""
    from rmqstore.pipeline.filesystems import is_remote

    if not is_remote(text):
        return Path(text)
    from rmqstore.pipeline.fetching import remove_copies

    context.call_on_close(remove_copies)
    return text


store_or_uri_argument = click.argument("store", callback=path_or_uri)
"""STORE → `store: Path | str`, text for a URI."""
path_or_uri_argument = click.argument("path", callback=path_or_uri)
"""PATH → `path: Path | str`, text for a URI."""


def at_hand_until_the_end(store: Path | str, *, by_range: bool = True) -> Path:
    """Return a path of a store: that of a copy for a URI, until the command ends; output names the URI.

    `by_range`: large files are fetched as this process reads them. Raises UsageError, NotAStoreError, UnreadableError.
    """
    if isinstance(store, Path):
        return store
    from rmqstore.pipeline.job import StoreAt
    from rmqstore.pipeline.remote import at_hand

    path = click.get_current_context().with_resource(at_hand(StoreAt(store), by_range=by_range)).path
    uris_of_copies()[path] = store
    return Path(path)


def open_at_hand(store: Path | str, broker_conf: Path | None, settings: Mapping[str, str]) -> Store:
    """Open a store by its path or URI, until the command ends. Raises UsageError, NotAStoreError, UnreadableError."""
    from rmqstore.store.root import Store

    return Store.open(at_hand_until_the_end(store), broker_conf=broker_conf, settings=settings)


def spark_options(command: Decorated) -> Decorated:
    """--master and --spark-conf → `master: str | None`, `spark_conf: dict[str, str]`."""
    command = click.option(
        "--spark-conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=parse_settings,
        help="A setting of Spark, as for spark-submit. May be repeated.",
    )(command)
    return click.option("--master", metavar="URL", help="Where Spark runs, as for spark-submit; default: all of this machine.")(command)


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--engine, --master, --spark-conf and --threads → `wish: Wish`."""

    @wraps(command)
    def with_wish(*arguments: Any, engine: str, master: str | None, spark_conf: dict[str, str], threads: int | None, **options: Any) -> Any:
        return command(*arguments, wish=_wish(engine, master, spark_conf, threads), **options)

    with_wish = click.option(
        "--threads",
        type=click.IntRange(min=1, max=64),
        metavar="N",
        help="Files read at a time; one per processor if not given.",
    )(with_wish)
    return click.option(
        "--engine",
        type=click.Choice(["auto", "local", "spark"]),
        default="auto",
        show_default=True,
        help="local: threads of this process; spark; auto: whichever is expected to finish first.",
    )(spark_options(with_wish))


def rebuild_engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--work-dir, --engine, --master, --spark-conf and --threads → `wish: Wish`."""

    @wraps(command)
    def with_directory(*arguments: Any, wish: EngineOptions, work_dir: str | None, **options: Any) -> Any:
        return command(*arguments, wish=replace(wish, work_directory=work_dir), **options)

    with_directory = click.option(
        "--work-dir",
        metavar="PATH|URI",
        help="Where tasks of Spark leave what they read and build for each other; default: a directory of the store, or with --dry-run of "
        "TMPDIR, which hosts with executors have to share then.",
    )(with_directory)
    return engine_options(with_directory)


def _wish(engine: str, master: str | None, conf: dict[str, str], threads: int | None) -> EngineOptions:
    from rmqstore.pipeline.engine import EngineOptions

    return EngineOptions(engine, master, conf, threads)


def rebuilder_of(wish: EngineOptions, store: Store, at: StoreAt) -> Rebuilder | None:
    """Return the rebuilder of queues and index, None for this process. Raises RefusedError if Spark cannot be started or used."""
    from rmqstore.pipeline.engine import REBUILD, choose, runner_of
    from rmqstore.repair.files import rights

    if rights.are_reduced_for(store.root):
        # Processes of Spark cannot take on the permissions of the owner of the store.
        if wish.engine == "spark":
            raise RefusedError(f"{store.root} belongs to another user, whose permissions Spark cannot take on.", "Run this as that user.")
        return None
    if wish.work_directory is not None:
        from rmqstore.pipeline.rebuild.exchange import require_outside

        require_outside(wish.work_directory, store)
    choice = choose(wish, store.message_log.length, REBUILD)
    if choice.engine == "local":
        return None
    runner = runner_of(choice, wish)
    # Slow imports happen while Spark starts; for this reason commands request their rebuilder first.
    from rmqstore.pipeline.rebuild.jobs import DistributedRebuild

    return DistributedRebuild(runner, at, work_directory=wish.work_directory)
