"""Obstacles to a broker and to a repair: entries of any kind, which are moved into the folder of the transaction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from rmqstore.formats.lock import LOCK
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.store.obstacles import QUEUE_TREES, Obstacle
from rmqstore.store.parts import PartKind, part_kind
from rmqstore.store.root import Store

_QUEUE_DEPTH = 4  # tree, topic, queue id, file
_TAKEN = frozenset(
    {
        *QUEUE_TREES,
        *(PartKind.INDEX, PartKind.TIMERLOG, PartKind.TIMERWHEEL, PartKind.CONFIG, PartKind.EPOCH, PartKind.CHECKPOINT),
        *(PartKind.ABORT, PartKind.ABORT_BACKUP, PartKind.BROKER_IDENTITY, PartKind.COMPACTION),
    }
)
_FOREIGN_CODES: Mapping[str, str] = {**dict.fromkeys(QUEUE_TREES, "RMQ-CQ-NAME"), PartKind.INDEX: "RMQ-IX-NAME"}


def plan_surroundings(builder: PlanBuilder, store: Store) -> None:
    """Plan to move obstacles out of the parts that a repair changes. Raises RefusedError, UnreadableError."""
    for obstacle in store.obstacles():
        parts = PurePosixPath(store.relative(obstacle.path)).parts
        if parts == (PartKind.LOCK,):
            # The undo needs a lock that it can hold, and must not find one there that it did not make itself.
            builder.create(obstacle.path, LOCK.build({}), reason=obstacle.reason, code="RMQ-ST-KIND")
        elif part_kind(parts[0]) in _TAKEN:
            builder.quarantine(obstacle.path, reason=obstacle.reason, code=_code(obstacle, parts))
        else:
            builder.note(f"{store.relative(obstacle.path)} is a {obstacle.reason}, and no repair changes this part; move it away by hand.")


def _code(obstacle: Obstacle, parts: tuple[str, ...]) -> str:
    if obstacle.wanted is not None:
        return "RMQ-ST-KIND"
    among_files = parts[0] == PartKind.INDEX or len(parts) == _QUEUE_DEPTH
    return _FOREIGN_CODES.get(parts[0], "RMQ-ST-FOREIGN") if among_files else "RMQ-ST-FOREIGN"
