"""Access to files of a store without following any symbolic link below its root.

The root, and each directory that the configuration names in its place, is opened once (`pinned`), as the operator spelled it. What is below
is then opened from that descriptor without a link on the way, by openat2 or one component at a time with O_NOFOLLOW, so the check is the
open itself and nothing can be exchanged between the two. A path below no pinned directory (a plan file, a temporary directory) is one that
the operator named: of it only the last component is not followed; below `.rmqstore` no component is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rmqstore.errors import RefusedError, UnreadableError
from rmqstore.repair.files.openat2 import open_directory
from rmqstore.store.mapped import unreadable
from rmqstore.store.parts import PartKind
from rmqstore.store.window import source_of

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DEEPEST = 64
_LINKED = (errno.ELOOP, errno.ENOTDIR)
_pinned: dict[str, int] = {}
_leaving: set[str] = set()


class LinkError(RefusedError):
    """A symbolic link, or `..`, where a path of a store has a file or directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is a symbolic link, which a repair does not follow.", "Replace the link by the file or directory itself.")


@contextmanager
def pinned(directories: Mapping[Path, Path]) -> Iterator[None]:
    """Open directories once for all access below them; `directories` maps the path under which each is used to the one to open.

    A directory that is pinned already is not opened again; one that does not exist is left out. Raises UnreadableError.
    """
    with ExitStack() as stack:
        stack.callback(_leaving.intersection_update, frozenset(_leaving))
        for path, meant in ((str(path), meant) for path, meant in directories.items()):
            if path in _pinned:
                continue
            try:
                descriptor = os.open(meant, _DIRECTORY)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise unreadable(meant, error) from error
            stack.callback(os.close, descriptor)
            stack.callback(_pinned.pop, path)
            _pinned[path] = descriptor
        yield


def leaves(path: Path) -> None:
    """Note that a plan removes the entry at `path`: if it is a symbolic link, nothing is below it. Valid until `pinned` ends."""
    _leaving.add(str(path))


def is_leaving(path: Path) -> bool:
    """Return whether a plan removes the entry at `path`."""
    return str(path) in _leaving


@contextmanager
def parent(path: Path) -> Iterator[tuple[int, str]]:
    """Open the directory that holds `path`; yield its descriptor and the name of `path` in it. Raises LinkError, OSError."""
    here, name = _open_parent(path)
    try:
        yield here, name
    finally:
        os.close(here)


@contextmanager
def directory(path: Path) -> Iterator[int]:
    """Open a directory for fsync, attributes and listing. Raises LinkError, OSError."""
    with _opened(path, _DIRECTORY) as descriptor:
        yield descriptor


@contextmanager
def entry(path: Path) -> Iterator[int]:
    """Open a file or directory for fsync. Raises LinkError, OSError."""
    with _opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) as descriptor:
        yield descriptor


@contextmanager
def regular_file(path: Path, flags: int) -> Iterator[int]:
    """Open an existing regular file; a named pipe or a device is refused without waiting. Raises LinkError, UnreadableError, OSError."""
    with _opened(path, flags | os.O_NONBLOCK | os.O_CLOEXEC) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableError(f"{path} is not a regular file, where a file should be.", "Move it away or give another path.")
        yield descriptor


@contextmanager
def reading(path: Path) -> Iterator[int]:
    """Open a regular file for reading, without a trace in its access time where possible. Raises LinkError, UnreadableError."""
    path = source_of(path)
    with ExitStack() as stack:
        try:
            try:
                descriptor = stack.enter_context(regular_file(path, os.O_RDONLY | os.O_NOATIME))
            except PermissionError:  # O_NOATIME is for the owner only
                descriptor = stack.enter_context(regular_file(path, os.O_RDONLY))
        except OSError as error:
            raise unreadable(path, error) from error
        yield descriptor


