"""Where compiled kernels are kept: in the user's cache, one directory per state of the sources, never beside the code.

numba notices a change of a kernel's own file only; kernels are built from several files and from the declarations, so the directory
carries a mark of all of them.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from numba.core import config

import rmqstore.formats as formats


def use_kernel_cache() -> None:
    """Points numba at the cache directory, unless NUMBA_CACHE_DIR does already. Must run before the first kernel is declared."""
    if not os.environ.get("NUMBA_CACHE_DIR"):
        config.CACHE_DIR = str(kernel_cache())


def kernel_cache() -> Path:
    """The directory of compiled kernels, for this process alone where no other can be kept."""
    return kept_directory("kernels", _mark()) or Path(tempfile.mkdtemp(prefix="rmqstore-kernels-"))


def kept_directory(*names: str) -> Path | None:
    """A directory that stays, made if need be: below XDG_CACHE_HOME or ~/.cache, or in the temporary one where those cannot be written.

    What lies there is executed, so in a directory that all users share it has to be our own. None where there is no place.
    """
    home = os.environ.get("XDG_CACHE_HOME")
    user = Path(home) if home else Path("~/.cache").expanduser()
    shared = Path(tempfile.gettempdir()) / f"rmqstore-{os.getuid()}"
    for base in (user, shared):
        directory = base.joinpath("rmqstore", *names)
        try:
            if base is shared:
                base.mkdir(mode=0o700, exist_ok=True)
                status = base.lstat()
                if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
                    continue
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(directory, os.W_OK):
            return directory
    return None


def _mark() -> str:
    """Changes whenever a source that kernels are made from does."""
    state = hashlib.sha256()
    for directory in (Path(__file__).parent, Path(str(formats.__file__)).parent):
        for source in sorted(directory.glob("*.py")):
            status = source.stat()
            state.update(f"{source.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()[:16]
