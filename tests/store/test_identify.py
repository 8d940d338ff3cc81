"""What a file is: by its place in a store, and by content alone when it was copied under another name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqstore.store.kinds.identify import FileKind, identify
from tests.store.trees import offset_name
from tests.support import stores

# (store, file, kind in its place, kind by content alone)
FILES = [
    ("5.3.3-plain", f"commitlog/{offset_name(65536)}", FileKind.COMMITLOG, FileKind.COMMITLOG),
    ("5.5.1-longtopic", f"commitlog/{offset_name(0)}", FileKind.COMMITLOG, FileKind.COMMITLOG),
    ("4.9.8-multipath", f"commitlog2/{offset_name(65536)}", FileKind.COMMITLOG, FileKind.COMMITLOG),
    ("5.3.3-plain", f"consumequeue/TopicA/0/{offset_name(0)}", FileKind.CONSUMEQUEUE, FileKind.CONSUMEQUEUE),
    ("4.9.8-headless", f"consumequeue/TopicA/0/{offset_name(2000)}", FileKind.CONSUMEQUEUE, FileKind.CONSUMEQUEUE),
    ("5.3.3-cqext", f"consumequeue_ext/TopicA/0/{offset_name(0)}", FileKind.CONSUMEQUEUE_EXT, FileKind.CONSUMEQUEUE_EXT),
    ("5.5.1-batchcq", f"batchconsumequeue/BatchTopic/0/{offset_name(0)}", FileKind.BATCHCONSUMEQUEUE, FileKind.BATCHCONSUMEQUEUE),
    ("5.3.3-plain", "checkpoint", FileKind.CHECKPOINT, FileKind.CHECKPOINT),
    ("5.5.1-plain", "checkpoint", FileKind.CHECKPOINT, FileKind.CHECKPOINT),
    ("5.3.3-plain-crash", "abort", FileKind.ABORT, FileKind.ABORT),
    ("5.3.3-plain", "lock", FileKind.LOCK, FileKind.LOCK),
    ("5.3.3-plain", "compaction/position-checkpoint", FileKind.COMPACTION, FileKind.COMPACTION),
    ("broker-5.3.3-cqext-crash", "timerwheel", FileKind.TIMERWHEEL, FileKind.TIMERWHEEL),
    ("broker-5.3.3-cqext-crash", f"timerlog/{offset_name(0)}", FileKind.TIMERLOG, FileKind.TIMERLOG),
    ("broker-5.3.3-cqext-crash", "config/timercheck", FileKind.TIMERCHECK, FileKind.TIMERCHECK),
    ("broker-5.3.3-cqext-crash", "config/topics.json", FileKind.JSON, FileKind.JSON),
    ("broker-5.3.3-cqext-crash", "config/timermetrics", FileKind.JSON, FileKind.JSON),
    ("broker-5.3.3-cqext-crash", f"compaction/compactionLog/compact/0/{offset_name(0)}", FileKind.COMPACTION_LOG, FileKind.COMMITLOG),
    (
        "broker-5.3.3-cqext-crash",
        f"compaction/compactionCq/compact/0/{offset_name(0)}",
        FileKind.COMPACTION_QUEUE,
        FileKind.BATCHCONSUMEQUEUE,
    ),
    ("broker-5.3.3-dledger-clean", f"dledger-n0/data/{offset_name(0)}", FileKind.DLEDGER, FileKind.DLEDGER),
    ("broker-5.3.3-dledger-clean", f"dledger-n0/index/{offset_name(0)}", FileKind.DLEDGER_INDEX, FileKind.DLEDGER_INDEX),
    ("broker-5.3.3-dledger-clean", "dledger-n0/checkpoint", FileKind.PROPERTIES, FileKind.PROPERTIES),
    ("broker-5.3.3-dledger-clean", "dledger-n0/currterm", FileKind.PROPERTIES, FileKind.PROPERTIES),
    ("5.5.1-rocksdb", "consumequeue/CURRENT", FileKind.ROCKSDB, FileKind.TEXT),
]


@pytest.mark.parametrize(("name", "file", "in_place", "alone"), FILES, ids=[f"{name}/{file}" for name, file, _, _ in FILES])
def test_real_files(name: str, file: str, in_place: FileKind, alone: FileKind, tmp_path: Path) -> None:
    path = stores.sample_store(name) / file
    assert identify(path) is in_place
    shutil.copyfile(path, tmp_path / "copied.bin")
    assert identify(tmp_path / "copied.bin") is alone


@pytest.mark.parametrize("name", ["5.3.3-plain", "broker-5.5.1-crash"])
def test_every_index_file(name: str, tmp_path: Path) -> None:
    files = sorted((stores.sample_store(name) / "index").iterdir())
    assert files
    for number, path in enumerate(files):
        assert identify(path) is FileKind.INDEX
        copied = tmp_path / f"copied-{number}"
        shutil.copyfile(path, copied)
        assert identify(copied) is FileKind.INDEX


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("broker.conf", b"", FileKind.PROPERTIES),
        ("x", b"# my broker\nbrokerName = a\n", FileKind.PROPERTIES),
        ("epochFileCheckpoint", b"", FileKind.EPOCH),
        ("x", b"2\n0\n1-0\n2-4096\n", FileKind.EPOCH),
        ("x", b'{"queueOffsetMap":{"t_0":7}}', FileKind.COMPACTION),
        ("x", b'{\n\t"offsetTable":{0:1}\n}', FileKind.JSON),
        ("x", b"12345", FileKind.ABORT),
        ("x", bytes.fromhex("bcc50289") + bytes(24), FileKind.TIERED_INDEX),
        ("x", b"just words", FileKind.TEXT),
        ("x", "é".encode() * 2048 + b"a", FileKind.TEXT),
        ("x", b"", FileKind.UNKNOWN),
        ("x", bytes(65536), FileKind.UNKNOWN),
        ("x", bytes(range(256)) * 16, FileKind.UNKNOWN),
    ],
)
def test_synthetic_files(name: str, content: bytes, kind: FileKind, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert identify(tmp_path / name) is kind
