"""Other processes that use a store: one that holds the lock as a broker does, one that has a file open, one that maps a file.

python -m tests.repair.holders KIND STORE, until its standard input is closed
"""

from __future__ import annotations

import fcntl
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import PATIENCE

KINDS = ("lock", "open", "mapped")


@contextmanager
def holder(kind: str, store: Path) -> Iterator[int]:
    """Runs such a process; its number."""
    words = [sys.executable, "-m", "tests.repair.holders", kind, str(store)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()
        assert process.wait(timeout=PATIENCE) == 0


def main(kind: str, store: Path) -> None:
    log = min((store / "commitlog").iterdir())
    if kind == "lock":
        descriptor = os.open(store / "lock", os.O_RDWR)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    elif kind == "open":
        os.open(log, os.O_RDONLY)
    else:
        descriptor = os.open(log, os.O_RDWR)
        mapping = mmap.mmap(descriptor, 4096)
        os.close(descriptor)
        assert mapping
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
