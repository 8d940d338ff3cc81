"""Log lines about the offsets of consumers: pull requests outside of a queue, offsets that are lost, messages taken with POP."""

from __future__ import annotations

from rmqstore.catalogue.entry import INFO, WARNING
from rmqstore.catalogue.logline import Pattern, line
from rmqstore.catalogue.loglines.commands import INFO as SHOW
from rmqstore.catalogue.loglines.commands import VERIFY_CONFIG, VERIFY_QUEUES

_CQ_CODES = ("RMQ-CF-OFFSET", "RMQ-CQ-BEHIND", "RMQ-CQ-MISSING")

LINES = (
    line(
        "LOG-PULL-BEYOND",
        WARNING,
        Pattern("the request offset: {queue_offset} over flow badly, broker max offset: {maximum}, consumer: {text}"),
        Pattern("the request offset: {queue_offset} over flow badly, fix to {corrected}, broker max offset: {maximum}, consumer: {text}"),
        Pattern("The request offset:{queue_offset} over flow badly, broker max offset:{maximum} , consumer: {text}"),
        Pattern("the request offset: {queue_offset} over flow badly, fix to {text}"),
        "OFFSET_OVERFLOW_BADLY",
        meaning="A consumer asked for a queue offset after the end of the queue: its committed offset is larger than the broker's max "
        "offset. The queue ends too early, the store is an older copy or a slave that lacks the last messages, or the topic was deleted "
        "and created again (apache/rocketmq#551, #4771).",
        then="Sends the consumer back to the end of the queue; messages that get these queue offsets later may not be consumed.",
        next=VERIFY_CONFIG,
        codes=_CQ_CODES,
    ),
    line(
        "LOG-PULL-MOVED",
        WARNING,
        Pattern("PULL_OFFSET_MOVED:none correction. topic={topic}, groupId={text}, requestOffset={queue_offset}, suggestBrokerId={number}"),
        Pattern("PULL_OFFSET_MOVED:topic={topic}, groupId={text}, clientId={text2}, offset={queue_offset}, suggestBrokerId={number}"),
        Pattern("PULL_OFFSET_MOVED, topic:{topic}, queueId:{queue_id}, pullOffset:{queue_offset}"),
        Pattern("the pull request offset illegal, {text}"),
        Pattern("fix the pull request offset, {text}"),
        Pattern("[NOTIFYME]the first time to pull message, but pull request offset larger than broker consume offset. {text}"),
        "PULL_OFFSET_MOVED",
        "OFFSET_ILLEGAL",
        Pattern("CODE: {code} DESC: {text}", {"code": "21"}),
        meaning="The offset of a consumer group is outside of the queue at this broker. `none correction`: the broker that answered is a "
        "slave that lacks the messages, so the offset is kept and the master is suggested; `correction`: the offset is changed.",
        then="`none correction` repeats while the slave is not in sync. Otherwise the consumer continues at newOffset: messages between "
        "are skipped, or consumed again.",
        next=VERIFY_CONFIG,
        codes=_CQ_CODES,
    ),
    line(
        "LOG-PULL-TOO-SMALL",
        INFO,
        Pattern("the request offset too small. group={text}, topic={topic}, requestOffset={queue_offset}, {text2}"),
        Pattern("The request offset is too small. group={text}, topic={topic}, requestOffset={queue_offset}, {text2}"),
        Pattern("the request offset: {queue_offset} too small, broker min offset: {minimum}, consumer: {text}"),
        "OFFSET_TOO_SMALL",
        meaning="A consumer is before the first message that the queue still has: the messages between expired, the first log files are "
        "gone, or the min offset is wrong (as in compacted topics, apache/rocketmq#7540).",
        then="Continues at the min offset of the queue.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CL-REMOVED",),
    ),
    line(
        "LOG-PULL-NO-QUEUE",
        WARNING,
        Pattern("the broker store no queue data, fix the request offset {queue_offset} to {corrected}, {text}"),
        Pattern("the broker stores no queue data, fix the request offset {queue_offset} to {corrected}, {text}"),
        "NO_MATCHED_LOGIC_QUEUE",
        "NO_MESSAGE_IN_QUEUE",
        "OFFSET_FOUND_NULL",
        "MESSAGE_WAS_REMOVING",
        meaning="A consumer pulls from a queue that has no entries here, or whose entries point at messages that are gone. If there were "
        "messages, the queue was lost.",
        then="Sets the offset of the request to 0 (a later pull may read everything again), or looks at the next file.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-MISSING", "RMQ-CQ-BEHIND"),
    ),
    line(
        "LOG-PULL-WAIT",
        None,
        "OFFSET_OVERFLOW_ONE",
        "NO_MATCHED_MESSAGE",
        "PULL_NOT_FOUND",
        "PULL_RETRY_IMMEDIATELY",
        Pattern("CODE: {code} DESC: {text}", {"code": "19|20"}),
        "OFFSET_RESET",
        meaning="A consumer is at the end of the queue and waits for the next message, or no message fits its filter.",
        then="Holds the request.",
        next=SHOW,
    ),
    line(
        "LOG-OFFSETS-CLEANED",
        WARNING,
        Pattern("remove topic offset, {text}"),
        Pattern("clean group offset {text}"),
        Pattern("Clean group's offset, {text}"),
        Pattern("Clean topic's offset, {text}"),
        Pattern("clean lmq group offset {text}"),
        "The consumer offset of the group is less than store",
        meaning="Consumer offsets were removed (no subscription any more and far from the end of the log), or a consumer reported a "
        "smaller offset than the stored one.",
        then="The group starts by its consumeFromWhere if it comes again.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-OFFSET",),
    ),
    line(
        "LOG-POP-LOST",
        WARNING,
        Pattern("PopConsumerService drop record, message may be lost, record={text}"),
        Pattern("PopConsumerService revive error, message may be lost, record={text}"),
        Pattern("PopConsumerService revive retry msg error, {text}"),
        Pattern("PopConsumerService getMessageAsync, initial offset because store is no correct, {text}"),
        Pattern("reviveQueueId={queue_id}, revive error, {text}"),
        Pattern("[PopBuffer]put {text} to store fail: {text2}"),
        Pattern("put ack msg error{text}"),
        Pattern("PopConsumerRocksdbStore init error, filePath={file}"),
        meaning="POP consumption: a check point or an acknowledgement of a popped message could not be read or written.",
        then="The message is delivered again, or, with `may be lost`, not again, although it is in the log.",
        next="rmqstore pending STORE",
        since="5.0",
    ),
    line(
        "LOG-POP-BUFFER",
        None,
        Pattern("[PopBuffer]add {text}"),
        Pattern("[PopBuffer]ck {text}"),
        Pattern("[PopBuffer]scan{text}"),
        Pattern("[PopBuffer]remove {text}"),
        Pattern("[PopBuffer]mergeKey conflict {text}"),
        Pattern("[PopBuffer] {text}"),
        Pattern("Commit offset, consumer offset less than store, {text}"),
        meaning="POP consumption: check points are kept in memory for some seconds before they are written.",
        then="Messages are delivered again after their invisible time if they are not acknowledged.",
        next=SHOW,
        since="5.0",
    ),
    line(
        "LOG-CONSUME-FLOW",
        None,
        Pattern("the cached message count exceeds the threshold {text}"),
        Pattern("the cached message size exceeds the threshold {text}"),
        Pattern("the queue's messages, span too long, so do flow control, {text}"),
        Pattern("the consumer message buffer is full, so do flow control, {text}"),
        Pattern("execute the pull request exception{text}"),
        meaning="A consumer does not keep up, or could not pull for a moment. Nothing is wrong with the store.",
        then="Nothing.",
        next=SHOW,
    ),
)
