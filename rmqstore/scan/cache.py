"""Where compiled kernels are kept: in the user's cache, one directory per state of the sources, never beside the code.

numba notices a change of a kernel's own file only; kernels are built from several files and from the declarations, so the directory
carries a mark of all of them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from numba.core import config

import rmqstore.formats as formats
from rmqstore.kept import kept_directory


def use_kernel_cache() -> None:
    """Points numba at the cache directory, unless NUMBA_CACHE_DIR does already. Must run before the first kernel is declared."""
    if not os.environ.get("NUMBA_CACHE_DIR"):
        config.CACHE_DIR = str(kernel_cache())


def kernel_cache() -> Path:
    """The directory of compiled kernels, for this process alone where no other can be kept."""
    return kept_directory("kernels", _mark()) or Path(tempfile.mkdtemp(prefix="rmqstore-kernels-"))


def _mark() -> str:
    """Changes whenever a source that kernels are made from does."""
    state = hashlib.sha256()
    for directory in (Path(__file__).parent, Path(str(formats.__file__)).parent):
        for source in sorted(directory.glob("*.py")):
            status = source.stat()
            state.update(f"{source.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()[:16]
