"""Says once that compiled code is being made ready: the first scan on a machine takes some seconds longer."""

from __future__ import annotations

import sys
from pathlib import Path


def note_first_use(*, quiet: bool) -> None:
    """A line on standard error when the compiled kernels are not in the user's cache yet."""
    if quiet or _cached():
        return
    sys.stderr.write("Compiling for this machine, once; this takes a few seconds ...\n")


def _cached() -> bool:
    from rmqstore.scan.kernels_record import walk

    directory = Path(str(walk.stats.cache_path))
    return directory.is_dir() and any(directory.glob("kernels_record.walk-*.nbi"))
