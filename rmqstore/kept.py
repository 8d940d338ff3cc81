"""Directories of this user for what was made once and is of use to later commands."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


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
