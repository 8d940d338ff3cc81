"""`rmqstore explain`: what a finding code means, what each broker release does with it, and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rmqstore.commands.common import View, output_options
from rmqstore.errors import UsageError


@click.command("explain", short_help="What a finding code means, what brokers do with it, how to mend it.")
@click.argument("codes", nargs=-1, metavar="CODE...")
@click.option("--list", "list_all", is_flag=True, help="All codes with severity and title.")
@output_options
def command(codes: tuple[str, ...], list_all: bool, view: View) -> None:
    """Explain finding codes such as RMQ-CL-CRC: what it means, what a broker of each release does with it, how to mend it.

    Case does not matter, and the leading RMQ- may be left out.
    """
    from rmqstore.catalogue import CATALOGUE

    if not codes and not list_all:
        raise UsageError("no finding code given", "rmqstore explain RMQ-CL-CRC; all codes: rmqstore explain --list")
    entries = [CATALOGUE[_known(code, CATALOGUE)] for code in codes]
    output = view.output()
    if list_all:
        output.rows(
            (
                {
                    "type": "code",
                    "code": entry.code,
                    "severity": str(entry.severity),
                    "after_crash": str(entry.severity_in(crashed=True)),
                    "title": entry.title,
                }
                for entry in CATALOGUE.values()
            ),
            ("code", "severity", "after_crash", "title"),
        )
    for entry in entries:
        output.explanation(entry.as_json())


def _known(code: str, catalogue: Mapping[str, Any]) -> str:
    name = code.upper()
    for candidate in (name, f"RMQ-{name}"):
        if candidate in catalogue:
            return candidate
    from difflib import get_close_matches

    close = get_close_matches(f"RMQ-{name.removeprefix('RMQ-')}", catalogue, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(close)}?" if close else "rmqstore explain --list shows all codes"
    raise UsageError(f"there is no finding code {code!r}", hint)
