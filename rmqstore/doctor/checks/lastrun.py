"""The last run of the broker on a store: whether it ended cleanly, and whether all files of its first seconds were written."""

from __future__ import annotations

import time

from rmqstore.verify.context import Context, modified_ms

_YOUNG_MS = 30_000
"""A broker that ran longer has written all files of its first ten seconds, also on a slow machine."""
_WRITTEN_BY_A_RUN = ("lock", "checkpoint", "config/timercheck")


class LastRun:
    """The evidence of a store. `broker_runs`: a broker runs on it."""

    def __init__(self, context: Context, *, broker_runs: bool) -> None:
        self._context = context
        self.broker_runs = broker_runs

    def stopped_cleanly(self, *, used: bool) -> bool:
        """Return whether the last run ended cleanly. A store that was not `used` yet may be one that a broker begins to use."""
        rested = used or self._context.log.end_offset > 0 or _now_ms() - self.last_written > _YOUNG_MS
        return not self._context.crashed and not self.broker_runs and rested

    @property
    def took_long(self) -> bool:
        """Whether messages or files show a run, or several, that took longer than any broker needs to write its first files.

        Times of messages and of files are not compared with each other: those of a copy are its own.
        """
        log = self._context.log
        until = _now_ms() if self.broker_runs else self.last_written
        began = modified_ms(self._context.store.abort_path) or until
        return log.min_offset > 0 or max(log.last_timestamp - log.first_timestamp, until - began) > _YOUNG_MS

    @property
    def left_files(self) -> bool:
        """Whether files are here that every run writes."""
        return self.last_written > 0

    @property
    def last_written(self) -> int:
        """When a run wrote the newest of these files (ms since epoch); 0 without them."""
        return max(modified_ms(self._context.store.root / name) for name in _WRITTEN_BY_A_RUN)


def _now_ms() -> int:
    return int(time.time() * 1000)
