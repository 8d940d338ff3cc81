"""Parts of a store that decide how the message store starts."""

from __future__ import annotations

from rmqstore.store.access import Denied

_BY_OTHERS = ("timerwheel", "timerlog", "tiered_index_file", "kvStore", "transaction", "abort", "lock", "config")
"""Parts whose content decides nothing for the message store, except for some files of `config`."""
_DECIDING_CONFIG = ("config", "config/topics.json", "config/topics.json.bak")


def decides(denied: Denied) -> bool:
    """Return whether the start of a message store depends on a path without read permission."""
    return part_of(denied) not in _BY_OTHERS or denied.file in _DECIDING_CONFIG


def part_of(denied: Denied) -> str:
    """Return the name below the root that a denied file or directory belongs to."""
    return denied.file.partition("/")[0]
