"""Lines that producers, consumers and tools print when a broker refuses or does not find something: `CODE: 14  DESC: …` and such.

Source: `ResponseCode`, `ClientErrorCode`, `MQBrokerException` and the remarks that the processors of 3.2.6 to 5.5.1 set.
"""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING
from rmqstore.catalogue.logline import About, Pattern, line
from rmqstore.catalogue.loglines.commands import DOCTOR, VERIFY, VERIFY_CONFIG, VERIFY_INDEX
from rmqstore.catalogue.loglines.commands import INFO as SHOW

_OWN_ROWS = r"(?!(?:1|2|10|11|12|13|14|15|16|17|19|2[0-6]|208|20[0-3]|501|1000[1-6])\b)-?\d+"


def _code(number: str, text: str | None = None) -> Pattern:
    """Return the text of an exception with a response code; `text` narrows what follows it."""
    values = {"code": number} if text is None else {"code": number, "text": text}
    return Pattern("CODE: {code} DESC: {text}", values)


LINES = (
    line(
        "LOG-CLIENT-UNAVAILABLE",
        ERROR,
        _code("14"),
        Pattern("service not available now, maybe disk full, {text}, maybe your broker machine memory too small."),
        Pattern("service not available now. It may be caused by one of the following reasons: the broker's disk is full {text}"),
        Pattern("message store is not writeable, so putMessage is forbidden {text}"),
        Pattern("DefaultMessageStore is not writable, so putMessages is forbidden {text}"),
        "Service not available now.",
        "service not available now.",
        meaning="The broker refuses every message. `CL`, `CQ` and `INDEX` are the usage of the disks of the commit log, the queues and the "
        "index: above diskSpaceWarningLevelRatio (0.90) messages are refused, whatever diskMaxUsedSpaceRatio says; -1.0 is a directory "
        "that does not exist. With usage below that, the broker is a slave, or stops, or could not write a queue (then `retry` and "
        "`not writable` lines in store.log). Reported as apache/rocketmq#2138, #4707 and #3750.",
        then="Refuses messages until there is space (it then accepts them again), or, after a queue could not be written, until the next "
        "start. From diskSpaceCleanForciblyRatio (0.85) on it deletes the oldest files, expired or not; it never deletes the last one.",
        next=DOCTOR,
        about=About.DISK,
    ),
    line(
        "LOG-CLIENT-TOPIC",
        ERROR,
        _code("17"),
        Pattern("topic[{topic}] not exist, apply first please!{text}"),
        Pattern("topic [{topic}] not exist, apply first please! {text}"),
        Pattern("the topic {topic} not exist, producer: {text}"),
        meaning="The broker has no such topic in its configuration. If it had one: topics.json was lost, emptied or replaced by that of "
        "another broker (after a switch of master and slave: apache/rocketmq#9826). Messages and queues of a topic that is missing there "
        "stay in the log; the queues are deleted after deleteWhen.",
        then="Refuses messages and requests for it.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-JSON", "RMQ-CF-EMPTY"),
    ),
    line(
        "LOG-CLIENT-NO-MESSAGE",
        WARNING,
        _code("208"),
        "query message by key finished, but no message.",
        "query message by id finished, but no message.",
        "query operation over, but no message.",
        "can not find message, maybe time range not correct",
        Pattern("can not find message by the offset, {text}"),
        _code("22"),
        meaning="A query found no message. The index is searched by the store time of the broker: clocks of the machines that differ, or a "
        "time range around the wrong day, find nothing (apache/rocketmq#681). Otherwise the message expired, or the index lacks it "
        "(apache/rocketmq#8041, #7477).",
        then="Nothing is wrong with the log because of this line.",
        next=VERIFY_INDEX,
        codes=("RMQ-IX-MISSING",),
    ),
    line(
        "LOG-CLIENT-MAPPED-FILE",
        ERROR,
        _code("1", r"[Cc]reate ma(?:p)?ped file.*"),
        "create mapped file failed, server is busy or broken.",
        "create maped file failed, please make sure OS and JDK both 64bit.",
        "Create maped file failed, please make sure OS and JDK both 64bit.",
        "Create mapped file failed.",
        "create maped file failed.",
        meaning="The broker could not create or map the next file: disk full, no permission, vm.max_map_count too low, a file of length 0 "
        "or of another length in the way, or (transientStorePoolEnable) no free buffer. store.log has the reason (apache/rocketmq#98).",
        then="Refuses the message and tries again with the next one.",
        next=DOCTOR,
        codes=("RMQ-CL-ZEROFILE",),
        about=About.DISK,
    ),
    line(
        "LOG-CLIENT-SYSTEM-ERROR",
        WARNING,
        _code("1", r"(?![Cc]reate ma(?:p)?ped file).*"),
        "store putMessage return null",
        "store getMessage return null",
        "UNKNOWN_ERROR",
        "UNKNOWN_ERROR DEFAULT",
        "putMessageResult is null",
        "An system error occurred, please try again later.",
        meaning="An error inside the broker; broker.log and store.log of that moment have the exception.",
        then="Answers with this error.",
        next=DOCTOR,
    ),
    line(
        "LOG-CLIENT-BUSY",
        WARNING,
        _code("2"),
        Pattern("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, {text}"),
        Pattern("[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, {text}"),
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
        "[REJECTREQUEST]system busy, start flow control for a while",
        "[OVERLOAD]system busy, start flow control for a while",
        Pattern("{text}broker busy, start flow control for a while", {"text": r"\[[A-Z_]+\]"}),
        "OS page cache busy, please try another machine",
        meaning="Writing is slower than the requests that arrive: a slow disk, page cache, garbage collection. The store is not damaged.",
        then="Refuses requests that waited too long.",
        next=SHOW,
    ),
    line(
        "LOG-CLIENT-FLUSH",
        WARNING,
        _code("1[0-2]"),
        "FLUSH_DISK_TIMEOUT",
        "FLUSH_SLAVE_TIMEOUT",
        "SLAVE_NOT_AVAILABLE",
        "in-sync replicas not enough",
        Pattern("SendResult [sendStatus={state}, {text}", {"state": "FLUSH_DISK_TIMEOUT|FLUSH_SLAVE_TIMEOUT|SLAVE_NOT_AVAILABLE"}),
        meaning="The message is in the log of the master, but was not flushed, or not copied to a slave, in time.",
        then="The message is stored; a producer that sends again stores it twice.",
        next=SHOW,
    ),
    line(
        "LOG-CLIENT-ILLEGAL",
        None,
        _code("1[356]"),
        Pattern("the message is illegal, maybe {text}"),
        Pattern("The message is illegal, maybe {text}"),
        Pattern("the broker[{text}] {answer} message is forbidden", {"answer": "sending|pulling|peeking|pop"}),
        Pattern("the topic[{topic}] {answer} message is forbidden", {"answer": "sending|pulling|peeking|pop"}),
        Pattern("The topic[{topic}] is conflict with system topic."),
        Pattern("Sending message to topic[{topic}] is forbidden."),
        meaning="The request itself is refused: a message over the limits, or no permission (brokerPermission, the topic's).",
        then="Refuses the request.",
        next=SHOW,
    ),
    line(
        "LOG-CLIENT-SUBSCRIPTION",
        WARNING,
        _code("2[3-6]"),
        Pattern("subscription group [{text}] does not exist, {text2}"),
        Pattern("subscription group [{text}] not exist, {text2}"),
        Pattern("subscription group not exist, {text}"),
        Pattern("subscription group no permission, {text}"),
        Pattern("the consumer's group info not exist{text}"),
        Pattern("The consumer's group info not exist, group: {text}"),
        Pattern("the consumer's subscription not exist{text}"),
        Pattern("The consumer's subscription not exist, group: {text}"),
        "the consumer's subscription not latest",
        Pattern("the broker's subscription is not latest, group: {text}"),
        Pattern("The broker's subscription is not latest, group: {text}"),
        Pattern("Parse the consumer's subscription[{text}"),
        Pattern("parse the consumer's subscription[{text}"),
        "parse the consumer's subscription failed",
        "No group in this broker",
        meaning="The broker does not know the consumer group or its subscription. If it knew the group before: subscriptionGroup.json was "
        "lost or replaced. Consumers of one group that subscribe to different topics cause it, too.",
        then="Refuses to serve this consumer until it registers again.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-JSON", "RMQ-CF-EMPTY"),
    ),
    line(
        "LOG-CLIENT-ROUTE",
        WARNING,
        _code("1000[1-6]"),
        Pattern("No route info of this topic: {text}"),
        Pattern("No route info of this topic, {text}"),
        Pattern("No route info for this topic, {text}"),
        Pattern("Can not find Message Queue for this topic, {text}"),
        Pattern("connect to {address} failed"),
        Pattern("connect to <{address}> failed"),
        Pattern("wait response on the channel <{address}> timeout, {text}"),
        Pattern("wait response on the channel {address} timeout {text}"),
        Pattern("Send [{count}] times, still failed, cost [{time}]ms, Topic: {topic}, BrokersSent: {text}"),
        "sendDefaultImpl call timeout",
        "invokeSync call timeout",
        Pattern("The broker[{text}] not exist"),
        Pattern("get Topic [{topic}] RouteInfoFromNameServer is not exist value"),
        meaning="The client reached no broker for this topic: no broker runs or registered it at the name server, or the topic is missing "
        "in topics.json of every broker.",
        then="Nothing is known about a store from this line; look at whether the broker started.",
        next=DOCTOR,
    ),
    line(
        "LOG-CLIENT-TRANSACTION",
        WARNING,
        _code("20[0-3]"),
        "Find prepared transaction message failed",
        "find prepared transaction message failed",
        "The transaction state table offset wrong",
        "the transaction state table offset wrong",
        "The commit log offset wrong",
        "the commit log offset wrong",
        "The producer group wrong",
        "the producer group wrong",
        meaning="A transaction was to be ended, and the record at the offset that the client sent is not its half message: the store was "
        "replaced or cut, or the queue RMQ_SYS_TRANS_HALF_TOPIC lost entries.",
        then="The transaction stays open and is checked again.",
        next="rmqstore verify STORE --topic RMQ_SYS_TRANS_HALF_TOPIC",
        codes=("RMQ-CQ-MISSING",),
    ),
    line(
        "LOG-CLIENT-NOT-LEADER",
        WARNING,
        _code("501"),
        Pattern("{text} is not leader in broker {text2}, request code {count}"),
        meaning="A static topic: this broker no longer leads the queue. topicQueueMapping.json decides.",
        then="Refuses the request.",
        next=VERIFY_CONFIG,
    ),
    line(
        "LOG-CLIENT-CODE",
        INFO,
        _code(_OWN_ROWS),
        meaning="A broker refused a request; the text after DESC is its reason.",
        then="Answers with this code.",
        next=VERIFY,
    ),
)
