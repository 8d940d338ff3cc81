"""The option to read slowly, for a machine that runs a broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from rmqstore.errors import UsageError

if TYPE_CHECKING:
    from rmqstore.pipeline.engine import EngineOptions

_MEGABYTE = 1_000_000


def rate_limit_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--rate-limit; a command with `engine_options` above it runs in this process then."""

    @wraps(command)
    def with_limit(*arguments: Any, rate_limit: float | None, **options: Any) -> Any:
        if rate_limit is None:
            return command(*arguments, **options)
        wish: EngineOptions | None = options.get("wish")
        if wish is not None:
            if wish.engine == "spark":
                raise UsageError("--rate-limit is for the local engine.", "Leave out --engine spark, or the limit.")
            options["wish"] = replace(wish, engine="local")
        from rmqstore.store.pacing import paced

        with paced(rate_limit * _MEGABYTE):
            return command(*arguments, **options)

    return click.option(
        "--rate-limit",
        type=click.FloatRange(min=0, min_open=True),
        metavar="MB/S",
        help="Read at most so many megabytes a second, with idle I/O priority, and leave the page cache as it is: beside a running broker.",
    )(with_limit)
