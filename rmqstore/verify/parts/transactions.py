"""Remains of repairs: a transaction that was stopped in the middle, and damaged folders of transactions."""

from __future__ import annotations

from collections.abc import Iterator

from rmqstore.findings import Finding
from rmqstore.store.transactions import read_transactions
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about `.rmqstore`, whatever part is looked at: other findings may follow from a repair that is half done."""
    if context.store.only is not None:
        return
    found = read_transactions(context.store.root)
    if found.stopped is not None:
        one = found.stopped
        yield context.finding("RMQ-ST-UNFINISHED", one.message, file=one.folder, found=one.id, mend=one.hint)
    damaged = (context.finding("RMQ-ST-TRANSACTION", f"{one.path.name}: {one.why}", file=one.path, mend=one.hint) for one in found.damaged)
    yield from limited(context, context.store.root, damaged)
