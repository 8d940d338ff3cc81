"""Catalogue: the files of the compaction store (5.1 and later)."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING, Entry
from rmqstore.catalogue.releases import R5X

_REBUILD = (
    "`rmqstore recover STORE` writes it again from the messages that are intact and from the commit log. What the commit log no longer has "
    "can only come from a replica."
)

ENTRIES = (
    Entry(
        "RMQ-CM-FILELEN",
        ERROR,
        "compaction file of the wrong length",
        meaning="Files of compactionCq have the length compactionCqMappedFileSize in whole entries of 46 bytes (10485746 by default), "
        "those of compactionLog a multiple of it near compactionMappedFileSize (104857460 by default).",
        broker={R5X: "The queue is not loaded (`create compactionLog exception`): its messages cannot be pulled (NO_MATCHED_LOGIC_QUEUE)."},
        mend="Other setting: configure the broker with it again. Incomplete copy: copy again. " + _REBUILD,
    ),
    Entry(
        "RMQ-CM-NAME",
        ERROR,
        "foreign file among compaction files",
        meaning="Names are 20 digits. A name that ends in .delete was left by a compaction run that did not finish: it renames the old "
        "files, moves the new ones in and deletes the old ones.",
        broker={
            R5X: "Of the correct length: the broker does not start (`load compactionLog ... exception`). Of another length: that queue "
            "cannot be used."
        },
        mend="With the broker stopped: `rmqstore recover STORE` completes the replacement or reverts it, whichever gives files of log and "
        "queue that fit (`--dry-run` only shows the plan, `rmqstore undo STORE` undoes it). Other names: move the files away.",
    ),
    Entry(
        "RMQ-CM-MISMATCH",
        ERROR,
        "compaction log and its queue have different files",
        meaning="Each file of compactionLog has one of the same name in compactionCq, and the other way round. A crash between the two "
        "replacements of a compaction run, or a lost file, leaves one without the other.",
        broker={
            R5X: "`log file mismatch with consumeQueue file` or the reverse: the broker does not start (`load compaction store error`)."
        },
        mend="After a replacement that did not finish: `rmqstore recover STORE`, as for RMQ-CM-NAME. " + _REBUILD,
    ),
    Entry(
        "RMQ-CM-POSITION",
        WARNING,
        "compaction position file is damaged",
        meaning="compaction/position-checkpoint contains for each queue the offset up to which it was compacted (JSON).",
        broker={R5X: "The backup is used if there is one, otherwise the next compaction run reads everything again."},
        mend="Nothing; the broker writes a new one.",
    ),
    Entry(
        "RMQ-CM-RECORD",
        ERROR,
        "message of a compacted log is damaged",
        meaning="compactionLog holds copies of messages one after another; only PHYSICALOFFSET differs from the commit log. Bytes of this "
        "one are no message, the checksum of its body does not match, it is of another queue, its QUEUEOFFSET does not ascend, or it "
        "differs from its message in the commit log.",
        broker={
            R5X: "Starts, and delivers the bytes as they are; clients refuse or misread the message. The commit log is not read for it."
        },
        mend=_REBUILD,
    ),
    Entry(
        "RMQ-CM-ENTRY",
        ERROR,
        "entry of a compacted queue is wrong",
        meaning="Each message of a compacted log has one entry in compactionCq with its offset in that log, size, STORETIMESTAMP and "
        "QUEUEOFFSET, and the entry of offset -1 and size 0 is the last one of a full file. The last message of a log may have no entry "
        "after a crash.",
        broker={R5X: "Starts. The messages concerned cannot be consumed; messages after the last valid entry are removed from the log."},
        mend=_REBUILD,
    ),
    Entry(
        "RMQ-CM-MISSING",
        ERROR,
        "compacted log lacks messages",
        meaning="A compacted log has a copy of the newest message of each key (property KEYS). The commit log has newest messages "
        "after its first copy that it lacks. After a crash, those after its last copy are not counted.",
        broker={R5X: "Starts. Consumers never get these messages; nothing writes them again where a later one of the queue is there."},
        mend="`rmqstore recover STORE` writes their copies again.",
    ),
    Entry(
        "RMQ-CM-GONE",
        ERROR,
        "compacted log of a topic is missing",
        meaning="A topic with cleanup.policy=COMPACTION has messages, and the compaction store has no files of its queue, or a file of its "
        "log does not begin with a record.",
        broker={R5X: "Starts; the topic cannot be pulled, and nothing rebuilds the compacted log from the commit log."},
        mend="Check whether the volume of the directory compaction is mounted, or restore it from a copy or a replica. Otherwise "
        "`rmqstore recover STORE` builds it from the messages that the commit log still has.",
    ),
)
