"""Catalogue: index files, their header, hash slots, chains and entries."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, INDEX_AT_START, R5X, R49, REBUILD_INDEX

_READER = {
    ALL: "Not checked at a start. A query walks the slot's chain and stops at the first link that makes no sense: items behind it are "
    "not found."
}

ENTRIES = (
    Entry(
        "RMQ-IX-HEADER",
        ERROR,
        "index header contradicts its items",
        meaning="Begin and end time, begin and end offset of the header are those of the first and last item. They differ. A query by "
        "time may skip the whole file; after a crash the times decide whether the file is deleted.",
        broker=INDEX_AT_START,
        mend=REBUILD_INDEX,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-IX-COUNT",
        ERROR,
        "index header counts wrong",
        meaning="The header's item count (items + 1) or used-slot count differs from what the file holds. Normal after a crash: the "
        "counters are written later than the items. Releases before 4.7.1 counted a slot per item, which is accepted.",
        broker={ALL: "Items behind the count are invisible to queries and are overwritten by the next message with a key."},
        mend="After a crash: nothing, the start deletes the newest index file anyway. After a clean stop: " + REBUILD_INDEX,
        crash_severity=INFO,
    ),
    Entry(
        "RMQ-IX-SLOT",
        ERROR,
        "hash slot does not name the newest item of its chain",
        meaning="A slot holds the number of the newest item whose key falls into it. This one names none, an older one, or one beyond "
        "the count: messages of its keys are not found.",
        broker=_READER,
        mend=REBUILD_INDEX,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-IX-CHAIN",
        ERROR,
        "broken chain of index items",
        meaning="An item's link must name an older item of the same slot. This one points forward, to itself, in a circle, or into "
        "another slot.",
        broker=_READER,
        mend=REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-ITEM",
        ERROR,
        "index item fits no message",
        meaning="No message begins at the item's offset, or none of its keys (unique id, KEYS, from 5.4.0 also the tag) has this hash.",
        broker={
            ALL: "Not checked. A query for a key with this hash returns the foreign message or an error; the right message is not found."
        },
        mend=REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-TIME",
        WARNING,
        "index item has the wrong time",
        meaning="The item's distance to the file's begin time is not that of its message. Queries with a time range may miss it. The "
        "first item of a file that follows another one carries the pause between them, which is accepted.",
        broker={ALL: "Not checked; a negative distance ends the chain for the reader."},
        mend=REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-MISSING",
        ERROR,
        "messages not indexed",
        meaning="Messages with keys inside the range that an index file claims have no item there: queries by key or message id do not "
        "find them.",
        broker={ALL: "Never completed: a record is indexed once, when it is dispatched."},
        mend=REBUILD_INDEX,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-IX-BEHIND",
        ERROR,
        "index ends before the log",
        meaning="The last messages with keys are not indexed. After a crash that is normal. Also normal if indexing was switched off "
        "(messageIndexEnable, from 5.4.0 indexFileWriteEnable).",
        broker={
            **INDEX_AT_START,
            R49: "After a clean stop dispatch goes on behind the queues, not behind the index: the gap stays.",
            R5X: "As 4.9.x.",
        },
        mend="After a crash: nothing to do for what the start dispatches again. After a clean stop, unless indexing is off: "
        + REBUILD_INDEX,
        crash_severity=INFO,
    ),
    Entry(
        "RMQ-IX-INCOMPLETE",
        WARNING,
        "index begins after the log begins",
        meaning="Messages with keys before the first index file are not indexed: an earlier start after a crash deleted the newest "
        "index file and could not index everything again, or index files were removed.",
        broker=INDEX_AT_START,
        mend=REBUILD_INDEX + " To keep it from happening again set messageIndexSafe=true.",
    ),
    Entry(
        "RMQ-IX-ORDER",
        WARNING,
        "index files out of order",
        meaning="Files are named by the wall clock at their creation and read in the order of their names, but offsets do not rise in "
        "that order: the clock or time zone changed, or a file of another store was copied in.",
        broker={ALL: "The file that sorts last is taken for the one to write to; queries by time may stop early."},
        mend="Rename nothing. If a file's offsets do not belong to this store move it away; otherwise: " + REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-FILELEN",
        ERROR,
        "index file has the wrong length",
        meaning="An index file is 40 + 4 * maxHashSlotNum + 20 * maxIndexNum bytes (420000040 by default). A cut-off copy, or other "
        "settings.",
        broker={
            ALL: "No check: a shorter file is extended with zeros without a word, of a longer one only the beginning is used; with "
            "other settings it is misread."
        },
        mend="Other settings: give them back to the broker (maxHashSlotNum, maxIndexNum). Cut-off copy: copy again, or: " + REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-NAME",
        WARNING,
        "foreign name in the index directory",
        meaning="Index files are named by 17 digits (yyyyMMddHHmmssSSS).",
        broker={
            R49: "A file that is no number is skipped with an error line; a directory ends the loading: later files are not used.",
            R5X: "A file that is no number is skipped; a directory with a number as name fails the load, after recovery has already "
            "deleted files.",
        },
        mend="Move it out of the index directory before the next start.",
    ),
    Entry(
        "RMQ-IX-BEYOND",
        ERROR,
        "index items point beyond the end of the log",
        meaning="The index knows messages the commit log does not have: the log lost its end, or was restored from an older copy, while "
        "the index kept its own. A start that cuts the log cuts nothing in the index.",
        broker={
            ALL: "Never cut. New messages that come to lie at these offsets are found under foreign keys as well, and are not indexed "
            "while the index claims to be ahead."
        },
        mend="If newest commit log files are missing, put them back. Otherwise: " + REBUILD_INDEX,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-IX-DUPLICATE",
        INFO,
        "message indexed twice",
        meaning="Two items have the same hash and offset: the last indexed message was dispatched again at a start. Queries may return "
        "it twice.",
        broker={ALL: "Does this itself: the last indexed message is not recognised as known."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-IX-TRAILING",
        WARNING,
        "bytes behind the last index item",
        meaning="Behind the items that the header counts the file is not zero: items whose count never reached the disk, or foreign bytes.",
        broker={ALL: "Ignored, overwritten by the next items."},
        mend="Nothing after a crash. Otherwise see whether the counts are right (RMQ-IX-COUNT).",
        crash_severity=INFO,
    ),
)
