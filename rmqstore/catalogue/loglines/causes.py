"""Java exceptions below log lines, and what they say about a store."""

from __future__ import annotations

from rmqstore.catalogue.entry import ERROR, WARNING
from rmqstore.catalogue.logline import About, Cause, Pattern
from rmqstore.catalogue.loglines.commands import INFO as SHOW
from rmqstore.catalogue.loglines.commands import VERIFY_CONFIG, VERIFY_FILES, VERIFY_LOG, VERIFY_QUEUES, VERIFY_TIMER

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
        "now, after copying the files that /proc/PID/fd still shows.",
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
        patterns=(Pattern("java.util.concurrent.RejectedExecutionException{text}", {"text": ".*"}),),
        severity=WARNING,
        meaning="A task was submitted after the broker had begun to stop. Harmless.",
        next=SHOW,
    ),
)
