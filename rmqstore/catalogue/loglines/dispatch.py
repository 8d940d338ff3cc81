"""Log lines of dispatch: records of the log that become consume queue entries and index entries."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING
from rmqstore.catalogue.logline import Pattern, line
from rmqstore.catalogue.loglines.commands import DUMP_HERE, VERIFY, VERIFY_LOG, VERIFY_QUEUES
from rmqstore.catalogue.loglines.commands import INFO as SHOW

LINES = (
    line(
        "LOG-REPUT-START",
        None,
        "[SetReputOffset] maxPhysicalPosInLogicQueue={queues_physical_offset} clMinOffset={minimum_physical_offset} "
        "clMaxOffset={end_physical_offset} clConfirmedOffset={confirmed}",
        "Try to finish doing reput the messages fall behind during the starting, reputOffset={begin_physical_offset} "
        "maxOffset={end_physical_offset} behind={bytes}",
        meaning="The offset at which dispatch begins at this start. 5.x prints it only with recheckReputOffsetFromCq.",
        then="Records from maxPhysicalPosInLogicQueue on are dispatched; a queue that is short while others are complete is not refilled.",
        next=VERIFY_QUEUES,
    ),
    line(
        "LOG-REPUT-TOO-SMALL",
        WARNING,
        "[TooSmallCqOffset] maxPhysicalPosInLogicQueue={queues_physical_offset} clMinOffset={minimum_physical_offset}",
        meaning="All queues end before the log begins: the queues are lost, or belong to another log.",
        then="Dispatches from the first file of the log: queues are rebuilt from there.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-MISSING", "RMQ-CQ-BEHIND"),
    ),
    line(
        "LOG-REPUT-EXPIRED",
        ERROR,
        "The reputFromOffset={physical_offset} is smaller than minPyOffset={minimum_physical_offset}, this usually indicate that the "
        "dispatch behind too much and the commitlog has expired.",
        meaning="Log files were deleted before their messages were dispatched.",
        then="Continues with the first remaining file. The messages between are in no queue and cannot be consumed.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-BEHIND", "RMQ-CQ-MISSING"),
    ),
    line(
        "LOG-DISPATCH-ERROR",
        ERROR,
        "[BUG]dispatch message to consume queue error, COMMITLOG OFFSET: {physical_offset}",
        meaning="While running, dispatch read bytes at this offset that are not a record.",
        then="Skips the readable rest of this file: no message after it in the file gets a queue entry, although producers were informed "
        "that these messages were stored. A slave stops here.",
        next=DUMP_HERE,
        codes=("RMQ-CL-DAMAGE", "RMQ-CL-MAGIC", "RMQ-CL-CRC", "RMQ-CQ-BEHIND"),
    ),
    line(
        "LOG-DISPATCH-LENGTHS",
        ERROR,
        "[BUG]read total count not equals msg total size. reputFromOffset={physical_offset}",
        "[BUG]read total count not equals msg total size.",
        meaning="While running, dispatch read a record at this offset whose lengths contradict each other.",
        then="Skips TOTALSIZE bytes. The message gets no queue entry.",
        next=DUMP_HERE,
        codes=("RMQ-CL-LENGTHS",),
    ),
    line(
        "LOG-DISPATCH-EXCEPTION",
        ERROR,
        "dispatch message to cq exception. reputFromOffset: {physical_offset}",
        meaning="The message at this offset could not be added to a queue or index; the exception follows in the log.",
        then="Tries the same offset again and again: dispatch of all queues is blocked until the cause is removed.",
        next=DUMP_HERE,
        codes=("RMQ-CQ-BEHIND",),
        since="5.2",
    ),
    line(
        "LOG-DISPATCH-UNFINISHED",
        WARNING,
        "shutdown ReputMessageService, but CommitLog have not finish to be dispatched, CommitLog max offset={end_physical_offset}, "
        "reputFromOffset={physical_offset}",
        "shutdown concurrentReputMessageService, but CommitLog have not finish to be dispatched, CommitLog max "
        "offset={end_physical_offset}, reputFromOffset={physical_offset}",
        "shutdown ReputMessageService, but commitlog have not finish to be dispatched, CL: {end_physical_offset} reputFromOffset: "
        "{physical_offset}",
        meaning="The broker stopped before all records were in the queues. After a failed load (reputFromOffset=0) it means nothing.",
        then="Keeps `abort`, so that the next start recovers as after a crash and dispatches again.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-BEHIND",),
    ),
    line(
        "LOG-DISPATCH-REPEATED",
        None,
        "Maybe try to build consume queue repeatedly maxPhysicOffset={queue_physical_offset} phyOffset={record_physical_offset}",
        "Build consume queue repeatedly, expectLogicOffset: {expected} currentLogicOffset: {current} Topic: {topic} QID: {queue_id} "
        "Diff: {difference}",
        "Build  consume queue repeatedly, expectLogicOffset: {expected} currentLogicOffset: {current} Topic: {topic} QID: {queue_id} "
        "Diff: {difference}",
        "Build batch consume queue repeatedly, maxMsgPhyOffsetInCommitLog:{queue_physical_offset} offset:{record_physical_offset} "
        "Topic: {topic} QID: {queue_id}",
        meaning="A record that the queue holds already was dispatched again. After a crash every record of the scan is, so thousands of "
        "these lines are normal.",
        then="Nothing is written; the queue stays as it is.",
        next=VERIFY_QUEUES,
    ),
    line(
        "LOG-QUEUE-ORDER",
        ERROR,
        "[BUG]logic queue order maybe wrong, expectLogicOffset: {expected} currentLogicOffset: {current} Topic: {topic} QID: {queue_id} "
        "Diff: {difference}",
        Pattern("[BUG]logic queue order maybe wrong, expectLogicOffset: {text}"),
        meaning="A message belongs after the end of its queue: entries before it are missing. Numbers are bytes, 20 for each message, so "
        "Diff / 20 messages are missing."
        " Reported as apache/rocketmq#467 (fixed in 4.3.2), #7355 (DLedger, fixed in 5.2.0), #2593.",
        then="Appends the entry at the end of the queue nevertheless: this and all later messages are found Diff / 20 places too early, "
        "and consumer offsets no longer fit.",
        next="rmqstore verify STORE --part consumequeue --topic {topic}",
        codes=("RMQ-CQ-SHIFTED", "RMQ-CL-QOFFSET-GAP"),
    ),
    line(
        "LOG-QUEUE-RETRY",
        WARNING,
        "[BUG]the master dispatch message to consume queue error, COMMITLOG OFFSET: {physical_offset}",
        Pattern("[NOTIFYME]put commit log position info to batch consume queue {topic}:{queue_id} {physical_offset} failed, {text}"),
        "[BUG]put commit log position info to {topic}:{queue_id} {physical_offset} failed, retry {count} times",
        "[NOTIFYME]put commit log position info to batch consume queue {topic}:{queue_id} failed, retry {count} times",
        meaning="A queue entry could not be written: the disk is full or failing, or the limit of open files is reached.",
        then="Tries up to 30 times, one second apart; then LOG-QUEUE-UNWRITABLE.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-BEHIND",),
    ),
    line(
        "LOG-QUEUE-UNWRITABLE",
        ERROR,
        "[BUG]consume queue can not write, {topic} {queue_id}",
        "[NOTIFYME]batch consume queue can not write, {topic} {queue_id}",
        meaning="A queue entry could not be written even after 30 tries.",
        then="The broker accepts no more messages until it is started again, and keeps `abort` when it stops.",
        next=VERIFY,
        codes=("RMQ-CQ-BEHIND", "RMQ-CQ-MISSING"),
    ),
    line(
        "LOG-QUEUE-BATCH-UNEXPECTED",
        ERROR,
        "[NOTIFYME]unexpected dispatch request in batch consume queue topic:{topic} queue:{queue_id} offset:{record_physical_offset}",
        "[BUG]The message is an inner batch but cq type is not batch cq",
        meaning="A message without the properties of an inner batch reached a batch queue, or the reverse: the topic's queue type was "
        "changed.",
        then="The message gets no queue entry.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-BATCH", "RMQ-CF-QUEUE-TYPE"),
        since="5.0",
    ),
    line(
        "LOG-QUEUE-PREBLANK",
        INFO,
        Pattern("fill pre blank space {file} {wrote} {expected}", {"file": ".+?"}),
        meaning="A queue begins in the middle of a file: the place before its first message is filled with filler entries. Correct for a "
        "queue whose older messages have expired, or that was rebuilt from the middle of the log.",
        then="Continues. Filler entries are not messages.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-PREBLANK", "RMQ-CQ-PREBLANK-ONLY"),
    ),
    line(
        "LOG-QUEUE-CORRECT-UNSUBMITTED",
        INFO,
        "Correct unsubmitted offset...StartReadOffset = {begin_physical_offset}",
        "Correcting. Key:{key}, start read Offset: {begin_physical_offset}",
        meaning="Controller or duplication mode: queue offsets are moved past messages that are in the log but not confirmed yet.",
        then="Continues.",
        next=SHOW,
        since="5.0",
    ),
    line(
        "LOG-MULTI-DISPATCH",
        ERROR,
        "[bug] queues.length!=queueOffsets.length {text}",
        "[bug] num is not equal when updateMultiQueueOffset {text}",
        "[bug] no multiQueueOffset when updating {text}",
        meaning="INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET of a record name different numbers of queues.",
        then="The message reaches none of its light queues.",
        next=VERIFY_LOG,
        codes=("RMQ-CQ-LMQ-MISSING", "RMQ-CQ-LMQ-OFFSET"),
    ),
)
