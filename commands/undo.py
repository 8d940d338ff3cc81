"""`rmqstore undo`: undo the changes of a writing command byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from rmqstore.commands.common import View, output_options, store_argument, store_options
from rmqstore.commands.writing import PlanDialog, doctor_of, dry_run_option, tell, without_dry_run, yes_option


@click.command("undo", short_help="Undo the changes of a writing command.")
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
    """Undo TRANSACTION (a name of `rmqstore history`, or its beginning), by default the last one that is not undone.

    Restores every byte, length, mode, owner and modification time. Refused if the store has changed since, except after an interrupted
    transaction. An undo is a transaction itself and can be undone by its name. The settings are those with which the store was changed;
    settings given here take precedence.
    """
    from rmqstore.repair import procedure
    from rmqstore.store.brokerconf import BrokerConfig

    root = store.absolute()
    given = BrokerConfig.load(broker_conf, settings, root=root).given
    result = procedure.undo(root, transaction, PlanDialog(view, yes), dry_run=dry_run, settings=given)
    tell(view, result, without_dry_run() if dry_run else doctor_of(result.plan))
