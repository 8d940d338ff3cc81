"""The plan for a timercheck without a time: a broker delivers again what was due in the last seven days, or nothing for years."""

from __future__ import annotations

import time
from typing import Any

from rmqstore.formats import timer
from rmqstore.formats.naming import TIMER_TOPIC
from rmqstore.repair.derived.timer.rebuilt import Topic, messages_of
from rmqstore.repair.log.future import FutureLog
from rmqstore.store.root import Store
from rmqstore.verify.timer.files import TimerFiles

_SHOWN = "and the log shows which timed messages were delivered"
MISSING, WITHOUT_TIME = f"it is missing, {_SHOWN}", f"it has no read time, {_SHOWN}"
_DAY = 86_400_000
"""Milliseconds that the clocks of two machines may differ by."""


def has_no_time(check: Any) -> bool:
    """Return whether a timercheck cannot be used: it is missing, or its read time is not set, or is in the future."""
    return check is None or not 0 < check.last_read_time_ms < time.time() * 1000 + _DAY


def found_check(store: Store, log: FutureLog, files: TimerFiles) -> Any | None:
    """Return the fields of a timercheck by what the log has delivered; None where the log does not show up to which time.

    The units of the timer log were read before. Raises UnreadableError, StoreChangedError.
    """
    topic = messages_of(store, log)
    read_time = _read_time(topic, files.precision)
    if read_time is None:
        return None
    goes_on = max(_entered(log, files), *(one.queue_offset + 1 for one in topic.messages if one.done), 0)
    data = timer.CHECK.build(
        {
            "last_read_time_ms": read_time,
            "last_timer_log_flush_pos": files.log.end(files.flushed),
            "last_timer_queue_offset": goes_on,
            "master_timer_queue_offset": goes_on,
            "data_version_state_version": 0,
            "data_version_timestamp": 0,
            "data_version_counter": 0,
        }
    )
    return timer.parse_check(data)


def _entered(log: FutureLog, files: TimerFiles) -> int:
    """Return the queue offset after the message of the last unit of the timer log that names one, 0 without any."""
    last = -1
    for window in files.log.windows():
        named = window.sound & (window.units["size_py"] != timer.GIVEN_UP)
        if named.any():
            last = int(window.units["offset_py"][named][-1])
    record = log.record_at(last) if last >= 0 else None
    return 0 if record is None or record.topic != TIMER_TOPIC else record.queue_offset + 1


def _read_time(topic: Topic, precision: int) -> int | None:
    """Return the time (ms) of the first slot that was not delivered; None without messages, or if some were passed over."""
    done = max((one.due for one in topic.messages if one.done), default=None)
    waits = min((one.due for one in topic.pending), default=None)
    if done is None:
        return None if waits is None else waits // precision * precision
    return (done // precision + 1) * precision if waits is None or done < waits else None
