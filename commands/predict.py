"""`rmqstore predict`: what a broker does to a store at its next start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from rmqstore.commands.common import View, broker_version_option, next_command, output_options, store_options
from rmqstore.commands.engines import open_at_hand, store_or_uri_argument
from rmqstore.commands.predicting import predict, what_if_option
from rmqstore.errors import UsageError


@click.command("predict", short_help="Predict what a broker does to a store at its next start.")
@store_or_uri_argument
@click.argument("tried", nargs=-1, metavar="")
@what_if_option
@broker_version_option
@store_options
@output_options
def command(
    store: Path | str,
    tried: tuple[str, ...],
    what_if: tuple[str, ...],
    broker_version: str,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Predict the next start of a broker of --broker-version on STORE: whether it starts, what it keeps and what it discards.

    Nothing is written. The exit status is 1 if the broker does not start, messages are lost or read permission is denied. With --what-if
    several ways to start are compared, and the least harmful one is named with those that are equal to it. STORE may be a URI (s3, gs,
    hdfs), of which only the ranges that are needed are fetched.
    """
    if tried and not what_if:
        raise UsageError(f"{tried[0]!r} is one argument too many.", "Name one store; ways to start are named after --what-if.")
    step = next_command("doctor", store, broker_conf, settings)
    opened = open_at_hand(store, broker_conf, settings)
    predict(opened, broker_version, [*what_if, *tried], view, step)
