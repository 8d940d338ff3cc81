"""Directories and file lengths of the parts of a store, from the broker's configuration or, without one, from the files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rmqstore.formats import batchconsumequeue, consumequeue, index
from rmqstore.prediction.queues.service import QueuePlaces
from rmqstore.scan.indexshape import geometry, guess_geometry
from rmqstore.store import fastjson
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.entries import exists, is_missing
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind
from rmqstore.store.queues import directories
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.versions import Profile

_LARGEST_FILE_SIZE = 2**31 - 1
"""A file length is an int of Java; a longer file cannot be meant."""
_LARGEST_TOPICS_FILE = 64 << 20
_OF_A_BROKER = (
    *("config/subscriptionGroup.json", "config/subscriptionGroup.json.bak", "config/consumerOffset.json", "config/consumerOffset.json.bak"),
    *("timerwheel", "timerlog"),
)
"""Files that a whole broker writes, and a message store alone does not."""


@dataclass(frozen=True, slots=True)
class Places:
    """Directories and file lengths (bytes) that the broker works with."""

    commitlog: tuple[Path, ...]
    commitlog_file_size: int
    queues: QueuePlaces
    index: Path
    index_slots: int
    index_items: int


def places_of(store: Store) -> Places:
    """Return the places of a store; lengths that are not configured are taken from the files themselves."""
    config = store.config
    log = store.commitlog_directories
    default = BrokerConfig()
    simple = next((queue.files.file_size for queue in store.queue_directories()), None)
    batch = next((queue.files.file_size for queue in store.batch_queue_directories()), None)
    ext = next((queue.files.file_size for queue in store.ext_queue_directories()), None)
    queues = QueuePlaces(
        simple=store.path_of(PartKind.CONSUMEQUEUE),
        batch=store.path_of(PartKind.BATCHCONSUMEQUEUE),
        ext=store.path_of(PartKind.CONSUMEQUEUE_EXT) if config.flag("enableConsumeQueueExt") else None,
        simple_file_size=_length(config.consume_queue_file_size, simple, consumequeue.DEFAULT_FILE_SIZE),
        batch_file_size=_length(config.explicit_integer("mapperFileSizeBatchConsumeQueue"), batch, batchconsumequeue.DEFAULT_FILE_SIZE),
        ext_file_size=_length(
            config.explicit_integer("mappedFileSizeConsumeQueueExt"), ext, default.integer("mappedFileSizeConsumeQueueExt")
        ),
        batch_topics=_batch_topics(store),
    )
    log_size = _length(config.commit_log_file_size, store.commitlog.file_size, default.integer("mappedFileSizeCommitLog"))
    return Places((*log.writable, *log.read_only), log_size, queues, store.path_of(PartKind.INDEX), *_index_shape(store))


def known_to(places: Places, store: Store, profile: Profile) -> Places:
    """Return the places as a broker of a release understands its settings."""
    log_path = store.config.explicit("storePathCommitLog")
    return places if log_path is None or profile.several_log_paths else replace(places, commitlog=(Path(log_path),))


def _length(configured: int | None, found: int | None, default: int) -> int:
    if configured is not None:
        return configured
    return found if found is not None and 0 < found <= _LARGEST_FILE_SIZE else default


def _index_shape(store: Store) -> tuple[int, int]:
    """Return hash slots and capacity in entries of an index file: as configured, as found in the files, else the broker's defaults."""
    config = store.config
    configured = config.integer("maxHashSlotNum"), config.integer("maxIndexNum")
    if config.explicit_integer("maxHashSlotNum") is not None and config.explicit_integer("maxIndexNum") is not None:
        return configured
    files = [file for file in store.index_files() if file.named_right and file.length >= index.HEADER_SIZE]
    for file in reversed(files):
        shape = geometry(config, file.length)
        if shape is not None:
            return shape
    return guess_geometry([file.mapped for file in files]) or configured


def _batch_topics(store: Store) -> frozenset[str]:
    """Return topics with the attribute `queue.type=BatchCQ`. Without a topic configuration: those that have such queues."""
    names = ("topics.json", "topics.json.bak")
    files = [Path(entry.path) for entry in list_directory(store.config_path) if entry.name in names and entry.is_file()]
    in_database = any(exists(store.config_path / name / "CURRENT") for name in ("topics", "metadata", "rdb"))
    if not files and written_by_a_broker(store) and not in_database and is_missing(store.config_path / names[0]):
        return frozenset()  # it is lost, and for the start every topic is a simple one
    if not files:
        tree = store.path_of(PartKind.BATCHCONSUMEQUEUE)
        return frozenset(entry.name for entry in directories(tree)) if tree.is_dir() else frozenset()
    try:
        table = _first_readable(files)["topicConfigTable"]
        return frozenset(name for name, topic in table.items() if (topic.get("attributes") or {}).get("queue.type") == "BatchCQ")
    except (KeyError, TypeError, AttributeError):
        return frozenset()


def written_by_a_broker(store: Store) -> bool:
    """Return whether a whole broker, not a message store alone, has written the store, so that its configuration has to exist."""
    return any(exists(store.root / name) for name in _OF_A_BROKER)


def _first_readable(files: Iterable[Path]) -> Any:
    """Return the first file's content that is JSON: a broker takes the `.bak` if the file is empty or broken (fact sheet timer §3.2)."""
    for path in files:
        try:
            return fastjson.parse(read_whole(path, _LARGEST_TOPICS_FILE)).value
        except ValueError:
            continue
    return None
