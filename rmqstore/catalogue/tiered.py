"""Catalogue: tiered storage (5.1 and later)."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING, Entry
from rmqstore.catalogue.releases import R5X

_REPLICA = "The messages are in no other file of this broker once the commit log no longer has them: take them from a copy of the segments."

ENTRIES = (
    Entry(
        "RMQ-TI-METADATA",
        ERROR,
        "metadata of tiered storage is missing, damaged or contradicts the segments",
        meaning="config/tieredStoreMetadata.json is the only place that says which segments a queue has, where they begin, how many bytes "
        "of them count, and which number index entries use for a topic. The segments do not repeat it.",
        broker={
            R5X: "Without it the broker starts with no segments: it appends to the file of offset 0 as if that were the only one, and "
            "messages that are only in segments are not found any more. A gap or an overlap: reads across it fail or give other messages. "
            "A topic without a number gets a new one, and index entries of the old number are not found."
        },
        mend="`rmqstore recover STORE` writes it again from the segments that the broker.conf names, where it is missing or damaged "
        "(`--dry-run` only shows the plan). Do not start the broker before: it would write new metadata.",
    ),
    Entry(
        "RMQ-TI-MISSING",
        ERROR,
        "segment of tiered storage is missing or too short",
        meaning="The metadata lists a segment with a size, and the file is not there or has fewer bytes. Brokers write metadata after the "
        "bytes, so no crash leaves this.",
        broker={R5X: "The file is created again, empty. Of the last segment the length of the file counts; reads of others fail."},
        mend="Copy the segment from a backup, or mount the directory `tieredStoreFilePath`. " + _REPLICA,
    ),
    Entry(
        "RMQ-TI-UNLISTED",
        WARNING,
        "segment file that the metadata does not have",
        meaning="A file below `tieredStoreFilePath` has the name of a segment of this broker, or another name, and the metadata does not "
        "list it.",
        broker={R5X: "It is not read and never deleted."},
        mend="If the metadata is older than the segments, as after a restore, the metadata of that day belongs to them: copy it as well.",
    ),
    Entry(
        "RMQ-TI-RECORD",
        ERROR,
        "message in a segment is damaged",
        meaning="A unit of the consume queue segments names this message, and its bytes are no message, the checksum of the body does not "
        "match, PHYSICALOFFSET is not its offset in the log of its queue, or it is of another queue.",
        broker={R5X: "Brokers do not verify it by default (tieredStoreCrcCheckEnable); consumers get the damaged message or none."},
        mend=_REPLICA,
    ),
    Entry(
        "RMQ-TI-UNIT",
        ERROR,
        "unit of a consume queue segment is wrong",
        meaning="A unit of 20 bytes has the offset of a message in the tiered log of its queue, its size and its tagsCode, and its number "
        "is the queue offset. This one points at no message, at one of other size or tags, at one with another queue offset, or its bytes "
        "are no whole unit.",
        broker={R5X: "Consumers do not get the message, or get it in place of another one; after a partial unit all later ones shift."},
        mend=_REPLICA,
    ),
    Entry(
        "RMQ-TI-INDEX",
        ERROR,
        "index file of tiered storage is damaged",
        meaning="Local files (tiered_index_file) have chains as the index of the commit log has them, index segments have their entries in "
        "the order of the slots. An entry names topic number, queue, offset and size of a message and the hash of one of its keys.",
        broker={R5X: "Queries by key do not find messages of tiered storage, or only some of them. Consumers are not affected."},
        mend="Nothing writes it again; queries by key for messages that the commit log still has use the index of the commit log.",
    ),
    Entry(
        "RMQ-TI-CODA",
        WARNING,
        "end of a full commit log segment is damaged",
        meaning="5.1.x ends a full commit log segment with 16 bytes: their number, a magic code and the store time of the last message. "
        "Later releases write none.",
        broker={R5X: "Not read by brokers."},
        mend="Nothing; the messages before it are verified with or without it.",
    ),
)
