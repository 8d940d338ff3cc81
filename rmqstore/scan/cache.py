"""The place of compiled kernels: in the user's cache, one directory per state of the sources, never beside the code.

numba notices a change of a kernel's own file only; kernels are built from several files and from the declarations, so the directory
name contains a hash of all of them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from numba.core import config

import rmqstore.formats as formats
from rmqstore.kept import kept_directory, process_directory, warn_unsafe
from rmqstore.ownership import make_private

_CHOSEN = "NUMBA_CACHE_DIR"


def use_kernel_cache() -> None:
    """Point numba at the cache directory, which NUMBA_CACHE_DIR may name. Must run before the first kernel is declared.

    numba unpickles what it finds there, so a directory that other users could have filled is not used.
    """
    chosen = os.environ.get(_CHOSEN)
    problem = None if not chosen else _problem(Path(chosen).absolute())
    if problem is not None:
        warn_unsafe(problem)
    if chosen and problem is None:
        return
    kept = kept_directory("kernels", _mark())
    config.CACHE_DIR = str(kept or process_directory("rmqstore-kernels-"))
    if problem is not None or kept is None:
        # For processes that this one starts; numba also reads the variable again.
        os.environ[_CHOSEN] = config.CACHE_DIR


def _problem(directory: Path) -> str | None:
    try:
        return make_private(directory)
    except OSError as error:
        return f"{directory} cannot be used: {error.strerror}"


def _mark() -> str:
    """Return a hash that changes whenever a source of kernels does."""
    state = hashlib.sha256()
    for directory in (Path(__file__).parent, Path(str(formats.__file__)).parent):
        for source in sorted(directory.rglob("*.py")):
            status = source.stat()
            state.update(f"{source.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()[:16]
