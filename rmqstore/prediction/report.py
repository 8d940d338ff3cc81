"""An outcome as one JSON object, `type: "recovery"`; docs/prediction.md documents each field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rmqstore.jsonschema import SCHEMA
from rmqstore.prediction.consequences import Consequences
from rmqstore.prediction.outcome import Dispatched, Outcome, QueueState, State
from rmqstore.store.parts import relative_to_root


def as_json(outcome: Outcome, root: Path, consequences: Consequences | None = None) -> dict[str, Any]:
    """Return the object; null means that a value cannot be determined, and `unknown` has the reason."""
    return {
        "type": "recovery",
        "schema": SCHEMA,
        "broker_version": outcome.release,
        "mode": str(outcome.mode),
        "starts": outcome.starts,
        "unknown": outcome.unknown,
        "blockers": [
            {
                "code": str(blocker.code),
                "file": None if blocker.file is None else relative_to_root(blocker.file, root),
                "message": blocker.message,
            }
            for blocker in outcome.blockers
        ],
        "scan": None if outcome.scan is None else asdict(outcome.scan),
        "after_load": _state(outcome.after_load),
        "after_start": None if outcome.after_start is None else _state(outcome.after_start),
        "caught_up": outcome.caught_up,
        "dispatched": {
            "during_load": _dispatched(outcome.dispatched_in_load),
            "after_start": _dispatched(outcome.dispatched_after_start),
        },
        "files_changed": {path: str(change) for path, change in outcome.changes.items()},
        "abort_after_stop": outcome.abort_after_stop,
        "checkpoint_after": None if outcome.checkpoint_after is None else list(outcome.checkpoint_after),
        "lost": None if outcome.lost is None else asdict(outcome.lost),
        **({} if consequences is None else consequences.as_json()),
    }


def _state(state: State) -> dict[str, Any]:
    return {
        "min_phy_offset": state.min_phy_offset,
        "max_phy_offset": state.max_phy_offset,
        "flushed_where": state.flushed_where,
        "confirm_offset": state.confirm_offset,
        "commitlog_files": None if state.commitlog_files is None else [list(file) for file in state.commitlog_files],
        "queues": None if state.queues is None else _queues(state.queues),
        "next_offsets": None if state.next_offsets is None else {name: offset for name, offset in state.next_offsets.items() if offset},
        "index_files": None if state.index_files is None else [list(asdict(file).values()) for file in state.index_files],
    }


def _queues(queues: Mapping[str, QueueState]) -> dict[str, list[int]]:
    """Return queues that hold something or have a file; an object in memory alone is no queue yet."""
    return {
        name: [queue.min_offset, queue.max_offset, queue.max_physic_offset, queue.min_logic_offset, queue.files]
        for name, queue in sorted(queues.items())
        if queue.files or queue.max_offset or queue.min_offset
    }


def _dispatched(dispatched: Dispatched | None) -> dict[str, int | None] | None:
    names = ("count", "first", "last", "last_size")
    return None if dispatched is None else {name: getattr(dispatched, name) for name in names}
