"""Inspect, verify, predict and repair the on-disk store of Apache RocketMQ brokers, offline.

`open` returns a store as an object; docs/python.md describes it. Everything that is not named there is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rmqstore.api.store import Store

__version__ = "0.2.0"
__all__ = ["__version__", "open"]


def open(path: Path | str, *, broker_conf: Path | str | None = None, settings: Mapping[str, str] | None = None) -> Store:
    """Return the store at `path`, a storePathRootDir or a copy of one of its parts.

    `broker_conf` is the configuration of the broker, `settings` are single settings that take precedence over it.
    Raises `rmqstore.errors.UnreadableError`, `NotAStoreError`, `UsageError`.
    """
    from rmqstore.api.store import Store

    return Store(path, broker_conf, settings)
