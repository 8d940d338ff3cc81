"""Catalogue: the records of the commit log, one by one and in their order."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING, Entry
from rmqstore.catalogue.releases import ALL, COPY_FIRST, NOT_CHECKED, R49, R50, R55, R532, R534, R540, SCAN_STOPS

_RESTORE = COPY_FIRST + "Restore the record's bytes from a replica: same file name, same position. "
_ACCEPTED_FIELD = {
    ALL: "Accepted, dispatched and served with the stored value: the record check does not cover these fields. One exception: a DELAY in "
    "SCHEDULE_TOPIC_XXXX that is not a number fails the check, and the log is cut there if the scan reads it.",
}

ENTRIES = (
    Entry(
        "RMQ-CL-MAGIC",
        ERROR,
        "illegal magic code",
        meaning="There is neither a message magic (0xDAA320A7, or 0xDAA320AB for long topics) nor BLANK (0xCBD43194) where a record should "
        "begin, although the log continues after it.",
        broker={**SCAN_STOPS, R49: SCAN_STOPS[R49] + " Also rejects 0xDAA320AB, written from 5.1.0 on, as an illegal magic."},
        mend=_RESTORE + "If only the four magic bytes differ and the finding's length fits, write DA A3 20 A7 at position + 4.",
    ),
    Entry(
        "RMQ-CL-SIZE",
        ERROR,
        "impossible record length",
        meaning="TOTALSIZE, the first field of the record, is zero, negative, too small for a record, or reaches beyond the file. The "
        "record's end is unknown, so reading continues at the next record that is valid (magic, own offset, lengths, CRC).",
        broker={
            **SCAN_STOPS,
            R49: SCAN_STOPS[R49] + " A length near 2 GiB with a valid magic kills the start with OutOfMemoryError.",
            R50: SCAN_STOPS[R50] + " A length near 2 GiB with a valid magic kills the start with OutOfMemoryError.",
        },
        mend=_RESTORE + "If only TOTALSIZE differs, write the distance to the next record as 4 big-endian bytes at the finding's position.",
    ),
    Entry(
        "RMQ-CL-LENGTHS",
        ERROR,
        "lengths inside the record contradict its total length",
        meaning="TOTALSIZE is not the sum of the fixed fields, hosts, body, topic and properties. One of the length fields, the host bits "
        "of SYSFLAG, or TOTALSIZE itself is wrong. A negative body or property length is the exception: brokers treat it as empty.",
        broker=SCAN_STOPS,
        mend=_RESTORE,
    ),
    Entry(
        "RMQ-CL-CRC",
        ERROR,
        "body checksum mismatch",
        meaning="The CRC-32 of the body differs from BODYCRC: body or checksum changed after they were written. Lengths are consistent, so "
        "records after it are readable. Outside of the range that a start scans, brokers dispatch and deliver the message without checking "
        "the checksum.",
        broker=SCAN_STOPS,
        mend=_RESTORE
        + "checkCRCOnRecover=false lets a broker start without cutting the log here; consumers then receive the record as it is.",
    ),
    Entry(
        "RMQ-CL-PROPCRC",
        ERROR,
        "record checksum (property __CRC32#) mismatch",
        meaning="From 5.2.0 on, with enabledAppendPropCRC, a record ends with a CRC over all its bytes. It differs: some byte of "
        "header, topic or properties changed, or of the body if the body checksum is wrong as well.",
        broker={
            R49: "Unknown property, not checked.",
            R50: "5.2.0–5.3.1: checked only with forceVerifyPropCRC; then the log is cut here and later files are deleted. A correct "
            "CRC of 0 is rejected too.",
            R532: "Checked only with forceVerifyPropCRC; then the log is cut here and every later file in the scan is deleted.",
            R534: "As 5.3.2–5.3.3.",
            R540: "As 5.3.2–5.3.3.",
            R55: "As 5.3.2–5.3.3.",
        },
        mend=_RESTORE + "Until then keep forceVerifyPropCRC off.",
    ),
    Entry(
        "RMQ-CL-PROPZERO",
        WARNING,
        "properties that begin or end with zero bytes",
        meaning="No broker writes such properties. The rest of the record was never written, because a broker or its machine stopped, or a "
        "slave was killed while it received the record; or a page of the file was lost. Header and body are complete, and no checksum "
        "covers the properties, so nothing else shows it. Zeros after the properties of a multi-dispatched message are left out: brokers "
        "write them. What the zeros replaced (TAGS, KEYS, the unique key, properties of the producer) "
        "is lost.",
        broker={
            ALL: "Accepted and served, without the properties that are zeros: consumers that select by tag may not get the message, and a "
            "query by its keys may not find it. A slave keeps its record so, although its master has the whole one."
        },
        mend="If a replica has the whole record, take it from there: `rmqstore recover STORE --from COPY`. Otherwise nothing; the body is "
        "complete.",
    ),
    Entry(
        "RMQ-CL-MOVED",
        ERROR,
        "bytes that belong to another place of the log",
        meaning="Several valid records in a row agree that they belong to another place of the log: log files were exchanged, renamed or "
        "copied over each other, blocks of the disk were exchanged, or a lost or inserted sector shifts the rest of a file. The bytes are "
        "complete; they may be missing at the place where they belong.",
        broker={
            ALL: "Accepted as far as a scan reads them; queue entries get wrong offsets, and messages are found twice or not at all. Where "
            "the bytes do not begin with a record, recovery stops and cuts the log there."
        },
        mend="Broker stopped: `rmqstore recover STORE` moves the bytes to where they belong, unless valid records are stored there. Files "
        "that were exchanged can also be renamed by hand.",
    ),
    Entry(
        "RMQ-CL-PHYOFFSET",
        ERROR,
        "record is not at the offset that it contains",
        meaning="PHYSICALOFFSET differs from the position of the record: the field is damaged, or bytes of another place or store were "
        "copied here.",
        broker={
            R49: "Accepted; the queue entry gets the wrong offset. If that is after the end of the log, dispatch begins there and no queue "
            "gets new entries.",
            R50: "Accepted; the queue entry gets the wrong offset, and later records of that queue with a lower offset are discarded as "
            "already dispatched.",
            R532: "As 5.0–5.3.1.",
            R534: "As 5.0–5.3.1, but an entry beyond the end of the log is cut in the same start.",
            R540: "As 5.3.4.",
            R55: "As 5.3.4; with checkCommitLogOffsetOnRecover a crash start stops at an offset outside the file and cuts the log there.",
        },
        mend=_RESTORE + "If only the field is wrong, write the record's position as 8 big-endian bytes at position + 28.",
    ),
    Entry(
        "RMQ-CL-TIME",
        WARNING,
        "store timestamp decreases",
        meaning="The record's store time is earlier than that of a record before it, by more than occurs in normal operation. The clock "
        "was set back, or the field is damaged. Search by time may miss messages around it.",
        broker={
            ALL: "Not checked. After a crash the scan starts at the newest file whose first record is older than the checkpoint, so a "
            "wrong time in the first record of a file can change where the scan starts."
        },
        mend="Nothing if the broker's clock was set back at that time. Otherwise compare the record with a replica.",
    ),
    Entry(
        "RMQ-CL-FUTURE",
        WARNING,
        "stored after the last write to the store",
        meaning="STORETIMESTAMP is more than an hour later than the newest modification time among the store's files, and no later record "
        "has an earlier timestamp. A message cannot be stored after the last write: the broker's clock was ahead, the field is damaged, or "
        "something set the files' times back.",
        broker={
            ALL: "Not checked. Delayed messages (SCHEDULE_TOPIC_XXXX) count from this time and are delivered that much later; the "
            "checkpoint stores this time, so a start after a crash begins its scan too late; search by time misses later messages."
        },
        mend="Nothing if the broker's clock was ahead at that time. Otherwise compare the record with a replica.",
    ),
    Entry(
        "RMQ-CL-TEXT",
        INFO,
        "topic, tags or keys are not UTF-8",
        meaning="The bytes of a topic, of TAGS or of KEYS are not valid UTF-8: a producer other than the Java client sent them in another "
        "encoding, or they are damaged. Java replaces bytes that it cannot decode, and brokers compute tags codes and key hashes from the "
        "result; `verify` compares them by that rule. Different texts may get the same hash, so a query by key or tag may return other "
        "messages as well.",
        broker={ALL: "Decoded with replacement characters, in queue directories, tags codes and key hashes alike."},
        mend="Nothing if producers send other encodings. Otherwise compare the record with a replica.",
    ),
    Entry(
        "RMQ-CL-HOST",
        WARNING,
        "store host differs from the records around it",
        meaning="A single record has another broker address than its neighbours, and no other record of the log has it. A real change of "
        "address is permanent, and messages that a broker writes once more keep their previous address; a single record is most likely a "
        "damaged field. Offset message ids computed from it are wrong.",
        broker=NOT_CHECKED,
        mend="Compare the record with a replica; consuming is not affected.",
    ),
    Entry(
        "RMQ-CL-FIELD",
        WARNING,
        "field with an implausible value",
        meaning="A header field has a value that brokers do not write: a negative queue id, unknown SYSFLAG bits, a prepared-transaction "
        "offset in an ordinary record, a birth time far from the store time, a topic with illegal characters. No checksum covers the "
        "header, so this is how a damaged header shows.",
        broker=_ACCEPTED_FIELD,
        mend="Compare the record with a replica: `rmqstore dump FILE --from-offset OFFSET --limit 1` on both. If it is damaged, restore "
        "its bytes.",
    ),
    Entry(
        "RMQ-CL-COMPRESSION",
        ERROR,
        "compression flag and body disagree",
        meaning="According to SYSFLAG the body is compressed, but the body does not begin as a stream of that kind, or the kind is "
        "unknown. The checksum is correct, so the flag is damaged or the producer sent it this way. Consumers fail to decode the message.",
        broker={ALL: "Not checked; the message is delivered as it is and the consumer's client cannot decompress it."},
        mend="Compare SYSFLAG with a replica. If the producer sent it this way, nothing on disk is wrong; skip the message in the "
        "consumer.",
    ),
    Entry(
        "RMQ-CL-QOFFSET-GAP",
        WARNING,
        "queue offsets jump forward",
        meaning="Two neighbouring records of a queue do not have consecutive QUEUEOFFSETs. The records between are lost (see damage or "
        "missing files nearby), or one of the fields is damaged. Multi-dispatch queues may skip offsets without any fault.",
        broker={
            ALL: "When queues are built from the log, the later entry is appended at the next free place anyway: every later message of "
            "that queue is then served at an offset that is too low (`[BUG]logic queue order maybe wrong`).",
        },
        mend="Find the missing records on a replica before anything rebuilds this queue. Keep the queue's files: they still hold the "
        "correct places.",
    ),
    Entry(
        "RMQ-CL-QOFFSET-FOREIGN",
        WARNING,
        "record without a place in its queue",
        meaning="The records of the queue before and after this one in the log have consecutive QUEUEOFFSETs, so none is left for it: its "
        "topic, QUEUEID or QUEUEOFFSET is damaged. `rmqstore recover` changes such a field only if queue entries and a second kind of "
        "evidence agree on its value (docs/repair.md).",
        broker={
            ALL: "Not checked. The message is found by its id and its keys only. If queues are built from the log, its entry is written at "
            "the queue offset of the next message, and the messages after it get no entry (`Build consume queue repeatedly`)."
        },
        mend="Print the record (`rmqstore dump STORE --part commitlog --from-offset OFFSET --limit 1`), and send the message again if its "
        "content matters.",
    ),
    Entry(
        "RMQ-CL-QOFFSET-JUMP",
        ERROR,
        "wrong queue offsets",
        meaning="The QUEUEOFFSETs of one or more records of a queue do not continue those of the record before, and the record after "
        "continues as if they did: the fields are damaged. Brokers number the records of a queue in the order of the log.",
        broker={
            ALL: "Not checked. When queues are built from the log, the units of these records are dropped (`Build consume queue "
            "repeatedly`) or take the next free places, and later messages of the queue are served at wrong offsets.",
        },
        mend="`rmqstore recover STORE` writes the QUEUEOFFSETs that the records before and after leave.",
    ),
    Entry(
        "RMQ-CL-QOFFSET-REPEAT",
        WARNING,
        "queue offset used twice",
        meaning="Two records of a queue carry the same QUEUEOFFSET. The queue can serve only one of them at that offset. Seen after a "
        "controller failover, with multi-dispatch queues of 5.1.x, or as a damaged field.",
        broker={
            ALL: "When queues are built from the log the second record gets no entry (`Build consume queue repeatedly`) and is never "
            "consumed."
        },
        mend="Print both records (`rmqstore dump STORE --part commitlog --topic TOPIC --queue ID --queue-offset N`) and send the hidden "
        "one again if its content matters.",
    ),
    Entry(
        "RMQ-CL-QOFFSET-RESTART",
        WARNING,
        "queue offsets restart",
        meaning="QUEUEOFFSET drops and rises again: the queue was deleted, or was lost before a start, and the broker numbered it from "
        "zero (or from a lower offset) again.",
        broker={
            ALL: "A queue built from the log keeps the older run; of the new run, offset 0 is appended at the end, and messages with other "
            "offsets that are in use already are discarded.",
        },
        mend="Normal if the topic was deleted and created again. Otherwise keep the existing queue files: a rebuild from the log would "
        "mix both runs.",
    ),
    Entry(
        "RMQ-CL-TRANSACTION",
        WARNING,
        "committed message points to no half message",
        meaning="A message of type commit names the physical offset of its half message, but no record of RMQ_SYS_TRANS_HALF_TOPIC "
        "begins there. The field is damaged, or the half message was.",
        broker={ALL: "Not checked. The message itself is delivered; an operation message ends the half message, not this field."},
        mend="Nothing for consumers. Compare the record with a replica if its header is in doubt.",
    ),
)
