"""Java exceptions below log lines, and what they say about a store."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING
from rmqstore.catalogue.logline import About, Cause, Pattern
from rmqstore.catalogue.loglines.commands import INFO as SHOW
from rmqstore.catalogue.loglines.commands import VERIFY_CONFIG, VERIFY_FILES, VERIFY_LOG, VERIFY_QUEUES, VERIFY_TIMER

_REST = {"text": ".*"}
_AT = {"text": r"(?: at .*)?"}


def _pattern(text: str) -> Pattern:
    """Return a text that the first frame of the stack may follow on the same line."""
    return Pattern(text + "{text}", _AT)


CAUSES = (
    Cause(
        code="CAUSE-NAME",
        patterns=(Pattern('java.lang.NumberFormatException: For input string: "{file}"{text}', {"file": r'(?=[^"]*[^"\d-])[^"]*', **_AT}),),
        severity=ERROR,
        meaning="A file of the correct length has this name, which is not an offset.",
        next=VERIFY_FILES,
        codes=("RMQ-CL-NAME", "RMQ-CQ-NAME", "RMQ-IX-NAME", "RMQ-CM-NAME"),
    ),
    Cause(
        code="CAUSE-DIRECTORY",
        patterns=(_pattern("java.io.FileNotFoundException: {file} (Is a directory)"),),
        severity=ERROR,
        meaning="There is a directory where a file should be.",
        next=VERIFY_FILES,
        codes=("RMQ-ST-KIND",),
    ),
    Cause(
        code="CAUSE-PERMISSION",
        patterns=(
            _pattern("java.io.FileNotFoundException: {file} (Permission denied)"),
            _pattern("java.nio.file.AccessDeniedException: {file}"),
        ),
        severity=ERROR,
        meaning="The user that the broker runs as has no permission to open the file.",
        next=VERIFY_FILES,
        codes=("RMQ-ST-OWNER", "RMQ-ST-MODE"),
    ),
    Cause(
        code="CAUSE-READ-ONLY",
        patterns=(_pattern("java.io.FileNotFoundException: {file} (Read-only file system)"),),
        severity=ERROR,
        meaning="The file system is mounted read-only, often after a disk error.",
        next=VERIFY_FILES,
    ),
    Cause(
        code="CAUSE-MISSING",
        patterns=(_pattern("java.io.FileNotFoundException: {file} (No such file or directory)"),),
        severity=ERROR,
        meaning="The file or its directory does not exist.",
        next=VERIFY_FILES,
    ),
    Cause(
        code="CAUSE-NO-SPACE",
        patterns=(_pattern("java.io.IOException: No space left on device"), _pattern("java.io.IOException: Disk quota exceeded")),
        severity=ERROR,
        meaning="The disk is full.",
        next=SHOW,
        about=About.DISK,
    ),
    Cause(
        code="CAUSE-IO",
        patterns=(_pattern("java.io.IOException: Input/output error"), _pattern("java.lang.InternalError: a fault occurred{text2}")),
        severity=ERROR,
        meaning="The disk failed to read or write. Look at the kernel log; copy the store before anything else.",
        next="rmqstore verify STORE",
        codes=("RMQ-ST-UNREADABLE",),
    ),
    Cause(
        code="CAUSE-OPEN-FILES",
        patterns=(
            Pattern("java.io.FileNotFoundException: {file} (Too many open files){text}", _AT),
            _pattern("java.io.IOException: Too many open files"),
        ),
        severity=ERROR,
        meaning="The process has reached its limit of open files (ulimit -n). The store itself is in order.",
        next=SHOW,
    ),
    Cause(
        code="CAUSE-MAP",
        patterns=(_pattern("java.io.IOException: Map failed"), _pattern("java.lang.OutOfMemoryError: Map failed")),
        severity=ERROR,
        meaning="No more memory mappings: vm.max_map_count is too low for the number of files, or memory is used up. The store itself is "
        "in order.",
        next=SHOW,
    ),
    Cause(
        code="CAUSE-MEMORY",
        patterns=(
            _pattern("java.lang.OutOfMemoryError: Java heap space"),
            _pattern("java.lang.OutOfMemoryError: GC overhead limit exceeded"),
        ),
        severity=ERROR,
        meaning="The heap is used up. In recovery: a record whose TOTALSIZE is damaged asks for up to 2 GiB. In the timer: wheel slots "
        "that point beyond the timer log.",
        next=VERIFY_LOG,
        codes=("RMQ-CL-SIZE", "RMQ-TM-WHEEL-BEYOND"),
    ),
    Cause(
        code="CAUSE-LENGTH",
        patterns=(
            _pattern("java.lang.IndexOutOfBoundsException: Range [{from}, {from2} + {length}) out of bounds for length {available}"),
            _pattern("java.lang.NegativeArraySizeException: {length}"),
            _pattern("java.lang.NegativeArraySizeException"),
            _pattern("java.lang.IndexOutOfBoundsException"),
            _pattern("java.nio.BufferUnderflowException"),
        ),
        severity=WARNING,
        meaning="A length in a record is impossible: TOTALSIZE, BODYLEN, the topic's or the properties' length.",
        next=VERIFY_LOG,
        codes=("RMQ-CL-LENGTHS", "RMQ-CL-SIZE"),
    ),
    Cause(
        code="CAUSE-POSITION",
        patterns=(_pattern("java.lang.IllegalArgumentException: newPosition < 0: ({position} < 0)"),),
        severity=ERROR,
        meaning="The last file of a queue exists but holds no entry, and a position before it was asked for. The broker does not start "
        "until that queue file is moved away (5.0 to 5.4.0).",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-ZEROFILE",),
    ),
    Cause(
        code="CAUSE-QUEUE-TYPE",
        patterns=(_pattern("java.lang.RuntimeException: The queue type of topic: {topic} should be {state}, but is {new_state}"),),
        severity=ERROR,
        meaning="The directory of this topic's queues and its configuration disagree on the type of queue.",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-QUEUE-TYPE",),
    ),
    Cause(
        code="CAUSE-ACCELERATED",
        patterns=(
            Pattern(
                "java.lang.{state}: Accelerated recovery is enabled but checkpoint's logicsPhysicalOffset is invalid{text}",
                {"state": r"\w+", **_AT},
            ),
        ),
        severity=ERROR,
        meaning="enableAcceleratedRecovery is on, and the checkpoint has no logicsPhysicalOffset, as after a run of an older release. "
        "Switch it off for one start.",
        next="rmqstore verify STORE --part checkpoint",
        codes=("RMQ-CP-INVALID", "RMQ-CP-OFFSET"),
        about=About.CHECKPOINT,
    ),
    Cause(
        code="CAUSE-LOCK",
        patterns=(
            _pattern("java.lang.RuntimeException: Lock failed,MQ already started"),
            Pattern("java.lang.RuntimeException: Lock failed, MQ already started, lock status: {text}"),
        ),
        severity=ERROR,
        meaning="Another broker runs on this store. This one has already recovered it: it deleted the other one's pre-allocated file and "
        "active index file. The other one continues to write into the deleted file, and these messages are lost at its next start: stop it "
        "now, after copying the files that /proc/PID/fd still shows."
        " The lock is one of the file system; a second broker can be a pod that has not ended: apache/rocketmq#7576.",
        next=SHOW,
        codes=("RMQ-ST-IN-USE",),
        about=About.LOCK,
    ),
    Cause(
        code="CAUSE-WHEEL-LENGTH",
        patterns=(_pattern("java.lang.RuntimeException: Timer wheel length:{length} != expected:{expected}"),),
        severity=ERROR,
        meaning="The file `timerwheel` has the wrong length. The broker does not start, and empties delayOffset.json while it stops.",
        next=VERIFY_TIMER,
        codes=("RMQ-TM-WHEEL-LENGTH",),
    ),
    Cause(
        code="CAUSE-STOPPED",
        patterns=(Pattern("java.util.concurrent.RejectedExecutionException{text}", _REST),),
        severity=WARNING,
        meaning="A task was submitted after the broker had begun to stop. Harmless.",
        next=SHOW,
    ),
    Cause(
        code="CAUSE-ARGUMENT",
        patterns=(
            Pattern("java.lang.IllegalArgumentException: null"),
            Pattern("java.lang.IllegalArgumentException"),
            _pattern("java.lang.IllegalArgumentException: limit < 0: ({position} < 0)"),
            _pattern("java.lang.IllegalArgumentException: newLimit > capacity: ({position} > {length})"),
            _pattern("java.lang.IllegalArgumentException: newPosition > limit: ({position} > {length})"),
        ),
        severity=ERROR,
        meaning="A position outside of a buffer was asked for; Java 8 gives no more words. Below `load exception` with a frame of "
        "`ConsumeQueue.correctMinOffset` or `recover`: the last file of a queue holds no entry (apache/rocketmq#10108), see "
        "CAUSE-POSITION. In other cases the frame names the part.",
        next=VERIFY_QUEUES,
        codes=("RMQ-CQ-ZEROFILE",),
    ),
    Cause(
        code="CAUSE-STORE-NULL",
        patterns=(
            Pattern("java.lang.NullPointerException: Cannot invoke {text} is null", {"text": r'".*getMessageStore\(\)"'}),
            Pattern("java.lang.NullPointerException: Cannot invoke {text}getMessageStore{text2}", {"text": ".*", "text2": ".*"}),
        ),
        severity=WARNING,
        meaning="The follow-up of an initialization that failed, nearly always at a configuration file that cannot be parsed "
        "(apache/rocketmq#8395, #9328).",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-JSON", "RMQ-CF-BAK", "RMQ-CF-EMPTY"),
    ),
    Cause(
        code="CAUSE-JSON",
        patterns=(
            Pattern("com.alibaba.fastjson.JSONException{text}", _REST),
            Pattern("com.alibaba.fastjson2.JSONException{text}", _REST),
            Pattern("com.alibaba.fastjson.JSONPathException{text}", _REST),
        ),
        severity=ERROR,
        meaning="A configuration file is no JSON: cut off, zeros or other bytes after a power cut, a full disk, or edited by hand. The "
        "line above names the file. `pos 0` and a strange first character: the file is garbage from its beginning (apache/rocketmq#1498, "
        "#6096, #7729).",
        next=VERIFY_CONFIG,
        codes=("RMQ-CF-JSON", "RMQ-CF-BAK", "RMQ-CF-EMPTY"),
    ),
    Cause(
        code="CAUSE-ROCKSDB-LOCK",
        patterns=(
            Pattern("org.rocksdb.RocksDBException: While lock file: {file}: Resource temporarily unavailable{text}", _REST),
            Pattern("org.rocksdb.RocksDBException: lock hold by current process, {text}", _REST),
            Pattern("org.rocksdb.RocksDBException: IO error: While lock file: {file}: Resource temporarily unavailable{text}", _REST),
            Pattern("org.rocksdb.RocksDBException: lock : {file}: No locks available{text}", _REST),
        ),
        severity=ERROR,
        meaning="Another process holds the database, as a running broker does: tools such as rocksDBConfigToJson need a stopped broker or "
        "a copy (apache/rocketmq#7275). The lock ends with the process; the file LOCK stays and is never deleted.",
        next=SHOW,
        codes=("RMQ-ST-IN-USE",),
        about=About.LOCK,
    ),
    Cause(
        code="CAUSE-ROCKSDB-DAMAGE",
        patterns=(
            Pattern("org.rocksdb.RocksDBException: Corruption{text}", _REST),
            Pattern("org.rocksdb.RocksDBException: {text}Corruption{text2}", {"text": "[^C]*", "text2": ".*"}),
            Pattern("org.rocksdb.RocksDBException: {text}No such file or directory{text2}", {"text": "(?!.*Corruption).*?", "text2": ".*"}),
            Pattern("org.rocksdb.RocksDBException: {text}does not exist{text2}", {"text": "(?!.*Corruption).*?", "text2": ".*"}),
            Pattern("org.rocksdb.RocksDBException: block checksum mismatch{text}", _REST),
            Pattern("org.rocksdb.RocksDBException: {text}checksum mismatch{text2}", {"text": "(?!.*Corruption)[^b].*?", "text2": ".*"}),
        ),
        severity=ERROR,
        meaning="A file of the database is damaged or missing: CURRENT, MANIFEST, a table (.sst) or its log. The text names it.",
        next="rmqstore doctor STORE",
        codes=("RMQ-RD-OPEN", "RMQ-RD-BLOCK", "RMQ-RD-WAL"),
    ),
    Cause(
        code="CAUSE-ROCKSDB-SPACE",
        patterns=(
            Pattern("org.rocksdb.RocksDBException: {text}No space left on device{text2}", {"text": ".*?", "text2": ".*"}),
            Pattern("org.rocksdb.RocksDBException: {text}Disk quota exceeded{text2}", {"text": ".*?", "text2": ".*"}),
        ),
        severity=ERROR,
        meaning="The disk is full. A database that could not write stays in error state until it is opened again.",
        next=SHOW,
        about=About.DISK,
    ),
    Cause(
        code="CAUSE-ROCKSDB-OPTIONS",
        patterns=(
            Pattern("org.rocksdb.RocksDBException: {text}Column families not opened{text2}", {"text": ".*?", "text2": ".*"}),
            Pattern("org.rocksdb.RocksDBException: {text}Column family not found{text2}", {"text": ".*?", "text2": ".*"}),
            Pattern(
                "org.rocksdb.RocksDBException: {text}unknown{text2}", {"text": r"(?!.*(?:Column|space left|Corruption)).*?", "text2": ".*"}
            ),
        ),
        severity=ERROR,
        meaning="The database was written by another release or with other settings: it has column families that this release does not "
        "open. It is not damaged.",
        next="rmqstore doctor STORE",
        codes=("RMQ-RD-OPEN",),
    ),
    Cause(
        code="CAUSE-DLEDGER",
        patterns=(
            Pattern("io.openmessaging.storage.dledger.exception.DLedgerException{text}", _REST),
            Pattern("io.openmessaging.storage.dledger.DLedgerException{text}", _REST),
        ),
        severity=ERROR,
        meaning="DLedger found that an entry of its data and the entry of its index differ, that an entry is damaged, or that a write did "
        "not end where it should (`pos A != B`, `index A != B`, `term A != B`, `size A != B`; openmessaging/dledger#285).",
        next=VERIFY_LOG,
        codes=("RMQ-CL-DAMAGE", "RMQ-CL-PHYOFFSET"),
    ),
    Cause(
        code="CAUSE-MODULES",
        patterns=(
            Pattern("java.lang.IllegalAccessException: class {text} cannot access {text2}", {"text": r"\S+", "text2": ".*"}),
            Pattern("java.lang.IllegalAccessError: class {text} cannot access {text2}", {"text": r"\S+", "text2": ".*"}),
            Pattern("java.lang.reflect.InaccessibleObjectException: {text}", _REST),
        ),
        severity=WARNING,
        meaning="This Java does not let the broker unmap files: 4.9 needs Java 8, or `--add-exports`/`--add-opens` for the named package "
        "(apache/rocketmq#9030). The store is not the cause, but a start that ends so has already cut and deleted what every start does.",
        next="rmqstore doctor STORE",
    ),
    Cause(
        code="CAUSE-NATIVE",
        patterns=(
            Pattern("java.lang.UnsatisfiedLinkError{text}", _REST),
            Pattern("java.lang.NoClassDefFoundError{text}", _REST),
            Pattern("java.lang.ClassNotFoundException{text}", _REST),
            Pattern("java.lang.UnsupportedClassVersionError{text}", _REST),
        ),
        severity=WARNING,
        meaning="The installation of the broker, not the store: a class or native library (RocksDB, JNA) is missing or of another Java.",
        next=SHOW,
    ),
    Cause(
        code="CAUSE-DISK-OTHER",
        patterns=(
            Pattern("java.nio.file.NoSuchFileException: {file}"),
            Pattern("java.nio.file.FileSystemException: {file}: {text}", _REST),
            Pattern("java.nio.file.DirectoryNotEmptyException: {file}"),
            Pattern("java.nio.file.FileAlreadyExistsException: {file}"),
            _pattern("java.io.IOException: Structure needs cleaning"),
            _pattern("java.io.IOException: Stale file handle"),
        ),
        severity=ERROR,
        meaning="The file system refused an operation: the file is missing, in the way, or the file system itself needs a check (fsck).",
        next=VERIFY_FILES,
    ),
    Cause(
        code="CAUSE-CLOSED",
        patterns=(
            Pattern("java.nio.channels.ClosedChannelException{text}", _REST),
            Pattern("java.nio.channels.OverlappingFileLockException{text}", _REST),
            Pattern("java.lang.InterruptedException{text}", _REST),
        ),
        severity=WARNING,
        meaning="A file or connection was closed, or locked by the same process, while it was used, as while a broker stops.",
        next=SHOW,
    ),
    *(
        Cause(
            code=f"CAUSE-IN-{part}",
            patterns=tuple(Pattern(f"at org.apache.rocketmq.{name}{{text}}", {"text": r"[.$(].*"}) for name in names),
            severity=WARNING,
            meaning=f"The exception was thrown in code of {text}. A frame says where, not why: the first line of the exception and the log "
            "line above it say what.",
            next=command,
        )
        for part, text, command, names in (
            (
                "CONSUMEQUEUE",
                "the consume queues",
                VERIFY_QUEUES,
                ("store.ConsumeQueue", "store.queue.BatchConsumeQueue", "store.queue.ConsumeQueueStore", "store.ConsumeQueueExt"),
            ),
            ("COMMITLOG", "the commit log", VERIFY_LOG, ("store.CommitLog", "store.dledger.DLedgerCommitLog")),
            (
                "FILES",
                "mapped files (log, queues, timer log)",
                VERIFY_FILES,
                ("store.MappedFileQueue", "store.MappedFile", "store.logfile.DefaultMappedFile", "store.AllocateMappedFileService"),
            ),
            ("INDEX", "the index files", "rmqstore verify STORE --part index", ("store.index.IndexFile", "store.index.IndexService")),
            ("TIMER", "the timer", VERIFY_TIMER, ("store.timer.TimerMessageStore", "store.timer.TimerWheel", "store.timer.TimerLog")),
            (
                "CONFIG",
                "configuration files",
                VERIFY_CONFIG,
                (
                    "common.ConfigManager",
                    "broker.topic.TopicConfigManager",
                    "broker.offset.ConsumerOffsetManager",
                    "broker.schedule.ScheduleMessageService",
                    "store.schedule.ScheduleMessageService",
                    "broker.subscription.SubscriptionGroupManager",
                ),
            ),
            (
                "COMPACTION",
                "compacted topics",
                "rmqstore verify STORE --part compaction",
                ("store.kv.CompactionLog", "store.kv.CompactionStore"),
            ),
            (
                "ROCKSDB",
                "RocksDB queues and configuration",
                "rmqstore doctor STORE",
                ("store.queue.RocksDBConsumeQueueStore", "store.queue.RocksDBConsumeQueueTable", "common.config.AbstractRocksDBStorage"),
            ),
            ("STORE", "the message store as a whole", "rmqstore doctor STORE", ("store.DefaultMessageStore", "broker.BrokerController")),
        )
    ),
)
