"""Runs as a program in a mount namespace of its own: every inspecting command on a store that is mounted read-only.

Prints one JSON list: [command line, exit status, standard error, SHA-256 of standard output] of every run; exits with 77 where mounting
is not permitted.
"""

from __future__ import annotations

import errno
import hashlib
import json
import subprocess
import sys
from pathlib import Path

from tests.support.cli import rmqstore

NOT_PERMITTED = 77


def mount_read_only(root: Path) -> None:
    for words in (["mount", "--bind", root, root], ["mount", "-o", "remount,ro,bind", root]):
        if subprocess.run(words, capture_output=True, check=False).returncode:
            sys.exit(NOT_PERMITTED)
    try:
        (root / "probe").touch()
    except OSError as error:
        if error.errno == errno.EROFS:
            return
    sys.exit("the store can still be written")


def main() -> None:
    mount_read_only(Path(sys.argv[1]))
    runs = []
    for command in json.loads(sys.argv[2]):
        run = rmqstore(*command)
        runs.append([command, run.status, run.err, hashlib.sha256(run.out.encode()).hexdigest()])
    print(json.dumps(runs))


if __name__ == "__main__":
    main()
