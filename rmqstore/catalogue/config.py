"""Catalogue: the JSON files below config."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, R5X, R49, R50, R55, R532, R534, R540

_FALLBACK = {
    R49: "The .bak file is used. If both fail the broker does not start, and the failed start empties files that it had not loaded yet "
    "(consumerOffset.json after topics.json).",
    R50: "The .bak file is used, and the first write overwrites that valid .bak with the damaged text. If both fail: no start, "
    "consumerFilter.json is rewritten.",
    R532: "As 5.0–5.3.1.",
    R534: "The damaged file is deleted at load, the .bak file used and kept. If both fail: no start, and topics, groups and offsets are "
    "rewritten from what was loaded so far.",
    R540: "As 5.3.4.",
    R55: "As 5.3.4.",
}

ENTRIES = (
    Entry(
        "RMQ-CF-JSON",
        ERROR,
        "configuration file cannot be parsed",
        meaning="The file is not JSON as a broker writes it (integer keys without quotes, trailing zero bytes and comments are accepted): "
        "it is cut off, full of zero bytes, or contains foreign text.",
        broker=_FALLBACK,
        mend="Not to start the broker. `rmqstore recover STORE` takes the .bak file, or readable parts of both, queues and log, and "
        "says of each entry where it is from.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CF-EMPTY",
        ERROR,
        "configuration file is empty",
        meaning="The file is empty, blank or `null`, or has no table of topics, groups or offsets. A crash leaves empty files; many "
        "releases take blank ones and `null` for valid, and all of them an object without its table.",
        broker={
            R49: "Empty: the .bak file is used, without one the start continues with defaults. Blank or null: defaults, without reading "
            ".bak (subscriptionGroup.json: .bak).",
            R50: "Empty: as 4.9.x. Blank or null: defaults, without reading .bak, except for a blank consumerOffset.json.",
            R532: "As 5.0–5.3.1.",
            R534: "As 5.0–5.3.1.",
            R540: "Only null is taken for valid; empty and blank fall back to .bak.",
            R55: "As 5.4.0.",
        },
        mend="`rmqstore recover STORE`, as for RMQ-CF-JSON. Without topics.json the broker knows only system topics; without "
        "consumerOffset.json consumers start without offsets.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CF-NAME",
        ERROR,
        "name in a configuration file is damaged",
        meaning="The file can be parsed, but a name in it is not as a broker wrote it: a member differs in a byte or two from one that is "
        "missing, an entry repeats its name with other letters, an entry of consumer offsets names no group, the groups listed in "
        "consumerOffset.json are not those with offsets, or the text has bytes that no broker writes. The files have no checksum, so "
        "damaged values that are possible are not found.",
        broker={
            ALL: "Ignores unknown members and uses the defaults of the missing ones. An entry with a damaged name belongs to another topic "
            "or group: the right one has no settings or offsets, and the next write replaces the file.",
        },
        mend="`rmqstore recover STORE` corrects a name where the rest of the store leaves one answer, and shows it. Otherwise, before a "
        "start, compare the file with its .bak or a copy, and restore it.",
    ),
    Entry(
        "RMQ-CF-BAK",
        WARNING,
        "backup of a configuration file is unusable",
        meaning="The .bak file beside a configuration file is empty or cannot be parsed. It is only read when the file itself fails, and "
        "is an error if the file is missing. Up to 5.3.3 a broker that started from a valid .bak overwrites it with the damaged text.",
        broker={
            R49: "Not noticed while the file itself is complete; an empty .bak counts as none.",
            R5X: "As 4.9.x; the next write replaces it.",
        },
        mend="Nothing while the file itself is complete: the next write creates a new one.",
    ),
    Entry(
        "RMQ-CF-DIFFERS",
        ERROR,
        "configuration file contradicts its backup",
        meaning="A broker writes the file, and its former text becomes the .bak. Here both have the same version (dataVersion) and "
        "different content, or the file is older than its .bak, or an offset in it is smaller, or a name has one or two other letters. "
        "One of them is damaged, the file was restored from an older backup, or, for an offset, a group was reset just before the broker "
        "stopped.",
        broker={
            ALL: "Loads the file without a comparison. From smaller offsets on, messages are delivered again; what an older or damaged "
            "file lacks is lost with the next write."
        },
        mend="Compare both before a start. Where the .bak is right, copy it over the file: `cp -p FILE.bak FILE`.",
    ),
    Entry(
        "RMQ-CF-OFFSET",
        ERROR,
        "consumer offset outside its queue",
        meaning="A group's offset is negative or beyond the end of the queue. Messages that arrive before the group connects again are "
        "skipped silently, up to the stored offset.",
        broker={
            ALL: "Loaded and written back as it is. A consumer that asks beyond the end is sent to the end; messages that arrived until "
            "then below the stored offset are never delivered to the group. Negative: consumed from the beginning."
        },
        mend="`rmqstore recover STORE` sets it to the end of the queue (the finding's expected value), or a negative one to 0; that of a "
        "delay level to the first message that was still to be delivered when the broker stopped.",
        crash_severity=WARNING,
    ),
    Entry(
        "RMQ-CF-QUEUES",
        WARNING,
        "topic has more queues with messages than it is configured to read",
        meaning="readQueueNums of the topic is not above the id of a queue that has messages: it was set too low, the file is older than "
        "the queues, or an operator reduced the number of queues and did not wait until these were consumed and expired.",
        broker={ALL: "Starts. A pull from the queue ends with `queueId[...] is illegal`: no consumer gets its messages."},
        mend="If these messages are still to be consumed, set readQueueNums of the topic to the finding's expected value at least, with "
        "`mqadmin updateTopic -r` or, with the broker stopped, in a copy of topics.json.",
    ),
    Entry(
        "RMQ-CF-GROUP",
        INFO,
        "group has offsets, but no configuration",
        meaning="consumerOffset.json has offsets of a group that subscriptionGroup.json does not contain: it was deleted without its "
        "offsets, or subscriptionGroup.json is older.",
        broker={ALL: "Starts. The group gets default settings at its next request; with autoCreateSubscriptionGroup=false it is refused."},
        mend="Nothing if the group was deleted, or has default settings. Otherwise restore its entry from a copy or another broker.",
    ),
    Entry(
        "RMQ-CF-TOPIC",
        INFO,
        "offsets of a topic that does not exist",
        meaning="consumerOffset.json has offsets of groups in a topic that is not configured and has no queue, most likely because it was "
        "deleted.",
        broker={ALL: "Starts and keeps the offsets. If a topic of this name is created, the groups continue at them and skip messages."},
        mend="If a topic of this name is to be created again, remove the offsets first, with the broker stopped and the file copied.",
    ),
    Entry(
        "RMQ-CF-MAPPING",
        WARNING,
        "static topic is mapped wrongly",
        meaning="topicQueueMapping.json has, for each queue of a static topic, the places in brokers that hold its messages one after "
        "another: generations rise, offsets do not overlap, and the queue in this broker is one of the topic.",
        broker={R5X: "Starts. Clients get wrong queue offsets or errors for the queue; a topic that is not configured cannot be used."},
        mend="Restore both files from one copy, or map the topic again with `mqadmin updateStaticTopic`.",
    ),
    Entry(
        "RMQ-CF-ORDER",
        INFO,
        "ordered pop is ahead of its queue",
        meaning="consumerOrderInfo.json has messages of a queue that a group popped in order and has not acknowledged. The queue ends "
        "before one of them: the log lost its end, or the file is of another store.",
        broker={R5X: "Starts. The group waits until the time of invisibility has passed, and then pops again from its consumer offset."},
        mend="Nothing; the entry is removed when the group continues.",
    ),
    Entry(
        "RMQ-CF-ORPHAN",
        INFO,
        "entry of a topic or group that does not exist",
        meaning="consumerFilter.json, consumerOrderInfo.json or messageRequestMode.json has an entry of a topic or a group that is not "
        "configured: it was deleted, or topics.json or subscriptionGroup.json is older.",
        broker={R5X: "Starts and keeps the entry. If the topic or the group is created again, the entry is used."},
        mend="Nothing if it was deleted. Otherwise restore its configuration from a copy or another broker.",
    ),
    Entry(
        "RMQ-CF-EXPIRED",
        INFO,
        "group stopped before the first message that is left",
        meaning="The offset of a group is below the first entry of the queue: what was in between expired before the group consumed it.",
        broker={ALL: "Starts. The group continues with the first message that is left."},
        mend="Nothing: these messages are deleted. If the group has consumers, they are slower than the retention time allows.",
    ),
    Entry(
        "RMQ-CF-MISSING",
        WARNING,
        "configuration file is missing",
        meaning="The file does not exist although its .bak does, or topics.json does not exist beside queues of user topics. From 5.3.4 on "
        "a crash in the middle of a write leaves that state, with a complete .bak; up to 5.0.0 the newest text may be in the .tmp file.",
        broker={
            ALL: "The .bak file is used. Without it the start continues with defaults: unknown topics cannot be pulled, groups without "
            "offsets start without them."
        },
        mend="Nothing if the .bak is complete. Otherwise restore the file from a copy before the start, or run `rmqstore recover STORE`.",
        crash_severity=INFO,
    ),
    Entry(
        "RMQ-CF-QUEUE-TYPE",
        ERROR,
        "topic has queues of another type than its configuration says",
        meaning="The attribute queue.type in topics.json decides where a topic's queues are stored: BatchCQ in batchconsumequeue, "
        "everything else, and every topic that topics.json does not contain, in consumequeue. This topic has queues in the other place.",
        broker={
            R49: "Knows no batch queues; the directory is ignored.",
            R5X: "`The queue type of topic: ... should be ..., but is ...`: the broker does not start.",
        },
        mend="If topics.json was lost or rolled back, restore it. If the topic really changed its type, move the directory away.",
    ),
    Entry(
        "RMQ-CF-LMQ-OFFSET",
        WARNING,
        "consumer offset outside its multi-dispatch queue",
        meaning="The offset of a %LMQ% queue's group is negative or beyond the end of the queue. In these queues offsets are used twice or "
        "skipped without any fault, and clients may set any offset, so this alone is not a sign of damage.",
        broker={ALL: "As RMQ-CF-OFFSET: loaded as it is, messages that arrive below the stored offset are never delivered to the group."},
        mend="If the group should get the next messages, with the broker stopped and the file copied: set the offset to the end of the "
        "queue (the finding's expected value).",
    ),
    Entry(
        "RMQ-CF-LOST",
        ERROR,
        "configuration that a broker always writes is lost",
        meaning="topics.json, subscriptionGroup.json or consumerOffset.json is missing or empty, and so is its .bak, although a broker has "
        "written it by then: consumerOffset.json ten seconds after its first start, topics.json with the first topic, "
        "subscriptionGroup.json with the first group, all by a clean stop (4.9.x: not the groups); or topics.json lacks a topic that has "
        "messages.",
        broker={
            ALL: "Starts with defaults and writes them down. Without topics.json user topics cannot be consumed, and with batch queues the "
            "broker does not start (5.x); without subscriptionGroup.json groups have default settings; without consumerOffset.json groups "
            "begin where a new group would, and messages of pop consumers and transactions are processed again."
        },
        mend="Before a start, restore the file from a copy, a replica or another broker of the cluster. Without one, `rmqstore recover "
        "STORE` writes topics and groups that queues, log and other files name; offsets of consumers cannot be found.",
    ),
    Entry(
        "RMQ-CF-DELAY",
        ERROR,
        "offset of a delay level is lost or too large",
        meaning="delayOffset.json is missing, or has no offset, 0, or one beyond the end for a level whose messages were delivered. The "
        "last seconds of progress, which every crash loses, are not reported.",
        broker={
            ALL: "0 or missing: all messages that are still in the queue of the level are delivered again. Beyond the end: set to the end "
            "(`correct delay offset`), so messages that were still to be delivered never are."
        },
        mend="Restore delayOffset.json or its .bak from a copy before a start. `rmqstore recover` determines the offsets from the log, "
        "which contains every delivery.",
    ),
)
