"""`python -m rmqstore` is the command line."""

from __future__ import annotations

import os
import sys


def _leave_out_current_directory() -> None:
    """Take the current directory, which `python -m` puts first, off the module path: it may be that of a store with foreign files."""
    try:
        here = os.getcwd()  # noqa: PTH109  -- before anything is imported from a path that is not safe
    except OSError:
        here = ""
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", here):
        del sys.path[0]


if __name__ == "__main__":
    _leave_out_current_directory()
    from rmqstore.cli import main

    sys.exit(main())
