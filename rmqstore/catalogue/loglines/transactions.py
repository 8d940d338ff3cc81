"""Log lines of transactions that are kept as half messages (RMQ_SYS_TRANS_HALF_TOPIC and RMQ_SYS_TRANS_OP_HALF_TOPIC)."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING
from rmqstore.catalogue.logline import Pattern, line

_PENDING = "rmqstore pending STORE"

LINES = (
    line(
        "LOG-TRANSACTION-OFFSET",
        WARNING,
        Pattern("The miss op offset={queue_offset} in queue={text} is {text2}"),
        Pattern("MessageQueue: {text} illegal offset read: {queue_offset}, op offset: {number},skip this queue"),
        Pattern("The queue={text} check msgOffset={queue_offset} with opOffset={number} failed, pullResult is null"),
        Pattern("Illegal offset, the miss offset={queue_offset} in={text}"),
        Pattern("No new msg, the miss offset={queue_offset} in={text}"),
        Pattern("Offset illegal. GetMessageStatus={text}, topic={topic}, groupId={text2}, requestOffset={queue_offset}"),
        Pattern("No matched message. GetMessageStatus={text}, topic={topic}, groupId={text2}, requestOffset={queue_offset}"),
        Pattern("No new message. GetMessageStatus={text}, topic={topic}, groupId={text2}, requestOffset={queue_offset}"),
        Pattern("Get message from store return null. topic={topic}, groupId={text}, requestOffset={queue_offset}"),
        Pattern("The queue of topic is empty :{text}"),
        Pattern("The miss offset:{queue_offset} in messageQueue:{text}"),
        meaning="The check of open transactions reads half messages and their operations by the consumer offsets of "
        "CID_RMQ_SYS_TRANS, and the queue has nothing at this offset: the queue of half or operation messages was lost, deleted with a "
        "group (apache/rocketmq#2133, fixed in 4.9.0), or the offset is wrong.",
        then="Decided transactions whose operation is gone are checked again; with an offset that never fits, later half messages are "
        "not checked (apache/rocketmq#1767, #9500).",
        next=_PENDING,
        codes=("RMQ-CQ-MISSING", "RMQ-CQ-BEHIND", "RMQ-CF-OFFSET"),
    ),
    line(
        "LOG-TRANSACTION-DISCARDED",
        WARNING,
        Pattern("MsgExt:{text} has been checked too many times, so discard it{text2}"),
        Pattern("Put checked-too-many-time {text}"),
        Pattern("Half message exceed file reserved time ,so skip it.messageId {key},bornTime {time}"),
        meaning="A transaction stayed undecided through all checks (transactionCheckMax, 15), or its half message is about to expire.",
        then="Moves the half message to TRANS_CHECK_MAX_TIME_TOPIC, or skips it: the message is never delivered.",
        next=_PENDING,
    ),
    line(
        "LOG-TRANSACTION-WRITE",
        ERROR,
        Pattern("Transaction op message write failed. messageId is {key}, queueId is {queue_id}"),
        Pattern("Transaction batch op message write failed. body is {text}"),
        Pattern("PutBackToHalfQueueReturnResult {text}"),
        Pattern("Put message failed, topic: {topic}, queueId: {queue_id}, msgId: {key}"),
        Pattern("op message body is null. queueId={queue_id}, offset={queue_offset}"),
        Pattern("Found a illegal tag in opMessageExt= {text}"),
        Pattern("Escaping transactional message failed {text}"),
        Pattern("Escaping message failed, topic: {topic}, queueId: {queue_id}, msgId: {key}"),
        "batchSendOp error.",
        "Send check message error!",
        meaning="A decision about a transaction, or its half message of the next round, could not be written.",
        then="The transaction is checked again.",
        next=_PENDING,
    ),
    line(
        "LOG-TRANSACTION-CHECK",
        None,
        Pattern("Check transaction. real_topic={topic},{text}"),
        Pattern("Check transaction failed, channel is null. groupId={text}"),
        Pattern("Check transaction failed because invoke producer exception. group={text}"),
        Pattern("Begin to check prepare message, begin time:{time}"),
        Pattern("End to check prepare message, consumed time:{time}"),
        Pattern("New arrived, the miss offset={queue_offset}, {text}"),
        Pattern("Fresh stored. the miss offset={queue_offset}, {text}"),
        Pattern("Send check message, the offset={queue_offset} restored in queueOffset={number} commitLogOffset={physical_offset} {text}"),
        Pattern("Half offset {queue_offset} has been committed/rolled back"),
        Pattern("Queue={text} process time reach max={time}"),
        meaning="The broker asks producers about transactions that are undecided.",
        then="Asks again later.",
        next=_PENDING,
    ),
)
