"""Free space on the disks of a store, against what a broker creates at a start and the limits at which it deletes or refuses.

Limits: fact sheet commit log §8.1. The least used of several commit log directories decides.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqstore.doctor.areas import Area, Effect, Harm, State
from rmqstore.findings import Finding
from rmqstore.store.absent import is_copy
from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.root import Store
from rmqstore.verify.context import Context

CLEAN_AT = 85
"""Percent used above which a broker deletes the oldest commit log files whatever their age."""
FULL_AT = 90
"""Percent used above which it accepts no messages."""
UNKNOWN = "the files are read from a URI: disk, owners and processes of the broker's machine are not known"
PREALLOCATED = 2
"""Commit log files a broker creates ahead when it begins a new one."""


@dataclass(frozen=True, slots=True)
class Space:
    """One file system: bytes in use and bytes free for the owner of the store."""

    path: Path
    used: int
    free: int

    @property
    def percent(self) -> int:
        """Use in percent, rounded up as the broker rounds."""
        total = self.used + self.free
        return -(-100 * self.used // total) if total else 0


def space_at(path: Path) -> Space:
    """Return the file system of `path`, or of what exists above it. Raises OSError."""
    existing = next(one for one in (path, *path.parents) if one.exists())
    status = os.statvfs(existing)
    return Space(path, (status.f_blocks - status.f_bfree) * status.f_frsize, status.f_bavail * status.f_frsize)


def check(context: Context) -> Iterator[Finding]:
    """Yield findings about the disks of the commit log and of everything else."""
    store = context.store
    if is_copy(store.root):
        return
    logs = [space_at(path) for path in store.commitlog_directories.writable]
    rest = space_at(store.root)
    file_size = store.commitlog.file_size or BrokerConfig().integer("mappedFileSizeCommitLog")
    if logs:
        yield from _judge(context, min(logs, key=lambda space: space.percent), "commit log", PREALLOCATED * file_size)
    if not logs or all(space_key(space) != space_key(rest) for space in logs):
        yield from _judge(context, rest, "queues and index", 0)


def space_key(space: Space) -> tuple[int, int]:
    """Return a key that is equal for directories of one file system."""
    return space.used, space.free


def _judge(context: Context, space: Space, what: str, needed: int) -> Iterator[Finding]:
    state = f"the disk of {what} is {space.percent} % used, {space.free} bytes are free"
    if space.percent > FULL_AT:
        text = f"{state}: above {FULL_AT} % a broker takes no messages and deletes the oldest commit log files whatever their age"
        yield context.finding("RMQ-ST-SPACE", text, file=space.path, expected=FULL_AT, found=space.percent)
    elif space.percent > CLEAN_AT:
        text = f"{state}: above {CLEAN_AT} % a broker deletes the oldest commit log files whatever their age"
        yield context.finding("RMQ-ST-SPACE", text, file=space.path, expected=CLEAN_AT, found=space.percent)
    elif space.free < needed:
        text = f"{state}: the next {PREALLOCATED} commit log files need {needed}"
        yield context.finding("RMQ-ST-SPACE", text, file=space.path, expected=needed, found=space.free)


def effects(store: Store, findings: Sequence[Finding]) -> Iterator[Effect]:
    """Yield the effects of a full disk, and of a directory that is not where the settings say."""
    if is_copy(store.root):
        yield Effect(Area.MACHINE, State.OK, UNKNOWN)
    for finding in findings:
        if finding.code == "RMQ-ST-SPACE":
            if finding.expected in (CLEAN_AT, FULL_AT):
                yield Effect(
                    Area.MACHINE, State.LOSES, f"a disk is {finding.found} % full: the broker deletes the oldest messages", Harm.LOST
                )
            else:
                yield Effect(Area.MACHINE, State.OK, finding.message)
        elif finding.code == "RMQ-ST-PATH":
            text = f"a directory of the log is empty or missing, is its volume mounted? {finding.file}"
            yield Effect(Area.COMMIT_LOG, State.LOSES, text, Harm.NOT_MOUNTED)
