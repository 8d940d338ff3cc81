"""Rebuilds what is derived from the log of a store, into memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rmqstore.prediction.options import Options
from rmqstore.prediction.places import places_of
from rmqstore.rebuild import IndexBuilder, IndexResult, MemorySink, Mode, QueueBuilder, QueueResult, RebuiltQueue, Settings, rebuild
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import LogScanner
from rmqstore.store.root import Store
from rmqstore.versions import Profile, profile_of


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was made; `last_time` = STORETIMESTAMP of the last record."""

    sink: MemorySink
    queues: QueueResult
    index: IndexResult
    profile: Profile
    last_time: int | None

    def queue(self, topic: str = "TopicA", queue_id: int = 0) -> RebuiltQueue:
        return next(queue for queue in self.queues.queues if (queue.topic, queue.queue_id) == (topic, queue_id))

    def queue_bytes(self, topic: str = "TopicA", queue_id: int = 0) -> bytes:
        """All files of a queue, one behind the other."""
        return b"".join(self.sink.files[path].tobytes() for path in self.queue(topic, queue_id).files)

    def files(self) -> dict[str, bytes]:
        """Every file of the queues, by its path."""
        paths = [path for queue in self.queues.queues for path in (*queue.files, *queue.ext_files)]
        return {path: self.sink.files[path].tobytes() for path in paths}

    def index_files(self) -> list[bytes]:
        """Every index file, in order."""
        return [self.sink.files[file.path].tobytes() for file in self.index.files]


def settings_of(store: Store, batch_topics: frozenset[str]) -> Settings:
    """The settings as the store's configuration has them; lengths that it does not name are those of the files."""
    options, places = Options.of(store.config), places_of(store)
    return Settings(
        mapped_file_size_consume_queue=places.queues.simple_file_size,
        mapper_file_size_batch_consume_queue=places.queues.batch_file_size,
        mapped_file_size_consume_queue_ext=places.queues.ext_file_size,
        batch_topics=batch_topics | places.queues.batch_topics,
        enable_consume_queue_ext=options.enable_consume_queue_ext,
        enable_lmq=options.enable_lmq,
        enable_multi_dispatch=options.enable_multi_dispatch,
        max_hash_slot_num=places.index_slots,
        max_index_num=places.index_items,
    )


def rebuilt(
    root: Path,
    settings: Mapping[str, str],
    release: str,
    mode: Mode = Mode.USEFUL,
    *,
    batch_topics: frozenset[str] = frozenset(),
    **changed: object,
) -> Rebuilt:
    """Everything derived from the log at `root`, as a broker of `release` with these settings; `changed` are fields of Settings."""
    store, profile, sink = Store.open(root, settings=dict(settings)), profile_of(release), MemorySink()
    chosen = replace(settings_of(store, batch_topics), **changed)  # type: ignore[arg-type]
    log = store.message_log
    lead = store.entry_header(log.files[0]) if log.files else 0
    delays = Options.of(store.config).known_delay_levels
    scanner = LogScanner(checks=Check.BODY_CRC | Check.KEYS, delays=delays, lead=lead)
    queues = QueueBuilder(scanner.queue, chosen, profile, sink, log_start=log.min_offset, mode=mode)
    index = IndexBuilder(scanner.queue, chosen, profile, sink, mode=mode)
    last_time = rebuild((event for file in log.files for event in scanner.scan(file)), queues, index)
    made = Rebuilt(sink, queues.finish(), index.finish(), profile, last_time)
    assert not sink.open_paths
    return made
