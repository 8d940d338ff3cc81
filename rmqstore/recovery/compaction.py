"""Compacted topics: their logs are not simulated, but what is known to stop a start is told from what is not (fact sheet queues §5.4).

Their positions come back from a start as they were, in the text of the release.
"""

from __future__ import annotations

from pathlib import Path

from rmqstore.formats.compaction import build_positions, parse_positions
from rmqstore.recovery.blockers import Unknown
from rmqstore.store import tolerant_json
from rmqstore.store.mapped import parse_offset_name
from rmqstore.store.root import Store
from rmqstore.versions import Profile


def check_compaction(store: Store) -> None:
    """Passes where log and queue of every compacted topic have the same files, as a sound stop leaves them. Raises Unknown elsewhere."""
    queues = {queue.directory.parts[-2:]: _names(queue.directory) for queue in store.compaction_queue_directories()}
    for log in store.compaction_log_directories():
        names = _names(log.directory)
        if names != queues.get(log.directory.parts[-2:], set()) or any(parse_offset_name(name) is None for name in names):
            raise Unknown(f"log and queue of the compacted queue {log.topic}/{log.queue_id} do not fit each other")


def is_readable(text: bytes) -> bool:
    """Whether the broker takes a text for JSON; an empty one it does not."""
    try:
        tolerant_json.parse(text)
    except ValueError:
        return False
    return True


def rewritten_positions(text: bytes, backup: bytes | None, profile: Profile) -> bytes:
    """The position file after a stop: what was loaded from `text`, or from `backup` where that cannot be read.

    All releases write positions alike, but not a table without any.
    """
    source = text if is_readable(text) or backup is None else backup
    try:
        if parse_positions(source):
            return source
    except ValueError:
        pass
    return build_positions({}, breaks_empty_table=profile.breaks_empty_table)


def _names(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir() if entry.is_file()}
