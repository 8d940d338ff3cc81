"""RocksDB databases at a start: whether the broker opens them, and what follows from queues that are kept in one.

The end of the log that the queues know decides where recovery begins and what it dispatches (fact sheet commit log §5.1, §5.2, queues
§8.5).
If it cannot be read, it is assumed – once the least, once the most – and only what both agree on is predicted. A scan that begins
earlier runs through every file that a later one begins with, so where least and most agree, everything between does.

The behaviour of brokers 5.2.0, 5.3.3 and 5.5.1 with damaged databases was recorded (tests/rocksdb). They refuse what the library refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from rmqstore.prediction.blockers import Blocker, BlockerCode, LoadStopped, Unknown
from rmqstore.prediction.queues.service import Queue
from rmqstore.store.liveness import liveness
from rmqstore.store.rocksdb.databases import OFFSETS, USERS, V2, Database, DatabaseUse, databases, is_needed
from rmqstore.store.rocksdb.library import START, Report, place_of, probe
from rmqstore.store.root import Store
from rmqstore.versions import Profile

if TYPE_CHECKING:
    from rmqstore.prediction.outcome import Outcome, State

WHY_UNKNOWN = "the queues are in RocksDB"
NOTHING_KNOWN = 0
"""The answer of an empty database (a file store answers −1)."""
EVERYTHING_KNOWN = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """The effect of a start on the databases of one use. `stop`: why the broker ends there; `doubt`: why this cannot be determined.

    `reached`: physical offset up to which queues know the log, None if unknown.
    """

    stop: Blocker | None = None
    doubt: str | None = None
    reached: int | None = NOTHING_KNOWN

    def require_open(self) -> None:
        """Raise LoadStopped if the broker ends, Unknown if that cannot be determined."""
        if self.stop is not None:
            raise LoadStopped(self.stop.code, self.stop.message, self.stop.file)
        if self.doubt is not None:
            raise Unknown(self.doubt)


def state_of(store: Store, use: DatabaseUse, profile: Profile) -> DatabaseState:
    """Return the effect of a start on the databases of one use that its settings need. Reads up to `START` bytes of tables of each.

    Raises UnreadableError, OSError.
    """
    needed = [database for database in databases(store, use) if is_needed(store, database) and database.directory.name not in USERS]
    if needed and liveness(store).in_use:
        return DatabaseState(doubt=f"a broker has the RocksDB databases ({use}) open", reached=None)
    reports = [probe(database, START) for database in needed]
    return DatabaseState(
        stop=next(filter(None, (_stop(report, profile) for report in reports)), None),
        doubt=next(filter(None, map(_doubt, reports)), None),
        reached=_reached(reports[0]) if len(reports) == 1 else None if reports else NOTHING_KNOWN,
    )


def _stop(report: Report, profile: Profile) -> Blocker | None:
    database = report.database
    if report.refused is not None:
        return None if database.starts_empty else _blocker(database, f"RocksDB does not open {database.directory.name}: {report.refused}")
    for family in report.damaged:
        in_config = database.use is DatabaseUse.CONFIGURATION
        if family.name == OFFSETS or (in_config and (database.directory.name == V2 or profile.rocksdb_config_read_whole)):
            return _blocker(database, f"RocksDB cannot read family {family.name} of {database.directory.name}: {family.error}")
    return None


def _blocker(database: Database, message: str) -> Blocker:
    place = place_of(message)
    return Blocker(BlockerCode.ROCKSDB, message, database.directory if place is None else database.directory / place.file)


def _doubt(report: Report) -> str | None:
    name = report.database.directory.name
    if report.failed is not None:
        return f"{name} was not checked: {report.failed}"
    if report.damaged:
        return f"RocksDB cannot read family {report.damaged[0].name} of {name}: {report.damaged[0].error}"
    if report.log_damage is not None and name == V2:
        return f"the write-ahead log of {name} is damaged, and what it held is unknown: {report.log_damage}"
    if report.unlisted and report.database.use is DatabaseUse.CONFIGURATION:
        return f"{len(report.unlisted)} tables of {name} are not listed by its MANIFEST, and what they held is unknown"
    return None


def _reached(report: Report) -> int | None:
    return NOTHING_KNOWN if report.database.starts_empty else report.reached


class RocksDBQueues:
    """The queue store as far as the rest of the start uses it; it knows the log up to `max_physic_offset`.

    `dispatched_until`: the greatest physical offset of a last record of the queues that are open, where dispatch begins with
    recheckReputOffsetFromCq (brokers of 5.2.0, 5.3.1, 5.3.3 and 5.5.1). Which queues are open then is not predicted.
    """

    in_rocksdb = True
    write_error = False

    def __init__(self, max_physic_offset: int, dispatched_until: int, state: DatabaseState) -> None:
        self.max_physic_offset = max_physic_offset
        self.dispatched_until = dispatched_until
        self._state = state
        self.next_offsets: dict[str, int] = {}

    def __iter__(self) -> Iterator[Queue]:
        return iter(())

    def load(self) -> None:
        """Open the database. Raises LoadStopped, Unknown."""
        self._state.require_open()

    def recover(self) -> None:
        """Do nothing: the database recovers alone."""

    def truncate(self, phy_offset: int) -> None:
        """Do nothing: maxima of queues are lowered inside of the database."""

    def recover_offset_table(self, min_phy_offset: int) -> None:
        """Do nothing: next offsets stay in the database."""

    def destroy(self) -> None:
        """Do nothing: the database is created again."""
        self.max_physic_offset = NOTHING_KNOWN

    def settle(self) -> None:
        """Do nothing: the files of the database are not simulated."""


def agreed(least: Outcome, most: Outcome) -> Outcome:
    """Return what is certain if the queues know something between `least` and `most`: the rest is None."""
    return replace(
        most,
        starts=most.starts if least.starts == most.starts else None,
        unknown=most.unknown or WHY_UNKNOWN,
        scan=most.scan if least.scan == most.scan else None,
        after_load=_agreed_state(least.after_load, most.after_load),
        after_start=None if most.after_start is None or least.after_start is None else _agreed_state(least.after_start, most.after_start),
        caught_up=most.caught_up if least.caught_up == most.caught_up else None,
        dispatched_in_load=most.dispatched_in_load if least.dispatched_in_load == most.dispatched_in_load else None,
        dispatched_after_start=most.dispatched_after_start if least.dispatched_after_start == most.dispatched_after_start else None,
        abort_after_stop=most.abort_after_stop if least.abort_after_stop == most.abort_after_stop else None,
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
