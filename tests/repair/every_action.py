"""A store to change, a plan with every kind of action for it, and the state of a store down to holes and times."""

from __future__ import annotations

import hashlib
import os
import random
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmqstore.repair import procedure
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.files.copies import holes
from rmqstore.repair.files.writer import Hook, Writer
from rmqstore.repair.plan.model import Action, Plan
from rmqstore.repair.procedure import RepairRequest, Result
from rmqstore.repair.transaction.folder import Transaction, transactions
from rmqstore.store.root import Store

SAMPLE = "5.3.3-plain"
NEW_QUEUE = "consumequeue/TopicNew/0"
OTHER_USER = 4321 if os.geteuid() == 0 else os.geteuid()

_OLD, _NOT_OLD = 10**17, 10**18

State = dict[str, tuple[Any, ...]]


@dataclass
class Yes:
    """Says yes, and remembers what it was shown."""

    shown: list[Plan] = field(default_factory=list)
    done: list[Action] = field(default_factory=list)
    answer: bool = True

    def show(self, plan: Plan) -> None:
        self.shown.append(plan)

    def confirm(self, plan: Plan) -> bool:
        return self.answer

    def started(self, transaction: Transaction, plan: Plan) -> None:
        pass

    def advance(self, action: Action) -> None:
        self.done.append(action)


def no_errors(store: Store, *, crashed: bool | None = None) -> dict[str, int]:
    return {}


def every_kind(planning: Planning, store: Store) -> None:
    """Plans every kind of action; nothing once `abort` says that it was done."""
    builder, staging = planning.builder, planning.staging
    if store.abort_present:
        return
    logs = [file.path for file in store.commitlog.files]
    builder.write(logs[0], 100, b"five!", reason="short bytes over old ones")
    builder.write(logs[0], 4000, b"F" * 300, reason="another range of the file, over a border of blocks")
    builder.write(logs[-1], 41_000, random.Random(1).randbytes(9_000), reason="long bytes into a hole")
    builder.zero(logs[1], 0, logs[1].stat().st_size, reason="a whole file of zeros")
    builder.quarantine(logs[2], reason="a file of the log")
    builder.create(logs[0].with_name(f"{10**9:020d}"), staging.add(b"L" * 70_000), like=logs[0], reason="a file with the mtime of another")
    builder.create(f"{NEW_QUEUE}/{0:020d}", b"unit" * 5, reason="a file in directories that do not exist")
    builder.create(f"{NEW_QUEUE}/{20:020d}", b"unit" * 5, reason="another file in them")
    builder.replace(logs[3], b"R" * logs[3].stat().st_size, reason="a file of the log with other bytes")
    queue = next(store.queue_directories())
    builder.quarantine(queue.files.files[0].path, reason="a queue file")
    array = staging.open("index", 30_000)
    array[20_000] = 9
    index = store.index_files()
    builder.replace(index[0].path, staging.close("index"), reason="an index file")
    builder.write_checkpoint(b"\x01" + bytes(4095), reason="the checkpoint")
    builder.set_abort(b"", reason="the end")


class Changing:
    """One store, changed and put back through the same functions that the commands call."""

    def __init__(self, root: Path, settings: dict[str, str] | None = None) -> None:
        self.root = root
        self.settings = settings or {}
        self.plan_file = root.parent / "kept.plan"

    def open(self) -> Store:
        return Store.open(self.root, settings=self.settings)

    @property
    def wish(self) -> RepairRequest:
        return RepairRequest("everything", "5.3.3", self.open, every_kind)

    def keep_plan(self) -> Plan:
        """The plan in `plan_file`."""
        return procedure.show(self.wish, Yes(), self.plan_file, verify=no_errors).plan

    def apply(self, hook: Hook | None = None) -> Result:
        """Applies the plan in `plan_file`, or continues it."""
        return procedure.apply_file(self.plan_file, Yes(), verify=no_errors, writer=Writer(hook))

    def undo(self, hook: Hook | None = None, name: str | None = None) -> Result:
        return procedure.undo(self.root, name, Yes(), writer=Writer(hook))

    @property
    def transactions(self) -> list[Transaction]:
        return transactions(self.root)

    @property
    def state(self) -> State:
        """Every path but the root itself and what is below `.rmqstore`."""
        directories = [self.root, *(path for path in self.open().commitlog_directories.writable if not path.is_relative_to(self.root))]
        found: State = {}
        for directory in directories:
            for path in sorted(directory.rglob("*")):
                if ".rmqstore" not in path.parts:
                    found[str(path)] = _state(path)
        return found


def without_new_times(state: State) -> State:
    """A state in which what was made in the test has no time: `age` makes everything older."""
    return {path: values if values[3] < _NOT_OLD else (*values[:3], None, *values[4:]) for path, values in state.items()}


def _state(path: Path) -> tuple[Any, ...]:
    status = path.lstat()
    attributes = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns)
    if path.is_dir():
        return attributes
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    return (*attributes, status.st_size, content, tuple(holes(path, 0, status.st_size)))


def age(root: Path) -> None:
    """Modes, owners and times of their own for every file and directory, so that one that gets another's is noticed."""
    for number, path in enumerate(sorted(root.rglob("*"), reverse=True)):
        path.chmod(0o751 if path.is_dir() else (0o600, 0o640, 0o644)[number % 3])
        os.chown(path, OTHER_USER, OTHER_USER)
        os.utime(path, ns=(0, _OLD + number * 10**9 + 7))
