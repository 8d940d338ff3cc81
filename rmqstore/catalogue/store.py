"""Catalogue: the store as a whole, its marks and what does not belong there."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, COPY_FIRST, R5X, R49, R50, R55, R532, R534, R540, SCAN_STOPS

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
        "RMQ-ST-UNFINISHED",
        ERROR,
        "a repair was stopped in the middle",
        meaning="A command that changes the store was killed, or failed, while it worked: a part of its changes is done and a part is not. "
        "Other findings may follow from that.",
        broker={ALL: "Starts on what is there and may cut or rewrite it; then the repair can no longer be continued or taken back."},
        mend="Before anything else, continue it (`rmqstore apply STORE/.rmqstore/ID/plan.json`) or take it back "
        "(`rmqstore undo STORE ID`). `rmqstore history STORE` lists all transactions.",
    ),
    Entry(
        "RMQ-ST-TRANSACTION",
        WARNING,
        "folder of a repair that cannot be understood",
        meaning="In `.rmqstore` is something that no repair leaves there: a folder with another name or a link, or a plan or journal that "
        "cannot be read. It was damaged, or something else made it. Until it is gone no command changes the store; "
        "a folder that only has another name is left alone.",
        broker={ALL: "Ignored."},
        mend="Move it out of the store, and keep it: it may hold old bytes of the store.",
    ),
    Entry(
        "RMQ-ST-LINK",
        WARNING,
        "symbolic link that nothing confirms",
        meaning="A part of the store, or something below it, is a symbolic link. The owner of the store can make one, so the link alone "
        "does not show that its target belongs to the store. A repair follows only the link of a part, and only if a setting names "
        "its target.",
        broker={ALL: "Follows it."},
        mend="Of a part: name the target in broker.conf or with --set; the message has the setting. Below a part: put the file or "
        "directory itself in the place of the link.",
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
    Entry(
        "RMQ-ST-SETTING",
        ERROR,
        "setting contradicts the files",
        meaning="A configured length of files is not the one that the files of this store have: the store was made by a broker with "
        "another setting.",
        broker={ALL: "`length not matched message store config value`: does not start. A file that is cut or filled up loses messages."},
        mend="Change the setting, never the files.",
    ),
    Entry(
        "RMQ-ST-NO-START",
        ERROR,
        "the broker does not start",
        meaning="Something stops the load or the start of a broker of this release; the message has the line it prints. Trying again "
        "does not help and does harm: what is not loaded yet is written back empty by the stop that follows the failed start.",
        broker={
            R49: "A configuration file that cannot be read: consumerOffset.json and consumerFilter.json are written back empty. Failures "
            "of the message store leave the configuration alone.",
            R50: "As 5.3.2–5.3.3; 5.0.0 also empties consumerOrderInfo.json, and after failures of the message store delayOffset.json.",
            R532: "A configuration file that cannot be read: consumerFilter.json is emptied. Failures of the message store write "
            "nothing, those of timer and schedule empty delayOffset.json.",
            R534: "A configuration file that cannot be read: topics.json, subscriptionGroup.json, consumerOffset.json and others that come "
            "behind it are written back with defaults. Failures of the message store empty delayOffset.json and set timercheck to zero. "
            "`abort` may be removed, so that the next start counts as clean.",
            R540: "As 5.3.4.",
            R55: "As 5.3.4.",
        },
        mend="Copy the store with its configuration before anybody starts the broker once more, then mend what the message names. A "
        "configuration that a failed start has emptied is in `.bak` until the next failed start.",
    ),
    Entry(
        "RMQ-ST-CUT",
        ERROR,
        "the next start throws messages away",
        meaning="Recovery stops at a place behind which readable messages lie. Everything behind it leaves the log: later files are "
        "deleted, the rest of this file is overwritten, queues are cut to that offset and their offsets given to new messages.",
        broker=SCAN_STOPS,
        mend=COPY_FIRST + "Mend the record at which recovery stops, from a replica if there is one, or choose a way to start that does not "
        "meet it.",
    ),
    Entry(
        "RMQ-ST-ABORT-GONE",
        WARNING,
        "abort is missing from a store that looks crashed",
        meaning="A broker that stops cleanly deletes the pre-allocated file and leaves no half record. Such things beside a missing "
        "`abort` mean that somebody removed it by hand, that a start failed (5.3.4 and later remove it then), or that the end of the log "
        "was damaged after a clean stop. The next start counts as clean and does not repair the queues.",
        broker={
            R49: "A clean start: the last three files are scanned, missing queue units at the very end come back.",
            R50: "A clean start dispatches nothing: messages without queue units stay invisible.",
            R532: "A clean start skips the first record behind the end of the queues. If a queue claims more than the log holds, the scan "
            "begins in the pre-allocated file: new messages go behind a gap, and a later crash start deletes them.",
            R534: "A clean start skips the first record behind the end of the queues.",
            R540: "As 5.3.4.",
            R55: "As 5.3.4.",
        },
        mend="Compare both ways to start. If the broker crashed, put an empty file `abort` back before the start.",
    ),
    Entry(
        "RMQ-ST-RELEASE",
        WARNING,
        "trap of this release on this store",
        meaning="The release that starts, or a setting it starts with, treats this store in another way than the one that wrote it.",
        broker={ALL: "See the message."},
        mend="Start the release that wrote the store, or compare first what the releases do.",
    ),
    Entry(
        "RMQ-ST-SPACE",
        WARNING,
        "little room on the disk",
        meaning="The disk of the commit log or of the queues is nearly full, or has no room for the next files. Files are made at full "
        "length but get their blocks only when they are written, so a broker notices too late.",
        broker={
            ALL: "Above 85 % used the oldest commit log files are deleted whatever their age, above 90 % no messages are taken either. A "
            "write into a mapped file for which no block is left kills the process.",
        },
        mend="Make room before the start; raise neither limit.",
    ),
)
