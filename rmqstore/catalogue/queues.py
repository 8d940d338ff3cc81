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

_UNIT_IS_20_BYTES = "A unit is 20 big-endian bytes: offset (8), size (4), tags code (8). "
_REWRITE_UNIT = (
    "With the broker stopped and the file copied, write the expected value at the finding's position, or rebuild: " + REBUILD_QUEUES
)

ENTRIES = (
    Entry(
        "RMQ-CQ-START",
        ERROR,
        "the next start leaves this queue wrong",
        meaning="After the start the queue is shorter than it is now, lacks messages that are in the log, or has them at wrong offsets. "
        "Queue offsets that producers were told are given to other messages.",
        broker=QUEUE_REBUILT,
        mend="Compare the ways to start, or rebuild: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-EXCHANGED",
        ERROR,
        "a queue holds the units of another one",
        meaning="Every unit of the file is at the place of a record of one other queue: directories or files of queues were exchanged or "
        "copied over each other. Consumers of this queue get the messages of the other one. The commit log is not affected.",
        broker={ALL: "Serves the messages of the other queue to consumers of this one; new messages are appended after them."},
        mend="Move the directories back where they belong, or rebuild: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-MISSING",
        ERROR,
        "queue missing",
        meaning="The commit log holds messages of this queue, but its directory does not exist: nobody can consume them. Normal for a "
        "topic that was deleted on purpose and for expired lite queues (5.5.x), and right after a crash for a queue that had just begun.",
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
        broker={ALL: "Offsets begin at 0 again, so consumers pass over new messages until the offset they have is reached or reset."},
        mend=REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-DELETED",
        WARNING,
        "queue of a topic that is not configured is missing",
        meaning="The commit log holds messages of this queue, it has no directory, and topics.json does not know the topic: most likely "
        "the topic was deleted, which leaves its messages in the log until they expire. If topics.json was lost or rolled back, the "
        "queue may be lost as well.",
        broker={
            ALL: "A clean start leaves it so. A start after a crash dispatches the messages it scans again, so a deleted topic may come "
            "back with a part of its messages.",
        },
        mend="Nothing if the topic was deleted on purpose. Otherwise bring topics.json back first, then rebuild: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-LMQ-MISSING",
        WARNING,
        "multi-dispatch queue missing, maybe in good health",
        meaning="Messages in the commit log name this %LMQ% queue and were numbered for it, but it has no directory. Either the broker "
        "never filled such queues (5.3.3 and later number with enableLmq alone, and dispatch only with enableMultiDispatch as well; no "
        "other %LMQ% queue exists, no setting tells), or it is the queue of a lite topic (%LMQ%$parent$topic, 5.5.x), which the broker "
        "deletes when it expires. Otherwise the queue is lost.",
        broker={
            **QUEUE_REBUILT,
            R49: "If only this queue is missing it stays empty and its offsets start again at 0.",
            R50: "Not rebuilt after a clean stop; its offsets start again at 0. After a crash everything from the checkpoint's file on is "
            "dispatched again.",
        },
        mend="Give the broker's settings (--set enableLmq=... --set enableMultiDispatch=...) to know which it is. If the queue is lost: "
        + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-LMQ-OFFSET",
        INFO,
        "multi-dispatch queue is numbered otherwise than its messages",
        meaning="The broker numbers the messages of %LMQ% queues before it writes their units. A number given twice (concurrent appends, "
        "5.1.x) or to a message that is not dispatched (system topics, up to 5.3.x) moves all later units of that queue. Every message "
        "that has a unit is consumed, at the place of its unit.",
        broker={ALL: "Units are appended at the next free place (`[BUG]logic queue order maybe wrong`); numbers go on from there."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-CQ-BEHIND",
        ERROR,
        "queue ends before the log",
        meaning="The last messages of this queue in the commit log have no unit. After a crash that is normal: the log is flushed "
        "before the queues. After a clean stop the messages are invisible and their queue offsets will be given away again. `verify` "
        "simulates the next start: what it writes is a note, what it does not write is an error.",
        broker=QUEUE_REBUILT,
        mend="After a crash: nothing, the start dispatches them again. After a clean stop: " + REBUILD_QUEUES,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CQ-HOLE",
        ERROR,
        "zero unit inside the queue",
        meaning="A unit was never written, or was overwritten with zeros, although units follow. A page that did not reach the disk, or "
        "a write error the broker stepped over (up to 5.3.3).",
        broker={
            ALL: "In one of the last three files of the queue the hole ends the queue: later units are cut, later files deleted, and "
            "new messages reuse their offsets. In an older file consumers get nothing at that place.",
        },
        mend=_REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-UNIT",
        ERROR,
        "unit points to the wrong place",
        meaning=_UNIT_IS_20_BYTES + "The offset of this one is not where the message with this queue offset begins.",
        broker=QUEUE_CUT,
        mend=_REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-SIZE",
        ERROR,
        "unit has the wrong message size",
        meaning=_UNIT_IS_20_BYTES
        + "The size differs from the TOTALSIZE of the message it points to: consumers get a cut message or more than one.",
        broker=QUEUE_CUT,
        mend=_REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-TAGS",
        ERROR,
        "unit has the wrong tags code",
        meaning="The tags code is the Java string hash of TAGS, 0 without tags, and for SCHEDULE_TOPIC_XXXX the time of delivery. A "
        "wrong one hides the message from consumers that subscribe to its tag, shows it to others, or delivers a delayed message at the "
        "wrong time.",
        broker={
            R49: "Not checked. 4.9.2–4.9.8 themselves write the tag hash into SCHEDULE_TOPIC_XXXX when they rebuild after a crash: "
            "delivered at once.",
            R5X: "Not checked; used as it stands.",
        },
        mend="If messageDelayLevel is not the default, give it: --set messageDelayLevel=... or --broker-conf. " + _REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-SHIFTED",
        ERROR,
        "units stand at the wrong queue offsets",
        meaning="From here on every unit points to the message with another QUEUEOFFSET than its place says, by the same distance. A "
        "record was not dispatched once (clean start of 5.3.2 and later on short queues, damaged log), and everything behind moved. "
        "Consumers see messages at offsets that differ from what producers were told.",
        broker={ALL: "Not checked at a start; new messages stay shifted by the same distance (`[BUG]logic queue order maybe wrong`)."},
        mend=REBUILD_QUEUES + " Consumer offsets of this queue then mean other messages: move them by the distance.",
    ),
    Entry(
        "RMQ-CQ-ORDER",
        ERROR,
        "offsets in the queue do not rise",
        meaning="A unit points before its predecessor. Old units reappeared behind a cut, or a unit is damaged. Binary searches (by "
        "time, by minimum offset) go wrong around it.",
        broker={
            R49: "Not checked; messages are served again or out of order.",
            R5X: "As 4.9.x; the search for the queue's minimum may also end at a wrong place, so that messages count as expired.",
        },
        mend=REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-SURPLUS",
        ERROR,
        "unit without message",
        meaning="The unit points into the commit log, but at no message of this queue: the message was overwritten after a cut, or the "
        "unit is left over from a cut queue (a phantom tail).",
        broker={ALL: "Not checked. Consumers get a foreign message, or nothing, at this offset; the next messages continue behind it."},
        mend="If these are the last units of the queue: broker stopped, file copied, write zeros over them to the end of the file. "
        "Otherwise: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-BEYOND",
        ERROR,
        "unit points beyond the end of the log",
        meaning="The queue knows a message that the commit log does not have: the log lost its end (power loss, restored from an older "
        "copy) while the queue kept its own.",
        broker={
            ALL: "Cut at the start: if any queue reaches the log's end, units at or behind that end are dropped from all queues; their "
            "bytes stay."
        },
        mend="If the commit log was restored without its newest files, put them back first. Else nothing: the start cuts these units; "
        "zero them as well to keep them from reappearing.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CQ-STALE",
        WARNING,
        "old units behind the end of the queue",
        meaning="Behind the last valid unit, after a zero unit, old units remain: an earlier start cut the queue, which erases nothing. "
        "If new messages close the space before them, a start takes them for valid.",
        broker={ALL: "Ignored until the units before them are complete; then recovery accepts them as the queue's end."},
        mend="Broker stopped, file copied: write zeros from the finding's position to the end of the file.",
    ),
    Entry(
        "RMQ-CQ-EXPIRED",
        INFO,
        "units of messages that have expired",
        meaning="The first units point before the first commit log file: their messages were deleted with old files. Queue files go "
        "file by file, so some such units always remain.",
        broker={ALL: "The queue's minimum offset is set behind them at the start; the file goes when its last unit has expired."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-CQ-LOST",
        ERROR,
        "message of this unit lies in a damaged range",
        meaning="The unit points into a range of the commit log that cannot be read. This is the list of what the damage cost: topic, "
        "queue and queue offset of each lost message.",
        broker={ALL: "Consumers get an error or nothing at this offset; a pull that meets it may skip to the next commit log file."},
        mend="Restore the commit log range from a replica; the unit itself is right.",
    ),
    Entry(
        "RMQ-CQ-REPEATED",
        INFO,
        "unit repeats its neighbour",
        meaning="The unit is the same as one beside it, and no message in the log has its queue offset: a repair put it in the place of a "
        "lost message, because consumers stall at an empty place and skip messages at a filler. At the end of a queue only a filler in the "
        "log makes it one; else it is a unit too many.",
        broker={ALL: "Serves the neighbour's message once more at this offset."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-CQ-PREBLANK",
        ERROR,
        "filler units not at the beginning of the queue",
        meaning="Filler units (offset 0, size 2147483647) stand only before the first real unit of the queue's first file. Elsewhere "
        "they were written by a tool or are damage.",
        broker={
            ALL: "A pull that meets one jumps to the next commit log file and silently skips the messages between; as last unit it "
            "makes the broker believe that the queue reaches offset 2147483647.",
        },
        mend=_REWRITE_UNIT,
    ),
    Entry(
        "RMQ-CQ-PREBLANK-ONLY",
        ERROR,
        "queue of filler units only",
        meaning="The queue holds filler units and no real one: a crash between the filler and the first unit, or all real units were cut.",
        broker={
            R49: "The queue counts as reaching offset 2147483647: dispatch starts there and no queue gets entries until the log is that "
            "long.",
            R50: "Messages of this queue below 2 GiB are dropped as already built; every start truncates all queues.",
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
        meaning="The queue's last file was created but never got a unit: the broker died right after creating it, or its content was lost.",
        broker={
            R49: "When queues are truncated at the start one zero unit is counted as a message: the maximum offset rises by one, the "
            "queue's first message is appended again.",
            R50: "As 4.9.x for the zero unit; the whole queue may then count as expired. Without truncation: `newPosition < 0`, the "
            "broker does not start.",
            R532: "As 5.0–5.3.1.",
            R534: "As 5.0–5.3.1.",
            R540: "As 5.0–5.3.1.",
            R55: "The zero unit is still counted, but the start no longer fails.",
        },
        mend="Broker stopped: move the all-zero file away, unless the file before it is not full.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CQ-FILELEN",
        ERROR,
        "queue file has the wrong length",
        meaning="All files of a queue have the configured length (mappedFileSizeConsumeQueue, rounded up to a multiple of 20; batch and "
        "ext queues have their own setting). A cut-off copy, or another setting.",
        broker={
            ALL: LENGTH_FAILS,
            R534: "As above; the failed start may also empty delayOffset.json and timercheck: copy config first.",
            R540: "As 5.3.4.",
            R55: "As 5.3.4.",
        },
        mend="Wrong setting: set it to the length the other files have. Cut-off copy: copy again, or extend with zeros (`truncate -s "
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
        meaning="File names are byte offsets in the queue; between two neighbours a file is missing. Messages whose units stood there "
        "cannot be consumed.",
        broker={
            ALL: "Starts; `[BUG]The mappedFile queue's data is damaged` only in a periodic check. Consumers in the gap are sent to the "
            "next file.",
        },
        mend="Put the file back from a copy, else: " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-NAME",
        ERROR,
        "foreign file name in a queue directory",
        meaning="A file or directory in a queue directory has a name that is no offset, or no multiple of the file length.",
        broker={
            R49: "A wrong length fails the load, a right length with a name that is no number too; a sub-directory as well.",
            R5X: "As 4.9.x for files (an empty one that sorts last is deleted, from 5.1.3); directories are ignored.",
        },
        mend="Move it out of the directory before the next start.",
    ),
    Entry(
        "RMQ-CQ-EXT",
        ERROR,
        "extended unit missing or different",
        meaning="With enableConsumeQueueExt the tags code of a unit is the address of an extended unit (tags code, store time, filter "
        "bits). The address leads nowhere, or the extended unit belongs to another message; or the lengths of the extended units, which "
        "follow each other from the first byte of a file on, lead out of it.",
        broker={
            ALL: "`[BUG] can't find consume queue extend file content`: the address is taken for the tags code, so filtering by tag "
            "goes wrong. Where the lengths lead out of the file, the broker does not start (`load exception`, "
            "`IllegalArgumentException: newPosition > limit`)."
        },
        mend="Broker stopped: move consumequeue_ext and consumequeue away and rebuild both. " + REBUILD_QUEUES,
    ),
    Entry(
        "RMQ-CQ-BATCH",
        ERROR,
        "batch unit differs from its record",
        meaning="A unit of a BatchCQ topic (46 bytes: offset, size, tags code, store time, first queue offset, count) disagrees with "
        "the record it stands for.",
        broker={
            R5X: "Not checked beyond offset, size, first offset and count being positive; lookups by queue offset use the values as "
            "they stand."
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
            R532: "As 5.2.0, also at the end of a crash recovery flushed.",
            R534: "Also as second copy beside file queues (rocksdbCQDoubleWriteEnable).",
            R540: "As 5.3.4.",
            R55: "As 5.3.4; the database may lie in consumequeue_rocksdb. Two databases at once: the broker refuses to start.",
        },
        mend="Nothing.",
    ),
)
