"""Runs as a program: scans the file named by the argument, which loses its second half behind the first batch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rmqstore.errors import StoreChangedError
from rmqstore.scan import sigbus
from rmqstore.scan.columns import Check
from rmqstore.scan.walk import Batch, LogScanner
from rmqstore.store.mapped import MappedFile


def main() -> None:
    path = Path(sys.argv[1])
    length = path.stat().st_size
    scanner = LogScanner(checks=Check.BODY_CRC)
    shrunk = False
    try:
        for event in scanner.scan(MappedFile(path, 0, length, length)):
            if isinstance(event, Batch) and not shrunk:
                os.truncate(path, int(sys.argv[2]))
                shrunk = True
    except StoreChangedError:
        print("changed", "fault" if sigbus.faults() else "no fault")


if __name__ == "__main__":
    main()
