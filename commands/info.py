"""`rmqstore info`: one screen about a store of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqstore.commands import denied
from rmqstore.commands.common import NOTHING_TO_DO, View, next_command, output_options, store_options
from rmqstore.commands.engines import open_at_hand, stores_argument
from rmqstore.errors import RmqstoreError
from rmqstore.render.sizes import size_text
from rmqstore.wording import counted

if TYPE_CHECKING:
    from rmqstore.store.kinds.writer import WriterGuess
    from rmqstore.store.summary import StoreSummary

SHOWN_TOP_QUEUES = 5
SHOWN_LINES = 8


@click.command("info", short_help="Show releases, sizes and offsets of a store, and whether it stopped cleanly.")
@stores_argument
@store_options
@output_options
def command(stores: tuple[Path | str, ...], broker_conf: Path | None, settings: Mapping[str, str], view: View) -> None:
    """Show a summary of STORE: which releases can have written it, clean or crashed, sizes, offsets, times, topics and queues.

    STORE is the broker's storePathRootDir, or a copied directory of one part, for example commitlog. Only file names, heads and ends
    are read, so this takes moments on a store of any size; `rmqstore verify` reads everything. Files without read permission are
    findings at the end, and the exit status is 1. Several stores are a line each; one that cannot be read does not stop the others.
    STORE may be a URI (s3, gs, hdfs), of which only the ranges that are needed are fetched.
    """
    from rmqstore.scan.tail import tail_records
    from rmqstore.store.summary import summarize

    def look(store: Path | str) -> StoreSummary:
        opened = open_at_hand(store, broker_conf, settings)
        summary = summarize(opened, tail_records)
        return summary if isinstance(store, Path) else replace(summary, path=store)

    if len(stores) > 1:
        _several(stores, look, view)
        return
    (store,) = stores
    summary = look(store)
    output = view.output()
    output.verdict(_verdict(summary))
    output.object(summary.as_json() if view.format != "table" else for_people(summary))
    denied.show(summary.denied, output)
    step = next_command("doctor", store, broker_conf, settings) if summary.only is None else NOTHING_TO_DO
    stopped = summary.transactions.stopped
    output.next(step if stopped is None else stopped.resume_commands[0])
    denied.end(summary.denied)


def _several(stores: Sequence[Path | str], look: Callable[[Path | str], StoreSummary], view: View) -> None:
    """Write a line for each store; the exit status is that of the first one that could not be read."""
    rows: list[dict[str, Any]] = []
    status = 0
    for store in stores:
        try:
            summary = look(store)
        except RmqstoreError as error:
            status = status or error.exit_status
            rows.append({"type": "unreadable", "store": str(store), "verdict": error.message, "next": error.hint})
        else:
            rows.append({"store": str(store), **_line(summary)} if view.format == "table" else summary.as_json())
    unread = sum(row.get("type") == "unreadable" for row in rows)
    output = view.output()
    output.verdict(f"UNREADABLE: {unread} of {counted(len(rows), 'store')}" if unread else f"LISTED {counted(len(rows), 'store')}")
    if view.format == "table":
        names = ("store", "state", "written by", "begin", "end", "last message", "queues", "problem")
        output.rows(({**row, "problem": row.get("verdict")} for row in rows), names)
    else:
        for row in rows:
            output.object(row)
    output.next(NOTHING_TO_DO)
    click.get_current_context().exit(status)


def _line(summary: StoreSummary) -> dict[str, Any]:
    """Return a store as a row of a table."""
    from rmqstore.times import time_text

    return {
        "state": _verdict(summary).partition(":")[0],
        "written by": _written_by(summary.writer),
        "begin": summary.log.min_offset,
        "end": summary.log.end_offset,
        "last message": time_text(summary.log.last_store_timestamp),
        "queues": summary.queues.queues,
    }


def for_people(summary: StoreSummary) -> dict[str, Any]:
    """Return the summary as text and tables."""
    from rmqstore.store.parts import relative_to_root
    from rmqstore.times import time_range

    writer, log, queues, index = summary.writer, summary.log, summary.queues, summary.index
    stopped = summary.transactions.stopped
    screen: dict[str, Any] = {
        **({} if stopped is None else {"unfinished": f"{stopped.message}. {stopped.hint}"}),
        "store": summary.path,
        "written by": _written_by(writer),
        "because": _reasons(writer),
    }
    if log.files or summary.only is None:
        screen["commit log"] = _log(summary)
        screen["times"] = time_range(log.first_store_timestamp, log.last_store_timestamp)
    if queues.queues or queues.rocksdb or summary.only is None:
        counts = f"{queues.topics} topics, {queues.queues} queues, {queues.entries} entries"
        screen["queues"] = counts + (", and queues in RocksDB" if queues.rocksdb else "")
    if index.files or summary.only is None:
        times = f", {time_range(index.begin_timestamp, index.end_timestamp)}" if index.items else ""
        screen["index"] = f"{index.files} files, {index.items} items{times}"
    if summary.only is None:
        screen["checkpoint"] = _checkpoint(summary)
    if queues.top:
        screen["largest queues"] = [
            {"topic": queue.topic, "queue": queue.queue_id, "from": queue.min_offset, "to": queue.max_offset, "entries": queue.entries}
            for queue in queues.top[:SHOWN_TOP_QUEUES]
        ]
    screen["parts"] = [
        {
            "part": relative_to_root(part.path, summary.root),
            "files": part.files,
            "size": size_text(part.length),
            "allocated": size_text(part.allocated),
        }
        for part in summary.parts
    ]
    attention = [*summary.notes, *(f"{problem.path.name}: {problem.detail}" for problem in log.problems), *summary.strays]
    attention += [f"{sign.text}: contradicts the other signs" for sign in writer.contradicting]
    if queues.problems:
        attention.append(f"{queues.problems} queue files do not fit their neighbours; `rmqstore verify` reports which.")
    if queues.unreadable:
        attention.append(f"{queues.unreadable} queues could not be read.")
    if attention:
        screen["attention"] = [{"what": text} for text in _limited(attention)]
    return screen


def _verdict(summary: StoreSummary) -> str:
    """Return the state in one line."""
    if summary.transactions.stopped is not None:
        return f"UNFINISHED: {summary.transactions.stopped.message}"
    text = _state(summary)
    head = next(head for head in ("in use", "unknown", "no commit log", "stopped cleanly", "crashed") if text.startswith(head))
    return head.upper() + text[len(head) :]


def _state(summary: StoreSummary) -> str:
    live = summary.liveness
    if live.in_use:
        pids = sorted({*(user.pid for user in live.users if user.writes), *([live.lock_holder] if live.lock_holder else [])})
        return f"in use by process {', '.join(map(str, pids))}"
    if summary.only is not None:
        return "unknown: only the root of a store shows how its broker stopped"
    entries = summary.queues.entries + summary.index.items
    if entries and not summary.log.files and summary.log.end_offset is not None:
        return f"no commit log: its files are not there, but queues and index have {entries} items"
    if not summary.abort:
        return "stopped cleanly: no abort file"
    unsure = "" if live.complete else " (not every process could be checked)"
    if live.abort_pid is None:
        return "crashed: abort exists and no process uses the store" + unsure
    return (
        f"crashed: abort exists, process {live.abort_pid} {'runs but does not use the store' if live.abort_pid_alive else 'is gone'}"
        + unsure
    )


def _log(summary: StoreSummary) -> str:
    log = summary.log
    if not log.files:
        return "no files" if log.end_offset is not None else "permission denied"
    where = ", ".join(log.directories) + (" (DLedger)" if summary.dledger else "")
    end = "unknown (permission denied)" if log.end_offset is None else log.end_offset
    return f"{log.files} files of {size_text(log.file_size or 0)} in {where}, offsets {log.min_offset} to {end}"


def _checkpoint(summary: StoreSummary) -> str:
    from rmqstore.times import time_text

    fields = summary.checkpoint
    if fields is None:
        return "permission denied" if any(one.file == "checkpoint" for one in summary.denied) else "missing or unreadable"
    return (
        ", ".join(f"{name} {time_text(value) if name.endswith('_timestamp') else value}" for name, value in fields.items() if value)
        or "all zero"
    )


def _written_by(writer: WriterGuess) -> str:
    releases = writer.lowest if writer.lowest == writer.highest else f"{writer.lowest} to {writer.highest}"
    return releases if writer.implementation is None else f"{writer.implementation}; matches {releases} of Apache RocketMQ"


def _reasons(writer: WriterGuess) -> str:
    """Return the signs that determine the range."""
    deciding = [sign.text for sign in writer.signs if sign.since == writer.lowest or sign.until == writer.highest]
    return "; ".join(deciding) or "no sign narrows it down"


def _limited(texts: list[str]) -> list[str]:
    rest = len(texts) - SHOWN_LINES
    return texts if rest <= 0 else [*texts[:SHOWN_LINES], f"and {rest} more; --format json lists all"]
