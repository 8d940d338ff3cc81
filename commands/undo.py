"""`rmqstore undo`: what a writing command did, taken back byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from rmqstore.commands.common import View, output_options, store_argument, store_options
from rmqstore.commands.writing import PlanDialog, dry_run_option, tell, yes_option


@click.command("undo", short_help="Take back what a writing command did to a store.")
@store_argument
@click.argument("transaction", required=False, metavar="[TRANSACTION]")
@dry_run_option
@yes_option
@store_options
@output_options
def command(
    store: Path,
    transaction: str | None,
    dry_run: bool,
    yes: bool,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Take back TRANSACTION (a name of `rmqstore history`, or its beginning), by default the last one that still stands.

    Puts back every byte, length, mode, owner and modification time. Refused when the store changed since, except after a transaction
    that was stopped in the middle. An undo is a transaction itself: named, it is taken back in turn. The settings are those with which
    the store was changed; others win over them.
    """
    from rmqstore.repair import procedure
    from rmqstore.store.brokerconf import BrokerConfig

    root = store.absolute()
    given = BrokerConfig.load(broker_conf, settings, root=root).given
    tell(view, procedure.undo(root, transaction, PlanDialog(view, yes), dry_run=dry_run, settings=given))
