"""Log lines of recovery: where the scan begins, what stops it, and what is cut."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, INFO, WARNING
from rmqstore.catalogue.logline import About, Pattern, line
from rmqstore.catalogue.loglines.commands import DOCTOR, DUMP_HERE, VERIFY, VERIFY_CHECKPOINT, VERIFY_INDEX, VERIFY_LOG, VERIFY_QUEUES
from rmqstore.catalogue.loglines.commands import INFO as SHOW

_STOPS = (
    "At a start: the scan stops here, log and queues are cut to this place and every later file is deleted. While running: see the "
    "dispatch line that follows."
)

LINES = (
    line(
        "LOG-MAGIC-END",
        INFO,
        Pattern("found a illegal magic code 0x{magic}", {"magic": "0"}),
        meaning="There are zeros where the next record should begin. Every log ends like this, so each start prints the line once. It is a "
        "fault only if records follow after the zeros; `recover physics file end` shows the place.",
        then="The scan ends here; the next message is written here.",
        next=VERIFY_LOG,
        codes=("RMQ-CL-DAMAGE",),
    ),
    line(
        "LOG-MAGIC-V2",
        ERROR,
        Pattern("found a illegal magic code 0x{magic}", {"magic": "daa320ab"}),
        meaning="A record of version 2 (topic longer than 127 bytes) was read by a broker that does not know it: the store was written by "
        "5.1 or later and opened by an older release (or the magic of an older record is damaged).",
        then="4.9.x and 5.0 stop the scan here: log and queues are cut to this place and every later file is deleted.",
        next=VERIFY_LOG,
        codes=("RMQ-CL-MAGIC",),
        until="5.0",
    ),
    line(
        "LOG-MAGIC",
        ERROR,
        Pattern("found a illegal magic code 0x{magic}", {"magic": "(?!0$|daa320ab$)[0-9a-f]{1,8}"}),
        meaning="There are bytes where a record should begin that are not one: damage, or old bytes after the end of the log "
        "(transientStorePoolEnable, writeWithoutMmap, a log that was cut before).",
        then=_STOPS,
        next=VERIFY_LOG,
        codes=("RMQ-CL-MAGIC", "RMQ-CL-DAMAGE", "RMQ-CL-TAILBYTES", "RMQ-CL-STALE"),
    ),
    line(
        "LOG-CRC",
        ERROR,
        "CRC check failed. bodyCRC={computed}, currentCRC={stored}",
        "CRC check failed {computed} {stored}",
        meaning="The body of a record does not have the checksum that was stored with it. After a crash it is normal once, for the last "
        "record; otherwise the disk or another process changed the body. The labels are swapped: bodyCRC is the computed value, currentCRC "
        "the one in BODYCRC.",
        then=_STOPS,
        next=VERIFY_LOG,
        codes=("RMQ-CL-CRC", "RMQ-CL-TORN"),
    ),
    line(
        "LOG-PROPCRC",
        ERROR,
        "CommitLog#checkAndDispatchMessage: failed to check message CRC, expected CRC={stored}, actual CRC={computed}",
        Pattern("CommitLog#checkAndDispatchMessage: failed to check message CRC, not found CRC in properties{text}"),
        meaning="forceVerifyPropCRC is on, and the record's own checksum (property __CRC32#) is wrong or missing. Records written without "
        "enabledAppendPropCRC have none.",
        then=_STOPS,
        next=VERIFY_LOG,
        codes=("RMQ-CL-PROPCRC",),
        since="5.2",
    ),
    line(
        "LOG-DUP-INFO",
        ERROR,
        "DupInfo in properties check failed. dupInfo={text}",
        meaning="The property DUP_INFO of a record is malformed."
        " The queues of DLedger stores were lost so in 5.2.0: apache/rocketmq#8032, fixed in 5.3.0.",
        then=_STOPS,
        next=VERIFY_LOG,
        since="5.0",
    ),
    line(
        "LOG-LENGTHS",
        ERROR,
        "[BUG]read total count not equals msg total size. totalSize={size}, readTotalCount={computed}, bodyLen={body_length}, "
        "topicLen={topic_length}, propertiesLength={properties_length}",
        meaning="The lengths inside a record do not add up to its TOTALSIZE: one of them is damaged.",
        then="At a start: the scan stops here and the log is cut. While running: this many bytes are skipped and the message gets no queue "
        "entry.",
        next=VERIFY_LOG,
        codes=("RMQ-CL-LENGTHS",),
    ),
    line(
        "LOG-CHECK-EXCEPTION",
        ERROR,
        "checkMessageAndReturnSize failed, may can not dispatch",
        meaning="A length inside a record is impossible: reading went beyond the end of the file, or a size was negative.",
        then=_STOPS,
        next=VERIFY_LOG,
        codes=("RMQ-CL-LENGTHS", "RMQ-CL-SIZE"),
        since="5.3.2",
    ),
    line(
        "LOG-HALF-MESSAGE",
        WARNING,
        "found a half message at {physical_offset}, it will be truncated.",
        meaning="After a crash: the record at this offset is not complete or not valid (cut off, wrong checksum, impossible lengths).",
        then="The log ends before it: the record is overwritten by the next message, every later file is deleted.",
        next=DUMP_HERE,
        codes=("RMQ-CL-TORN", "RMQ-CL-CRC", "RMQ-CL-LENGTHS", "RMQ-CL-DAMAGE"),
        since="5.0",
    ),
    line(
        "LOG-OFFSET-ILLEGAL",
        ERROR,
        "found illegal commitlog offset {physical_offset} in {file}, current pos={position}, it will be truncated.",
        meaning="checkCommitLogOffsetOnRecover is on, and the PHYSICALOFFSET in a record is outside of its file: a block was copied here "
        "from another place, or a file was renamed.",
        then="After a crash: the scan stops here and the log is cut.",
        next=VERIFY_LOG,
        codes=("RMQ-CL-PHYOFFSET",),
        since="5.5",
    ),
    line(
        "LOG-SCAN-START",
        INFO,
        "recover from this mapped file {file}",
        Pattern("dledger recover from this mappFile {file}"),
        meaning="After a crash: the scan of the log begins with this file. From 5.4.0 on it is printed too when the limit of "
        "commitLogRecoverMaxNum files stopped the search.",
        then="Scans from here on and dispatches every record. Damage in earlier files is not noticed.",
        next=VERIFY_CHECKPOINT,
        codes=("RMQ-CP-AHEAD", "RMQ-CP-BEHIND"),
    ),
    line(
        "LOG-SCAN-CHOICE",
        None,
        Pattern("find check timestamp, {time} {text}"),
        Pattern("dledger find check timestamp, {time} {text}"),
        "find check. beginPhyOffset: {begin_physical_offset}, maxPhyOffsetInConsumeQueue: {queues_physical_offset}",
        Pattern("CommitLog isMmapFileMatchedRecover find satisfied MmapFile for index, {text}"),
        Pattern("DLedgerCommitLog isMmapFileMatchedRecover find satisfied MmapFile for index, {text}"),
        "recoverNormally maxRecoverNum: {count}",
        "recoverAbnormally maxRecoverNum: {count}",
        "recover using acceleration, recovery offset is {begin_physical_offset}",
        meaning="The values that determine where the scan of the log begins.",
        then="Continues with the scan.",
        next=VERIFY_CHECKPOINT,
    ),
    line(
        "LOG-SCAN-NEXT",
        None,
        "recover next physics file, {file}",
        "dledger recover next physics file, {file}",
        meaning="The scan reached the end-of-file mark (BLANK) and continues with this file.",
        then="Whether the file follows without a gap is not checked.",
        next=SHOW,
    ),
    line(
        "LOG-SCAN-STOP",
        INFO,
        Pattern("recover physics file end, {file} pos={position}", {"file": r"\S(?:(?! pos=).)*"}),
        Pattern("dledger recover physics file end, {file} pos={position}", {"file": r"\S(?:(?! pos=).)*"}),
        Pattern("recover physics file end, {file}", {"file": r"\S(?:(?! pos=).)*"}),
        meaning="The scan stopped here: at the end of the log, or at damage. The line before says why (`illegal magic code 0x0` is the "
        "end). pos is the position where reading stopped: 8 bytes after the end of the log after an illegal magic code, further inside of "
        "the invalid record otherwise.",
        then="The log ends with the last valid record before this place; later files are deleted, queues are cut.",
        next=VERIFY_LOG,
        codes=("RMQ-CL-DAMAGE", "RMQ-CL-TORN"),
    ),
    line(
        "LOG-SCAN-OVER",
        INFO,
        "recover last 3 physics file over, last mapped file {file}",
        "recover physics file over, last mapped file {file}",
        "dledger recover physics file over, last mapped file {file}",
        meaning="The scan reached the end-of-file mark of the last existing file: the file after it is missing, or was never created.",
        then="The log ends at that mark, which the next message overwrites.",
        next=DOCTOR,
        codes=("RMQ-CL-GAP", "RMQ-CL-BLANK"),
    ),
    line(
        "LOG-TRUNCATE-QUEUES",
        None,
        "maxPhyOffsetOfConsumeQueue({queues_physical_offset}) >= processOffset({process_physical_offset}), truncate dirty logic files",
        "[TruncateCQ]maxPhyOffsetOfConsumeQueue({queues_physical_offset}) >= processOffset({process_physical_offset}), truncate dirty "
        "logic files",
        "dledger maxPhyOffsetOfConsumeQueue({queues_physical_offset}) >= processOffset({process_physical_offset}), truncate dirty logic "
        "files",
        meaning="Printed by practically every start: after a clean stop both numbers are equal, and nothing is cut. Only if the first one "
        "is larger, the queues reached beyond the end of the log.",
        then="Queue entries after processOffset are cut; whole queue files after it are deleted.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-BEYOND",),
    ),
    line(
        "LOG-COMMITLOG-EMPTY",
        ERROR,
        "The commitlog files are deleted, and delete the consume queue files",
        meaning="The commit log directory was empty. In a new store that is correct; otherwise a volume was not mounted, "
        "storePathCommitLog named another directory, or the files were deleted.",
        then="Deletes all queue files. The log begins again at offset 0. Only a copy of the store can restore the queues.",
        next=VERIFY,
        codes=("RMQ-CL-EMPTY", "RMQ-ST-EMPTY"),
        about=About.COMMITLOG,
    ),
    line(
        "LOG-FILE-DELETED",
        INFO,
        Pattern(
            "delete file[REF:{references}] {file} {answer}, W:{wrote} M:{maximum}, {text}",
            {"answer": "OK|Failed", "file": r"\S(?:(?! OK, | Failed, ).)*"},
        ),
        meaning="This file was deleted: expired, after the end that recovery found (commitlog, consumequeue), or newer than the "
        "checkpoint's index time after a crash (index).",
        then="Its content is lost. Deleted index files are indexed again only as far back as the scan of the log reaches.",
        next=VERIFY_INDEX,
        codes=("RMQ-CP-INDEX", "RMQ-IX-MISSING", "RMQ-CL-PREALLOC"),
    ),
    line(
        "LOG-FILE-DESTROY",
        INFO,
        "on recover, destroy a logic mapped file {file}",
        meaning="Recovery removes this queue file because it begins after the end of its queue or of the log.",
        then="`delete file[REF:` follows.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-BEYOND", "RMQ-CQ-ZEROFILE"),
    ),
    line(
        "LOG-FILE-HELD",
        WARNING,
        Pattern("destroy mapped file[REF:{references}] {file} Failed. cleanupOver: {answer}", {"answer": "true|false"}),
        "the mappedFile was destroyed once, but still alive, {file}",
        "the mappedFile re delete failed, {file}",
        "the mappedFile re delete failed",
        "the mapedfile redelete Failed, {file}",
        "This mappedFile {file} is not contained by mappedFiles, so skip it.",
        "this being not executed forever.",
        "Found a hanged consume queue file, attempting to delete it.",
        Pattern("in flush, hold failed, flush offset = {position}"),
        Pattern("in commit, hold failed, commit offset = {position}"),
        Pattern("this file[REF:{references}] {file} have not shutdown, stop unmapping."),
        Pattern("this file[REF:{references}] {file} have cleanup, do not do it again."),
        meaning="A file that should be deleted was still being read."
        " DLedger kept a wrong min offset after it before 5.1.4: apache/rocketmq#7283.",
        then="Tries again later; the space is freed when the reader has finished.",
        next=DOCTOR,
    ),
    line(
        "LOG-EXPIRED",
        None,
        Pattern(
            "physic min offset {minimum_physical_offset}, logics in current mappedFile max offset {maximum_physical_offset}, delete it"
        ),
        Pattern("physic min commitlog offset {minimum_physical_offset}, current mappedFile's max offset {maximum}, delete it"),
        Pattern(
            "cleanExpiredConsumerQueue: {topic} {queue_id} consumer queue destroyed, minCommitLogOffset: {minimum_physical_offset} "
            "maxCLOffsetInConsumeQueue: {maximum_physical_offset}"
        ),
        "cleanExpiredConsumerQueue: {topic},topic destroyed",
        "the mappedFile re delete OK, {file}",
        meaning="A file is removed because all its messages have expired.",
        then="Continues.",
        next=SHOW,
        codes=("RMQ-CQ-EXPIRED",),
    ),
    line(
        "LOG-CONFIRM-OFFSET",
        WARNING,
        "confirmOffset {confirm_physical_offset} is larger than lastConfirmValidMsgPhyOffset {physical_offset}, correct confirmOffset to "
        "lastConfirmValidMsgPhyOffset",
        "confirmOffset {confirm_physical_offset} is larger than processOffset {process_physical_offset}, correct confirmOffset to "
        "processOffset",
        "confirmOffset {confirm_physical_offset} is less than minPhyOffset {minimum_physical_offset}, correct confirmOffset to "
        "minPhyOffset",
        meaning="Controller mode: the offset up to which all replicas had confirmed (checkpoint) is outside of the log that was found. "
        "Larger: the end of the log was lost after it was confirmed.",
        then="Corrects it. The replica with the longer log becomes the source of the missing messages.",
        next=VERIFY_CHECKPOINT,
        codes=("RMQ-CP-OFFSET", "RMQ-CP-AHEAD"),
        since="5.0",
    ),
    line(
        "LOG-TRUNCATE-TO",
        WARNING,
        "truncate dirty files to {physical_offset}",
        "Truncate commitLog to {physical_offset}",
        "oldReputFromOffset is {old_physical_offset}, reset reput from offset to {physical_offset}",
        meaning="The log is cut to this offset because a master, or the group, does not have the messages after it.",
        then="Messages after it are removed from this replica; queues are cut as well. Consumer offsets are not changed.",
        next=DUMP_HERE,
        codes=("RMQ-CQ-BEYOND", "RMQ-CF-OFFSET"),
        since="5.0",
    ),
    line(
        "LOG-TRUNCATE-ALIGN",
        ERROR,
        "offset {physical_offset} is not align, truncate failed, need manual fix",
        meaning="The offset to which the log is to be cut is not the beginning of a record in this log: the two replicas hold different "
        "bytes.",
        then="Nothing is cut; replication does not continue.",
        next=DUMP_HERE,
        codes=("RMQ-CL-DAMAGE", "RMQ-ST-EPOCH"),
        since="5.0",
    ),
    line(
        "LOG-DLEDGER-OLD",
        INFO,
        "Recover old commitlog found a illegal magic code={magic_number}",
        Pattern(
            "Recover old commitlog needWriteMagicCode={answer} pos={position} file={file} dividedCommitlogOffset={physical_offset}",
            {"answer": "true|false"},
        ),
        "Will set the initial commitlog offset={physical_offset} for dledger",
        "Try to delete the last old commitlog file {file}",
        meaning="The store was turned into a DLedger store: the old log is closed, and DLedger's own log begins at this offset.",
        then="The old files stay readable until they expire.",
        next=SHOW,
        codes=("RMQ-ST-DLEDGER",),
    ),
)
