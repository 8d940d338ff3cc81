"""Log lines of consume queues: their recovery, their minimum, their extension, and reads outside of files."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING
from rmqstore.catalogue.logline import Pattern, line
from rmqstore.catalogue.loglines.commands import DUMP_QUEUE, VERIFY_CONFIG, VERIFY_QUEUES
from rmqstore.catalogue.loglines.commands import INFO as SHOW

LINES = (
    line(
        "LOG-QUEUE-RECOVERED",
        None,
        "recover last consume queue file over, last mapped file {file}",
        "recover next consume queue file, {file}",
        "recover current consume queue file over,  {file} {text}",
        "recover current consume queue file over, {file} {text}",
        "recover current consume queue over {file} {text}",
        "Recover last batch consume queue file over, last mapped file:{file}",
        "Recover next batch consume queue file: {file}",
        "Recover next batch consume queue file:{file}",
        "Recover current batch consume queue file over:{file} processOffset:{position}",
        "Recover current batch consume queue file over, file:{file} {text}",
        "All files of consume queue extend has been recovered over, last mapped file {file}",
        "Recover next consume queue extend file, {file}",
        "Compute logical min offset: {queue_offset}, topic: {topic}, queueId: {queue_id}",
        "BatchCQ Compute new minOffset:{queue_offset} oldMinOffset{old} topic:{topic} queue:{queue_id}",
        "Start to recover consume queue concurrently={answer}",
        "Default ConsumeQueueStore start!",
        meaning="Queues are read at a start: the last three files of each, and the place of its first message that has not expired.",
        then="Continues.",
        next=VERIFY_QUEUES,
    ),
    line(
        "LOG-QUEUE-NO-ENTRY",
        INFO,
        "ConsumeQueue[Topic={topic}, queue-id={queue_id}] contains no valid entries",
        "ConsumeQueue[topic={topic}, queue-id={queue_id}] contains no valid entries",
        "ConsumeQueue[topic={topic}, queue-id={queue_id}] contains no valid entries. Min-offset is assigned as: {queue_offset}.",
        "ConsumeQueue[Topic={topic}, queue-id={queue_id}] contains no entry, reset minLogicOffset to 0, maxPhysicOffset to -1",
        meaning="The queue holds no entry of a message that is still in the log: all have expired, or recovery cut them.",
        then="Continues with an empty queue. If its files are missing too, queue offsets begin at 0 again and consumer offsets may be "
        "beyond the end.",
        next=DUMP_QUEUE,
        codes=("RMQ-CQ-EXPIRED", "RMQ-CQ-BEHIND", "RMQ-CF-OFFSET"),
        since="5.0",
    ),
    line(
        "LOG-QUEUE-MIN-SCAN",
        WARNING,
        "[Bug] Failed to scan consume queue entries from file on correcting min offset: {file}",
        "Exception thrown when correctMinOffset",
        "Correct min offset found null cq file topic:{topic} queue:{queue_id} files:{count} minOffset:{minimum} maxOffset:{maximum}",
        meaning="The first message of the queue that has not expired could not be found, because its first file could not be read.",
        then="Keeps the old minimum. Pulls from expired offsets may get nothing.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-UNIT", "RMQ-CQ-ORDER"),
    ),
    line(
        "LOG-QUEUE-MIN-NOOP",
        None,
        "Abort correction as previous min-offset points to {old_physical_offset}, which is greater than {minimum_physical_offset}",
        "maybe ConsumeQueue was created just now. topic={topic} queueId={queue_id} maxPhysicOffset={queue_physical_offset} "
        "minLogicOffset={minimum}.",
        meaning="The minimum of a queue needs no correction.",
        then="Continues.",
        next=VERIFY_QUEUES,
    ),
    line(
        "LOG-QUEUE-UNDELETED",
        ERROR,
        "[Bug][InconsistentState] ConsumeQueue file {file} should have been deleted",
        meaning="The first file of a queue ends before the log begins; it should have expired.",
        then="Continues with a minimum that points to expired messages.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-EXPIRED",),
        since="5.0",
    ),
    line(
        "LOG-QUEUE-CORRECT",
        WARNING,
        Pattern("CorrectLogicOffsetService.needCorrect. {text}"),
        meaning="The minimum of a queue and the messages that are still in the log contradict each other.",
        then="Corrects the minimum of that queue.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-ORDER", "RMQ-CQ-EXPIRED", "RMQ-CQ-UNIT"),
        since="5.0",
    ),
    line(
        "LOG-QUEUE-EXCEPTION",
        ERROR,
        "Exception occurs while recover consume queue concurrently, topic={topic}, queueId={queue_id}",
        "Exception occurs while recover consume queue concurrently",
        meaning="A queue could not be recovered; the exception follows in the log.",
        then="load() fails: the broker does not start.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-FILELEN", "RMQ-CQ-ZEROLEN"),
        since="5.0",
    ),
    line(
        "LOG-OFFSET-NOT-MATCHED",
        INFO,
        Pattern("findMapedFileByOffset offset not matched, request Offset: {wanted}, index: {number}, mapedFileSize: {file_size}, {text}"),
        Pattern("Offset for {file} not matched. Request offset: {wanted}, index: {number}, mappedFileSize: {file_size}, {text}"),
        "Offset not matched. Request offset: {wanted}, firstOffset: {first}, lastOffset: {last}, mappedFileSize: {file_size}, mappedFiles "
        "count: {files}",
        meaning="A read outside of a queue of files; mappedFileSize shows the kind of file. A few at a start are normal (the position "
        "after the last full file). Many while running: queue entries that point outside of the log. An impossible offset with the file "
        "size of the timer log: a damaged timer log entry."
        " delayOffset.json ahead of its queue repeats it for ever before 4.9.2: apache/rocketmq#1869.",
        then="The read finds nothing.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-UNIT", "RMQ-CQ-BEYOND", "RMQ-TM-CHAIN"),
    ),
    line(
        "LOG-FILE-LOOKUP",
        ERROR,
        "findMappedFileByOffset Exception",
        "getFirstMappedFile has exception.",
        "getLastMappedFile has exception.",
        "getMinOffset has exception.",
        "deleteExpiredFile has exception.",
        "deleteExpiredFile remove failed.",
        Pattern("getEarliestMappedFile error: {text}"),
        meaning="The list of files changed while it was read.",
        then="The read finds nothing, or the deletion is tried again.",
        next=VERIFY_QUEUES,
    ),
    line(
        "LOG-READ-RANGE",
        WARNING,
        Pattern("matched, but hold failed, request pos: {position}, fileFromOffset: {start}"),
        Pattern("selectMappedBuffer request pos invalid, request pos: {position}, size: {size}, fileFromOffset: {start}"),
        Pattern("selectMapedBuffer request pos invalid, request pos: {position}, size: {size}, fileFromOffset: {start}, {text}"),
        Pattern("selectMappedBuffer request pos invalid, request pos={position} size={size} fileFromOffset={start} {text}"),
        "Get data failed pos:{position} size:{size} fileFromOffset:{start}",
        meaning="A read reached beyond the written part of a file, or the file was just deleted. If it is repeated for one message, a "
        "queue entry or index entry has a wrong offset or size; in 3.x also two files of the log with one name (alibaba/RocketMQ#419).",
        then="The read finds nothing; a consumer skips the message or makes no progress.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-SIZE", "RMQ-CQ-UNIT", "RMQ-CQ-BEYOND", "RMQ-IX-BEYOND"),
    ),
    line(
        "LOG-PULL-FAILED",
        WARNING,
        Pattern(
            "consumer request topic: {topic}, offset: {queue_offset}, minOffset: {minimum}, maxOffset: {maximum}, but access logic queue "
            "failed. Correct nextBeginOffset to {next_offset}"
        ),
        Pattern(
            "consumer request topic: {topic}offset: {queue_offset} minOffset: {minimum} maxOffset: {maximum}, but access logic queue "
            "failed.{text}"
        ),
        meaning="A consumer asked for an offset between the queue's minimum and maximum that is in none of its files: a queue file is "
        "missing.",
        then="Sends the consumer to the beginning of the next file; the messages between are skipped.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-GAP",),
    ),
    line(
        "LOG-CONSUMER-OFFSET-MOVED",
        WARNING,
        Pattern(
            "PULL_OFFSET_MOVED:correction offset. topic={topic}, groupId={key}, requestOffset={wanted}, newOffset={corrected}, "
            "suggestBrokerId={broker}"
        ),
        meaning="A consumer asked for a queue offset outside of the queue: messages have expired, the queue was cut at a start, or "
        "consumerOffset.json is older or newer than the queue.",
        then="Sends the consumer to the nearest end of the queue: it gets messages again, or skips some.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-OFFSET", "RMQ-CQ-BEHIND"),
    ),
    line(
        "LOG-CONSUMER-OFFSET-BACK",
        INFO,
        Pattern(
            "[NOTIFYME]update consumer offset less than store. clientHost={address}, key={key}, queueId={number}, requestOffset={wanted}, "
            "storeOffset={stored}"
        ),
        meaning="A consumer committed a smaller offset than before: it was reset, or corrected to the end of a queue that was cut.",
        then="Stores the smaller offset.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-OFFSET",),
    ),
    line(
        "LOG-TOPIC-UNKNOWN",
        WARNING,
        Pattern("the topic {topic} not exist, consumer: {address}"),
        meaning="A consumer asked for a topic that is not in the broker's configuration, although its queues may exist.",
        then="Refuses the request.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-MISSING", "RMQ-CF-EMPTY"),
    ),
    line(
        "LOG-BATCH-CACHE",
        None,
        Pattern("cache is not working on BCQ [Topic: {topic}, QueueId: {number}] for {text}"),
        meaning="A read of a batch queue found its place without the cache.",
        then="Continues.",
        next=VERIFY_QUEUES,
        since="5.0",
    ),
    line(
        "LOG-EXT",
        ERROR,
        "[BUG] can't find consume queue extend file content! addr={address_number}, offsetPy={record_physical_offset}, sizePy={size}, "
        "topic={topic}",
        Pattern(
            "[BUG] can't find consume queue extend file content!addr={address_number}, offsetPy={record_physical_offset}, sizePy={size}"
            "{text}"
        ),
        "[BUG] address {address_number} of consume queue extend not found!",
        "[BUG] Consume queue extend unit({text}) is not found!",
        Pattern("Save consume queue extend fail, So just save tagsCode! {text}"),
        Pattern("Save consume queue extend error,{text}"),
        meaning="A queue entry refers to an entry of consumequeue_ext that does not exist or could not be written.",
        then="The filter by bit map is skipped for the message; it is delivered and filtered by the consumer.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-EXT",),
    ),
    line(
        "LOG-EXT-TRUNCATE",
        None,
        Pattern("Truncate consume queue ext by max {text}"),
        Pattern("Truncate consume queue ext by min {text}"),
        Pattern("Truncate consume queue extend file by max {text}"),
        Pattern("Destroy consume queue ext by min: {text}"),
        meaning="consumequeue_ext is cut together with its queue.",
        then="Continues.",
        next=VERIFY_QUEUES,
    ),
    line(
        "LOG-BATCH-TRUNCATE",
        INFO,
        Pattern(
            "Truncate batch logic file topic={topic} queue={queue_id} oldMinOffset={old_minimum} oldMaxOffset={old_maximum} "
            "minOffset={minimum} maxOffset={maximum} maxPhyOffsetHere={queue_physical_offset} maxPhyOffsetThere={end_physical_offset}"
        ),
        meaning="A batch queue was cut to the end of the log, or checked for that.",
        then="Continues with maxOffset as the next queue offset.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-BEYOND", "RMQ-CQ-BATCH"),
        since="5.0",
    ),
    line(
        "LOG-TOPIC-DELETED",
        INFO,
        Pattern("DeleteTopic: ConsumeQueue has been cleaned, topic={topic}, queueId={queue_id}"),
        Pattern("DeleteTopic: Topic has been destroyed, topic={topic}"),
        Pattern("cleanUnusedTopic: {topic},topic destroyed"),
        Pattern("cleanUnusedTopic: {topic} {queue_id} ConsumeQueue cleaned"),
        meaning="The topic was deleted from the configuration; its queues are removed.",
        then="Its messages stay in the log until they expire.",
        next=SHOW,
        codes=("RMQ-CQ-DELETED",),
    ),
)
