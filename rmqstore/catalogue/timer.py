"""Catalogue: timer wheel, timer log and timer check point (5.0 and later)."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import R5X

_CLEAR_SLOT = (
    "Broker stopped, file copied: write 32 zero bytes over the slot, which empties it; entries that are still in the timer log are added "
    "again at the start."
)

ENTRIES = (
    Entry(
        "RMQ-TM-WHEEL-LENGTH",
        ERROR,
        "timer wheel has the wrong length",
        meaning="The wheel is always 38707200 bytes: 1209600 slots of 32 bytes, independent of any setting.",
        broker={R5X: "`Timer wheel length:... != expected:...`: the broker does not start, and the failed start empties delayOffset.json."},
        mend="`rmqstore recover STORE` builds it from the timer log. Without the file a start does so from the last two files of the "
        "timer log only, and messages of older ones are not delivered.",
    ),
    Entry(
        "RMQ-TM-WHEEL-SLOT",
        ERROR,
        "timer wheel slot is damaged",
        meaning="The slot's time does not belong to its place, or its positions are not entry boundaries of the timer log.",
        broker={
            R5X: "A slot with a foreign time reads as empty: its messages are not delivered. A wrong position delivers wrong messages or "
            "nothing for that second."
        },
        mend="`rmqstore recover STORE` writes the slot as the entries of the timer log say.",
    ),
    Entry(
        "RMQ-TM-WHEEL-BEYOND",
        ERROR,
        "timer wheel slot points beyond the timer log",
        meaning="The slot's newest entry is at or after the end of the timer log: the log lost its last entries (power loss, damage, cut) "
        "and the wheel did not.",
        broker={
            R5X: "Entries written again at the same place link to themselves and the broker busy-loops: one core at 100 %, memory full "
            "within a minute, no request answered, no log line names the cause."
        },
        mend="Before a start: `rmqstore recover STORE` points such slots to the newest remaining entry, or empties them. Entries that are "
        "still in the timer log are added again at the start, the others are created from the queue.",
    ),
    Entry(
        "RMQ-TM-WHEEL-TIME",
        WARNING,
        "timer wheel slot is too far ahead",
        meaning="An entry is stored at most timerRollWindowSlot slots (172800 by default, 604740 at most) and a third of that ahead of the "
        "time it is written; messages that are due later are rolled. This slot is for a later time: it is damaged, or the clock was ahead.",
        broker={R5X: "Not checked; the messages of the slot are delivered at that time."},
        mend="Nothing if the clock was wrong. Otherwise: " + _CLEAR_SLOT,
    ),
    Entry(
        "RMQ-TM-CHAIN",
        ERROR,
        "broken chain of timer log entries",
        meaning="Each entry links to an older entry of the same second. This link points forward, to itself, to a position that is not an "
        "entry boundary, or to an entry of another time.",
        broker={
            R5X: "Not checked: a circle makes the broker busy-loop until memory is full; a wrong link loses the messages of that second."
        },
        mend="`rmqstore recover STORE` leads the link to the newest older entry of the second.",
    ),
    Entry(
        "RMQ-TM-LOG-UNIT",
        ERROR,
        "timer log entry is damaged",
        meaning="An entry is 52 bytes: size 52, link, kind, write time, delay, message offset and size, topic hash. This one breaks these "
        "rules although entries follow it.",
        broker={
            R5X: "In the last one or two files the log is cut here and later files are deleted; slots that point beyond the cut then make "
            "the broker busy-loop. In an older file it is not noticed, but the deletion of old files never continues after it."
        },
        mend="`rmqstore recover STORE` writes the entry again from its message. Where it does not: copy timerwheel, timerlog and config; "
        "removing timerwheel, timerlog, config/timercheck and config/timermetrics together is the safe reset: pending messages remain, "
        "past ones that are still in the queue are delivered once more.",
    ),
    Entry(
        "RMQ-TM-LOG-ORDER",
        WARNING,
        "timer log entries out of order",
        meaning="Entries are written in the order of the timer topic's messages. Here the message offset decreases: a restart added "
        "messages to the timer that were in it already, or the offset in an entry is damaged.",
        broker={R5X: "Not checked; messages with two entries are delivered twice."},
        mend="Nothing: the second delivery cannot be distinguished from the first.",
    ),
    Entry(
        "RMQ-TM-LOG-FILELEN",
        ERROR,
        "timer log file missing or of the wrong length",
        meaning="All files have the length mappedFileSizeTimerLog (104857600 by default) and follow each other without gap.",
        broker={
            R5X: "Wrong length: the timer does not load, the broker does not start and delayOffset.json is emptied. An empty last file is "
            "deleted. Files are missing while timercheck exists: all pending messages are lost."
        },
        mend="Other setting: configure the broker with it again. Incomplete copy: copy again. Otherwise `rmqstore recover STORE` builds "
        "timer log and wheel from the commit log: messages that are still to be delivered are, once.",
    ),
    Entry(
        "RMQ-TM-CHECK",
        ERROR,
        "timer check point has implausible values",
        meaning="config/timercheck holds the read time, the flushed position and the next queue offset of the timer. One of them is "
        "outside of what wheel, log and queue allow, or the file is too short. It is a warning while the read time is valid.",
        broker={
            R5X: "Read time in the future: nothing is delivered from the wheel until then. Zero: all messages of the last seven days are "
            "delivered again. Queue offset beyond the queue: up to 5.3.1 new delayed messages are lost, later releases reduce it to the "
            "end."
        },
        mend="Queue offset beyond the queue, or no file: `rmqstore recover STORE`. Otherwise restore the file from a copy. Never delete "
        "timerlog alone; if timer data must be removed, remove timerwheel, timerlog, timercheck and timermetrics together.",
    ),
    Entry(
        "RMQ-TM-METRICS",
        INFO,
        "counts of pending timer messages differ",
        meaning="config/timermetrics counts the pending messages of each topic. The timer log has entries of more or fewer: entries are "
        "lost, were added again by a start, or the counts are older than the log.",
        broker={R5X: "Only statistics show these counts; nothing is delivered by them."},
        mend="Nothing. Where other findings show a damaged timer log, the difference is how many messages of the topic are missing in it.",
    ),
    Entry(
        "RMQ-TM-MESSAGE",
        ERROR,
        "timer log entry points to no timer message",
        meaning="At the entry's offset the commit log holds no message of rmq_sys_wheel_timer, or one of another size or topic. The commit "
        "log was cut or replaced without the timer.",
        broker={
            R5X: "No message there: the delayed message is dropped after three tries. A foreign message there: the timer reads it again "
            "and again, its read pointer does not advance and nothing later is delivered."
        },
        mend="`rmqstore recover STORE` discards the entry of a message that is lost (its size becomes 0, so that the timer drops it and "
        "continues), and corrects one that describes its message wrongly.",
    ),
    Entry(
        "RMQ-TM-UNIT",
        WARNING,
        "timer log entry and message contradict each other",
        meaning="The entry refers to the correct message but to another time than its TIMER_OUT_MS (a rolled entry: to a time that is not "
        "before it), or only one of the two is a deletion (TIMER_DEL_UNIQKEY).",
        broker={R5X: "Not checked: delivered at the entry's time, and deleted or not as the entry says."},
        mend="Nothing on disk; an entry that matters can be rewritten from the message while the broker is stopped.",
    ),
    Entry(
        "RMQ-TM-PROPERTIES",
        ERROR,
        "timer message without timer properties",
        meaning="Every message of rmq_sys_wheel_timer has TIMER_OUT_MS (when it is due), REAL_TOPIC and REAL_QID (where it goes). One of "
        "them is missing or is not a number.",
        broker={R5X: "The timer reads the message again and again, or drops it; meanwhile nothing later is delivered."},
        mend="Restore the record's bytes from a replica. Otherwise clear the slot of its entry. " + _CLEAR_SLOT,
    ),
    Entry(
        "RMQ-TM-SIZE",
        WARNING,
        "timer message larger than the timer handles",
        meaning="The timer reads messages into a buffer of maxMessageSize and 100 bytes. The properties that the broker added made this "
        "pending message larger.",
        broker={
            R5X: "Up to 5.5.0 it blocks the timer: nothing is put into the wheel or delivered any more. From 5.5.1 on the buffer has "
            "64 KiB to spare."
        },
        mend="Raise maxMessageSize before the start; pass it here with --set maxMessageSize=... if it is not the default.",
    ),
    Entry(
        "RMQ-TM-LOST",
        ERROR,
        "pending timer message without timer log entry",
        meaning="The queue of rmq_sys_wheel_timer has an entry that the timer skipped although it was not due: no entry of the timer log "
        "refers to it. The timer log was removed, cut or written with errors, or the entry was skipped while its message was unreadable. "
        "It is a warning if the message was due before the broker stopped.",
        broker={
            R5X: "Not noticed: the message is never delivered. A start reads only queue entries after that of the last timer log entry it "
            "finds."
        },
        mend="`rmqstore recover STORE` makes a start read the queue entries after that of the last timer log entry again, or builds timer "
        "log and wheel from the commit log if the first files of the timer log are gone: what is still to be delivered is, once. An entry "
        "between others is written again if its place shows which message it was for.",
    ),
    Entry(
        "RMQ-TM-LOG-ZEROLEN",
        ERROR,
        "timer log file of length zero",
        meaning="A crash or a full disk between creating and extending the next file leaves an empty one. It holds no data.",
        broker={R5X: "Deleted at load if it sorts last (from 5.1.3); otherwise the timer does not load and the broker does not start."},
        mend="Delete it if it is the last file. If it is not, see RMQ-TM-LOG-FILELEN.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-TM-GONE",
        ERROR,
        "a file of the timer is missing or useless",
        meaning="The timer has messages, and timercheck, the timer log or a wheel that cannot be rebuilt is missing or useless.",
        broker={
            R5X: "Without the timer log its messages are never delivered. Without timercheck all messages of the last seven days are "
            "delivered again. A wheel is rebuilt from the last two files of the timer log only."
        },
        mend="`rmqstore recover STORE` builds a wheel from the timer log, a timer log from the commit log, and a timercheck where the log "
        "shows which messages were delivered; with timerRocksDBEnable `rocksdbstore` from the commit log. Otherwise restore all of these "
        "files from one copy. If timer "
        "data must be removed, remove timerwheel, timerlog, timercheck and timermetrics together: messages that are due already and "
        "still in the queue are then delivered once more.",
    ),
)
