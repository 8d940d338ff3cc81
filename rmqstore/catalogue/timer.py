"""Catalogue: timer wheel, timer log and timer check point (5.0 and later)."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING, Entry
from rmqstore.catalogue.releases import R5X

_CLEAR_SLOT = (
    "Broker stopped, file copied: write 32 zero bytes over the slot, which empties it; "
    "units still in the timer log are put back at the start."
)

ENTRIES = (
    Entry(
        "RMQ-TM-WHEEL-LENGTH",
        ERROR,
        "timer wheel has the wrong length",
        meaning="The wheel is always 38707200 bytes: 1209600 slots of 32 bytes, independent of any setting.",
        broker={R5X: "`Timer wheel length:... != expected:...`: the broker does not start, and the failed start empties delayOffset.json."},
        mend="Copy config, then remove the file: the start rebuilds it from the last timer log files. Older pending messages are lost "
        "from the wheel.",
    ),
    Entry(
        "RMQ-TM-WHEEL-SLOT",
        ERROR,
        "timer wheel slot is damaged",
        meaning="The slot's time does not belong at its place, or its positions are no unit boundaries of the timer log.",
        broker={
            R5X: "A slot with a foreign time reads as empty: its messages are not delivered. A wrong position delivers nonsense or "
            "nothing for that second."
        },
        mend=_CLEAR_SLOT,
    ),
    Entry(
        "RMQ-TM-WHEEL-BEYOND",
        ERROR,
        "timer wheel slot points beyond the timer log",
        meaning="The slot's newest unit lies at or behind the end of the timer log: the log lost its last units (power loss, damage, "
        "cut) and the wheel did not.",
        broker={
            R5X: "Units written again at the same place link to themselves and the broker spins: one core at 100 %, memory full within "
            "a minute, no request answered, no log line names the cause."
        },
        mend="Before a start: clear every slot whose last position is at or behind the end of the timer log. " + _CLEAR_SLOT,
    ),
    Entry(
        "RMQ-TM-CHAIN",
        ERROR,
        "broken chain of timer log units",
        meaning="Each unit links to an older unit of the same second. This link points forward, to itself, off a unit boundary, or to a "
        "unit of another time.",
        broker={R5X: "Not checked: a circle makes the broker spin until memory is full; a wrong link loses the messages of that second."},
        mend=_CLEAR_SLOT,
    ),
    Entry(
        "RMQ-TM-LOG-UNIT",
        ERROR,
        "timer log unit is damaged",
        meaning="A unit is 52 bytes: size 52, link, kind, write time, delay, message offset and size, topic hash. This one breaks these "
        "rules although units follow it.",
        broker={
            R5X: "In the last one or two files the log is cut here and later files are deleted; slots that point behind the cut then "
            "make the broker spin. In an older file it is not noticed, but clean-up of old files never gets past it."
        },
        mend="Copy timerwheel, timerlog and config. Removing timerwheel, timerlog, config/timercheck and config/timermetrics together "
        "is the safe reset: pending messages stay, past ones still in the queue are delivered once more.",
    ),
    Entry(
        "RMQ-TM-LOG-FILELEN",
        ERROR,
        "timer log file missing or of the wrong length",
        meaning="All files have the length mappedFileSizeTimerLog (104857600 by default) and follow each other without gap.",
        broker={
            R5X: "Wrong length: the timer does not load, the broker does not start and delayOffset.json is emptied. An empty last file "
            "is deleted. Files missing while timercheck stays: all pending messages are lost."
        },
        mend="Copy config first. Other setting: give it back to the broker. Cut-off copy: copy again, or do the safe reset of "
        "RMQ-TM-LOG-UNIT.",
    ),
    Entry(
        "RMQ-TM-CHECK",
        WARNING,
        "timer check point is implausible",
        meaning="config/timercheck holds the read time, the flushed position and the next queue offset of the timer. One of them lies "
        "outside of what wheel, log and queue allow, or the file is too short.",
        broker={
            R5X: "Read time in the future: nothing is delivered from the wheel until then. Zero: everything of the last seven days is "
            "delivered again. Queue offset beyond the queue: up to 5.3.1 new delayed messages are lost, later releases clamp it."
        },
        mend="Restore the file from a copy. Never delete timerlog alone; if timer data must go, remove timerwheel, timerlog, timercheck "
        "and timermetrics together.",
    ),
    Entry(
        "RMQ-TM-MESSAGE",
        ERROR,
        "timer unit points to no timer message",
        meaning="At the unit's offset the commit log holds no message of rmq_sys_wheel_timer, or one of another size or topic. The log "
        "was cut or replaced under the timer.",
        broker={
            R5X: "No message there: the delayed message is dropped after three tries. A foreign message there: the timer reads it again "
            "and again, its read pointer stands still and nothing later is delivered."
        },
        mend="If it is due later than the stop of the broker: clear its slot. " + _CLEAR_SLOT,
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
)
