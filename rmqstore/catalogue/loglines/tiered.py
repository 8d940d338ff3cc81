"""Log lines of tiered storage: what was copied to another storage, and its metadata. None of it is in a store directory."""

from __future__ import annotations

from rmqstore.catalogue.entry import WARNING
from rmqstore.catalogue.logline import Pattern, line
from rmqstore.catalogue.loglines.commands import VERIFY_QUEUES

LINES = (
    line(
        "LOG-TIERED-OFFSET",
        WARNING,
        "append message offset is incorrect",
        Pattern("append message offset is incorrect{text}"),
        Pattern("Consume queue offset incorrect, try to recreated consume queue, {text}"),
        Pattern("Message cq offset in commitlog does not meet expectations, {text}"),
        Pattern("Append consume queue failed, result: {text}"),
        Pattern("Found cq max offset is smaller than local cq min offset, {text}"),
        Pattern("Copy survivor object failed, {text}"),
        Pattern("TieredMessageFetcher{text}"),
        Pattern("TieredDispatcher{text}"),
        Pattern("[Bug] Tiered{text}"),
        Pattern("[Bug]Tiered{text}"),
        meaning="Tiered storage copies messages in the order of a queue, and the next one has another queue offset than expected: the "
        "queue was cut, has a gap, or its QUEUEOFFSETs are shifted (apache/rocketmq#7018, fixed in 5.1.4).",
        then="Before 5.1.4 it tries again without end; later releases create the tiered queue again.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-SHIFTED", "RMQ-CQ-GAP", "RMQ-CL-QOFFSET-REPEAT"),
        since="5.1",
    ),
    line(
        "LOG-TIERED-FILE",
        WARNING,
        Pattern("TieredFlatFile#{text}"),
        Pattern("TieredFlatFile{text}"),
        Pattern("TieredFileSegment#{text}"),
        Pattern("TieredIndexFile{text}"),
        Pattern("TieredMessageStore#{text}"),
        Pattern("FileSegment {text}"),
        Pattern("FlatFileStore {text}"),
        Pattern("FlatAppendFile {text}"),
        Pattern("IndexStoreFile {text}"),
        Pattern("IndexStoreService {text}"),
        Pattern("MessageStoreDispatcher {text}"),
        Pattern("MessageStoreFetcher {text}"),
        Pattern("Get commit position error{text}"),
        Pattern("Get file size error after commit, {text}"),
        Pattern("Commit {answer} periodically failed: {text}"),
        Pattern("Clean expired file{text}"),
        Pattern("create file segment failed: {text}"),
        Pattern("Update file segment metadata failed: {text}"),
        meaning="A file of tiered storage could not be written, read or committed (apache/rocketmq#8409, #8076 are defects of it).",
        then="Tries again. Messages are in the local store until they expire; copy what is needed before that.",
        next="rmqstore stats STORE",
        since="5.1",
    ),
)
