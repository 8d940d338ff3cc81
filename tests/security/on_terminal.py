"""Commands on a real terminal, and what it would be steered by."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

STEERING = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Everything but the line end."""
HOSTILE = "a\x1b[2Jb\rc\bd\x7fe\x9b2Jf\u202eg\u2066h\u200ei\u061cj\u2028k\u2029l"
"""Text with a character of every kind, which can be the name of a topic or a file."""


def shown(*words: str | Path, **environment: str) -> tuple[str, int]:
    """What a command writes when standard output and standard error are a terminal, as text with plain line ends; its exit status."""
    ours, its = pty.openpty()
    os.set_blocking(ours, True)
    with subprocess.Popen(
        [sys.executable, "-m", "rmqstore", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        env=os.environ | {"COLUMNS": "500", "NO_COLOR": "1", "PYTHONUTF8": "1"} | environment,
    ) as process:
        os.close(its)
        written = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            written += piece
    os.close(ours)
    return written.decode("utf-8", "surrogateescape").replace("\r\n", "\n"), process.returncode
