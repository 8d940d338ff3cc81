"""What stands in a broker's way around the data: directories where files belong."""

from __future__ import annotations

from rmqstore.repair.builder import PlanBuilder
from rmqstore.store.root import Store


def plan_surroundings(builder: PlanBuilder, store: Store) -> None:
    """Plans to take the directories away. Raises UnreadableError."""
    for path in (store.checkpoint_path, store.abort_path, store.lock_path):
        if path.is_dir():
            builder.quarantine_directory(path, reason="a directory where a file belongs", code="RMQ-ST-KIND")
    for path in store.index_directories():
        builder.quarantine_directory(path, reason="a directory among index files", code="RMQ-IX-NAME")
