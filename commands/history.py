"""`rmqstore history`: list the changes made to a store, and how to undo them."""

from __future__ import annotations

from pathlib import Path

import click

from rmqstore.commands.common import NOTHING_TO_DO, View, output_options, store_argument, write_list

COLUMNS = ("id", "state", "command", "actions", "lost", "kept_bytes", "undo", "problem")
EXIT_DAMAGED = 1


@click.command("history", short_help="List the changes made to a store, and how to undo them.")
@store_argument
@output_options
def command(store: Path, view: View) -> None:
    """List the transactions of STORE, oldest first: state, command, actions, lost messages, bytes kept, and the command that undoes it.

    A damaged transaction, or a directory that is not one, is listed with what is wrong with it, and ends the command with status 1.
    Commands that change the store refuse to run until it is moved out of STORE/.rmqstore.
    """
    from rmqstore.repair.transaction.folder import State
    from rmqstore.repair.transaction.history import history
    from rmqstore.store.kinds.recognise import require_directory

    root = store.absolute()
    require_directory(root)
    entries = history(root)
    damaged = any(entry.state is State.DAMAGED for entry in entries)
    step = f"Move what is damaged out of {root / '.rmqstore'}, and keep it." if damaged else NOTHING_TO_DO
    write_list(view, "change", [entry.as_json() for entry in entries], None if view.format == "json" else COLUMNS, step)
    if damaged:
        click.get_current_context().exit(EXIT_DAMAGED)
