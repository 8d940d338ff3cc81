"""The catalogue of findings: one table from which findings take severity and `mend`, and `explain` and docs/findings.md their text."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from rmqstore.catalogue import checkpoint, commitlog, compaction, config, dledger, index, queues, records, rocksdb, store, tiered, timer
from rmqstore.catalogue.entry import Entry
from rmqstore.findings import Finding

__all__ = ["CATALOGUE", "Entry", "finding"]

CATALOGUE: Mapping[str, Entry] = {
    entry.code: entry
    for entry in chain(
        store.ENTRIES,
        commitlog.ENTRIES,
        records.ENTRIES,
        queues.ENTRIES,
        compaction.ENTRIES,
        index.ENTRIES,
        checkpoint.ENTRIES,
        timer.ENTRIES,
        config.ENTRIES,
        rocksdb.ENTRIES,
        dledger.ENTRIES,
        tiered.ENTRIES,
    )
}


def finding(code: str, message: str, *, crashed: bool = False, **where: Any) -> Finding:
    """Return a finding of this code; `where` are the other fields of `Finding`. `crashed`: the store has an `abort` file.

    Severity and `mend` come from the table; a `mend` among `where` is more exact and wins. Raises KeyError for a code not in the table.
    """
    entry = CATALOGUE[code]
    return Finding(**{"mend": entry.mend, **where}, code=code, severity=entry.severity_in(crashed=crashed), message=message)
