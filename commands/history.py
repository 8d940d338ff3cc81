"""`rmqstore history`: what was done to a store, and how to take it back."""

from __future__ import annotations

from pathlib import Path

import click

from rmqstore.commands.common import View, output_options, store_argument

COLUMNS = ("id", "state", "command", "actions", "lost", "kept_bytes", "undo")


@click.command("history", short_help="What was done to a store, and how to take it back.")
@store_argument
@output_options
def command(store: Path, view: View) -> None:
    """List the transactions of STORE, oldest first: state, command, actions, messages given up, bytes kept, and the command that takes it
    back.
    """
    from rmqstore.repair.history import history
    from rmqstore.store.recognise import demand_directory

    root = store.absolute()
    demand_directory(root)
    view.output().rows((entry.as_json() for entry in history(root)), None if view.format == "json" else COLUMNS)
