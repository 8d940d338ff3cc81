"""The abort file: exists while a broker runs and after a crash; its presence makes the next start a crash recovery.

Source: fact sheet commitlog §4.4. Empty up to 4.9.x, the process id as text since 5.0.0, which also leaves an `abort.bak` without meaning.
"""

from __future__ import annotations

from construct import GreedyBytes, Struct

from rmqstore.formats.javahash import LONG_MAX

ABORT = Struct(
    "content" / GreedyBytes * "empty up to 4.9.x; process id of the broker in decimal digits since 5.0.0",
)


def process_id(content: bytes) -> int | None:
    """Return the process id that an abort file names; None if it names none."""
    text = content.decode("ascii", "replace")
    return int(text) if text.isascii() and text.isdigit() and int(text) <= LONG_MAX else None
