"""The configuration as a start loads it: which of a file and its `.bak` is read, and which of a broker's own files exist.

Fact sheets timer §3.2, timer observed §1 rows 1, 2, 9 and §2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmqstore.errors import RmqstoreError
from rmqstore.prediction.places import written_by_a_broker
from rmqstore.store.root import Store
from rmqstore.verify.parts import config
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, DELAY_OFFSETS, FILES, GROUPS, IN_ROCKSDB, LMQ_OFFSETS, State, Text
from rmqstore.versions import Profile


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """The text that a start loads of each file; a file of which nothing is loaded has a state other than WHOLE.

    `present`: one of them, or a `.bak`, is here. `whole_broker`: a broker, and not a message store alone, wrote the store.
    `in_rocksdb`: topics, groups and offsets are in RocksDB.
    `from_backup`: files of which the `.bak` is loaded. `unreadable`: files that could not be read.
    """

    texts: Mapping[str, Text]
    present: bool
    whole_broker: bool
    in_rocksdb: bool
    from_backup: frozenset[str]
    unreadable: frozenset[str]

    def lost(self, name: str) -> str | None:
        """Return why nothing is loaded of a file that a broker always writes; None where something is, or where it need not exist."""
        text = self.texts[name]
        if not self.whole_broker or (self.in_rocksdb and name in IN_ROCKSDB) or name in self.unreadable or text.state is State.WHOLE:
            return None
        if name == CONSUMER_OFFSETS and self.texts[LMQ_OFFSETS].state is State.WHOLE:
            return None
        return text.why

    def table(self, name: str, key: str) -> Mapping[str, Any]:
        """Return a table of a loaded file, empty where there is none."""
        table = (self.texts[name].value or {}).get(key)
        return table if isinstance(table, dict) else {}


def load(store: Store, profile: Profile) -> ConfigFiles:
    """Read all configuration files as a start of the release of `profile` does."""
    texts: dict[str, Text] = {}
    from_backup: set[str] = set()
    unreadable: set[str] = set()
    whole_broker = written_by_a_broker(store)
    present = False
    for name in FILES:
        path = store.config_path / name
        try:
            text, backup = config.read_both(path)
        except (RmqstoreError, OSError):
            texts[name] = Text(path, State.MISSING, "unreadable")
            unreadable.add(name)
            present, whole_broker = True, whole_broker or name != DELAY_OFFSETS
            continue
        if (text.state, backup.state) != (State.MISSING, State.MISSING):
            present, whole_broker = True, whole_broker or name != DELAY_OFFSETS
        texts[name] = _loaded(name, text, backup, profile)
        if texts[name] is backup:
            from_backup.add(name)
    return ConfigFiles(texts, present, whole_broker, config.in_rocksdb(store), frozenset(from_backup), frozenset(unreadable))


def _loaded(name: str, text: Text, backup: Text, profile: Profile) -> Text:
    """Return the one of a file and its `.bak` that is loaded; the file where neither can be."""
    if text.state in (State.WHOLE, State.TABLELESS) or backup.state is not State.WHOLE:
        return text
    if text.state is State.NOTHING and not _falls_back(name, text, profile):
        return text
    return backup


def _falls_back(name: str, text: Text, profile: Profile) -> bool:
    """Return whether text that holds nothing makes the broker read the `.bak`: `null` never does, blank text in some files and releases."""
    if text.why == "null":
        return False
    if profile.breaks_empty_table:  # fastjson2 alone, which refuses text without a value
        return True
    return name == (CONSUMER_OFFSETS if profile.newer_parts else GROUPS)
