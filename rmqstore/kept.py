"""Directories of this user: caches for later commands, and temporary directories.

Their content is executed: compiled kernels are called, classes are loaded by Java. So a directory that another user could have
written to is not used.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.ownership import make_private, problem_of
from rmqstore.terminal import warn

_PRIVATE = 0o700
_TEMPORARY = ("/tmp", "/var/tmp")


def kept_directory(*names: str) -> Path | None:
    """Return a cache directory, created if necessary: below XDG_CACHE_HOME or ~/.cache, else below the temporary directory.

    None if there is no safe and writable place.
    """
    shared = Path(tempfile.gettempdir()) / f"rmqstore-{os.geteuid()}"
    for base in (_of_user(), shared):
        if base is None:
            continue
        directory = base.joinpath("rmqstore", *names)
        try:
            problem = _made(base / "rmqstore", names)
        except OSError:
            continue
        if problem is not None:
            warn_unsafe(problem)
        elif os.access(directory, os.W_OK):
            return directory
    return None


def private_directory(prefix: str) -> Path:
    """Return a new temporary directory of this user alone. Raises RefusedError if there is no safe place for it, OSError."""
    problems = []
    for place in dict.fromkeys((tempfile.gettempdir(), *_TEMPORARY)):
        if Path(place).is_dir():
            directory = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            problem = problem_of(directory)
            if problem is None:
                return directory
            directory.rmdir()
            problems.append(problem)
    raise RefusedError(
        f"There is no safe temporary directory: {'; '.join(problems)}.", "Name one with TMPDIR that only this user may write to."
    )


def keep_file(path: Path, content: bytes) -> None:
    """Write a file of a cache if that is possible. It appears under its name when it is complete."""
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as attempt:
            attempt.write(content)
        try:
            Path(attempt.name).replace(path)
        except OSError:
            Path(attempt.name).unlink()


@cache
def warn_unsafe(problem: str) -> None:
    """Print once that a directory is not used."""
    warn(f"warning: {problem}, so the cache there is not used.")


def _of_user() -> Path | None:
    home = os.environ.get("XDG_CACHE_HOME", "")
    if Path(home).is_absolute():
        return Path(home)
    try:
        return Path("~/.cache").expanduser().absolute()
    except RuntimeError:  # a user without a home directory
        return None


def _made(directory: Path, names: tuple[str, ...]) -> str | None:
    """Create a directory and those below it, closed for other users; return what is wrong with one of them."""
    for path in (directory, *(directory.joinpath(*names[: count + 1]) for count in range(len(names)))):
        problem = make_private(path)
        if problem is not None:
            return problem
        if path.lstat().st_mode & 0o777 != _PRIVATE:
            path.chmod(_PRIVATE)
    return None
