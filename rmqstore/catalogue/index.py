"""Catalogue: index files, their header, hash slots, chains and entries."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, INDEX_AT_START, R5X, R49, REBUILD_INDEX

_READER = {
    ALL: "Not checked at a start. A query walks the slot's chain and stops at the first invalid link: entries after it are not found."
}

ENTRIES = (
    Entry(
        "RMQ-IX-HEADER",
        ERROR,
        "index header contradicts its entries",
        meaning="Begin and end time, begin and end offset of the header are those of the first and last entry. They differ. A query by "
        "time may skip the whole file; after a crash the times decide whether the file is deleted.",
        broker=INDEX_AT_START,
        mend=REBUILD_INDEX,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-IX-COUNT",
        ERROR,
        "index header has wrong counts",
        meaning="The header's entry count (entries + 1) or used-slot count differs from the content of the file. Normal after a crash: the "
        "counters are written later than the entries. Releases before 4.7.1 counted a slot per entry, which is accepted.",
        broker={ALL: "Entries after the count are invisible to queries and are overwritten by the next message with a key."},
        mend="After a crash: nothing, the start deletes the newest index file anyway. After a clean stop: " + REBUILD_INDEX,
        crash_severity=INFO,
    ),
    Entry(
        "RMQ-IX-SLOT",
        ERROR,
        "hash slot does not name the newest entry of its chain",
        meaning="A slot holds the number of the newest entry whose key falls into it. This one names none, an older one, or one beyond the "
        "count: messages of its keys are not found.",
        broker=_READER,
        mend=REBUILD_INDEX,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-IX-CHAIN",
        ERROR,
        "broken chain of index entries",
        meaning="An entry's link must name an older entry of the same slot. This one points forward, to itself, in a circle, or to another "
        "slot.",
        broker=_READER,
        mend=REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-ITEM",
        ERROR,
        "index entry fits no message",
        meaning="No message begins at the entry's offset, or none of its keys (unique id, KEYS, from 5.4.0 also the tag) has this hash.",
        broker={
            ALL: "Not checked. A query for a key with this hash returns the foreign message or an error; the correct message is not found."
        },
        mend=REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-TIME",
        WARNING,
        "index entry has the wrong time",
        meaning="The entry's distance to the file's begin time is not that of its message. Queries with a time range may miss it. The "
        "first entry of a file that follows another one includes the pause between them, which is accepted.",
        broker={ALL: "Not checked; a negative distance ends the chain for the reader."},
        mend=REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-MISSING",
        ERROR,
        "messages not indexed",
        meaning="Messages with keys inside the range of an index file have no entry in it: queries by key or message id do not find them.",
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
            R49: "After a clean stop dispatch continues after the end of the queues, not after the end of the index: the gap remains.",
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
        mend=REBUILD_INDEX + " To prevent this in future set messageIndexSafe=true.",
    ),
    Entry(
        "RMQ-IX-ORDER",
        WARNING,
        "index files out of order",
        meaning="Files are named by the wall clock at their creation and read in the order of their names, but offsets do not rise in "
        "that order: the clock or time zone changed, or a file of another store was copied in.",
        broker={ALL: "The file that sorts last is used for writing; queries by time may stop early."},
        mend="Rename nothing. If a file's offsets do not belong to this store, move it away; otherwise: " + REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-FILELEN",
        ERROR,
        "index file has the wrong length",
        meaning="An index file is 40 + 4 * maxHashSlotNum + 20 * maxIndexNum bytes (420000040 by default). The cause is an incomplete "
        "copy, or other settings.",
        broker={
            ALL: "No check: a shorter file is silently extended with zeros, of a longer one only the beginning is used; with other "
            "settings it is misread."
        },
        mend="Other settings: configure the broker with them again (maxHashSlotNum, maxIndexNum). Incomplete copy: copy again, or: "
        + REBUILD_INDEX,
    ),
    Entry(
        "RMQ-IX-NAME",
        WARNING,
        "foreign name in the index directory",
        meaning="Index files are named by 17 digits (yyyyMMddHHmmssSSS).",
        broker={
            R49: "A file whose name is not a number is skipped with an error line; a directory ends the loading: later files are not used.",
            R5X: "A file whose name is not a number is skipped; a directory with a number as its name fails the load, after recovery has "
            "already deleted files.",
        },
        mend="Move it out of the index directory before the next start.",
    ),
    Entry(
        "RMQ-IX-BEYOND",
        ERROR,
        "index entries point beyond the end of the log",
        meaning="The index has entries for messages that the commit log does not have: the log lost its end, or was restored from an older "
        "copy, and the index was not. A start that cuts the log cuts nothing in the index.",
        broker={
            ALL: "Never cut. New messages at these offsets are found under foreign keys as well, and are not indexed as long as the index "
            "reaches beyond the log."
        },
        mend="If newest commit log files are missing, put them back. Otherwise: " + REBUILD_INDEX,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-IX-DUPLICATE",
        INFO,
        "message indexed twice",
        meaning="Two entries have the same hash and offset: the last indexed message was dispatched again at a start. Queries may return "
        "it twice.",
        broker={ALL: "Brokers cause this: they do not recognise the last indexed message."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-IX-TRAILING",
        WARNING,
        "bytes after the last index entry",
        meaning="The file is not zero after the entries that the header counts: entries whose count never reached the disk, or foreign "
        "bytes.",
        broker={ALL: "Ignored, overwritten by the next entries."},
        mend="Nothing after a crash. Otherwise check whether the counts are correct (RMQ-IX-COUNT).",
        crash_severity=INFO,
    ),
)
