"""Popped messages in RocksDB against the queues that they are of (fact sheet queues §9.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rmqstore.findings import Finding
from rmqstore.reading.rocksdb.popstate import PoppedMessage, PopState, pop_state
from rmqstore.store.parts import PartKind
from rmqstore.verify.context import Context
from rmqstore.verify.guard import guarded, limited
from rmqstore.verify.parts.config import EndsOfQueues
from rmqstore.wording import counted

_CODE = "RMQ-RD-POP"


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about the database of popped messages. Reads all of its entries, and the ends of the queues.

    After a crash the queues of a store may lack messages that a start adds; then entries are not compared with their ends.
    """
    path = context.store.path_of(PartKind.KV_STORE)
    if path.is_dir():
        yield from guarded(context, path, lambda: limited(context, path, _check(context, path)))


def _check(context: Context, path: Path) -> Iterator[Finding]:
    state = pop_state(context.store)
    if state is None:
        return
    if state.odd:
        yield context.finding(_CODE, f"entries that have another form: {state.odd}", file=path, found=state.odd)
    if state.different:
        text = f"entries whose key names another message than their value: {state.different}"
        yield context.finding(_CODE, text, file=path, found=state.different)
    if not context.crashed and context.log.end_offset:
        ends = EndsOfQueues(context.store, context.database_ends)
        wanted = {(one.topic, one.queue_id) for one in state.messages if context.options.wants_queue(one.topic, one.queue_id)}
        yield from beyond_ends(context, path, state, {queue: ends.end(*queue) or 0 for queue in wanted})


def beyond_ends(context: Context, path: Path, state: PopState, ends: Mapping[tuple[str, int], int]) -> Iterator[Finding]:
    """Yield a finding for each queue and group that popped messages at or after the end of the queue; `ends` has the queues to check."""
    beyond: dict[tuple[str, int, str], list[PoppedMessage]] = {}
    for one in state.messages:
        if one.queue_offset >= ends.get((one.topic, one.queue_id), one.queue_offset + 1):
            beyond.setdefault((one.topic, one.queue_id, one.group), []).append(one)
    for (topic, queue_id, group), found in beyond.items():
        end, last = ends[topic, queue_id], max(one.queue_offset for one in found)
        text = (
            f"group {group} popped {counted(len(found), 'message')} of {topic}/{queue_id} up to queue offset {last}, but the queue ends at"
        )
        yield context.finding(
            _CODE,
            f"{text} {end}: later messages that get these queue offsets are delivered to it again",
            file=path,
            topic=topic,
            queue_id=queue_id,
            expected=end,
            found=last,
            count=len(found),
        )
