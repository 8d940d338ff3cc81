"""Findings about RocksDB databases: consume queues, configuration, and what 5.4 and later keep in `rocksdbstore`."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, R5X, R50, R55, R532, R540

_REBUILD = (
    "Queues: `rmqstore recover STORE` moves the database out of the store and sets `abort`; the next start builds the queues from the "
    "commit log. Configuration in config/topics, config/subscriptionGroups and config/consumerOffsets, or in config/metadata: "
    "`rmqstore recover STORE` repairs a copy of the database with the RocksDB library, writes what is left into the JSON files, and moves "
    "these databases out of the store; a start from 5.3.1 on takes the files over. Other databases, and earlier releases: restore the "
    "directory from a copy."
)

ENTRIES = (
    Entry(
        "RMQ-RD-OPEN",
        ERROR,
        "RocksDB does not open a database",
        meaning="CURRENT, the MANIFEST or a table (SST file) that it lists is missing or damaged, so the RocksDB library refuses to open "
        "the database. The finding quotes the library.",
        broker={
            R5X: "Queues: `postLoad Failed`, then `load exception`: the broker does not start. Configuration (config/topics, "
            "config/subscriptionGroups, config/consumerOffsets, config/metadata, config/rdb): the broker ends with status 253 or 255. "
            "Without CURRENT it creates a new database and deletes the tables if there is no write-ahead log (NNNNNN.log), and refuses "
            "if there is one.",
        },
        mend=_REBUILD,
    ),
    Entry(
        "RMQ-RD-BLOCK",
        ERROR,
        "a block of a RocksDB table is damaged",
        meaning="The database opens, but the checksum of a block in one of its tables is wrong, or a table ends too early. Entries of this "
        "block and of blocks that are needed to find others cannot be read. A damaged bloom filter is not detected and does no harm.",
        broker={
            ALL: "Family `offset` of the queues, and every family of a configuration database: the broker does not start.",
            R50: "Family `default` of the queues: the broker starts and serves no entries of the damaged blocks.",
            R532: "As before.",
            R55: "Family `default` of the queues: the broker starts and serves no entries of the damaged blocks, or the load fails after a "
            "crash.",
        },
        mend=_REBUILD,
    ),
    Entry(
        "RMQ-RD-WAL",
        ERROR,
        "the write-ahead log of a RocksDB database is damaged",
        meaning="A record of the write-ahead log (NNNNNN.log) fails its checksum. It holds the latest changes of a configuration; consume "
        "queues do not use it. A missing end of the log, or a missing file, cannot be distinguished from the result of a crash.",
        broker={
            R5X: "Configuration: skips what it cannot read and starts; topics, groups or offsets are missing then.",
        },
        mend="Compare topics and subscription groups with a copy or with another broker before clients use them; its content is in no "
        "other file of the store.",
    ),
    Entry(
        "RMQ-RD-UNLISTED",
        ERROR,
        "tables that the MANIFEST of a RocksDB database does not list",
        meaning="There are SST files that do not belong to the database as its MANIFEST describes it. After a clean stop there are none: "
        "the MANIFEST lost its end, or the files come from another database. After a crash they can be files that were just written, or no "
        "longer needed.",
        broker={
            R5X: "Opens the database without them, and deletes them. Entries that only they contain are lost; queues are built from the "
            "commit log after a crash only, and after a clean stop without the first record of the log.",
        },
        mend=_REBUILD,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-RD-NEW",
        ERROR,
        "the RocksDB database of the queues is missing",
        meaning="The queues of this store are kept in RocksDB, and there is a commit log but no database. With `abort` the next start "
        "creates the database and dispatches the whole log into it.",
        broker={
            R50: "With `abort`: builds all queues. Without it: 5.2.0 serves nothing.",
            R532: "With `abort`: builds all queues. Without it: all but the first record of the log. A queue with a gap serves nothing "
            "before the gap.",
            R55: "With `abort`: builds all queues. Without it: all but the first record of the log.",
        },
        mend="`rmqstore recover STORE` sets `abort`; or create an empty file `abort` in the root. Then start the broker.",
        crash_severity=INFO,
    ),
    Entry(
        "RMQ-RD-BEHIND",
        ERROR,
        "queues in RocksDB end before the log does",
        meaning="The database contains the physical offset up to which the log was dispatched into the queues, and there are records after "
        "it. A broker that is killed leaves this state: entries are written without a write-ahead log.",
        broker={
            ALL: "With `abort`: dispatches from the log file that holds this offset.",
            R50: "Without `abort`: dispatches nothing, so these messages have no queue entries.",
            R532: "Without `abort`: dispatches what is after this offset, but not the record that begins there.",
            R55: "As 5.3.2.",
        },
        mend="`rmqstore recover STORE` sets `abort`; or create an empty file `abort` in the root. Then start the broker.",
        crash_severity=INFO,
    ),
    Entry(
        "RMQ-RD-AHEAD",
        ERROR,
        "queues in RocksDB continue after the end of the log",
        meaning="The database contains the physical offset up to which the log was dispatched into the queues, and the log ends before it: "
        "its last records are lost, or the log was copied earlier than the queues.",
        broker={
            ALL: "Looks in each queue for the last entry before the end of the log by a search that can return an entry long before it. "
            "The messages after that entry are not served, and new ones get their places in the queue. Entries after the end remain: "
            "queues that are not cut serve whatever is stored at their positions later, and nothing after them.",
        },
        mend=_REBUILD,
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-RD-MISSING",
        ERROR,
        "messages without an entry in the RocksDB database of the queues",
        meaning="The database knows the log beyond these records, but has no entry that leads to them. Nothing adds one later: a start "
        "dispatches only what is after the end that the database knows.",
        broker={
            ALL: "Does not serve these messages.",
            R50: "5.2.0 serves nothing of the queue before the gap.",
            R532: "5.3.3: consumers do not get past the gap.",
        },
        mend=_REBUILD,
    ),
    Entry(
        "RMQ-RD-ENTRY",
        ERROR,
        "entries in the RocksDB database of the queues that do not fit the log",
        meaning="An entry has a position, a size or a hash of the tag that is not that of the record with this QUEUEOFFSET, or it leads to "
        "no record.",
        broker={
            ALL: "Serves what is at that position, in the order of the entries, or an error. By a wrong hash of the tag, filters leave the "
            "message out.",
        },
        mend=_REBUILD,
    ),
    Entry(
        "RMQ-RD-REPLACED",
        INFO,
        "entries in RocksDB of messages that a repair replaced",
        meaning="The messages are lost, and a repair of the log wrote a placeholder or bytes that are no message in their place. "
        "Entries in RocksDB stay as they are, so they lead to the beginning of the lost message.",
        broker={ALL: "Serves what is there: a placeholder, or bytes that clients cannot read; they drop the rest of such a pull."},
        mend="Nothing, or move the database out of the store and set `abort`: the next start builds the queues with the placeholders.",
    ),
    Entry(
        "RMQ-RD-OTHER",
        WARNING,
        "entries in the RocksDB database of the queues that no broker writes",
        meaning="The family `default` or `offset` has keys or values of another form, or an entry far from all others of its queue.",
        broker={ALL: "Does not read them."},
        mend="Nothing; if a program other than a broker wrote into the database, find out which.",
    ),
    Entry(
        "RMQ-RD-REACH",
        ERROR,
        "the next start builds queues from a part of the log only",
        meaning="The RocksDB database of the queues is missing, and the log has more files than a start of 5.4.0 or later goes back to. "
        "Messages of the earlier files get no queue entries, so nothing serves them.",
        broker={
            R540: "Dispatches the last commitLogRecoverMaxNum (10) files.",
            R55: "As 5.4.0: with the default, 249 of the 480 messages in 19 files were served; with a larger value all of them.",
        },
        mend="Put commitLogRecoverMaxNum with at least the number of log files into broker.conf before the broker starts, and pass it to "
        "this tool as well (`--set` or `--broker-conf`).",
    ),
    Entry(
        "RMQ-RD-UNUSED",
        WARNING,
        "a RocksDB database that no switched-on feature needs is damaged",
        meaning="`rocksdbstore` is created by every broker from 5.4.0 on, but used only with indexRocksDBEnable, timerRocksDBEnable or "
        "transRocksDBEnable; `kvStore` only with popConsumerKVServiceEnable. None of these is known to be on.",
        broker={
            R5X: "5.4.0 and later log `MessageRocksDBStorage init error` and start; if one of the features is on, its data is missing.",
        },
        mend="If one of the first three is on, pass it (`--broker-conf`): `rmqstore recover STORE` builds `rocksdbstore` from the log. "
        "Restore `kvStore` from a copy if it is used. Otherwise nothing.",
    ),
    Entry(
        "RMQ-RD-TIMER",
        ERROR,
        "timed messages in RocksDB contradict the log",
        meaning="With timerRocksDBEnable (5.4.0 and later) the family `timer` of rocksdbstore has for each timed message the time, the "
        "unique key and the place of its record, and up to where the queue of rmq_sys_wheel_timer was read. An entry names no such record, "
        "or a message that was read has no entry and was not delivered.",
        broker={R5X: "The message is skipped without a word, and is never delivered."},
        mend="With the broker stopped: `rmqstore recover STORE` with the broker's settings builds the database from the log, so that each "
        "message that waits is delivered once.",
    ),
    Entry(
        "RMQ-RD-INDEX",
        WARNING,
        "the index in RocksDB contradicts the log",
        meaning="With indexRocksDBEnable (5.4.0 and later) the family `default` of rocksdbstore has an entry for the unique key, each key "
        "and the tag of each message with a unique key, from the first message of an entry to the one that `lastOffsetPy` names. Entries "
        "are missing there, or name no message with this key.",
        broker={R5X: "Queries by key or message id miss the message, or find another one; consuming is not affected."},
        mend="`rmqstore query STORE --key KEY --scan` searches the log itself. With the broker stopped, `rmqstore recover STORE` with "
        "the broker's settings builds the index from the log.",
    ),
    Entry(
        "RMQ-RD-TRANS",
        ERROR,
        "open transactions in RocksDB contradict the log",
        meaning="With transRocksDBEnable and transWriteOriginTransHalfEnable=false (5.4.0 and later) the family `trans` of rocksdbstore "
        "has an entry for each half message without an answer, up to the one that `lastOffsetPy` names. An entry names no half message, or "
        "one with an answer, or a half message has no entry although the producer cannot have been asked for it as often as is allowed.",
        broker={R5X: "Without an entry the producer is not asked, and the transaction stays open; an entry without a message is dropped."},
        mend="With the broker stopped: `rmqstore recover STORE` with the broker's settings builds the database from the log. "
        "`rmqstore pending STORE` lists the open transactions.",
    ),
    Entry(
        "RMQ-RD-POP",
        WARNING,
        "popped messages in RocksDB contradict the queues",
        meaning="With popConsumerKVServiceEnable (5.3.2 and later) kvStore has an entry for each message that a group popped and did not "
        "acknowledge. An entry has another form, names another message in its key than in its value, or is of a message after the end of "
        "its queue, as where the end of the log was lost.",
        broker={
            R5X: "When the time of an entry comes, the broker delivers what is at its queue offset then: a later message once more. "
            "An entry of another form is not delivered."
        },
        mend="`rmqstore pending STORE` lists the messages. No repair is needed: groups that consume by POP may get single messages twice.",
    ),
    Entry(
        "RMQ-RD-LIBRARY",
        WARNING,
        "the RocksDB library could not read a database",
        meaning="The library ended (a crash, too much memory) or took too long while it read the database, or there is no permission to "
        "read a file. Nothing is known about this database.",
        broker={ALL: "Unknown."},
        mend="Copy the directory to another place and look at it with RocksDB's `ldb`, or run as the user that the broker runs as.",
    ),
)