def status(path: Path) -> os.stat_result | None:
    """Return the lstat result of `path`, None if there is nothing. Raises LinkError (a directory above it is a link), OSError."""
    try:
        here, name = _open_parent(path)
        try:
            return os.stat(name, dir_fd=here, follow_symlinks=False)
        finally:
            os.close(here)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_file(path: Path) -> bool:
    """Return whether `path` is a regular file."""
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_directory(path: Path) -> bool:
    """Return whether `path` is a directory, and no link to one."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def exists(path: Path) -> bool:
    """Return whether there is anything at `path`, also a dangling link."""
    return status(path) is not None


def entries(path: Path) -> list[tuple[str, os.stat_result]]:
    """Return names in a directory, sorted, each with its lstat result; none if there is no directory. Raises LinkError, UnreadableError."""
    try:
        with directory(path) as descriptor:
            return sorted(_listed(descriptor))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(path, error) from error


def walk(top: Path, *, without: Path | None = None) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all entries below a directory, also directories, as the text of the path and its lstat result; none if it does not exist.

    Links are not entered, nor is `without`. Raises LinkError, UnreadableError.
    """
    try:
        with directory(top) as descriptor:
            yield from _walk(descriptor, str(top), 0, str(without))
    except FileNotFoundError:
        return


def _walk(here: int, path: str, depth: int, without: str) -> Iterator[tuple[str, os.stat_result]]:
    if depth > _DEEPEST:
        raise UnreadableError(f"{path} is nested {depth} directories deep.", "No store has such directories: move it out.")
    try:
        found = list(_listed(here))
    except OSError as error:
        raise unreadable(Path(path), error) from error
    for name, status in found:
        below = f"{path}{os.sep}{name}"
        yield below, status
        if not stat.S_ISDIR(status.st_mode) or below == without:
            continue
        try:
            following = _open(Path(below), here, name, _DIRECTORY)
        except FileNotFoundError:
            continue  # removed at this moment
        except OSError as error:
            raise unreadable(Path(below), error) from error
        try:
            yield from _walk(following, below, depth + 1, without)
        finally:
            os.close(following)


def _listed(here: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(here) as listed:
        for entry in listed:
            try:
                yield entry.name, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed at this moment


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    with parent(path) as (here, name):
        descriptor = _open(path, here, name, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_parent(path: Path) -> tuple[int, str]:
    """Return an open descriptor of the directory that holds `path`, and the name of `path` in it."""
    top, names = _split(path)
    start = _pinned.get(top)
    if start is not None and len(names) > 1:
        found = open_directory(start, "/".join(names[:-1]))
        if found is not None:
            return found, names[-1]
    # Not dup(): descriptors that share a position would share the position of a listing.
    here = os.open(top, _DIRECTORY) if start is None else os.open(".", _DIRECTORY, dir_fd=start)
    for number, name in enumerate(names[:-1], 1):
        try:
            following = _open(path, here, name, _DIRECTORY)
        except LinkError:
            if is_leaving(Path(top, *names[:number])):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
            raise
        finally:
            os.close(here)
        here = following
    return here, names[-1]


def _open(path: Path, here: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)
    except OSError as error:
        # Only for the message: a file that was not opened is not used.
        if error.errno in _LINKED and _is_link(name, here):
            raise LinkError(path) from error
        error.filename = str(path)
        raise


def _is_link(name: str, here: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _split(path: Path) -> tuple[str, list[str]]:
    """Return the directory to begin with, and the names from there to `path`, `.` for the directory itself."""
    text, top = str(path), None
    for pinned in _pinned:
        if text.startswith(pinned) and text[len(pinned) : len(pinned) + 1] in ("", os.sep) and len(pinned) > len(top or ""):
            top = pinned
    if top is not None:
        names = text[len(top) :].strip("/").split("/")
    elif PartKind.TOOL.value in path.parts:
        depth = path.parts.index(PartKind.TOOL.value)
        top, names = str(Path(*path.parts[:depth])), list(path.parts[depth:])
    else:
        top, names = str(path.parent), [path.name]
    if ".." in names:
        raise LinkError(path)
    return top, names if names[0] else ["."]
