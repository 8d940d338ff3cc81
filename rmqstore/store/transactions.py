"""Remains of repairs in a store that readers have to know: the transaction that was stopped in the middle, and invalid folders.

The folders `<root>/.rmqstore/<id>/` belong to the owner of the store, who can put anything there. So no link is followed, only regular
files are read, no more of them than is needed, and what does not fit is data and no error.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmqstore.shellwords import command
from rmqstore.store.parts import PartKind

_NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}-[0-9a-f]{6}")
_COMMAND = re.compile(r"[a-z -]{1,200}")
_EVENTS = frozenset({"before", "prepared", "copying", "applied"})
_LARGEST_JOURNAL = 1 << 30
_LONGEST_LINE = 64 << 20
# The members of a plan up to the first long one; they are on separate lines, after one blank in plans of earlier versions.
_PLAN_HEAD = 1 << 20
_FIRST_LONG_MEMBER = re.compile(r'\n ?"(?:actions|lost|notes|files)":')


@dataclass(frozen=True, slots=True)
class Stopped:
    """A transaction that was stopped while it changed the store: its command, and the transaction that it undoes, if it is an undo."""

    root: Path
    id: str
    command: str
    undoes: str | None

    @property
    def folder(self) -> Path:
        """Return its folder."""
        return self.root / PartKind.TOOL / self.id

    @property
    def resume_commands(self) -> tuple[str, str]:
        """Return the commands that continue it and that undo it."""
        return resume_commands(self.root, self.id, self.undoes)

    @property
    def message(self) -> str:
        """Return what happened, for users."""
        return f"transaction {self.id} ({self.command}) was stopped in the middle, and the store is half changed"

    def as_json(self) -> dict[str, Any]:
        """Return the transaction as commands print it with `--format json`."""
        continued, undone = self.resume_commands
        return {"id": self.id, "command": self.command, "undoes": self.undoes, "continue": continued, "undo": undone}

    @property
    def hint(self) -> str:
        """Return what to do, for users."""
        return "Continue it with `{}`, or undo it with `{}`.".format(*self.resume_commands)


@dataclass(frozen=True, slots=True)
class Damaged:
    """An invalid entry of the tool's own directory, and the reason."""

    path: Path
    why: str

    @property
    def hint(self) -> str:
        """Return what to do, for users."""
        return f"Move it out of {self.path.parent}, and keep it: it may hold old bytes of the store. Until then nothing can be repaired."


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactions below `.rmqstore`."""

    stopped: Stopped | None = None
    damaged: tuple[Damaged, ...] = ()


@dataclass(frozen=True, slots=True)
class _Folder:
    name: str
    prepared: bool
    applied: bool

    @property
    def in_the_middle(self) -> bool:
        return self.prepared and not self.applied


def resume_commands(root: Path, name: str, undoes: str | None) -> tuple[str, str]:
    """Return the commands that continue a stopped transaction and that undo it."""
    plan = root / PartKind.TOOL / name / "plan.json"
    continued = command("rmqstore", "apply", plan) if undoes is None else command("rmqstore", "undo", root)
    return continued, command("rmqstore", "undo", root, name)


def read_transactions(root: Path) -> Transactions:
    """Return the last transaction that was stopped in the middle and neither continued nor undone since, and invalid entries.

    If an undo was stopped, it is the undo and not what it undoes.
    """
    directory = root / PartKind.TOOL
    damaged: list[Damaged] = []
    folders: list[_Folder] = []
    plans: dict[str, Stopped] = {}
    try:
        with _opened(directory, None, os.O_DIRECTORY) as tool:
            for name in _names(tool, directory, damaged):
                with _noted(directory / name, damaged), _opened(name, tool, os.O_DIRECTORY) as folder:
                    folders.append(_progress(name, folder))
            # Plans are read only if something was stopped, which is seldom.
            for one in folders if any(each.in_the_middle for each in folders) else ():
                if one.prepared or one.applied:
                    with _noted(directory / one.name, damaged), _opened(one.name, tool, os.O_DIRECTORY) as folder:
                        plans[one.name] = _head(root, one.name, folder)
    except FileNotFoundError:
        return Transactions()
    except OSError as error:
        return Transactions(damaged=(Damaged(directory, _reason(error)),))
    return Transactions(_stopped(folders, plans), tuple(damaged))


def _stopped(folders: list[_Folder], plans: dict[str, Stopped]) -> Stopped | None:
    undone = {plans[one.name].undoes for one in folders if one.applied and one.name in plans}
    stopped = [plans[one.name] for one in folders if one.in_the_middle and one.name in plans]
    left = [one for one in stopped if one.id not in undone and (one.undoes is None or one.undoes not in undone)]
    return left[-1] if left else None


def _names(tool: int, directory: Path, damaged: list[Damaged]) -> Iterator[str]:
    """Yield the folders by name, which is by time."""
    with os.scandir(tool) as entries:
        folders = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries if entry.is_symlink() or entry.is_dir()}
    for name in sorted(folders):
        if folders[name] and _NAME.fullmatch(name):
            yield name
        else:
            damaged.append(Damaged(directory / name, "it is not the folder of a transaction"))


def _progress(name: str, folder: int) -> _Folder:
    """Return the progress of a transaction. Raises ValueError, OSError."""
    try:
        with _file("plan.json", folder):
            planned = True
    except FileNotFoundError:
        planned = False
    seen: set[str] = set()
    try:
        with _file("journal.jsonl", folder) as descriptor, os.fdopen(os.dup(descriptor), "rb") as journal:
            while (event := _event(journal.readline(_LONGEST_LINE))) is not None:
                if event not in _EVENTS or journal.tell() > _LARGEST_JOURNAL:
                    raise ValueError("its journal is invalid")
                seen.add(event)
    except FileNotFoundError:
        pass
    if seen and not planned:
        raise ValueError("it has a journal and no plan")
    return _Folder(name, "prepared" in seen, "applied" in seen)


def _event(line: bytes) -> str | None:
    """Return the event of a complete line; a line that was being written when the process died is none. Raises ValueError."""
    if not line.endswith(b"\n"):
        if len(line) == _LONGEST_LINE:
            raise ValueError("a line of its journal is too long")
        return None
    try:
        values = json.loads(line)
    except ValueError:
        return None
    except RecursionError as error:
        raise ValueError("its journal is invalid") from error
    event = values.get("event") if isinstance(values, dict) else None
    return event if isinstance(event, str) else None


def _head(root: Path, name: str, folder: int) -> Stopped:
    """Return the beginning of a plan. Raises ValueError, OSError."""
    with _file("plan.json", folder) as descriptor:
        text = os.pread(descriptor, _PLAN_HEAD, 0).decode("ascii")
    found = _FIRST_LONG_MEMBER.search(text)
    try:
        plan = json.loads(text[: found.start()].rstrip(",") + "}") if found else {}
    except (ValueError, RecursionError) as error:
        raise ValueError("its plan cannot be read") from error
    by, undoes = plan.get("command"), plan.get("undoes")
    if not isinstance(by, str) or not _COMMAND.fullmatch(by):
        raise ValueError("its plan does not name a command")
    if undoes is not None and not (isinstance(undoes, str) and _NAME.fullmatch(undoes)):
        raise ValueError("its plan undoes an invalid transaction")
    return Stopped(root, name, by, undoes)


@contextmanager
def _opened(name: Path | str, directory: int | None, kind: int) -> Iterator[int]:
    """Yield a descriptor of one entry of a directory, never of the target of a link; a pipe does not block. Raises OSError."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | kind, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _file(name: str, folder: int) -> Iterator[int]:
    with _opened(name, folder, 0) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{name} in it is not a regular file")
        yield descriptor


@contextmanager
def _noted(path: Path, damaged: list[Damaged]) -> Iterator[None]:
    """Record an entry that is invalid or cannot be read as data."""
    try:
        yield
    except ValueError as error:
        damaged.append(Damaged(path, str(error) if not isinstance(error, UnicodeDecodeError) else "its plan is invalid"))
    except OSError as error:
        damaged.append(Damaged(path, _reason(error)))


def _reason(error: OSError) -> str:
    return f"it cannot be read: {error.strerror or error}"
