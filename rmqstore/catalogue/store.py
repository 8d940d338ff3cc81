"""Catalogue: the store as a whole, its marks and what does not belong there."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, R5X, R49, R50, R55, R532, R534, R540

ENTRIES = (
    Entry(
        "RMQ-ST-ABORT",
        INFO,
        "the broker did not stop cleanly",
        meaning="The file `abort` exists: the broker crashed or was killed, runs now, or stopped with a full disk or queue writes that "
        "failed. Findings that a crash normally leaves are therefore reported as info or warning.",
        broker={
            R49: "Crash recovery: scans the log from the checkpoint on, builds missing queue units, deletes index files newer than the "
            "checkpoint, cuts the log at the first bad record.",
            R50: "As 4.9.x.",
            R532: "As 4.9.x.",
            R534: "As 4.9.x; a start that fails may remove `abort`.",
            R540: "As 5.3.4, at most commitLogRecoverMaxNum (10) files back.",
            R55: "As 5.4.0, from the checkpoint's logicsPhysicalOffset.",
        },
        mend="Do not remove it: without it the start is a clean one and does not repair the queues.",
    ),
    Entry(
        "RMQ-ST-LOCK",
        INFO,
        "lock file is missing or unusual",
        meaning="The file `lock` holds the text `lock` and stays after every stop. Without it this directory was never started by a "
        "broker, or was copied in part.",
        broker={ALL: "Made anew at the start."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-ST-IN-USE",
        WARNING,
        "a process has this store open",
        meaning="A broker (or another process) holds the store's lock or files. What is read changes meanwhile, so findings at the end "
        "of log, queues and index may be about a moment that has passed.",
        broker={
            ALL: "A second broker started on a store in use runs crash recovery first, deletes the live broker's next file and newest "
            "index file, and only then fails with `Lock failed`. Messages written after that are lost at the next restart."
        },
        mend="Never start a broker to have a look. Verify again after the broker has stopped, or verify a snapshot.",
    ),
    Entry(
        "RMQ-ST-FOREIGN",
        WARNING,
        "file that does not belong to the store",
        meaning="No release writes a file of this name here. In the commit log, queue and timer log directories a foreign file can keep "
        "the broker from starting; elsewhere it is ignored.",
        broker={
            R49: "In a directory of mapped files: wrong length or a name that is no number fails the load; a sub-directory does too. "
            "Elsewhere ignored.",
            R50: "As 4.9.x; from 5.1.0 sub-directories are ignored, from 5.1.3 an empty file that sorts last is deleted.",
            R532: "As 5.1.3.",
            R534: "As 5.1.3.",
            R540: "As 5.1.3.",
            R55: "As 5.1.3.",
        },
        mend="Move it out of the store.",
    ),
    Entry(
        "RMQ-ST-OWNER",
        WARNING,
        "files with different owners",
        meaning="Some files belong to another user or group than the rest, mostly because a broker was once started, or files were "
        "restored, as root.",
        broker={ALL: "A file it may not write fails the load; a file it may not delete stays at expiry."},
        mend="chown the named files to the owner of the store.",
    ),
    Entry(
        "RMQ-ST-MODE",
        WARNING,
        "file without permission for its owner",
        meaning="The owner may not read and write this file, or not enter this directory.",
        broker={ALL: "The load fails with an access error, or, for index and configuration, goes on without the file."},
        mend="chmod u+rw the file (directories: u+rwx).",
    ),
    Entry(
        "RMQ-ST-UNREADABLE",
        ERROR,
        "file cannot be read",
        meaning="Reading failed: no permission, an I/O error of the disk, or the file vanished or shrank while it was read. What it "
        "holds was not verified.",
        broker={ALL: "An I/O error while mapping or reading fails the load, or kills the broker with a bus error later."},
        mend="Permission: run as the owner of the store. I/O error: look at the kernel log, copy the store off this disk now, replace "
        "the file from a replica.",
    ),
    Entry(
        "RMQ-ST-KIND",
        ERROR,
        "directory where a file should be, or the reverse",
        meaning="Something of this name exists but is of the wrong kind.",
        broker={
            R49: "A directory in place of checkpoint, or among mapped files, fails the load; in index the later files are not loaded.",
            R5X: "A directory in place of checkpoint fails the load, also one with a number as name in index; among mapped files it is "
            "ignored (from 5.1.0).",
        },
        mend="Move it away; the broker makes `checkpoint`, `abort` and `lock` anew.",
    ),
    Entry(
        "RMQ-ST-EMPTY",
        INFO,
        "store without messages",
        meaning="There are neither commit log records nor queues: a broker that never got a message, or the wrong directory.",
        broker={ALL: "Starts with an empty store."},
        mend="Nothing, if you expected it. Otherwise check the path and storePathCommitLog.",
    ),
    Entry(
        "RMQ-ST-EPOCH",
        WARNING,
        "epoch file is damaged or does not fit the log",
        meaning="epochFileCheckpoint (controller mode) lists where each master's term began. Its count or checksum is wrong, epochs or "
        "offsets do not rise, or one begins behind the end of the log.",
        broker={
            R49: "Does not exist.",
            R5X: "Count or checksum wrong: epochFileCheckpoint.bak is used. A first line that is no number stops the start. From 5.4.0 "
            "on entries behind the log's end may stay after a cut; a replica then truncates at a wrong place.",
        },
        mend="Put epochFileCheckpoint.bak in its place if that one is whole; drop lines whose start offset is at or behind the log's "
        "end, correct the count and set the checksum line to 0 (not checked).",
    ),
    Entry(
        "RMQ-ST-DLEDGER",
        INFO,
        "DLedger store",
        meaning="The messages lie in a DLedger log (dledger-*/data), where every record is wrapped in an entry of 48 more bytes. Records, "
        "queues and index are verified as in any other store; DLedger's own index, terms and checkpoint are not.",
        broker={
            R49: "DLedger recovers its own log first.",
            R50: "As 4.9.x; from 5.2.0 on a crash start computes the end 48 bytes too small per entry and cuts queues that are right "
            "(recheckReputOffsetFromCq=true brings them back).",
            R532: "As 5.2.0.",
            R534: "As 5.2.0.",
            R540: "As 5.2.0.",
            R55: "Queue units behind the log's end survive a crash.",
        },
        mend="Nothing to mend. rmqstore dump --part dledger_index shows what DLedger's index says.",
    ),
    Entry(
        "RMQ-ST-PATH",
        WARNING,
        "configured commit log directory does not exist",
        meaning="storePathCommitLog or readOnlyCommitLogStorePaths names a directory that is not there: a volume is not mounted, or the "
        "setting is not the one of this store. Files that lay in it are missing from the log.",
        broker={ALL: "Makes an empty directory in its place and starts with the files of the other directories."},
        mend="Mount the volume or correct the setting before a broker starts.",
    ),
)
