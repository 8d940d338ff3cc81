"""The lock file: four bytes that never change, and a POSIX record lock on the first of them while a broker runs.

Source: fact sheet commitlog §4.4 (all releases).
"""

from __future__ import annotations

from construct import Const, Struct

LOCK = Struct(
    "mark" / Const(b"lock") * "the word `lock`",
)

# The range that a running broker holds an exclusive lock on (fcntl, not flock).
LOCKED_OFFSET = 0
LOCKED_LENGTH = 1
