"""Command-line entry point for `python -m rmqstore`."""

from __future__ import annotations

import os
import sys


def _leave_out_current_directory() -> None:
    """Remove the current directory, which `python -m` puts first, from the module path: it may be a store with untrusted files."""
    try:
        here = os.getcwd()  # noqa: PTH109  -- before anything is imported from an unsafe path
    except OSError:
        here = ""
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", here):
        del sys.path[0]


if __name__ == "__main__":
    _leave_out_current_directory()
    from rmqstore.cli import main

    sys.exit(main())
