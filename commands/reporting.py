"""--html: the output of a command as a page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rmqstore.render.page import Page

html_option = click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False, readable=False),
    metavar="FILE",
    help="Also write the result as one page that needs no network.",
)
"""--html → `html: Path | None`."""


def write_page(path: Path, page: Page, what: str, stores: Sequence[Path | str]) -> None:
    """Write a page; `what` begins its title, which names the stores. Raises OSError."""
    from rmqstore.pipeline.publish import write_whole

    title = f"{what} of {stores[0]}" if len(stores) == 1 else f"{what} of {len(stores)} stores"
    write_whole(path, page.html(title, made()).encode("utf-8", "backslashreplace"))


def made() -> str:
    """Return the program and the present time, for the foot of a page."""
    from rmqstore import __version__
    from rmqstore.times import time_text

    return f"rmqstore {__version__}, {time_text(round(time.time()) * 1000)}"
