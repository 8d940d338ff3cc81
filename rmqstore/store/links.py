"""Parts of a store that are symbolic links to directories on other disks, and whether a setting of the operator names their target.

The link itself proves nothing: the owner of the store can make one. A setting of broker.conf, or one given with --set, is the word of the
operator. Brokers know a setting for the commit log; for other parts the names are those of the broker's own helper class
(StorePathConfigHelper: storePathConsumeQueue, storePathIndex), which older broker.conf files contain and brokers ignore.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.commitlogpaths import CommitLogDirectories
from rmqstore.store.mapped import list_directory
from rmqstore.store.obstacles import ROOT_FILES
from rmqstore.store.parts import PartKind, part_kind

_SETTINGS: Mapping[PartKind | None, str] = {
    None: "storePathCommitLog",  # further directories of a log, under any name
    PartKind.COMMITLOG: "storePathCommitLog",
    PartKind.DLEDGER: "storePathDLedgerCommitLog",
    PartKind.CONSUMEQUEUE: "storePathConsumeQueue",
    PartKind.CONSUMEQUEUE_EXT: "storePathConsumeQueueExt",
    PartKind.BATCHCONSUMEQUEUE: "storePathBatchConsumeQueue",
}


@dataclass(frozen=True, slots=True)
class PartLink:
    """A part that is a link to a directory: its target, the setting that can name that, and `named`, the path there if it does."""

    path: Path
    target: Path
    setting: str
    named: Path | None


def part_links(root: Path, config: BrokerConfig, log: CommitLogDirectories) -> Iterator[PartLink]:
    """Yield the parts of the store at `root`, and directories of its log, that are links to directories. Raises UnreadableError."""
    for entry in list_directory(root):
        kind, path = part_kind(entry.name), Path(entry.path)
        known = (kind is not None and kind not in ROOT_FILES) or path in (*log.writable, *log.read_only)
        if known and kind is not PartKind.TOOL and entry.is_symlink() and entry.is_dir():
            setting = setting_of(kind)
            target = Path(os.path.realpath(path))
            yield PartLink(path, target, setting, _named(config, setting, target, root))


def setting_of(kind: PartKind | None) -> str:
    """Return the setting that names the directory of a part; `None` is a further directory of the commit log."""
    return _SETTINGS.get(kind) or f"storePath{str(kind)[0].upper()}{str(kind)[1:]}"


def _named(config: BrokerConfig, setting: str, target: Path, root: Path) -> Path | None:
    """Return the path by which a setting names `target`. One inside of the store does not count: it may be a link of the store itself."""
    separator = config.text("multiPathSplitter")
    texts = (config.explicit(setting) or "", (config.explicit("readOnlyCommitLogStorePaths") or "") if setting == _SETTINGS[None] else "")
    for text in (one for value in texts for one in (value.split(separator) if separator else [value])):
        path = Path(text.strip())
        if path.is_absolute() and not path.is_relative_to(root) and Path(os.path.realpath(path)) == target:
            return path
    return None
