"""Catalogue: the store as a whole, its marks and what does not belong there."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, COPY_FIRST, R5X, R49, R50, R55, R532, R534, R540, SCAN_STOPS

ENTRIES = (
    Entry(
        "RMQ-ST-MANIFEST",
        WARNING,
        "a file of a copy is not as in its manifest",
        meaning="`rmqstore snapshot` made the store, and `DEST.manifest.json` beside it has length and SHA-256 of each file. This file is "
        "missing, or has another length or other bytes: a broker was started on the copy, a repair changed it, or its disk did. With "
        "`--quick` lengths alone are compared.",
        broker={ALL: "Ignored."},
        mend="If no broker was started on the copy, take a new one: its disk or a transfer changed it. Otherwise remove the manifest.",
    ),
    Entry(
        "RMQ-ST-ABORT",
        INFO,
        "the broker did not stop cleanly",
        meaning="The file `abort` exists: the broker crashed or was killed, is running, or stopped with a full disk or after failed queue "
        "writes. Findings that a crash normally causes are therefore reported as info or warning.",
        broker={
            R49: "Crash recovery: scans the log from the checkpoint on, builds missing queue entries, deletes index files newer than the "
            "checkpoint, cuts the log at the first bad record.",
            R50: "As 4.9.x.",
            R532: "As 4.9.x.",
            R534: "As 4.9.x; a start that fails may remove `abort`.",
            R540: "As 5.3.4, at most commitLogRecoverMaxNum (10) files back.",
            R55: "As 5.4.0, from the checkpoint's logicsPhysicalOffset.",
        },
        mend="Do not remove it: without it the start counts as clean and does not repair the queues.",
    ),
    Entry(
        "RMQ-ST-UNFINISHED",
        ERROR,
        "a repair was stopped in the middle",
        meaning="A command that changes the store was killed or failed before it was complete: some of its changes are done and some are "
        "not. Other findings may follow from that.",
        broker={ALL: "Starts on the files as they are and may cut or rewrite them; then the repair can be neither continued nor undone."},
        mend="Before anything else, continue it (`rmqstore apply STORE/.rmqstore/ID/plan.json`) or undo it (`rmqstore undo STORE ID`). "
        "`rmqstore history STORE` lists all transactions.",
    ),
    Entry(
        "RMQ-ST-TRANSACTION",
        WARNING,
        "unexpected content in the folder .rmqstore",
        meaning="`.rmqstore` contains something that no repair creates: a folder with another name or a link, or a plan or journal that "
        "cannot be read. It was damaged, or another program created it. As long as it exists no command changes the store; a folder that "
        "only has another name is ignored.",
        broker={ALL: "Ignored."},
        mend="Move it out of the store, and keep it: it may hold old bytes of the store.",
    ),
    Entry(
        "RMQ-ST-LINK",
        WARNING,
        "symbolic link that no setting confirms",
        meaning="A part of the store, or something below it, is a symbolic link. The owner of the store can create one, so the link alone "
        "does not show that its target belongs to the store. A repair follows only the link of a part, and only if a setting names its "
        "target.",
        broker={ALL: "Follows it."},
        mend="Part of the store: name the target in broker.conf or with --set; the message contains the setting. Below a part: replace the "
        "link with the file or directory itself.",
    ),
    Entry(
        "RMQ-ST-LOCK",
        INFO,
        "lock file is missing or unusual",
        meaning="The file `lock` contains the text `lock` and remains after every stop. If it is missing, no broker was ever started on "
        "this directory, or the directory was copied only in part.",
        broker={ALL: "Created at the start."},
        mend="Nothing.",
    ),
    Entry(
        "RMQ-ST-IN-USE",
        WARNING,
        "a process has this store open",
        meaning="A broker (or another process) holds the store's lock or has its files open. The files change while they are read, so "
        "findings at the end of log, queues and index may be out of date.",
        broker={
            ALL: "A second broker started on a store in use runs crash recovery first, deletes the live broker's next file and newest "
            "index file, and only then fails with `Lock failed`. Messages written after that are lost at the next restart."
        },
        mend="Never start a broker only to inspect the store. Verify again after the broker has stopped, or verify a snapshot.",
    ),
    Entry(
        "RMQ-ST-FOREIGN",
        WARNING,
        "file that does not belong to the store",
        meaning="No release writes a file of this name here. In the commit log, queue and timer log directories a foreign file can prevent "
        "the broker from starting; in other places it is ignored.",
        broker={
            R49: "In a directory of mapped files: a wrong length or a name that is not a number fails the load, and so does a "
            "sub-directory. Ignored in other places.",
            R50: "As 4.9.x; from 5.1.0 on sub-directories are ignored, from 5.1.3 on an empty file that sorts last is deleted.",
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
        meaning="Some files belong to another user or group than the rest, usually because a broker was once started, or files were "
        "restored, as root.",
        broker={
            ALL: "A file without write permission fails the load; a file that it is not permitted to delete remains after it has expired."
        },
        mend="chown the named files to the owner of the store.",
    ),
    Entry(
        "RMQ-ST-MODE",
        WARNING,
        "file without permission for its owner",
        meaning="The owner has no permission to read and write this file, or to enter this directory.",
        broker={ALL: "The load fails with an access error, or, for index and configuration, the start continues without the file."},
        mend="chmod u+rw the file (directories: u+rwx).",
    ),
    Entry(
        "RMQ-ST-UNREADABLE",
        ERROR,
        "file cannot be read",
        meaning="Reading failed: no permission, an I/O error of the disk, or the file vanished or shrank while it was read. Its content "
        "was not verified.",
        broker={ALL: "An I/O error while mapping or reading fails the load, or kills the broker with a bus error later."},
        mend="Permission: run as the owner of the store. I/O error: look at the kernel log, copy the store to another disk now, replace "
        "the file from a replica.",
    ),
    Entry(
        "RMQ-ST-KIND",
        ERROR,
        "directory where a file should be, or the reverse",
        meaning="The name exists, but it is of the wrong kind.",
        broker={
            R49: "A directory in place of checkpoint, or among mapped files, fails the load; in index the later files are not loaded.",
            R5X: "A directory in place of checkpoint fails the load, also one with a number as name in index; among mapped files it is "
            "ignored (from 5.1.0).",
        },
        mend="Move it away; the broker creates `checkpoint`, `abort` and `lock` if they are missing.",
    ),
    Entry(
        "RMQ-ST-EMPTY",
        INFO,
        "store without messages",
        meaning="There are neither commit log records nor queues: a broker that never received a message, or the wrong directory.",
        broker={ALL: "Starts with an empty store."},
        mend="Nothing if this is expected. Otherwise check the path and storePathCommitLog.",
    ),
    Entry(
        "RMQ-ST-EPOCH",
        WARNING,
        "epoch file is damaged or does not fit the log",
        meaning="epochFileCheckpoint (controller mode) lists where each master's term began. Its count or checksum is wrong, epochs or "
        "offsets do not rise, or one begins after the end of the log.",
        broker={
            R49: "Does not exist.",
            R5X: "Count or checksum wrong: epochFileCheckpoint.bak is used. A first line that is not a number prevents the start. From "
            "5.4.0 on entries after the end of the log may remain after a cut; a replica then truncates at a wrong place.",
        },
        mend="Replace it with epochFileCheckpoint.bak if that file is complete; remove lines whose start offset is at or after the end of "
        "the log, correct the count and set the checksum line to 0 (not checked).",
    ),
    Entry(
        "RMQ-ST-IDENTITY",
        WARNING,
        "identity of the broker is damaged or of another broker",
        meaning="brokerIdentity (controller mode) has cluster, broker name and the id that the controller gave to this replica. It is not "
        "of this form, or its names are not those of the settings: the store was copied from another broker.",
        broker={
            R49: "Does not exist.",
            R5X: "Starts. Damaged: the broker registers as a new replica with the next id. Other names: it cannot register (`Check and "
            "find that metadata/tempMetadata invalid`), and is neither elected nor copied to.",
        },
        mend="Of another broker: remove brokerIdentity and brokerIdentity-temp, with the broker stopped. Damaged: write the id again that "
        "the controller has for this address (`mqadmin getSyncStateSet`), or remove the file, and the old id with "
        "`mqadmin cleanBrokerMetadata`.",
    ),
    Entry(
        "RMQ-ST-DLEDGER",
        INFO,
        "DLedger store",
        meaning="The messages are stored in a DLedger log (dledger-*/data), where every record is wrapped in an entry of 48 more bytes. "
        "Records, queues and index are verified as in any other store, and so are DLedger's own headers, index, terms and checkpoint.",
        broker={
            R49: "DLedger recovers its own log first.",
            R50: "As 4.9.x; from 5.2.0 on a crash start computes the end 48 bytes too small per entry and cuts queues that are correct "
            "(recheckReputOffsetFromCq=true restores them).",
            R532: "As 5.2.0.",
            R534: "As 5.2.0.",
            R540: "As 5.2.0.",
            R55: "Queue entries after the end of the log remain after a crash.",
        },
        mend="Nothing. `rmqstore dump STORE --part dledger_index` shows DLedger's own index.",
    ),
    Entry(
        "RMQ-ST-PATH",
        WARNING,
        "configured commit log directory does not exist",
        meaning="storePathCommitLog or readOnlyCommitLogStorePaths names a directory that does not exist: a volume is not mounted, or the "
        "setting belongs to another store. The files of that directory are missing from the log.",
        broker={ALL: "Creates an empty directory in its place and starts with the files of the other directories."},
        mend="Mount the volume or correct the setting before a broker starts.",
    ),
    Entry(
        "RMQ-ST-SETTING",
        ERROR,
        "setting contradicts the files",
        meaning="A configured file length differs from the length of this store's files: the store was written by a broker with another "
        "setting.",
        broker={
            ALL: "`length not matched message store config value`: does not start. Cutting or extending a file to the configured length "
            "loses messages."
        },
        mend="Change the setting, never the files.",
    ),
    Entry(
        "RMQ-ST-NO-START",
        ERROR,
        "the broker does not start",
        meaning="Something prevents a broker of this release from loading or starting; the message quotes the line that it prints. Trying "
        "again does not help and does harm: the stop that follows the failed start writes back empty files for configuration that was not "
        "loaded yet.",
        broker={
            R49: "A configuration file that cannot be read: consumerOffset.json and consumerFilter.json are written back empty. Failures "
            "of the message store do not change the configuration.",
            R50: "As 5.3.2–5.3.3; 5.0.0 also empties consumerOrderInfo.json, and after failures of the message store delayOffset.json.",
            R532: "A configuration file that cannot be read: consumerFilter.json is emptied. Failures of the message store write "
            "nothing, those of timer and schedule empty delayOffset.json.",
            R534: "A configuration file that cannot be read: topics.json, subscriptionGroup.json, consumerOffset.json and others that are "
            "loaded after it are written back with defaults. Failures of the message store empty delayOffset.json and set timercheck to "
            "zero. `abort` may be removed, so that the next start counts as clean.",
            R540: "As 5.3.4.",
            R55: "As 5.3.4.",
        },
        mend="Copy the store with its configuration before the broker is started again, then repair what the message names. The content of "
        "a configuration file that a failed start has emptied is in its `.bak` until the next failed start.",
    ),
    Entry(
        "RMQ-ST-CUT",
        ERROR,
        "the next start discards messages",
        meaning="Recovery stops at a place with readable messages after it. Everything after that place is removed from the log: later "
        "files are deleted, the rest of this file is overwritten, queues are cut to that offset and their offsets are reused for new "
        "messages.",
        broker=SCAN_STOPS,
        mend=COPY_FIRST
        + "Repair the record at which recovery stops, from a replica if there is one, or choose a way to start that does not read it.",
    ),
    Entry(
        "RMQ-ST-ABORT-GONE",
        WARNING,
        "abort is missing from a store that looks crashed",
        meaning="A broker that stops cleanly deletes the pre-allocated file and leaves no incomplete record. If either exists and `abort` "
        "does not, `abort` was removed by hand or by a failed start (5.3.4 and later), or the end of the log was damaged after a clean "
        "stop. The next start counts as clean and does not repair the queues.",
        broker={
            R49: "A clean start scans the last three files and adds missing queue entries at the very end.",
            R50: "A clean start dispatches nothing: messages without queue entries stay invisible.",
            R532: "A clean start skips the first record after the end of the queues. If a queue reaches beyond the end of the log, the "
            "scan begins in the pre-allocated file: new messages are written after a gap, and a later start after a crash deletes them.",
            R534: "A clean start skips the first record after the end of the queues.",
            R540: "As 5.3.4.",
            R55: "As 5.3.4.",
        },
        mend="Compare the starts with and without `abort`. If the broker crashed, create an empty file `abort` before the start.",
    ),
    Entry(
        "RMQ-ST-RELEASE",
        WARNING,
        "release or setting that handles this store differently",
        meaning="The release that starts, or one of its settings, handles this store differently from the release that wrote it.",
        broker={ALL: "See the message."},
        mend="Start the release that wrote the store, or first compare what the releases do.",
    ),
    Entry(
        "RMQ-ST-SPACE",
        WARNING,
        "little free space on the disk",
        meaning="The disk of the commit log or of the queues is nearly full, or has no space for the next files. Files are created at full "
        "length, but their blocks are allocated only when they are written, so a broker notices too late.",
        broker={
            ALL: "Above 85 % used the oldest commit log files are deleted whatever their age, above 90 % no messages are taken either. A "
            "write into a mapped file for which no block is left kills the process.",
        },
        mend="Free space before the start; do not raise the limits.",
    ),
)
