"""`rmqstore diff`: compare stores that should be copies of one another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import NOTHING_TO_DO, View, output_options, store_options
from rmqstore.commands.engines import engine_options, paths_and_uris
from rmqstore.commands.pacing import rate_limit_option

if TYPE_CHECKING:
    from rmqstore.diff.comparison import Comparison
    from rmqstore.diff.copies import Copy
    from rmqstore.pipeline.engine import EngineOptions
    from rmqstore.pipeline.job import StoreAt

_DIFFERENT = 1
_ROWS = 20
"""Rows of a section that text output shows."""
_SECTIONS = ("records", "queues", "offsets", "topics", "groups", "timers", "not_compared")


@click.command("diff", short_help="Compare stores that should be copies: master and slave, a store and its backup.")
@click.argument("stores", metavar="STORE OTHER...", nargs=-1, required=True, callback=paths_and_uris)
@click.option("--deep", is_flag=True, help="Compare all bytes of the logs; otherwise samples, where they share more than 64 MiB.")
@engine_options
@rate_limit_option
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    stores: tuple[Path | str, ...],
    deep: bool,
    wish: EngineOptions,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Compare STORE with each OTHER: the logs up to the first differing byte, epochs, queues, index, consumer offsets, topics, groups and
    messages that wait for their time.

    The verdict comes first. It names what was not compared. The exit status is that of the logs: 0 if no difference was found – they are
    the same, or one continues the other –, 1 if they differ. Nothing is written. A store may be a URI (s3, gs, hdfs), of which
    ranges are fetched.
    """
    from rmqstore.diff.copies import Copy
    from rmqstore.pipeline.job import StoreAt

    if len(stores) == 1:
        raise click.UsageError("Missing argument 'OTHER...'.")
    places = [StoreAt.of(store, broker_conf, settings) for store in stores]
    copies = [Copy.of(store, at.open()) for store, at in zip(stores, places, strict=True)]
    agree = [_compared(view, wish, deep, (places[0], at), (copies[0], other)) for at, other in zip(places[1:], copies[1:], strict=True)]
    context.exit(0 if all(agree) else _DIFFERENT)


def _compared(view: View, wish: EngineOptions, deep: bool, places: tuple[StoreAt, StoreAt], copies: tuple[Copy, Copy]) -> bool:
    """Print the comparison of two copies, and return whether they agree."""
    import time

    from rmqstore.diff.comparison import compare
    from rmqstore.pipeline.diff import passes_of
    from rmqstore.pipeline.engine import DIFF, choose, runner_of

    first, second = copies
    total = max(0, min(first.end, second.end) - max(first.begin, second.begin))
    passes = passes_of(runner_of(choose(wish, total if deep else 0, DIFF), wish), places, first.store, second.store)
    with view.progress("diff", total if deep and total else None) as bar:
        found = compare(first, second, deep=deep, now=int(time.time() * 1000), passes=passes, advance=bar.advance)
    output = view.output()
    output.verdict(f"{found.relation.upper()}: {found.verdict}")
    output.object(found.as_json() if view.format == "json" else _shown(found))
    output.next(found.command or NOTHING_TO_DO)
    return found.agree


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
    sections = {name: value[name] for name in _SECTIONS if value[name]}
    left_out = {name: f"the first {_ROWS} of {len(rows)}; --format json has all" for name, rows in sections.items() if len(rows) > _ROWS}
    sections = {name: _timed(rows[:_ROWS]) for name, rows in sections.items()}
    return labelled(shown | sections | ({"left_out": left_out} if left_out else {}))


def _timed(rows: list[Any]) -> list[Any]:
    """Return rows with times, in ms since epoch, under a name by which they are shown as such."""
    names = {"due": "due_timestamp"}
    return [{names.get(name, name): cell for name, cell in row.items()} if isinstance(row, dict) else row for row in rows]
