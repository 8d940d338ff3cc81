"""The command line, with a fault at a chosen call of the write layer.

python -m tests.kills.child kill 123 apply a.plan --yes          killed by SIGKILL at call 123
python -m tests.kills.child full 123 undo STORE --yes            the disk is full from call 123 on
python -m tests.kills.child error 123 apply a.plan --yes         call 123 fails with EIO
python -m tests.kills.child count 0 apply a.plan --yes           prints the number of calls on standard error
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from rmqstore.cli import main
from rmqstore.repair.files import writer
from rmqstore.repair.files.writer import Hook, Primitive
from tests.repair.faults import IO_ERROR, NO_SPACE, Counting, FailAt, KillAt, Killed


class SigKillAt(KillAt):
    """Ends this process as `kill -9` does."""

    def before(self, primitive: Primitive, path: Path, size: int) -> int:
        try:
            return super().before(primitive, path, size)
        except Killed:
            os.kill(os.getpid(), signal.SIGKILL)
            raise


def hook_of(fault: str, number: int) -> Hook:
    """The hook that makes a fault happen at a call, counted from 0."""
    match fault:
        case "kill":
            return SigKillAt(number)
        case "full":
            return FailAt(number, NO_SPACE, for_ever=True)
        case "error":
            return FailAt(number, IO_ERROR)
        case "count":
            return Counting()
    raise ValueError(f"unknown fault {fault}")


if __name__ == "__main__":
    hook = hook_of(sys.argv[1], int(sys.argv[2]))
    writer.Hook = lambda: hook  # type: ignore[misc, assignment]
    status = main(sys.argv[3:])
    if isinstance(hook, Counting):
        print(f"calls: {hook.calls}", file=sys.stderr)
    sys.exit(status)
