"""Broker configuration as far as it decides where and how a store is kept: broker.conf, overlaid with `--set key=value`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from rmqstore.errors import UnreadableError, UsageError
from rmqstore.formats import batchconsumequeue, consumequeue, consumequeue_ext, index, timer
from rmqstore.formats.delay import DEFAULT_DELAY_LEVEL_TEXT, DEFAULT_DELAY_LEVELS, parse_delay_levels
from rmqstore.store.mapped import unreadable

ROCKSDB_STORE = "defaultRocksDB"
"""Value of `storeType` that keeps queues in RocksDB."""

# Names and defaults of the broker's own configuration classes; an empty text means "not set".
DEFAULTS: Mapping[str, int | bool | str] = MappingProxyType(
    {
        # directories
        "storePathRootDir": "",
        "storePathCommitLog": "",
        "readOnlyCommitLogStorePaths": "",
        "storePathDLedgerCommitLog": "",
        "storePathEpochFile": "",
        "storePathBrokerIdentity": "",
        "multiPathSplitter": ",",
        "enableDLegerCommitLog": False,
        "dLegerSelfId": "",
        "storeType": "default",
        "configManagerVersion": "v1",
        "useSeparateStorePathForRocksdbCQ": False,
        "useSingleRocksDBForAllConfigs": False,
        "messageStorePlugIn": "",
        "tieredStoreFilePath": "",
        # lengths of files
        "mappedFileSizeCommitLog": 1024 * 1024 * 1024,
        "mappedFileSizeConsumeQueue": consumequeue.DEFAULT_FILE_SIZE,
        "mappedFileSizeConsumeQueueExt": consumequeue_ext.DEFAULT_FILE_SIZE,
        "mapperFileSizeBatchConsumeQueue": batchconsumequeue.DEFAULT_FILE_SIZE,
        "mappedFileSizeTimerLog": timer.DEFAULT_LOG_FILE_SIZE,
        "compactionMappedFileSize": 100 * 1024 * 1024,
        "compactionCqMappedFileSize": 10 * 1024 * 1024,
        "maxHashSlotNum": index.DEFAULT_HASH_SLOT_NUM,
        "maxIndexNum": index.DEFAULT_INDEX_NUM,
        # content
        "maxMessageSize": 4 * 1024 * 1024,
        "messageDelayLevel": DEFAULT_DELAY_LEVEL_TEXT,
        "enableConsumeQueueExt": False,
        "enableLmq": False,
        "enableMultiDispatch": False,
        "enabledAppendPropCRC": False,
        "forceVerifyPropCRC": False,
        "checkCRCOnRecover": True,
        "messageIndexEnable": True,
        "messageIndexSafe": False,
        "enableCompaction": True,
        "transientStorePoolEnable": False,
        "writeWithoutMmap": False,
        "autoMessageVersionOnTopicLen": True,
        "timerWheelEnable": True,
        "timerRocksDBEnable": False,
        "indexRocksDBEnable": False,
        "transRocksDBEnable": False,
        "transWriteOriginTransHalfEnable": True,
        "timerPrecisionMs": 1000,
        "timerRollWindowSlot": 172_800,
        "timerMaxDelaySec": 259_200,
        "timerWheelSnapshotFlush": False,
        # start of a broker
        "brokerRole": "ASYNC_MASTER",
        "brokerId": 0,
        "brokerName": "",
        "brokerClusterName": "DefaultCluster",
        "flushDiskType": "ASYNC_FLUSH",
        "duplicationEnable": False,
        "enableControllerMode": False,
        "commitLogRecoverMaxNum": 10,
        "enableAcceleratedRecovery": False,
        "checkCommitLogOffsetOnRecover": False,
        "recheckReputOffsetFromCq": False,
        "readUnCommitted": False,
        "indexFileWriteEnable": True,
        "enableBuildConsumeQueueConcurrently": False,
        "fileReservedTime": 72,
    }
)

_OLD_SPELLINGS = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
    "tieredStoreFilepath": "tieredStoreFilePath",
}
"""Sizes of files up to 4.5.1, the directory of segments in early 5.1 releases."""
ROOT_PLACEHOLDER = "{root}"
_INT_RANGE = range(-(2**31), 2**31)
# Lengths and counts that a broker cannot work with unless they are positive.
_POSITIVE = frozenset(key for key in DEFAULTS if "FileSize" in key) | {"maxHashSlotNum", "maxIndexNum"}


@dataclass(frozen=True)
class BrokerConfig:
    """Settings that were given (`explicit`), and the broker's defaults for everything else."""

    given: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = None

    @classmethod
    def load(cls, broker_conf: Path | None = None, settings: Mapping[str, str] | None = None, *, root: Path | None = None) -> BrokerConfig:
        """Read `broker_conf` (properties text) and override it with `settings`; `{root}` in a value of either becomes `root`.

        Raises UnreadableError for the file and UsageError for a setting that is not of its key's type. A bad value in the file is
        ignored, as the broker ignores it; `malformed()` names it.
        """
        given: dict[str, str] = {}
        if broker_conf is not None:
            given.update(parse_properties_text(_read_text(broker_conf)))
        for key, value in (settings or {}).items():
            if not _fits(key, value):
                raise UsageError(f"--set {key}={value}: {_type_name(key)} is expected.", f"The broker's default is {DEFAULTS[key]}.")
            given[key] = value
        given = {**{_OLD_SPELLINGS[key]: given[key] for key in given if key in _OLD_SPELLINGS}, **given}
        if root is not None:
            given = {key: value.replace(ROOT_PLACEHOLDER, str(root)) for key, value in given.items()}
        return cls(MappingProxyType(given), broker_conf)

    def explicit(self, key: str) -> str | None:
        """Return the text given for `key`, None if it was not given."""
        return self.given.get(key)

    def malformed(self) -> Iterator[tuple[str, str]]:
        """Yield keys and texts that are not of their type, which the broker silently ignores."""
        for key, value in self.given.items():
            if not _fits(key, value):
                yield key, value

    def integer(self, key: str) -> int:
        """Return the value of an integer setting. Raises KeyError for a key that is not in `DEFAULTS`."""
        explicit = self.explicit_integer(key)
        return int(DEFAULTS[key]) if explicit is None else explicit

    def explicit_integer(self, key: str) -> int | None:
        """Return the value of an integer setting if it was given and is one."""
        value = self.given.get(key)
        return int(value) if value is not None and _fits(key, value) else None

    def flag(self, key: str) -> bool:
        """Return the value of a true/false setting; the broker reads every text except `true` as false."""
        value = self.given.get(key)
        return bool(DEFAULTS[key]) if value is None else value.lower() == "true"

    def text(self, key: str) -> str:
        """Return the value of a text setting, empty if neither given nor defaulted."""
        return self.given.get(key, str(DEFAULTS[key]))

    @property
    def commit_log_file_size(self) -> int | None:
        """Return the bytes of a commit log file, if given."""
        return self.explicit_integer("mappedFileSizeCommitLog")

    @property
    def consume_queue_file_size(self) -> int | None:
        """Return the bytes of a consume queue file, if given: rounded up to whole units (fact sheet queues §2.1)."""
        size = self.explicit_integer("mappedFileSizeConsumeQueue")
        return None if size is None else consumequeue.file_size(size)

    @property
    def delay_levels(self) -> tuple[int, ...] | None:
        """Return the delay in ms per level, level 1 first; None if the setting is no such table."""
        try:
            return parse_delay_levels(self.text("messageDelayLevel"))
        except ValueError:
            return None

    @property
    def known_delay_levels(self) -> tuple[int, ...]:
        """Return the delays, or the default if the setting is no table: no broker starts with it, so the store was written without it."""
        return DEFAULT_DELAY_LEVELS if self.delay_levels is None else self.delay_levels


