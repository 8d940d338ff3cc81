"""The sample stores: a list of cases, a shared read-only copy of each, own copies to change.

case("5.3.3-plain").settings(root)     broker.conf entries
sample_store("broker-5.5.1-crash")     shared; never change it
fresh_store("5.3.3-plain", tmp_path)   own copy
"""

from __future__ import annotations

import fcntl
import functools
import gzip
import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import sparse

SAMPLES = Path(__file__).resolve().parents[2] / "sample-stores"
FAMILIES = {
    "4.3": "4.3-4.8",
    "4.4": "4.3-4.8",
    "4.5": "4.3-4.8",
    "4.6": "4.3-4.8",
    "4.7": "4.3-4.8",
    "4.8": "4.3-4.8",
    "4.9": "4.9.x",
    "5.0": "5.0-5.1",
    "5.1": "5.0-5.1",
    "5.2": "5.2.0-5.3.1",
    "5.3.0": "5.2.0-5.3.1",
    "5.3.1": "5.2.0-5.3.1",
    "5.3.2": "5.3.2-5.3.3",
    "5.3.3": "5.3.2-5.3.3",
    "5.4": "5.4.0",
    "5.5": "5.5.x",
}

PUT_FIELDS = {
    "topic": "topic",
    "queueId": "queue_id",
    "queueOffset": "queue_offset",
    "physicalOffset": "physical_offset",
    "size": "size",
    "offsetMsgId": "offset_message_id",
    "uniqKey": "unique_key",
    "keys": "keys",
    "tags": "tags",
    "flag": "flag",
    "sysFlag": "sys_flag",
    "bornTimestamp": "born_timestamp",
    "storeTimestamp": "store_timestamp",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_transaction_offset",
    "bodyLength": "body_length",
    "storedCrc": "body_crc",
    "properties": "properties",
}
"""Fields of a line of the ground truth, and what a dump calls them."""


@dataclass(frozen=True, slots=True)
class Case:
    """One sample store: `case.toml` and where the rest lies."""

    name: str
    data: Mapping[str, Any]

    @property
    def directory(self) -> Path:
        return SAMPLES / self.name

    @property
    def release(self) -> str:
        return str(self.data["broker_version"])

    @property
    def family(self) -> str:
        """The release family, one of the values of FAMILIES."""
        return FAMILIES.get(self.release) or FAMILIES[self.release.rpartition(".")[0]]

    @property
    def crashed(self) -> bool:
        return bool(self.data["end"] == "crash")

    @property
    def is_broker(self) -> bool:
        """A whole broker wrote it, and the truth is what a client sent."""
        return bool(self.data["truth"] == "sends")

    @property
    def scenario(self) -> str:
        return str(self.data["scenario"])

    @property
    def min_phy_offset(self) -> int:
        return int(self.data["min_phy_offset"])

    @property
    def max_phy_offset(self) -> int:
        return int(self.data["max_phy_offset"])

    def settings(self, root: Path | str) -> dict[str, str]:
        """broker.conf entries of the store when it lies at `root`, as text."""
        return {key: _as_text(value).replace("{root}", str(root)) for key, value in self.data["settings"].items()}

    def set_options(self, root: Path | str) -> list[str]:
        """The settings as command line options."""
        return [word for key, value in self.settings(root).items() for word in ("--set", f"{key}={value}")]

    def topic_attributes(self, topic: str) -> dict[str, str]:
        return dict(self.data.get("topics", {}).get(topic, {}))

    def truth(self) -> list[dict[str, Any]]:
        """The lines of `messages.jsonl.gz`."""
        with gzip.open(self.directory / "messages.jsonl.gz", "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def cases() -> list[Case]:
    """Every sample store, by name."""
    return [_load(path.parent.name) for path in sorted(SAMPLES.glob("*/case.toml"))]


def case(name: str) -> Case:
    return _load(name)


def sample_store(name: str) -> Path:
    """A store directory shared by all tests. Read it, never change it."""
    unpacked = SAMPLES / name / "store"
    return unpacked if unpacked.is_dir() else _unpacked(name)


def fresh_store(name: str, tmp_path: Path) -> Path:
    """An own copy of a sample store, `tmp_path/<name>/store`."""
    return sparse.copy_tree(sample_store(name), tmp_path / name / "store")


@functools.cache
def _load(name: str) -> Case:
    with (SAMPLES / name / "case.toml").open("rb") as stream:
        return Case(name, tomllib.load(stream))


@functools.cache
def _unpacked(name: str) -> Path:
    """Unpack once per checkout and content, in one process at a time; a copy that was changed is replaced."""
    archive = SAMPLES / name / "store.tar.xz"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:12]
    cache = _cache_directory()
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _up_to_date(archive, cache / f"{name}-{digest}")


def _up_to_date(archive: Path, target: Path) -> Path:
    if target.is_dir() and json.loads((target / "manifest.json").read_text()) == snapshot(target / "store"):
        return target / "store"
    work = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    sparse.unpack(archive, work)
    (work / "manifest.json").write_text(json.dumps(snapshot(work / "store")))
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)
    return target / "store"


def _cache_directory() -> Path:
    """`.rmqstore-unpacked` of the checkout, or a private temporary directory where that is read-only."""
    cache = SAMPLES.parent / ".rmqstore-unpacked"
    try:
        cache.mkdir(exist_ok=True)
        if os.access(cache, os.W_OK):
            return cache
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="rmqstore-unpacked-"))


def snapshot(root: Path) -> dict[str, list[int]]:
    """Every path below root with kind, length, permission bits and modification time: what a reader must not change."""
    found: dict[str, list[int]] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        found[path.relative_to(root).as_posix()] = [status.st_mode, 0 if path.is_dir() else status.st_size, status.st_mtime_ns]
    return found


def content(root: Path) -> dict[str, str]:
    """SHA-256 of every file below root."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
