"""Catalogue: consume queues of every kind, entry by entry and file by file."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import (
    ALL,
    LENGTH_FAILS,
    QUEUE_CUT,
    QUEUE_REBUILT,
    R5X,
    R49,
    R50,
    R55,
    R532,
    R534,
    R540,
    REBUILD_QUEUES,
)

_UNIT_IS_20_BYTES = "An entry is 20 big-endian bytes: offset (8), size (4), tags code (8). "
_REWRITE_UNIT = (
    "With the broker stopped and the file copied, write the expected value at the finding's position, or rebuild: " + REBUILD_QUEUES
)

ENTRIES = (
    Entry(
        "RMQ-CQ-START",
        ERROR,
        "the next start leaves this queue wrong",
        meaning="After the start the queue is shorter than it is now, lacks messages that are in the log, or has them at wrong offsets. "
        "Queue offsets that were returned to producers are reused for other messages.",
        broker=QUEUE_REBUILT,
        mend="Compare the ways to start, or rebuild: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-EXCHANGED",
        ERROR,
        "a queue holds the entries of another one",
        meaning="Every entry of the file belongs to the same place of one other queue: directories or files of queues were exchanged or "
        "copied over each other. Consumers of this queue get the messages of the other one. The commit log is not affected.",
        broker={ALL: "Serves the messages of the other queue to consumers of this one; new messages are appended after them."},
        mend="Move the directories back where they belong, or rebuild: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-MISSING",
        ERROR,
        "queue missing",
        meaning="The commit log holds messages of this queue, but its directory does not exist: they cannot be consumed. Normal for a "
        "topic that was deleted on purpose and for expired lite queues (5.5.x), and right after a crash for a queue that had just been "
        "created.",
        broker={
            **QUEUE_REBUILT,
            R49: "If only this queue is missing it stays empty and its offsets start again at 0. If the whole consumequeue directory is "
            "missing all queues are rebuilt.",
            R50: "Not rebuilt after a clean stop, not even if all queues are missing; offsets start again at 0.",
            R532: "If only this queue is missing it stays empty and its offsets start again at 0; if all are missing they are rebuilt.",
        },
        mend=REBUILD_QUEUES,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CQ-GONE",
        ERROR,
        "queue that consumers have read is gone",
        meaning="A consumer group has an offset above 0 in this queue, and the queue has no files. Its directory was removed, or, where "
        "the commit log does not begin at 0, its messages expired and the broker removed it.",
        broker={ALL: "Offsets begin at 0 again, so consumers skip new messages until their offset is reached or reset."},
        mend=REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-DELETED",
        WARNING,
        "queue of a topic that is not configured is missing",
        meaning="The commit log holds messages of this queue, it has no directory, and topics.json does not contain the topic: most likely "
        "the topic was deleted, which leaves its messages in the log until they expire. If topics.json was lost or rolled back, the queue "
        "may be lost as well.",
        broker={
            ALL: "A clean start changes nothing. A start after a crash dispatches the messages it scans again, so a deleted topic may "
            "reappear with some of its messages.",
        },
        mend="Nothing if the topic was deleted on purpose. Otherwise restore topics.json first, then rebuild: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-LMQ-MISSING",
        WARNING,
        "multi-dispatch queue missing, possibly without any fault",
        meaning="Messages in the commit log name this %LMQ% queue and were numbered for it, but it has no directory. Either the broker "
        "never filled such queues (5.3.3 and later number with enableLmq alone, and dispatch only with enableMultiDispatch as well; no "
        "other %LMQ% queue exists and no setting decides), or it is the queue of a lite topic (%LMQ%$parent$topic, 5.5.x), which the "
        "broker deletes when it expires. Otherwise the queue is lost.",
        broker={
            **QUEUE_REBUILT,
            R49: "If only this queue is missing it stays empty and its offsets start again at 0.",
            R50: "Not rebuilt after a clean stop; its offsets start again at 0. After a crash everything from the checkpoint's file on is "
            "dispatched again.",
        },
        mend="Pass the broker's settings (--set enableLmq=... --set enableMultiDispatch=...) to find out which it is. If the queue is "
        "lost: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-LMQ-OFFSET",
        INFO,
        "multi-dispatch queue and its messages are numbered differently",
        meaning="The broker numbers the messages of %LMQ% queues before it writes their entries. A number that was used twice (concurrent "
        "appends, 5.1.x) or for a message that is not dispatched (system topics, up to 5.3.x) shifts all later entries of that queue. "
        "Every message that has an entry is consumed, at the place of its entry.",
        broker={ALL: "Entries are appended at the next free place (`[BUG]logic queue order maybe wrong`); numbering continues from there."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-CQ-BEHIND",
        ERROR,
        "queue ends before the log",
        meaning="The last messages of this queue in the commit log have no entry. After a crash that is normal: the log is flushed before "
        "the queues. After a clean stop the messages are invisible and their queue offsets will be reused. `verify` simulates the next "
        "start: entries that it writes are a note, entries that it does not write are an error.",
        broker=QUEUE_REBUILT,
        mend="After a crash: nothing, the start dispatches them again. After a clean stop: " + REBUILD_QUEUES,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CQ-HOLE",
        ERROR,
        "zero entry inside the queue",
        meaning="An entry was never written, or was overwritten with zeros, although entries follow. The cause is a page that did not "
        "reach the disk, or a write error that the broker skipped (up to 5.3.3).",
        broker={
            ALL: "In one of the last three files of the queue the hole ends the queue: later entries are cut, later files deleted, and new "
            "messages reuse their offsets. In an older file consumers get nothing at that place.",
        },
        mend=_REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-UNIT",
        ERROR,
        "queue entry points to the wrong place",
        meaning=_UNIT_IS_20_BYTES + "The offset of this one is not where the message with this queue offset begins.",
        broker=QUEUE_CUT,
        mend=_REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-SIZE",
        ERROR,
        "queue entry has the wrong message size",
        meaning=_UNIT_IS_20_BYTES
        + "The size differs from the TOTALSIZE of the message it points to: consumers get a truncated message or more than one.",
        broker=QUEUE_CUT,
        mend=_REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-TAGS",
        ERROR,
        "queue entry has the wrong tags code",
        meaning="The tags code is the Java string hash of TAGS, 0 without tags, and for SCHEDULE_TOPIC_XXXX the time of delivery. A "
        "wrong one hides the message from consumers that subscribe to its tag, shows it to others, or delivers a delayed message at the "
        "wrong time.",
        broker={
            R49: "Not checked. 4.9.2–4.9.8 themselves write the tag hash into SCHEDULE_TOPIC_XXXX when they rebuild after a crash: these "
            "messages are delivered at once.",
            R5X: "Not checked; used as stored.",
        },
        mend="If messageDelayLevel is not the default, pass it: --set messageDelayLevel=... or --broker-conf. " + _REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-SHIFTED",
        ERROR,
        "entries are at the wrong queue offsets",
        meaning="From here on the QUEUEOFFSET of every message differs from the place of its entry by the same distance. A record was once "
        "not dispatched (clean start of 5.3.2 and later on short queues, damaged log), and all later entries moved. Consumers see messages "
        "at offsets that differ from those returned to producers.",
        broker={ALL: "Not checked at a start; new messages are shifted by the same distance (`[BUG]logic queue order maybe wrong`)."},
        mend=REBUILD_QUEUES + " Consumer offsets of this queue then refer to other messages: change them by the distance.",
    ),
    Entry(
        "RMQ-CQ-ORDER",
        ERROR,
        "offsets in the queue do not rise",
        meaning="An entry points to an earlier place of the log than the entry before it. Old entries reappeared after a cut, or an entry "
        "is damaged. Binary searches (by time, by minimum offset) give wrong results around it.",
        broker={
            R49: "Not checked; messages are served again or out of order.",
            R5X: "As 4.9.x; the search for the queue's minimum may also end at a wrong place, so that messages count as expired.",
        },
        mend=REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-SURPLUS",
        ERROR,
        "queue entry without message",
        meaning="The entry points into the commit log, but not to a message of this queue: the message was overwritten after a cut, or the "
        "entry is left over from a queue that was cut.",
        broker={ALL: "Not checked. Consumers get a foreign message, or nothing, at this offset; new messages are appended after it."},
        mend="If these are the last entries of the queue: broker stopped, file copied, write zeros over them to the end of the file. "
        "Otherwise: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-BEYOND",
        ERROR,
        "queue entry points beyond the end of the log",
        meaning="The queue has an entry for a message that the commit log does not have: the log lost its end (power loss, restored from "
        "an older copy) and the queue did not.",
        broker={
            ALL: "Cut at the start: if any queue reaches the end of the log, entries at or after that end are removed from all queues; "
            "their bytes remain."
        },
        mend="If the commit log was restored without its newest files, put them back first. Otherwise nothing: the start cuts these "
        "entries; overwrite them with zeros as well to prevent them from reappearing.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CQ-STALE",
        WARNING,
        "old entries after the end of the queue",
        meaning="Old entries remain after the last valid entry and a zero entry: an earlier start cut the queue, which erases nothing. If "
        "new messages fill the space before them, a start takes them for valid.",
        broker={ALL: "Ignored until the entries before them are complete; then recovery accepts them as the queue's end."},
        mend="Broker stopped, file copied: write zeros from the finding's position to the end of the file.",
    ),
    Entry(
        "RMQ-CQ-EXPIRED",
        INFO,
        "entries of messages that have expired",
        meaning="The first entries point before the first commit log file: their messages were deleted with old files. Queues are deleted "
        "file by file, so some such entries always remain.",
        broker={ALL: "The queue's minimum offset is set after them at the start; the file is deleted when its last entry has expired."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-CQ-LOST",
        ERROR,
        "message of this entry is in a damaged range",
        meaning="The entry points into a range of the commit log that cannot be read. These findings list what the damage cost: topic, "
        "queue and queue offset of each lost message.",
        broker={ALL: "Consumers get an error or nothing at this offset; a pull that reads it may skip to the next commit log file."},
        mend="Restore the commit log range from a replica; the entry itself is correct.",
    ),
    Entry(
        "RMQ-CQ-REPEATED",
        INFO,
        "queue entry repeats its neighbour",
        meaning="The entry equals the one beside it, and no message in the log has its queue offset: a repair wrote it for a lost message, "
        "because consumers stall at an empty place and skip messages at a filler. At the end of a queue it counts as such only if the log "
        "contains a filler for it; otherwise it is an entry too many.",
        broker={ALL: "Serves the neighbour's message once more at this offset."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-CQ-PREBLANK",
        ERROR,
        "filler entries not at the beginning of the queue",
        meaning="Filler entries (offset 0, size 2147483647) are valid only before the first real entry of the queue's first file. At other "
        "places they were written by a tool or are damage.",
        broker={
            ALL: "A pull that reads one continues at the next commit log file and silently skips the messages between; if it is the last "
            "entry, the broker assumes that the queue reaches offset 2147483647.",
        },
        mend=_REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-PREBLANK-ONLY",
        ERROR,
        "queue of filler entries only",
        meaning="The queue holds filler entries and no real one: a crash between the filler and the first entry, or all real entries were "
        "cut.",
        broker={
            R49: "The queue counts as reaching offset 2147483647: dispatch starts there and no queue gets entries until the log is that "
            "long.",
            R50: "Messages of this queue below 2 GiB are discarded as already dispatched; every start truncates all queues.",
            R532: "As 5.0–5.3.1, and a clean start dispatches nothing below 2147483647.",
            R534: "As 5.3.2–5.3.3.",
            R540: "As 5.3.2–5.3.3.",
            R55: "As 5.3.2–5.3.3.",
        },
        mend="Broker stopped: move the files of this queue away before the next start. If the log has messages of this queue: "
        + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-ZEROFILE",
        ERROR,
        "last queue file is all zero",
        meaning="The queue's last file was created but never got an entry: the broker died right after creating it, or its content was "
        "lost.",
        broker={
            R49: "When queues are truncated at the start one zero entry is counted as a message: the maximum offset rises by one, and the "
            "queue's first message is appended again.",
            R50: "As 4.9.x for the zero entry; the whole queue may then count as expired. Without truncation: `newPosition < 0`, the "
            "broker does not start.",
            R532: "As 5.0–5.3.1.",
            R534: "As 5.0–5.3.1.",
            R540: "As 5.0–5.3.1.",
            R55: "The zero entry is still counted, but the start no longer fails.",
        },
        mend="Broker stopped: move the all-zero file away, unless the file before it is not full.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CQ-FILELEN",
        ERROR,
        "queue file has the wrong length",
        meaning="All files of a queue have the configured length (mappedFileSizeConsumeQueue, rounded up to a multiple of 20; batch and "
        "ext queues have their own setting). The cause is an incomplete copy, or another setting.",
        broker={
            ALL: LENGTH_FAILS,
            R534: "As above; the failed start may also empty delayOffset.json and timercheck: copy config first.",
            R540: "As 5.3.4.",
            R55: "As 5.3.4.",
        },
        mend="Wrong setting: set it to the length of the other files. Incomplete copy: copy again, or extend with zeros (`truncate -s "
        "LENGTH FILE`) and rebuild: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-ZEROLEN",
        ERROR,
        "queue file of length zero",
        meaning="A crash or a full disk between creating and extending the file leaves it empty.",
        broker={
            R49: LENGTH_FAILS,
            R50: "5.1.3 and later delete it if it is the last file of the queue; earlier ones do not start. Not the last: the load fails.",
            R532: "Deleted at load if it is the last file, else the load fails.",
            R534: "As 5.3.2–5.3.3.",
            R540: "As 5.3.2–5.3.3.",
            R55: "As 5.3.2–5.3.3.",
        },
        mend="Delete it if it is the last file of the queue. If not: " + REBUILD_QUEUES,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CQ-GAP",
        ERROR,
        "queue file missing",
        meaning="File names are byte offsets in the queue; between two of them a file is missing. Messages whose entries were in it cannot "
        "be consumed.",
        broker={
            ALL: "Starts; `[BUG]The mappedFile queue's data is damaged` only in a periodic check. Consumers in the gap are sent to the "
            "next file.",
        },
        mend="Restore the file from a copy, otherwise: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-NAME",
        ERROR,
        "foreign file name in a queue directory",
        meaning="A file or directory in a queue directory has a name that is not an offset, or not a multiple of the file length.",
        broker={
            R49: "A wrong length fails the load, the correct length with a name that is not a number too, and a sub-directory as well.",
            R5X: "As 4.9.x for files (an empty one that sorts last is deleted, from 5.1.3); directories are ignored.",
        },
        mend="Move it out of the directory before the next start.",
    ),
    Entry(
        "RMQ-CQ-EXT",
        ERROR,
        "extended entry missing or different",
        meaning="With enableConsumeQueueExt the tags code of an entry is the address of an extended entry (tags code, store time, filter "
        "bits). The address points to nothing, or the extended entry belongs to another message; or the lengths of the extended entries, "
        "which follow each other from the first byte of a file on, point out of it.",
        broker={
            ALL: "`[BUG] can't find consume queue extend file content`: the address is taken for the tags code, so filtering by tag is "
            "wrong. If the lengths point out of the file, the broker does not start (`load exception`, `IllegalArgumentException: "
            "newPosition > limit`)."
        },
        mend="Broker stopped: move consumequeue_ext and consumequeue away and rebuild both. " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-EXT-ORPHAN",
        INFO,
        "extended entries that no entry names",
        meaning="Brokers cut a queue without its extended entries, so those of cut entries stay between those of later ones.",
        broker={ALL: "Not read; they go with their file when that expires."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-CQ-BATCH",
        ERROR,
        "batch entry differs from its record",
        meaning="An entry of a BatchCQ topic (46 bytes: offset, size, tags code, store time, first queue offset, count) disagrees with its "
        "record.",
        broker={
            R5X: "Not checked beyond offset, size, first offset and count being positive; lookups by queue offset use the stored values."
        },
        mend="Broker stopped: move the queue's directory below batchconsumequeue away and rebuild. " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-ROCKSDB",
        INFO,
        "queues are kept in RocksDB",
        meaning="The consume queues of this store are a RocksDB database. Whether it can be opened and read is verified; its entries are "
        "not compared with the commit log.",
        broker={
            R50: "5.2.0–5.3.1, storeType=defaultRocksDB: after a crash the log is dispatched again from the offset stored in the database.",
            R532: "As 5.2.0, and flushed at the end of a crash recovery.",
            R534: "Also as a second copy in addition to file queues (rocksdbCQDoubleWriteEnable).",
            R540: "As 5.3.4.",
            R55: "As 5.3.4; the database may be in consumequeue_rocksdb. With two databases at once the broker refuses to start.",
        },
        mend="Nothing.",
    ),
)
