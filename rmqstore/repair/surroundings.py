"""What stands in a broker's way around the data: directories where files belong, broken configuration beside a sound backup."""

from __future__ import annotations

from pathlib import Path

from rmqstore.repair.builder import PlanBuilder
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole
from rmqstore.verify import config

_BROKEN = (config.State.EMPTY, config.State.NOTHING, config.State.DAMAGED)


def plan_surroundings(builder: PlanBuilder, store: Store) -> None:
    """Plans to take the directories away, and to put sound backups in the place of broken configuration. Raises UnreadableError."""
    for path in (store.checkpoint_path, store.abort_path, store.lock_path):
        if path.is_dir():
            builder.quarantine_directory(path, reason="a directory where a file belongs", code="RMQ-ST-KIND")
    for path in store.index_directories():
        builder.quarantine_directory(path, reason="a directory among index files", code="RMQ-IX-NAME")
    for name in config.FILES:
        _plan_config(builder, store, store.config_path / name)


def _plan_config(builder: PlanBuilder, store: Store, path: Path) -> None:
    """A broken file gets the bytes of its backup, which a broker would read in its place (fact sheet timer §3.2)."""
    backup = path.with_name(path.name + ".bak")
    if config.read(path).state not in _BROKEN:
        return
    if config.read(backup).state is config.State.WHOLE:
        builder.replace(path, read_whole(backup, backup.stat().st_size), reason="it cannot be read, its backup can", code="RMQ-CF-JSON")
    else:
        builder.note(f"{store.relative(path)} holds nothing that a broker can read, and there is no sound backup; put it back from a copy.")
