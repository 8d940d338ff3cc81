"""Findings at the end of a command's output for files that it could not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rmqstore.commands.common import View

if TYPE_CHECKING:
    from rmqstore.render.output import Output
    from rmqstore.store.access import Denied
    from rmqstore.store.root import Store

EXIT_FINDINGS = 1


def report(denied: Sequence[Denied], view: View) -> None:
    """Print a finding for every file and directory, and end with status 1 if there is one."""
    show(denied, view.output())
    end(denied)


def show(denied: Sequence[Denied], output: Output) -> None:
    """Print a finding for every file and directory."""
    if not denied:
        return
    from rmqstore.catalogue import finding

    for one in denied:
        output.finding(finding("RMQ-ST-UNREADABLE", one.message, file=one.file, mend=f"Next: {one.command}"))


def end(denied: Sequence[Denied]) -> None:
    """End the command with status 1 if there is such a file."""
    if denied:
        click.get_current_context().exit(EXIT_FINDINGS)


def require_readable(store: Store) -> None:
    """Refuse a plan that depends on a file without read permission. Raises UnreadableError."""
    from rmqstore.errors import UnreadableError
    from rmqstore.prediction.needed import decides
    from rmqstore.store.access import denied_entries
    from rmqstore.store.mapped import skipping_denied

    with skipping_denied():
        needed = [one for one in denied_entries(store.reopened()) if decides(one)]
    if needed:
        more = f" (and {len(needed) - 1} more)" if len(needed) > 1 else ""
        raise UnreadableError(f"{needed[0].message}{more}; a plan without it would lose its content.", f"First run {needed[0].command}")
