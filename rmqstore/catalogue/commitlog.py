"""Catalogue: the files of the commit log and their contents other than whole records."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, COPY_FIRST, LENGTH_FAILS, R5X, R49, R50, R55, R532, R534, R540, SCAN_STOPS

ENTRIES = (
    Entry(
        "RMQ-CL-DAMAGE",
        ERROR,
        "unreadable range in the commit log",
        meaning="A range of bytes is not a sequence of records; records after it are readable. Everything inside the range is lost in this "
        "log, whatever the cause (bad sector, foreign write, lost page, restored block). If its first bytes show more, the finding is "
        "RMQ-CL-MAGIC, -SIZE, -LENGTHS or -BLANK instead.",
        broker=SCAN_STOPS,
        mend=COPY_FIRST
        + "Fetch the range from a replica (same physical offsets) and write it back byte for byte. Without a replica `rmqstore recover "
        "STORE` fills it, keeps everything after it and lists what is lost.",
    ),
    Entry(
        "RMQ-CL-BLANK",
        ERROR,
        "end-of-file mark is wrong or in the wrong place",
        meaning="A commit log file ends with BLANK: the number of bytes left in the file and the magic 0xCBD43194. This one has another "
        "number, or records follow it in the same file. Recovery and dispatch never read records after it in the file.",
        broker={
            R49: "The size is not checked; the scan continues with the next file.",
            R50: "The size is not checked; the scan continues with the next file.",
            R532: "A size beyond the file's end stops the scan: the log is cut here, later files are deleted. A smaller wrong size is "
            "accepted.",
            R534: "As 5.3.2–5.3.3.",
            R540: "As 5.3.2–5.3.3.",
            R55: "As 5.3.2–5.3.3.",
        },
        mend=COPY_FIRST
        + "`rmqstore recover STORE` writes the mark again if the rest of the file holds no records. If records follow the mark, restore "
        "the 8 bytes from a replica.",
    ),
    Entry(
        "RMQ-CL-NOBLANK",
        ERROR,
        "file ends without end-of-file mark although another file follows",
        meaning="The last record of this file is not followed by BLANK, although the log continues in the next file. A broker always "
        "leaves at least 8 bytes for the mark, so the mark, or records with it, were overwritten or never reached the disk.",
        broker=SCAN_STOPS,
        mend=COPY_FIRST + "If a replica has records here, restore the range from it. Otherwise: `rmqstore recover STORE`.",
    ),
    Entry(
        "RMQ-CL-TORN",
        ERROR,
        "last record is incomplete",
        meaning="The log ends inside a record: header and part of the body are there, the rest is zero or cut off. A killed broker or a "
        "power loss leaves such a record; the message was not acknowledged with SYNC_FLUSH. After a clean stop it means that the end of "
        "the log was damaged later.",
        broker={
            ALL: "Start after a crash: the record fails its check, the log ends before it and the next message overwrites it. Nothing "
            "else is lost."
        },
        mend="After a crash: nothing, the next start cuts it. After a clean stop: restore the end of the log from a replica; without "
        "one the record is lost.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CL-STALE",
        WARNING,
        "stale records after the end of the log",
        meaning="The file contains complete old records after the end of the log: an earlier recovery cut the log, which moves positions "
        "but erases nothing. If the broker later writes a record that ends exactly where they begin, a later start takes them for new.",
        broker={
            ALL: "Ignored while the log ends before them. When a new record ends exactly where a stale one begins, the next scan accepts "
            "the stale records again: the end of the log moves forward and cut queue entries reappear.",
        },
        mend="With the broker stopped: `rmqstore truncate STORE` writes zeros from there to the end of that file. If these records should "
        "not have been cut, print them first: `rmqstore dump STORE --part commitlog --from-offset OFFSET`.",
    ),
    Entry(
        "RMQ-CL-TAILBYTES",
        WARNING,
        "bytes after the end of the log that are not records",
        meaning="The bytes after the last record are neither zeros nor records. Harmless as long as the log ends before them. "
        "transientStorePoolEnable and, from 5.5.0 on, writeWithoutMmap leave such bytes without any fault; otherwise another program wrote "
        "into the file.",
        broker={
            ALL: "The scan stops at them, which is the correct end of the log.",
            R55: "With writeWithoutMmap every record is padded with old bytes up to the next multiple of 4096; if the padding begins with "
            "a complete old record, a start after a crash accepts it as new data.",
        },
        mend="Nothing if the broker runs with transientStorePoolEnable or writeWithoutMmap. Otherwise `rmqstore truncate STORE`, "
        "broker stopped: it writes zeros from there to the end of that file.",
    ),
    Entry(
        "RMQ-CL-NORECORD",
        ERROR,
        "no record in the whole log",
        meaning="The log has bytes but not a single record of its own: the files were overwritten, encrypted or compressed, come from "
        "another source, or have wrong names.",
        broker={
            ALL: "The log ends at its start: new messages are written over these bytes, and queues and index lose the entries that point "
            "into it.",
        },
        mend="Do not start a broker. Find out where these files come from, and restore the correct ones from a copy or a replica. A repair "
        "refuses such a log; to begin with an empty log, move the files away.",
    ),
    Entry(
        "RMQ-CL-GAP",
        ERROR,
        "commit log files missing",
        meaning="File names are start offsets; between two of them a file is missing. Messages of that range are not on this disk, and "
        "queue entries for them point to nothing.",
        broker={
            R49: "Starts without a warning; only a check every ten minutes logs `[BUG]The mappedFile queue's data is damaged`. Scans jump "
            "over the gap, reads and dispatch inside it find nothing and stop there.",
            R5X: "Logs `the adjacent mappedFile's offset don't match` at load and continues as 4.9.x.",
        },
        mend="Look for the file in the other directories of storePathCommitLog, in lost+found and on a replica, and put it back under "
        "its own name. Never rename files to close a gap: the name is the offset.",
    ),
    Entry(
        "RMQ-CL-REMOVED",
        ERROR,
        "first files of the commit log removed",
        meaning="The log does not begin at offset 0, and no broker removed its first files: queue or index files that contain only their "
        "messages still exist, which a broker deletes in the same round, and no queue has lost its first file.",
        broker={
            ALL: "Starts without a warning. Queues begin with the first message in the log; groups that have not read the messages before "
            "it skip them."
        },
        mend="Look for the files in the other directories of storePathCommitLog, in a copy and on a replica, and put them back under their "
        "own names before a start. If there is no copy of them, nothing more is lost by a start.",
    ),
    Entry(
        "RMQ-CL-OVERLAP",
        ERROR,
        "commit log files overlap",
        meaning="Two files claim the same physical offsets: the same name in two directories, or names closer together than the file "
        "length (a copy of another store, or a changed mappedFileSizeCommitLog).",
        broker={
            ALL: "Both are loaded; which of them answers a read depends on the order of the names, and the later one ends the earlier "
            "one's range."
        },
        mend=COPY_FIRST
        + "Decide by content which file is the correct one (`rmqstore dump FILE --limit 1`: physical_offset must equal the file name) and "
        "move the other out of the directory.",
    ),
    Entry(
        "RMQ-CL-FILELEN",
        ERROR,
        "commit log file has the wrong length",
        meaning="All files of a commit log have the same length, mappedFileSizeCommitLog. A shorter one comes from an incomplete copy or a "
        "full disk, a longer one was written with another setting; 5.5.x with writeWithoutMmap creates files that are too long if the size "
        "is not a multiple of 4096.",
        broker={ALL: LENGTH_FAILS},
        mend="Wrong setting: set mappedFileSizeCommitLog to the length of the other files. Incomplete copy: copy the file again from its "
        "source; without one, extend it with zeros to the full length (`truncate -s LENGTH FILE`) so that the rest can be read. Too long: "
        "cut it to that length.",
    ),
    Entry(
        "RMQ-CL-NAME",
        ERROR,
        "foreign file among the commit log files",
        meaning="A file in a commit log directory has a name that is not an offset. A broker takes every file there for a part of the log, "
        "hidden ones too.",
        broker={
            R49: LENGTH_FAILS + " With the correct length the name fails the load.",
            R5X: "As 4.9.x; only an empty file that sorts last is deleted instead, from 5.1.3 on.",
        },
        mend="Move it out of the directory before the next start.",
    ),
    Entry(
        "RMQ-CL-ZEROLEN",
        ERROR,
        "commit log file of length zero",
        meaning="A crash or a full disk between creating and extending the next file leaves an empty one. It holds no data.",
        broker={
            R49: LENGTH_FAILS,
            R50: "5.1.3 and later delete it if it sorts last; earlier releases do not start. An empty file that is not the last one "
            "fails the load.",
            R532: "Deleted at load if it sorts last, else the load fails.",
            R534: "As 5.3.2–5.3.3.",
            R540: "As 5.3.2–5.3.3.",
            R55: "As 5.3.2–5.3.3.",
        },
        mend="Delete it if it is the last file. If it is not, its content was lost: put the file back from a replica.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CL-PREALLOC",
        ERROR,
        "pre-allocated file after the end of the log",
        meaning="The broker creates the next file in advance, full of zeros, and deletes it when it stops cleanly, so after a crash this "
        "is normal. After a clean stop a file of zeros at the end can also be one whose content never reached the disk.",
        broker={ALL: "The log ends before it; the file is deleted at the start and created when it is needed."},
        mend="After a crash: nothing. After a clean stop: compare the end of the log with a replica; if the messages of this file are "
        "not expected, move the file away.",
        crash_severity=INFO,
    ),
    Entry(
        "RMQ-CL-ZEROFILE",
        ERROR,
        "file full of zeros in the middle of the log",
        meaning="A file with other files after it contains nothing but zeros: its content was lost, or it is a sparse copy without its "
        "data.",
        broker=SCAN_STOPS,
        mend=COPY_FIRST + "Put the file back from its source or a replica.",
    ),
    Entry(
        "RMQ-CL-EMPTY",
        ERROR,
        "no commit log although queues exist",
        meaning="The commit log directory is empty or missing while queues exist: a volume is not mounted, storePathCommitLog names "
        "another directory, or the files were deleted. Without storePathCommitLog, brokers up to 4.9.3 keep the log in store/commitlog of "
        "the home directory of their user, whatever storePathRootDir is, and later ones in commitlog of the root.",
        broker={
            ALL: "`The commitlog files are deleted, and delete the consume queue files`: all queue files and directories are deleted and "
            "the log begins again at offset 0. This cannot be undone. It happens at an upgrade to 4.9.4 or later, too, if the log is in "
            "the home directory and no setting names it."
        },
        mend="Do not start a broker. Mount the volume, correct storePathCommitLog (`rmqstore info STORE --set storePathCommitLog=DIR` "
        "shows the files that are there), or put the files back.",
    ),
)
