"""Lines as people paste them: from other log patterns, clients and forums, with stack traces, without what was before or after."""

from __future__ import annotations

import json

import pytest

from rmqstore.brokerlog.groups import Groups
from rmqstore.brokerlog.lines import entries

HALF = "found a half message at 4711, it will be truncated."


def _codes(text: str) -> tuple[str | None, str | None]:
    """The codes of the row and of the cause of a text that is one entry."""
    groups = Groups(keep_quiet=True)
    for line in entries(text.splitlines()):
        groups.add(line)
    (group,) = groups.by_importance(harmless=True)
    return group.line.code if group.line is not None else None, group.cause.code if group.cause is not None else None


@pytest.mark.parametrize(
    "text",
    [
        "WARN main - " + HALF,
        "WARN " + HALF,
        "[WARN] " + HALF,
        "[2026-11-21 10:00:01] WARN " + HALF,
        "[2026-11-21 10:00:01,123] [WARN] [main] " + HALF,
        "26-11-21 10:00:01 WARN PullMessageThread_38 - " + HALF,
        "26/11/21 10:00:01 WARN main - " + HALF,
        "2026-11-21 10:00:01.123  WARN 4711 --- [           main] RocketmqStore  : " + HALF,
        "10:00:01.123 [main] WARN RocketmqStore - " + HALF,
        "2026-11-21 10:00:01,123 WARNING main - " + HALF,
        "main - " + HALF,
        HALF + "]",
        HALF + "`",
        '"' + HALF + '"',
        "store.log:" + " " + HALF,
        "kubectl logs broker-0 | " + HALF,
        "found  a half message at\t4711, it will be truncated.",
        "found a half message at 4711， it will be truncated。",
        json.dumps({"log": "2026-11-21 10:00:01 WARN main - " + HALF + "\n", "stream": "stdout", "time": "2026-11-21T10:00:01Z"}),
        json.dumps({"level": "WARN", "message": HALF}),
    ],
)
def test_a_line_is_recognised_in_any_pattern(text: str) -> None:
    assert _codes(text) == ("LOG-HALF-MESSAGE", None)


def test_level_and_time_of_other_patterns_are_kept() -> None:
    (line,) = entries(["[26-11-21 10:00:01] ERROR some.Name - something else"])
    assert (line.level, line.time, line.message) == ("ERROR", "26-11-21 10:00:01", "something else")


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("org.apache.rocketmq.client.exception.MQBrokerException: CODE: 14  DESC: service not available now, maybe disk full, CL:  0.95 "
         "CQ: 0.95 INDEX:  0.95, maybe your broker machine memory too small.\nFor more information, please visit the url, http://x",
         ("LOG-CLIENT-UNAVAILABLE", None)),
        ("CODE: 17  DESC: topic[orders] not exist, apply first please!", ("LOG-CLIENT-TOPIC", None)),
        ("CODE: 208  DESC: query message by key finished, but no message.", ("LOG-CLIENT-NO-MESSAGE", None)),
        ("CODE: 206  DESC: the consumer group[g] not online", ("LOG-CLIENT-CODE", None)),
        ("Caused by: java.io.IOException: No space left on device", (None, "CAUSE-NO-SPACE")),
        ("java.lang.IllegalArgumentException: null", (None, "CAUSE-ARGUMENT")),
        ("\tat org.apache.rocketmq.store.ConsumeQueue.correctMinOffset(ConsumeQueue.java:370)", (None, "CAUSE-IN-CONSUMEQUEUE")),
        ("org.rocksdb.RocksDBException: While lock file: /s/config/topics/LOCK: Resource temporarily unavailable",
         (None, "CAUSE-ROCKSDB-LOCK")),
        ("org.rocksdb.RocksDBException: Corruption: block checksum mismatch: stored = 1, computed = 2 in 000010.sst",
         (None, "CAUSE-ROCKSDB-DAMAGE")),
        ("org.rocksdb.RocksDBException: While open a file for random read: /s/000011.sst: No such file or directory",
         (None, "CAUSE-ROCKSDB-DAMAGE")),
        ("org.rocksdb.RocksDBException: While appending to file: /s/1.log: No space left on device", (None, "CAUSE-ROCKSDB-SPACE")),
        ("io.openmessaging.storage.dledger.exception.DLedgerException: [code=414,name=DISK_ERROR,desc=]pos 0 != 17",
         ("LOG-DLEDGER-RECOVER", "CAUSE-DLEDGER")),
        ("logics disk maybe full soon, so reclaim space, -1.0", ("LOG-DISK-NO-PATH", None)),
        ("logics disk maybe full soon, so reclaim space, 0.81", ("LOG-DISK-RECLAIM", None)),
        ("2015-10-15 19:47:08 WARN ReputMessageService - create maped file2 error, topic: T clientAddr: 1.2.3.4:5",
         ("LOG-CREATE-FILE", None)),
        ("recover from this maped file /s/commitlog/00000000000000000000", ("LOG-SCAN-START", None)),
    ],
)  # fmt: skip
def test_what_clients_older_releases_and_libraries_print(text: str, codes: tuple[str | None, str | None]) -> None:
    assert _codes(text) == codes


def test_the_first_line_of_an_exception_says_more_than_its_frames() -> None:
    text = "load exception\njava.io.IOException: No space left on device\n\tat org.apache.rocketmq.store.CommitLog.load(CommitLog.java:1)"
    assert _codes(text) == ("LOG-LOAD-EXCEPTION", "CAUSE-NO-SPACE")


def test_frames_below_an_unknown_exception_name_the_part() -> None:
    text = "load exception\njava.lang.NullPointerException\n\tat a.b.C.d(C.java:1)\n\tat org.apache.rocketmq.store.CommitLog.load(X.java:1)"
    assert _codes(text) == ("LOG-LOAD-EXCEPTION", "CAUSE-IN-COMMITLOG")


@pytest.mark.parametrize("text", ["my own line found Unknown error somewhere", "the consumer's group is fine", "WARN x - " + "word " * 400])
def test_other_texts_are_not_taken_for_a_row(text: str) -> None:
    assert _codes(text) == (None, None)