def parse_properties_text(text: str) -> dict[str, str]:
    """Parse Java properties text: `key=value`, `key: value` or `key value`, comments, continued lines, backslash escapes."""
    result: dict[str, str] = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)\Z", line, re.DOTALL)
        if match is not None:
            result[_unescape(match[1])] = _unescape(match[2])
    return result


def _logical_lines(text: str) -> Iterator[str]:
    pending: str | None = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
        else:
            pending = None
            yield line
    if pending is not None:
        yield pending


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replace, text, flags=re.DOTALL)


def _fits(key: str, value: str) -> bool:
    default = DEFAULTS.get(key)
    if isinstance(default, bool):
        return value.lower() in ("true", "false")
    if isinstance(default, int):
        if re.fullmatch(r"[+-]?[0-9]{1,19}", value, re.ASCII) is None:
            return False
        return int(value) in _INT_RANGE and (key not in _POSITIVE or int(value) > 0)
    return True


def _type_name(key: str) -> str:
    if isinstance(DEFAULTS[key], bool):
        return "true or false"
    return "a positive number below 2^31" if key in _POSITIVE else "a whole number"


def _read_text(path: Path) -> str:
    try:
        # Java reads properties as ISO-8859-1; paths with other letters are usually written in UTF-8, so try that first.
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    if b"\0" in content:
        raise UnreadableError(f"{path} is not a text file.", "Give the broker.conf that the broker is started with (mqbroker -c FILE).")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")
