"""Standard output through a pager, if the user names one: otherwise nothing waits for a key in the middle of an incident."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rmqstore.children import environment
from rmqstore.errors import UsageError
from rmqstore.render.widths import width_of

VARIABLE: Final = "RMQSTORE_PAGER"


class _Paged(io.TextIOWrapper):
    """The pipe to a pager, which shows colours and the width of the terminal."""

    def isatty(self) -> bool:
        """Return True: what is written is shown on a terminal."""
        return True


@contextmanager
def paged() -> Iterator[None]:
    """Write standard output to the program in RMQSTORE_PAGER, if it is a terminal. Raises UsageError for a program that does not start."""
    words = shlex.split(os.environ.get(VARIABLE, ""))
    terminal = sys.stdout
    if not words or not terminal.isatty():
        yield
        return
    try:
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment(LESS=os.environ.get("LESS", "FRX")))
    except OSError as error:
        message = f"{VARIABLE}={words[0]} does not start: {error.strerror}."
        raise UsageError(message, f"Name a pager such as less, or unset {VARIABLE}.") from error
    width = width_of(terminal)
    if width is not None:
        os.environ["COLUMNS"] = str(width)
    assert pager.stdin is not None
    sys.stdout = _Paged(pager.stdin, encoding=terminal.encoding, errors=terminal.errors)
    try:
        yield
    finally:
        with suppress(BrokenPipeError):  # the user has left the pager
            sys.stdout.close()
        sys.stdout = terminal
        pager.wait()
