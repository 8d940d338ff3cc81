"""Compacted topics: their logs are not simulated, but what stops a start is (fact sheets queues §5.4, timer observed §1 row 10).

A start writes their positions back unchanged, in the text format of the release.
"""

from __future__ import annotations

from rmqstore.formats.compaction import build_positions, parse_positions
from rmqstore.prediction.blockers import BlockerCode, LoadStopped
from rmqstore.store import fastjson
from rmqstore.store.mapped import ProblemKind
from rmqstore.store.root import QueueDirectory, Store
from rmqstore.versions import Profile


def check_compaction(store: Store) -> None:
    """Check that log and queue of every compacted topic have the same files, as a clean stop leaves them. Raises LoadStopped."""
    logs, queues = ({one.directory.parts[-2:]: one for one in found} for found in _directories(store))
    for key in sorted({*logs, *queues}):
        for one in (logs.get(key), queues.get(key)):
            if one is not None:
                _check_names(one)
        names = [set() if one is None else {file.path.name for file in one.files.files} for one in (logs.get(key), queues.get(key))]
        if names[0] != names[1]:
            name = min(names[0] ^ names[1])
            there = logs[key] if name in names[0] else queues[key]
            text = f"load compaction store error: log and queue of the compacted queue {'/'.join(key)} do not have the same files"
            raise LoadStopped(BlockerCode.COMPACTION, text, there.directory / name)


def _directories(store: Store) -> tuple[list[QueueDirectory], list[QueueDirectory]]:
    return list(store.compaction_log_directories()), list(store.compaction_queue_directories())


def _check_names(directory: QueueDirectory) -> None:
    """Check the file names. A foreign file with the length of the others stops the load; with another length only the load of its queue."""
    for entry in directory.files.odd:
        if entry.kind is ProblemKind.FOREIGN_NAME and entry.length == directory.files.file_size:
            text = f"load compaction store error: {entry.path.name} is no name of a file of {directory.topic}/{directory.queue_id}"
            raise LoadStopped(BlockerCode.COMPACTION, text, entry.path)


def is_readable(text: bytes) -> bool:
    """Return whether the broker accepts a text as JSON; it does not accept an empty one."""
    try:
        fastjson.parse(text)
    except ValueError:
        return False
    return True


def rewritten_positions(text: bytes, backup: bytes | None, profile: Profile) -> bytes:
    """Return the position file after a stop: what was loaded from `text`, or from `backup` if `text` cannot be read.

    All releases write positions alike, except a table without any.
    """
    source = text if is_readable(text) or backup is None else backup
    try:
        if parse_positions(source):
            return source
    except ValueError:
        pass
    return build_positions({}, breaks_empty_table=profile.breaks_empty_table)
