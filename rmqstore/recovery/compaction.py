"""Compacted topics: their logs are not simulated, but what is known to stop a start is told from what is not (fact sheet queues §5.4)."""

from __future__ import annotations

from pathlib import Path

from rmqstore.recovery.blockers import Unknown
from rmqstore.store.mapped import parse_offset_name
from rmqstore.store.root import Store


def check_compaction(store: Store) -> None:
    """Passes where log and queue of every compacted topic have the same files, as a sound stop leaves them. Raises Unknown elsewhere."""
    queues = {queue.directory.parts[-2:]: _names(queue.directory) for queue in store.compaction_queue_directories()}
    for log in store.compaction_log_directories():
        names = _names(log.directory)
        if names != queues.get(log.directory.parts[-2:], set()) or any(parse_offset_name(name) is None for name in names):
            raise Unknown(f"log and queue of the compacted queue {log.topic}/{log.queue_id} do not fit each other")


def _names(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir() if entry.is_file()}
