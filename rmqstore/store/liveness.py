"""Detection of a running broker, from the system only: no lock is tried and no file of the store is opened.

A running broker holds a POSIX record lock on `lock` and keeps its files open and mapped (fact sheet commit log §4.4).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from rmqstore.errors import RmqstoreError
from rmqstore.store.root import Store
from rmqstore.store.window import read_whole

_PROC = Path("/proc")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR
_START_TIME = 19
"""Position of `starttime` after the command's name in /proc/<pid>/stat."""
_RECENT = 1.0
"""Seconds for which `liveness` takes what it saw of all processes: a command asks up to eight times, and each look reads all of /proc."""
_CLOCK_STEP = 2.0
"""Seconds by which the start of a process, known from the boot time in whole seconds, can seem too late."""


@dataclass(frozen=True, slots=True)
class StoreUser:
    """A process that has files of the store open or mapped; `writes`: any of them for writing."""

    pid: int
    command: str
    files: int
    writes: bool


@dataclass(frozen=True, slots=True)
class Liveness:
    """The processes that use a store. `complete` is false if some processes could not be inspected, so that finding none proves nothing.

    `abort_pid_alive`: a process has the id that `abort` names, and started before that file was written.
    """

    lock_holder: int | None
    users: tuple[StoreUser, ...]
    abort_pid: int | None
    abort_pid_alive: bool
    complete: bool

    @property
    def in_use(self) -> bool:
        """Return whether a process holds the lock or has a file of the store open for writing."""
        return self.lock_holder is not None or any(user.writes for user in self.users)


_seen: dict[tuple[str, ...], tuple[float, tuple[tuple[StoreUser, ...], bool]]] = {}
"""When the processes were inspected last, and what was found then, by the directories that were looked for."""


def liveness(store: Store, users: tuple[tuple[StoreUser, ...], bool] | None = None) -> Liveness:
    """Return the users of the store, at most a second old. Never raises for what the system does not show.

    `users` is the result of an earlier `store_users`, maybe with other rights.
    """
    found, complete = _recent_users(_prefixes(store)) if users is None else users
    abort_pid = _abort_pid(store)
    alive = abort_pid is not None and _may_have_written(abort_pid, store.abort_path)
    return Liveness(lock_holder(store.lock_path), found, abort_pid, alive, complete)


def store_users(store: Store) -> tuple[tuple[StoreUser, ...], bool]:
    """Return the processes with open files of the store now, and whether all could be inspected. Opens no file of the store."""
    return _users(_prefixes(store))


def _recent_users(prefixes: tuple[str, ...]) -> tuple[tuple[StoreUser, ...], bool]:
    """Return what `_users` does, or did less than a second ago."""
    at, users = _seen.get(prefixes, (0.0, None))
    if users is None or monotonic() - at >= _RECENT:
        users = _users(prefixes)
        _seen.clear()
        _seen[prefixes] = monotonic(), users
    return users


def _prefixes(store: Store) -> tuple[str, ...]:
    """Return the directories of a store without links, each with a separator at its end."""
    directories = store.commitlog_directories
    targets = (link.target for link in store.part_links())
    return tuple(os.path.realpath(path) + os.sep for path in (store.root, *directories.writable, *directories.read_only, *targets))


def _users(prefixes: tuple[str, ...]) -> tuple[tuple[StoreUser, ...], bool]:
    users = []
    complete = _PROC.is_dir()
    for pid in _processes():
        try:
            user = _user(pid, prefixes)
        except PermissionError:
            complete = False
        except OSError:
            continue  # the process ended while it was inspected
        else:
            if user is not None:
                users.append(user)
    return tuple(users), complete


def parse_locks(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield (pid, device major, device minor, inode) of every exclusive POSIX record lock in the text of /proc/locks."""
    pattern = r"^\d+: POSIX\s+\S+\s+WRITE\s+(-?\d+)\s+([0-9a-f]+):([0-9a-f]+):(\d+)\s"
    for match in re.finditer(pattern, text, re.MULTILINE):
        yield int(match[1]), int(match[2], 16), int(match[3], 16), int(match[4])


def lock_holder(lock: Path) -> int | None:
    """Return the process that holds an exclusive lock on a file, None if none does or the system does not show it."""
    try:
        status = lock.stat()
        text = (_PROC / "locks").read_text()
    except OSError:
        return None
    wanted = (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
    for pid, *place in parse_locks(text):
        if tuple(place) == wanted:
            return pid
    return None


def _processes() -> Iterator[int]:
    try:
        names = [entry.name for entry in _PROC.iterdir()]
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit() and int(name) != os.getpid())


def _user(pid: int, prefixes: tuple[str, ...]) -> StoreUser | None:
    # Plain strings until something is found: a machine may have hundreds of processes with hundreds of files each.
    directory = _PROC / str(pid)
    files: set[str] = set()
    writes = False
    with os.scandir(directory / "fd") as descriptors:
        for descriptor in descriptors:
            try:
                target = os.readlink(descriptor.path)  # noqa: PTH115
                if target.startswith(prefixes):
                    files.add(target)
                    writes = writes or _opened_for_writing((directory / "fdinfo" / descriptor.name).read_text())
            except FileNotFoundError:
                continue  # closed while it was inspected
    maps = (directory / "maps").read_text(errors="surrogateescape")
    if any(prefix in maps for prefix in prefixes):
        for line in maps.splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith(prefixes):
                files.add(fields[5])
                writes = writes or ("w" in fields[1] and "s" in fields[1])
    if not files:
        return None
    return StoreUser(pid, (directory / "comm").read_text(errors="replace").strip(), len(files), writes)


def _opened_for_writing(fdinfo: str) -> bool:
    match = re.search(r"^flags:\s*([0-7]+)", fdinfo, re.MULTILINE)
    return match is not None and bool(int(match[1], 8) & _WRITE_FLAGS)


def _may_have_written(pid: int, file: Path) -> bool:
    """Return whether a process of that id runs, and ran when the file was written: ids are reused, and given to threads as well."""
    directory = _PROC / str(pid)
    try:
        thread_group = re.search(r"^Tgid:\s*(\d+)", (directory / "status").read_text(errors="replace"), re.MULTILINE)
        boot = re.search(r"^btime (\d+)", (_PROC / "stat").read_text(), re.MULTILINE)
        # The name of the command, in brackets, may contain anything.
        ticks = int((directory / "stat").read_text(errors="replace").rpartition(")")[2].split()[_START_TIME])
        written = file.stat().st_mtime
    except FileNotFoundError:
        return False
    except (OSError, ValueError, IndexError):
        return directory.exists()
    if thread_group is None or boot is None:
        return True
    started = int(boot[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return int(thread_group[1]) == pid and started <= written + _CLOCK_STEP


def _abort_pid(store: Store) -> int | None:
    try:
        text = read_whole(store.abort_path, 64).strip()
    except RmqstoreError:
        return None
    return int(text) if text.isdigit() and len(text) <= 10 else None
