"""Runs as a program: verifies the store named by the argument, whose first log file shrinks while both are read.

Prints the files that verify calls changed. Both passes are in the middle of their file when it shrinks, and the one of the sound file ends
only when pages of the other one were lost.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rmqstore.scan import sigbus
from rmqstore.store.root import Store
from rmqstore.verify import look
from rmqstore.verify.engine import Verification
from rmqstore.verify.log.commitlog import FileVerifier
from rmqstore.verify.log.result import FileResult

_mine = threading.local()
_both_read = threading.Barrier(2)
_run = FileVerifier.run


def run(self: FileVerifier) -> FileResult:
    _mine.file, _mine.batches = self.result.file, 0
    return _run(self)


def advance(count: int) -> None:
    _mine.batches += 1
    if _mine.batches == 1 and not sigbus.faults():
        _both_read.wait(60)
        if _mine.file.start == 0:
            os.truncate(_mine.file.path, _mine.file.length * 3 // 4 // 4096 * 4096)
        else:
            deadline = time.monotonic() + 60
            while not sigbus.faults() and time.monotonic() < deadline:
                time.sleep(0.01)


def main() -> None:
    patched: Any = FileVerifier
    patched.run = run
    vars(look)["workers"] = lambda files, threads: 2  # both files are read at the same time, although they are small
    findings = list(Verification(Store.open(Path(sys.argv[1]))).run(advance))
    print(bool(sigbus.faults()), [finding.file for finding in findings if finding.code == "RMQ-ST-UNREADABLE"])


if __name__ == "__main__":
    main()
