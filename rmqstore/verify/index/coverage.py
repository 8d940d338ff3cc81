"""Findings of the comparison of the index with the log: of single entries, of files, of keys that no file has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.scan.kernels.index import (
    ItemOddity,
)
from rmqstore.scan.ranges import in_ranges
from rmqstore.verify.context import Context
from rmqstore.verify.index.match import IndexMatch
from rmqstore.verify.index.views import IndexView, first_item, item_finding

ODDITY_TEXT: dict[ItemOddity, tuple[str, str]] = {
    ItemOddity.BOGUS: ("RMQ-IX-ITEM", "entry {item} belongs to no key of the log"),
    ItemOddity.HASH: ("RMQ-IX-ITEM", "the hash of entry {item} is not that of the record's key"),
    ItemOddity.OFFSET: ("RMQ-IX-ITEM", "the physical offset of entry {item} is not that of the record with this key"),
    ItemOddity.TIME: ("RMQ-IX-TIME", "the time difference of entry {item} does not match the record's STORETIMESTAMP"),
    ItemOddity.MISSING: ("RMQ-IX-MISSING", "a key of the record is not in the index"),
    ItemOddity.DUPLICATE: ("RMQ-IX-DUPLICATE", "entry {item} indexes the same record as the entry before it"),
}


def of_match(context: Context, match: IndexMatch) -> Iterator[Finding]:
    """Yield the findings of one comparison."""
    for view, rows in match.oddities:
        for row in rows:
            kind = ItemOddity(int(row["oddity"]))
            code, text = ODDITY_TEXT[kind]
            item = int(row["item"])
            missing = kind is ItemOddity.MISSING
            if kind is ItemOddity.BOGUS and context.log.is_damaged(int(row["found"])):
                continue
            where = {"offset": int(row["position"]), "expected": int(row["expected"]), "found": None if missing else int(row["found"])}
            yield item_finding(context, code, text.format(item=item), view, item, 0 if missing else 1, **where)
    for view, start, stop in match.leftovers:
        undamaged = _undamaged(context, view, start, stop)
        if undamaged.size:
            first, last = int(undamaged[0]), int(undamaged[-1])
            message = f"{undamaged.size} entries from entry {first} on point to no record of the log with a key"
            yield item_finding(context, "RMQ-IX-ITEM", message, view, first, last + 1 - first, offset=view.item_offset(first))


def _undamaged(context: Context, view: IndexView, start: int, stop: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the entries in [start, stop) that do not point into a damaged range of the log."""
    kept = [np.zeros(0, np.int64)]
    for first, offsets in view.item_offsets(start, stop):
        kept.append(first + np.flatnonzero(~in_ranges(offsets, context.log.damages)))
    return np.concatenate(kept)


def beyond(context: Context, views: Sequence[IndexView]) -> Iterator[Finding]:
    """Yield findings about entries for records after the end of the log."""
    end = context.log.end_offset
    for view in views:
        first = first_item(view, end)
        if first <= view.items:
            count, offset = view.items + 1 - first, view.item_offset(first)
            message = f"{count} entries from entry {first} on are of records that the log does not have: it ends at {end}"
            yield item_finding(context, "RMQ-IX-BEYOND", message, view, first, count, offset=offset, found=offset)


def check_order(context: Context, views: Sequence[IndexView]) -> Iterator[Finding]:
    """Yield findings about files whose entries begin before those of the file before, by name, end."""
    for before, after in itertools.pairwise(view for view in views if view.items):
        if after.first_offset < before.last_offset:
            yield context.finding(
                "RMQ-IX-ORDER",
                f"the entries begin before those of {before.file.path.name} end",
                file=after.file.path,
                position=after.item_position(1),
                offset=after.first_offset,
                expected=before.last_offset,
                found=after.first_offset,
            )


def coverage(context: Context, matches: Sequence[IndexMatch], views: Sequence[IndexView]) -> Iterator[Finding]:
    """Yield findings about keys of the log for which no index file claims to hold entries: before, between and after the files."""
    before = sum(match.before for match in matches)
    between = sum(match.between for match in matches)
    behind = sum(match.behind for match in matches)
    where: dict[str, object] = {"file": views[0].file.path} if views else {"file": "index"}
    if before:
        first = next(match.first_key_position for match in matches if match.first_key_position >= 0)
        message = f"{before} keys of the log are before the first index file"
        yield context.finding("RMQ-IX-INCOMPLETE", message, offset=first, found=before, **where)
    if between:
        position = next(match.between_position for match in matches if match.between)
        message = f"{between} keys of the log are between two index files"
        yield context.finding("RMQ-IX-INCOMPLETE", message, offset=position, found=between, **where)
    if behind:
        position = next(match.behind_position for match in matches if match.behind)
        indexed = any(view.items for view in views)
        if indexed:
            message = f"{behind} keys of the log are after the last entry of the index"
            yield context.finding("RMQ-IX-BEHIND", message, offset=position, found=behind, file=views[-1].file.path)
        else:
            message = f"none of the {behind} keys of the log has an index entry"
            where = {"file": views[-1].file.path if views else "index"}
            yield context.finding("RMQ-IX-INCOMPLETE", message, offset=position, expected=behind, found=0, **where)
