"""Stores of brokers with tiered storage in files, as `stores/<release>-<end>.tar.xz`: the root in `store`, the segments beside it.

They were written by whole brokers (tests/broker/busy.py) with the settings below; no message expired.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.broker.busy import SIZES

HERE = Path(__file__).parent / "stores"
NAMES = ("5.1.4-clean", "5.3.3-crash", "5.5.0-clean")
CLUSTER = "24e289d7_LabCluster"


def settings(name: str, directory: Path) -> dict[str, str]:
    """broker.conf entries of a store in `directory`."""
    provider = f"org.apache.rocketmq.tieredstore.provider.{'posix.' if name.startswith('5.1.') else ''}PosixFileSegment"
    return {
        **SIZES,
        "messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore",
        "tieredBackendServiceProvider": provider,
        "tieredStoreFilePath": str(directory / "segments"),
        "tieredStoreCommitLogMaxSize": "30000",
        "tieredStoreConsumeQueueMaxSize": "600",
        "tieredStoreIndexFileMaxHashSlotNum": "20",
        "tieredStoreIndexFileMaxIndexNum": "80",
        "tieredStoreGroupCommit": "false",
        "tieredStorageLevel": "FORCE",
        "tieredStoreGroupCommitTimeout": "1000",
    }


def unpacked(name: str, directory: Path) -> Path:
    """Unpacks a store into `directory`, writes `broker.conf` beside it, and returns its root."""
    subprocess.run(["tar", "xJf", HERE / f"{name}.tar.xz", "-C", directory], check=True)
    (directory / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in settings(name, directory).items()))
    return directory / "store"


def segment_paths(directory: Path, queue: str, kind: str) -> list[Path]:
    """The segment files of `topic/queueId` by base offset."""
    return sorted((directory / "segments" / CLUSTER / "broker-a" / queue / kind).iterdir(), key=lambda path: path.name[-20:])


def queues(directory: Path) -> Iterator[str]:
    """Every `topic/queueId` with segments, without the index."""
    for path in sorted((directory / "segments" / CLUSTER / "broker-a").glob("*/*")):
        if path.parent.name != "rmq_sys_INDEX":
            yield f"{path.parent.name}/{path.name}"
