"""Stores that another implementation than Apache RocketMQ wrote, by names and bytes that no broker in Java leaves.

Source: corrections of 2026-11, other writers (rocketmq-rust 1.0.0).
"""

from __future__ import annotations

import re
from pathlib import Path

from rmqstore.errors import RmqstoreError
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole

_RUST = "rocketmq-rust 1.0"
_OF_RUST = (".rocketmq-lifecycle", ".rocketmq-storage-identity.json")
_MANIFESTS = ("manifest.a", "manifest.b")
_PLACES = (None, PartKind.TIMERLOG)
_LOCK = re.compile(rb"pid=[0-9]+\s*")
_LOCK_LENGTH = 64


def other_implementation(store: Store) -> str | None:
    """Return the implementation that wrote a store and the sign that says so; None for Apache RocketMQ."""
    if store.only is not None:
        return None
    entries = list_directory(store.root)
    sign = next((name for name in _OF_RUST if any(entry.name == name for entry in entries)), None)
    if sign is None and _is_rust_lock(store.lock_path):
        sign = "lock holds pid="
    if sign is None and any(_is_timeline(Path(entry.path)) for entry in entries if entry.is_dir() and part_kind(entry.name) in _PLACES):
        sign = "a timeline with manifest.a"
    return None if sign is None else f"{_RUST} ({sign})"


def _is_timeline(directory: Path) -> bool:
    names = {entry.name for entry in list_directory(directory)}
    return "FORMAT" in names and not names.isdisjoint(_MANIFESTS)


def _is_rust_lock(path: Path) -> bool:
    try:
        return path.is_file() and _LOCK.fullmatch(read_whole(path, _LOCK_LENGTH)) is not None
    except (RmqstoreError, OSError):
        return False
