"""`rmqstore diff`: compare stores that should be copies of one another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import NOTHING_TO_DO, View, output_options, store_options
from rmqstore.commands.pacing import rate_limit_option

if TYPE_CHECKING:
    from rmqstore.diff.comparison import Comparison

_DIFFERENT = 1
_SECTIONS = ("records", "queues", "offsets", "topics", "groups", "timers", "not_compared")


@click.command("diff", short_help="Compare stores that should be copies: master and slave, a store and its backup.")
@click.argument("first", type=click.Path(path_type=Path, readable=False), metavar="STORE")
@click.argument("others", type=click.Path(path_type=Path, readable=False), metavar="OTHER...", nargs=-1, required=True)
@click.option("--deep", is_flag=True, help="Compare all bytes of the logs; otherwise samples, where they share more than 64 MiB.")
@rate_limit_option
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    first: Path,
    others: tuple[Path, ...],
    deep: bool,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Compare STORE with each OTHER: the logs up to the first differing byte, epochs, queues, index, consumer offsets, topics, groups and
    messages that wait for their time.

    The verdict comes first. It names what was not compared. The exit status is that of the logs: 0 if no difference was found – they are
    the same, or one continues the other –, 1 if they differ. Nothing is written.
    """
    import time

    from rmqstore.diff.comparison import compare
    from rmqstore.diff.copies import Copy
    from rmqstore.store.root import Store

    copies = [Copy.of(path, Store.open(path, broker_conf=broker_conf, settings=settings)) for path in (first, *others)]
    one, agree = copies[0], True
    for other in copies[1:]:
        total = max(0, min(one.end, other.end) - max(one.begin, other.begin))
        with view.progress("diff", total if deep and total else None) as bar:
            found = compare(one, other, deep=deep, now=int(time.time() * 1000), advance=bar.advance)
        agree = agree and found.agree
        output = view.output()
        output.verdict(f"{found.relation.upper()}: {found.verdict}")
        output.object(found.as_json() if view.format == "json" else _shown(found))
        output.next(found.command or NOTHING_TO_DO)
    context.exit(0 if agree else _DIFFERENT)


def _shown(found: Comparison) -> dict[str, Any]:
    """Return what text output shows: the logs, and only the sections in which something differs."""
    from rmqstore.render.text import labelled

    value = found.as_json()
    shown = {} if value["next"] is None else {"advice": value["next"]}
    shown |= {name: value[name] for name in ("first_difference", "record", "diverged_at") if value[name] is not None}
    shown |= {name: ", ".join(f"{low} to {high}" for low, high in value[name]) for name in ("only_first", "only_second") if value[name]}
    shown |= {"compared": f"{value['compared_bytes']} of {value['common'][1] - value['common'][0]} common bytes"}
    shown |= {name: value[name] for name in ("first", "second")}
    if value["index"]["first"] != value["index"]["second"]:
        shown["index"] = [{"copy": name, **index} for name, index in value["index"].items()]
    if value["epochs"].get("first") != value["epochs"].get("second"):
        shown["epochs"] = value["epochs"]
    return labelled(shown | {name: value[name] for name in _SECTIONS if value[name]})
