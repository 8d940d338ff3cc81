"""Findings about what DLedger keeps besides the records: entry headers, index, term and checkpoint."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING, Entry
from rmqstore.catalogue.releases import ALL

_FROM_LEADER = (
    "`rmqstore recover` writes the header again where the record and the entries beside it prove it. Else it takes the entries from "
    "another member that the option --from names: the bytes at one physical offset are the same on all of them."
)

ENTRIES = (
    Entry(
        "RMQ-DL-ENTRY",
        ERROR,
        "the header of a DLedger entry does not fit",
        meaning="A field of the 48 bytes before a record – magic, size, number, term, position, length – is not that of the entry, or "
        "entries do not follow each other: numbers count up by one, terms never go back. No checksum covers the header.",
        broker={
            ALL: "A member that starts reads the last three data files and stops at an entry that differs from its index unit. What "
            "follows is removed from the index, and comes again from the leader, if there is one. It does not start if more than one "
            "data file would be cut.",
        },
        mend=_FROM_LEADER,
    ),
    Entry(
        "RMQ-DL-INDEX",
        ERROR,
        "a unit of the DLedger index is not that of its entry",
        meaning="The index has one unit of 32 bytes for each entry, at 32 times its number: position, size, number, term. The log decides.",
        broker={
            ALL: "Within the last three data files a start writes the units again, from the first one that differs. Before these the "
            "member reads the wrong place for this number: it cannot send the entry to others.",
        },
        mend="`rmqstore recover` makes the units from the entries.",
    ),
    Entry(
        "RMQ-DL-STATE",
        WARNING,
        "term or checkpoint of DLedger do not fit the log",
        meaning="`currterm` has a term before that of the last entry, `checkpoint` a committed number after it, or one of them has no "
        "number.",
        broker={ALL: "Not observed."},
        mend="`rmqstore recover` puts the number of the last entry into checkpoint. Compare currterm with that of another member before "
        "this one starts: with too small a term a member can vote twice.",
    ),
)
