"""Catalogue: the checkpoint file."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, R5X, R49, R50, R55, R532, R534, R540

_START = {
    R49: "After a clean stop not used. After a crash the scan begins at the newest file whose first record is older than min(log time, "
    "queue time) - 3 s.",
    R50: "As 4.9.x.",
    R532: "As 4.9.x.",
    R534: "As 4.9.x.",
    R540: "As 4.9.x, but at most commitLogRecoverMaxNum (10) files back.",
    R55: "After a crash the scan begins at the newest file that begins at or before logicsPhysicalOffset, or, if that is 0, at or "
    "before the queue time.",
}

ENTRIES = (
    Entry(
        "RMQ-CP-MISSING",
        WARNING,
        "no checkpoint",
        meaning="The file with the times up to which log, queues and index are on disk does not exist. It matters only for a start after a "
        "crash: then the scan begins as far back as it can, encounters any damage in that range, and all non-empty index files are "
        "deleted.",
        broker={
            R49: "All times count as 0: after a crash the whole log is scanned, from the first file on.",
            R50: "As 4.9.x.",
            R532: "As 4.9.x.",
            R534: "As 4.9.x.",
            R540: "As 4.9.x, but only the last commitLogRecoverMaxNum (10) files.",
            R55: "As 5.4.0.",
        },
        mend="Restore it from a copy if the store crashed and the log is long; after a clean stop nothing, the broker creates a new one.",
    ),
    Entry(
        "RMQ-CP-LENGTH",
        WARNING,
        "checkpoint has the wrong length",
        meaning="The file is 4096 bytes long. A shorter one is an incomplete copy; missing fields read as zero.",
        broker={ALL: "Extended to 4096 with zeros; fields that are missing count as 0. " + _START[R49]},
        mend="Restore it from a copy, or see RMQ-CP-MISSING.",
    ),
    Entry(
        "RMQ-CP-AHEAD",
        WARNING,
        "checkpoint is ahead of the data",
        meaning="A time of the checkpoint is later than the last message: the end of the log is missing, or the checkpoint is from another "
        "time. A start after a crash then begins too late and leaves older messages without queue and index entries.",
        broker=_START,
        mend="If the newest commit log files are missing, put them back. Otherwise, before a start after a crash, restore the checkpoint "
        "that belongs to this log or remove it (see RMQ-CP-MISSING).",
    ),
    Entry(
        "RMQ-CP-BEHIND",
        WARNING,
        "checkpoint is older than the data",
        meaning="The checkpoint's times are older than the last message. Normal after a crash, and from 5.5.0 on for the queue time and "
        "logicsPhysicalOffset after a clean stop too. Otherwise the file was restored from an older copy.",
        broker=_START,
        mend="Nothing: a start after a crash only scans more than necessary.",
        crash_severity=INFO,
    ),
    Entry(
        "RMQ-CP-INVALID",
        ERROR,
        "checkpoint holds impossible values",
        meaning="A field is negative or is not a time, or bytes that every release leaves zero are not zero.",
        broker=_START,
        mend="Restore it from a copy, or remove it (see RMQ-CP-MISSING for what that means after a crash).",
    ),
    Entry(
        "RMQ-CP-OFFSET",
        WARNING,
        "checkpoint offset is not the beginning of a record",
        meaning="confirmPhyOffset (from 5.1.1) and logicsPhysicalOffset (from 5.5.0) are the start of a record, or 0. This one is inside a "
        "record or beyond the log. A broker that was downgraded does not update logicsPhysicalOffset, which is harmless.",
        broker={
            R49: "Not read.",
            R5X: "confirmPhyOffset is used in controller and duplication mode only.",
            R55: "logicsPhysicalOffset decides where the scan after a crash begins; beyond the log the last readable file is taken.",
        },
        mend="Write the start of a record, or 0, as 8 big-endian bytes at the finding's position, broker stopped.",
    ),
    Entry(
        "RMQ-CP-INDEX",
        INFO,
        "index files that the next start deletes",
        meaning="The store crashed, and index files end later than the index time of the checkpoint. Normal: the index time is written "
        "only when an index file is full, so at least the newest file is always among them. Messages whose index entries are in them and "
        "that the start does not read again can no longer be found by key or message id.",
        broker={
            ALL: "After a crash deletes every index file whose end time is later than the checkpoint's index time, then indexes only what "
            "it scans. With messageIndexSafe=true it scans far enough."
        },
        mend="Copy the index directory before the start if queries by key matter. Consuming is not affected.",
    ),
)
