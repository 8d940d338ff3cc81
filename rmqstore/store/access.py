"""Parts of a store without read permission for this user, and the command that grants it.

Nothing is opened: the system is asked. A path that is denied to this user may be open to a broker that runs as another one.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqstore import shellwords
from rmqstore.store.mapped import list_directory
from rmqstore.store.parts import PartKind, part_kind, relative_to_root
from rmqstore.store.root import Store


@dataclass(frozen=True, slots=True)
class Denied:
    """A file or directory without read permission, relative to the root if it is below it, and the command that grants it."""

    path: Path
    file: str
    command: str

    @property
    def message(self) -> str:
        """Return the problem, without a full stop."""
        return f"{self.file}: permission denied"


def denied_entries(store: Store) -> list[Denied]:
    """Return the files and directories of a store without read permission, by path; of a directory only itself.

    Names that no broker knows are left out.
    """
    log = [path for path in log_directories(store) if is_denied(path) or path.is_dir()]
    parts = [Path(entry.path) for entry in list_directory(store.root) if store.only is not None or part_kind(entry.name) is not None]
    return list(denied_below(store.root, (*parts, *log)))


def log_directories(store: Store) -> tuple[Path, ...]:
    """Return all directories of the commit log."""
    return (*store.commitlog_directories.writable, *store.commitlog_directories.read_only)


def denied_below(root: Path, tops: Iterable[Path]) -> Iterator[Denied]:
    """Yield paths without read permission in `tops`, files or directories of the store or the part at `root`, by path."""
    for path in sorted({path for top in tops for path in _below(top)}):
        yield Denied(path, relative_to_root(path, root), way_to_read(path, root))


def _below(top: Path) -> Iterator[Path]:
    if is_denied(top):
        yield top
        return
    pending = [str(top)] if top.is_dir() and top.name != PartKind.TOOL else []
    while pending:
        directory = pending.pop()
        if not os.access(directory, os.R_OK | os.X_OK):
            yield Path(directory)
            continue
        for entry in list_directory(directory):
            if entry.is_dir(follow_symlinks=False):
                if entry.name != PartKind.TOOL:
                    pending.append(entry.path)
            elif (entry.is_symlink() or not os.access(entry.path, os.R_OK)) and is_denied(Path(entry.path)):
                yield Path(entry.path)


def is_denied(path: Path) -> bool:
    """Return whether a file or directory exists without read permission; a link counts as its target.

    The system denies a file that is removed at this moment, too: what is replaced in between is not denied.
    """
    try:
        before = path.stat()
        if not stat.S_ISREG(before.st_mode) and not stat.S_ISDIR(before.st_mode):
            return False
        if os.access(path, os.R_OK | os.X_OK if stat.S_ISDIR(before.st_mode) else os.R_OK):
            return False
        after = path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return (before.st_dev, before.st_ino, before.st_ctime_ns) == (after.st_dev, after.st_ino, after.st_ctime_ns)


def way_to_read(path: Path, root: Path, command: Sequence[Path | str] = ()) -> str:
    """Return the line that gives a file the owner of the store's root, or its owner the right to use it.

    If neither helps, because this user is not that owner: `command` as that owner; without one, a shell.
    """
    while True:
        try:
            mine, owner = path.lstat(), root.stat()
            break
        except OSError:  # a directory above it cannot be entered
            if path == path.parent:
                return shellwords.command("ls", "-ld", root)
            path = path.parent
    if mine.st_uid != owner.st_uid:
        return shellwords.command("chown", f"{owner.st_uid}:{owner.st_gid}", path)
    needed = stat.S_IRWXU if stat.S_ISDIR(mine.st_mode) else stat.S_IRUSR | stat.S_IWUSR
    if mine.st_mode & needed != needed:
        return shellwords.command("chmod", "u+rwx" if stat.S_ISDIR(mine.st_mode) else "u+rw", path)
    return shellwords.command("sudo", "-u", _name_of(owner.st_uid), *(command or ("-s",)))


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"
