"""Configuration unknown to the message store that prevents a start of the broker: a JSON file and its `.bak` both broken.

Fact sheet timer §3.2; which files stop a start was observed on brokers of 4.9.7, 5.1.4, 5.3.3 and 5.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rmqstore.errors import RmqstoreError
from rmqstore.formats import timer
from rmqstore.store.mapped import ProblemKind
from rmqstore.store.root import Store
from rmqstore.verify.parts.config import IN_ROCKSDB, State, in_rocksdb, read
from rmqstore.versions import Profile


class _File(NamedTuple):
    """A file that stops the start: a profile field that says whether the release has it ("" for all), and whether it is read before
    the message store is loaded."""

    name: str
    field: str
    before_store: bool


# In the order of load.
_FILES = (
    _File("topics.json", "", True),
    _File("topicQueueMapping.json", "newer_parts", True),
    _File("consumerOffset.json", "", True),
    _File("subscriptionGroup.json", "", True),
    _File("consumerFilter.json", "", True),
    _File("consumerOrderInfo.json", "newer_parts", True),
    _File("timermetrics", "newer_parts", False),
    _File("delayOffset.json", "", False),
)


@dataclass(frozen=True, slots=True)
class Stopping:
    """A file that stops the start, why, and the line the broker prints. `before_store`: the message store is not even loaded."""

    path: Path
    why: str
    line: str
    before_store: bool


def stopping_files(store: Store, profile: Profile) -> Iterator[Stopping]:
    """Yield the files in the order in which the broker meets them; it stops at the first one."""
    in_database = in_rocksdb(store)
    for file in _FILES:
        if (file.field and not getattr(profile, file.field)) or (in_database and file.name in IN_ROCKSDB):
            continue
        path = store.config_path / file.name
        try:
            text, backup = read(path), read(path.with_name(file.name + ".bak"))
        except (RmqstoreError, OSError):
            continue  # reported as unreadable by the check of the configuration
        if text.state in (State.DAMAGED, State.EMPTY, State.MISSING) and backup.state is State.DAMAGED:
            why = f"{file.name} is {text.why}, and {backup.path.name} is {backup.why}"
            yield Stopping(path, why, f"load {backup.path} Failed", file.before_store)
    if profile.newer_parts and store.config.flag("timerWheelEnable"):
        yield from _timer_log(store, deletes_empty_last_file=profile.deletes_empty_last_file)
        yield from _wheel(store)


def _timer_log(store: Store, *, deletes_empty_last_file: bool) -> Iterator[Stopping]:
    """Yield files of the wrong length, which stop the load; an empty one that sorts last is deleted instead by some releases."""
    deleted = store.timerlog.last_name if deletes_empty_last_file else ""
    for problem in store.timerlog.problems():
        path = problem.path
        empty = problem.kind is ProblemKind.ZERO_LENGTH and path.name != deleted
        if empty or problem.kind is ProblemKind.WRONG_LENGTH:
            line = f"{path}\t{problem.found} length not matched message store config value, please check it manually"
            yield Stopping(path, f"{path.name} of the timer log is {problem.found} bytes long instead of {problem.expected}", line, False)


def _wheel(store: Store) -> Iterator[Stopping]:
    path = store.root / "timerwheel"
    length = path.stat().st_size if path.is_file() else 0
    if length not in (0, timer.WHEEL_FILE_SIZE):
        line = f"Timer wheel length:{length} != expected:{timer.WHEEL_FILE_SIZE}"
        yield Stopping(path, f"the timer wheel is {length} bytes long instead of {timer.WHEEL_FILE_SIZE}", line, False)
