"""`rmqstore recover --dry-run`: what a broker will do to this store at its next start, without touching a byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands.common import View, broker_version_option, output_options, store_argument, store_options
from rmqstore.errors import UsageError

if TYPE_CHECKING:
    from rmqstore.recovery.whatif import Compared

EXIT_HARM = 1


@click.command("recover", short_help="What a broker will do to this store at its next start.")
@store_argument
@click.argument("tried", nargs=-1, metavar="")
@click.option("--dry-run", is_flag=True, help="Predict only; nothing is written.")
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="NAME=VALUES",
    help="Compare ways to start: abort=present,absent checkpoint=kept,removed version=all (or releases with commas).",
)
@broker_version_option
@store_options
@output_options
@click.pass_context
def command(
    context: click.Context,
    store: Path,
    tried: tuple[str, ...],
    dry_run: bool,
    what_if: tuple[str, ...],
    broker_version: str,
    broker_conf: Path | None,
    settings: Mapping[str, str],
    view: View,
) -> None:
    """Predict what a broker of --broker-version does to STORE at its next start: whether it starts, what it keeps and what it throws away.

    Only --dry-run is there so far. Ends with status 1 when the broker does not start or messages are lost. With --what-if several ways to
    start are compared and the least harmful one is named.
    """
    if not dry_run:
        raise UsageError("recover only predicts so far, it changes nothing.", "Add --dry-run.")
    if tried and not what_if:
        raise UsageError(f"{tried[0]!r} is one argument too many.", "Name one store; ways to start are named behind --what-if.")
    from rmqstore.recovery.release import choose_release
    from rmqstore.recovery.whatif import compare, least_harmful, parse_variants, why_least
    from rmqstore.scan.firstuse import prepare
    from rmqstore.store.root import Store

    opened = Store.open(store, broker_conf=broker_conf, settings=settings)
    chosen = choose_release(opened, broker_version)
    variants = parse_variants([*what_if, *tried], chosen.release)
    prepare(quiet=view.quiet)
    results = []
    for result in compare(opened, variants):
        results.append(result)
        if view.format != "table":
            view.output().object(_json(result, opened.root, chosen.because))
    best = least_harmful(results)
    if view.format == "table":
        if len(results) == 1:
            view.output().object(for_people(best, opened.root, chosen.because))
        else:
            view.output().rows(comparison(results))
            view.output().summary({"least harmful": _words(best), "because": why_least(results, best)})
    elif len(results) > 1:
        view.output().object({"type": "comparison", "least_harmful": best.variant.label, "because": why_least(results, best)})
    if best.harm[:2] != (0, 0):
        context.exit(EXIT_HARM)


def _json(result: Compared, root: Path, because: str) -> dict[str, Any]:
    from rmqstore.recovery.report import as_json

    return {**as_json(result.outcome, root, result.consequences), "version_because": because, "what_if": result.variant.label}


def for_people(result: Compared, root: Path, because: str) -> dict[str, Any]:
    """The prediction as the words and tables of the screen."""
    from rmqstore.render.times import time_range
    from rmqstore.store.parts import relative_to_root

    outcome, consequences = result.outcome, result.consequences
    screen: dict[str, Any] = {
        "broker": f"{outcome.release} ({because})",
        "recovery": f"{outcome.mode}: abort is {'there' if outcome.mode == 'abnormal' else 'not there'}",
        "starts": {True: "yes", False: "no", None: "unknown"}[outcome.starts],
    }
    if outcome.unknown is not None:
        screen["unknown because"] = outcome.unknown
    if outcome.scan is not None:
        scan = outcome.scan
        screen["scan"] = f"{scan.records} records from {scan.first_file} on, up to offset {scan.stop_offset}: {scan.stop_reason}"
    state = outcome.after_start or outcome.after_load
    if state.min_phy_offset is not None and state.max_phy_offset is not None:
        screen["log afterwards"] = f"offsets {max(0, state.min_phy_offset)} to {state.max_phy_offset}"
    screen["dispatched"] = "unknown" if outcome.dispatched_in_load is None else _dispatched(outcome)
    if outcome.lost is not None:
        screen["lost"] = f"{outcome.lost.messages} messages, {outcome.lost.bytes} bytes"
    screen["files deleted"] = sum(1 for change in outcome.changes.values() if change == "deleted")
    screen["abort after a stop"] = "there" if outcome.abort_after_stop else "gone"
    if outcome.blockers:
        screen["does not start because"] = [
            {"what": blocker.message, "file": "" if blocker.file is None else relative_to_root(blocker.file, root)}
            for blocker in outcome.blockers
        ]
    if outcome.lost is not None and outcome.lost.by_queue:
        screen["messages lost"] = [
            {
                "topic": queue.topic,
                "queue": queue.queue_id,
                "messages": queue.messages,
                "bytes": queue.bytes,
                "offsets": f"{queue.min_queue_offset} to {queue.max_queue_offset}",
                "stored": time_range(queue.min_store_timestamp, queue.max_store_timestamp),
            }
            for queue in outcome.lost.by_queue
        ]
    if consequences.queues:
        screen["queues harmed"] = [
            {
                "topic": queue.topic,
                "queue": queue.queue_id,
                "fate": str(queue.fate),
                "end before": queue.before,
                "end after": queue.after,
                "shifted by": queue.shift,
            }
            for queue in consequences.queues
        ]
    if consequences.index:
        screen["index deleted"] = [
            {"file": file.name, "items": file.items, "stored": time_range(file.begin_timestamp, file.end_timestamp)}
            for file in consequences.index
        ]
    if consequences.consumers:
        screen["consumers beyond the end"] = [
            {
                "group": consumer.group,
                "topic": consumer.topic,
                "queue": consumer.queue_id,
                "offset": consumer.offset,
                "end": consumer.max_offset,
            }
            for consumer in consequences.consumers
        ]
    deleted = [{"path": path} for path, change in outcome.changes.items() if change == "deleted"]
    if deleted:
        screen["deleted"] = deleted
    return screen


def _dispatched(outcome: Any) -> str:
    after = outcome.dispatched_after_start
    return f"{outcome.dispatched_in_load.count} during load, {0 if after is None else after.count} after the start"


def comparison(results: list[Compared]) -> list[dict[str, Any]]:
    """One row for each way to start."""
    rows = []
    for result in results:
        outcome, harm = result.outcome, result.harm
        rows.append(
            {
                **result.variant.label,
                "recovery": str(outcome.mode),
                "starts": {True: "yes", False: "no", None: "unknown"}[outcome.starts],
                "scan from": "" if outcome.scan is None else outcome.scan.first_file,
                "log end": "" if outcome.after_load.max_phy_offset is None else outcome.after_load.max_phy_offset,
                "dispatched": "" if outcome.dispatched_in_load is None else outcome.dispatched_in_load.count,
                "lost": harm[1],
                "entries": result.entries,
                "shifted": harm[3],
                "offsets twice": harm[4],
                "index items lost": harm[5],
            }
        )
    return rows


def _words(result: Compared) -> str:
    label = result.variant.label
    return f"{label['version']}, abort {label['abort']}, checkpoint {label['checkpoint']}"
