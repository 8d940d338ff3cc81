"""Output of predictions: what a broker will do to a store at its next start, and a comparison of ways to start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands import denied
from rmqstore.commands.common import View
from rmqstore.commands.instead import Instead, details, side_by_side
from rmqstore.render.progress import note
from rmqstore.wording import counted

if TYPE_CHECKING:
    from rmqstore.prediction.release import Chosen
    from rmqstore.prediction.whatif import Compared, Variant
    from rmqstore.render.output import Output
    from rmqstore.store.access import Denied
    from rmqstore.store.root import Store
    from rmqstore.store.transactions import Stopped

EXIT_HARM = 1


what_if_option = click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="NAME=VALUES",
    help="Compare ways to start: abort=present,absent checkpoint=kept,removed version=all (or releases with commas).",
)
"""--what-if → `what_if: tuple[str, ...]`."""


def predict(
    store: Store, broker_version: str, what_if: Sequence[str], view: View, step: str, plan: Callable[[], Instead] | None = None
) -> None:
    """Show what a broker does, or compare the ways to start that the command line names.

    `step`: the command to run next; `plan`: what to show beside the only way to start. Harm, and files without read permission, end the
    command with status 1. Raises UsageError.
    """
    from rmqstore.prediction.release import choose_release
    from rmqstore.prediction.whatif import parse_variants
    from rmqstore.scan.compilation import compile_kernels

    chosen = choose_release(store, broker_version)
    ways = parse_variants(what_if, chosen.release)
    compile_kernels(quiet=view.quiet)
    _predict(store, ways, chosen, view, step, None if len(ways) > 1 else plan)


def _predict(store: Store, ways: Sequence[Variant], chosen: Chosen, view: View, step: str, plan: Callable[[], Instead] | None) -> None:
    from rmqstore.prediction.whatif import compare, least_harmful
    from rmqstore.store.access import denied_entries
    from rmqstore.store.again import try_again
    from rmqstore.store.mapped import skipping_denied
    from rmqstore.store.transactions import read_transactions

    def look() -> tuple[Sequence[Denied], list[Compared]]:
        # What is listed here is incomplete, and other readers must not get it.
        seen = store.reopened()
        not_read = denied_entries(seen)
        return not_read, list(compare(seen, ways, not_read))

    with skipping_denied():
        not_read, results = try_again(look)
        stopped = read_transactions(store.root).stopped
    instead = None if plan is None else plan()
    output = view.output()
    least = least_harmful(results, chosen.release, abort=store.abort_present)
    if view.format == "table":
        if stopped is not None:
            note(f"warning: {stopped.message}. {stopped.hint}")
        _show(results, least, store.root, chosen, instead, output)
    else:
        for result in results:
            output.object(_json(result, store.root, chosen.because, stopped, instead))
        if len(results) > 1:
            output.object(_comparison(results, least, chosen.release))
    denied.show(not_read, output)
    output.next(step)
    denied.end(not_read)
    if least[0].harm[:2] != (0, 0):
        click.get_current_context().exit(EXIT_HARM)


def _show(results: list[Compared], least: Sequence[Compared], root: Path, chosen: Chosen, instead: Instead | None, output: Output) -> None:
    """Write one result, with a plan beside it, or which of several do the least harm."""
    from rmqstore.prediction.whatif import why_least

    if len(results) == 1:
        output.verdict(headline(least[0]))
        screen = for_people(least[0], root, chosen.because)
        if instead is None:
            output.object(screen)
        else:
            beside = side_by_side(least[0], instead)
            output.object({**({"side by side": beside} if beside else {}), "a start": screen, "recover instead": details(instead)})
        return
    output.verdict(f"LEAST HARMFUL OF {len(results)} WAYS: {_words(least[0])}")
    output.rows(comparison(results))
    equal = {} if len(least) == 1 else {"equal to it": [{"way": _words(one)} for one in least[1:]]}
    output.summary({"least harmful": _words(least[0]), **equal, "because": why_least(results, least[0], chosen.release)})


def _comparison(results: Sequence[Compared], least: Sequence[Compared], release: str) -> dict[str, Any]:
    from rmqstore.prediction.whatif import why_least

    labels = [one.variant.label for one in least]
    because = why_least(results, least[0], release)
    return {"type": "comparison", "least_harmful": labels[0], "equal": labels[1:], "because": because}


def _json(result: Compared, root: Path, because: str, stopped: Stopped | None, instead: Instead | None) -> dict[str, Any]:
    from rmqstore.prediction.report import as_json

    return {
        **as_json(result.outcome, root, result.consequences),
        "version_because": because,
        "what_if": result.variant.label,
        "unfinished": None if stopped is None else stopped.as_json(),
        "instead": None if instead is None else instead.as_json(),
    }


def headline(result: Compared) -> str:
    """Return what a start does in one line."""
    outcome = result.outcome
    if outcome.starts is None:
        return f"UNKNOWN: {outcome.unknown or 'whether a broker starts'}"
    if not outcome.starts:
        return f"DOES NOT START: {outcome.blockers[0].message}" if outcome.blockers else "DOES NOT START"
    if outcome.lost is not None and outcome.lost.messages:
        return f"STARTS, BUT discards {counted(outcome.lost.messages, 'message')}"
    harmed = len(result.consequences.queues)
    if harmed:
        return f"STARTS, BUT changes {counted(harmed, 'queue')}"
    if result.harm[:2] != (0, 0):
        return "STARTS, BUT does harm"
    return "STARTS, DISCARDS NO MESSAGE"


def for_people(result: Compared, root: Path, because: str) -> dict[str, Any]:
    """Return the prediction as text and tables."""
    from rmqstore.store.parts import relative_to_root
    from rmqstore.times import time_range

    outcome, consequences = result.outcome, result.consequences
    screen: dict[str, Any] = {
        "broker": f"{outcome.release} ({because})",
        "recovery": f"{outcome.mode}: {'abort exists' if outcome.mode == 'abnormal' else 'no abort file'}",
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
    if outcome.starts is not None:
        screen["files deleted"] = sum(1 for change in outcome.changes.values() if change == "deleted")
    if outcome.starts is not None and outcome.abort_after_stop is not None:
        screen["abort after a stop"] = "present" if outcome.abort_after_stop else "removed"
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
    count = after.count if after is not None else "an unknown number" if outcome.after_start is not None else 0
    return f"{outcome.dispatched_in_load.count} during load, {count} after the start"


def comparison(results: list[Compared]) -> list[dict[str, Any]]:
    """Return one row for each way to start."""
    rows = []
    for result in results:
        outcome = result.outcome
        rows.append(
            {
                **result.variant.label,
                "recovery": str(outcome.mode),
                "starts": {True: "yes", False: "no", None: "unknown"}[outcome.starts],
                "scan from": "" if outcome.scan is None else outcome.scan.first_file,
                "log end": "" if outcome.after_load.max_phy_offset is None else outcome.after_load.max_phy_offset,
                "dispatched": "" if outcome.dispatched_in_load is None else outcome.dispatched_in_load.count,
                "lost": 0 if outcome.lost is None else outcome.lost.messages,
                "entries": result.entries,
                "shifted": sum(1 for queue in result.consequences.queues if queue.shift),
                "offsets twice": result.consequences.given_twice,
                "index entries lost": result.consequences.index_items_lost,
            }
        )
    return rows


def _words(result: Compared) -> str:
    label = result.variant.label
    return f"{label['version']}, abort {label['abort']}, checkpoint {label['checkpoint']}"
