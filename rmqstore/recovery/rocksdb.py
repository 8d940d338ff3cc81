"""Queues in RocksDB: not read, so what they know is assumed – once the least, once the most – and only what both agree on is predicted.

How far in the log the queues know it decides where recovery begins and what it dispatches (fact sheet commit log §5.1, §5.2, queues §8.5).
A scan that begins earlier runs through every file that a later one begins with, so where least and most agree, everything between does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from rmqstore.recovery.queues import Queue

if TYPE_CHECKING:
    from rmqstore.recovery.outcome import Outcome, State

WHY_UNKNOWN = "the queues are in RocksDB"
NOTHING_KNOWN = 0
"""What an empty database answers (a file store answers −1)."""
EVERYTHING_KNOWN = 2**63 - 1


class RocksDBQueues:
    """The queue store as far as the rest of the start asks it; it knows the log up to `max_physic_offset`."""

    in_rocksdb = True
    write_error = False

    def __init__(self, max_physic_offset: int) -> None:
        self.max_physic_offset = max_physic_offset
        self.next_offsets: dict[str, int] = {}

    def __iter__(self) -> Iterator[Queue]:
        return iter(())

    def load(self) -> None:
        """The database is opened."""

    def recover(self) -> None:
        """The database recovers by itself."""

    def truncate(self, phy_offset: int) -> None:
        """Maxima of queues are lowered inside of the database."""

    def recover_offset_table(self, min_phy_offset: int) -> None:
        """Next offsets stay in the database."""

    def destroy(self) -> None:
        """The database is made anew."""
        self.max_physic_offset = NOTHING_KNOWN

    def settle(self) -> None:
        """The files of the database are its own affair."""


def agreed(least: Outcome, most: Outcome) -> Outcome:
    """What is certain when the queues know something between `least` and `most`: the rest is None."""
    return replace(
        most,
        starts=most.starts if least.starts == most.starts else None,
        unknown=WHY_UNKNOWN,
        scan=most.scan if least.scan == most.scan else None,
        after_load=_agreed_state(least.after_load, most.after_load),
        after_start=None if most.after_start is None or least.after_start is None else _agreed_state(least.after_start, most.after_start),
        dispatched_in_load=most.dispatched_in_load if least.dispatched_in_load == most.dispatched_in_load else None,
        changes={path: change for path, change in most.changes.items() if least.changes.get(path) is change},
        checkpoint_after=_agreed_longs(least.checkpoint_after, most.checkpoint_after),
        lost=most.lost if least.lost == most.lost else None,
    )


def _agreed_state(least: State, most: State) -> State:
    differing = [field.name for field in fields(most) if getattr(least, field.name) != getattr(most, field.name)]
    return replace(most, queues=None, **dict.fromkeys(differing))


def _agreed_longs(least: tuple[int | None, ...] | None, most: tuple[int | None, ...] | None) -> tuple[int | None, ...] | None:
    if least is None or most is None:
        return None
    return tuple(left if left == right else None for left, right in zip(least, most, strict=True))
