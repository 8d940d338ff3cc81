"""The counts of pending messages in timermetrics against the entries of the timer log (fact sheet timer §1.5).

A broker adds one when it puts an entry into the wheel and takes one away when it delivers it or reads a deletion, and writes the counts
about once a second. Starts after a crash add again what they replay, and nothing is delivered by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np

from rmqstore.findings import Finding
from rmqstore.formats.javahash import java_hash
from rmqstore.formats.timer import GIVEN_UP, UnitMagic
from rmqstore.verify.context import Context
from rmqstore.verify.guard import Unmade, limited_unmade
from rmqstore.verify.parts import config
from rmqstore.verify.timer.log import Units

METRICS = "timermetrics"


class Pending:
    """The number of messages that entries of the timer log still have to deliver, by the hash of the topic."""

    def __init__(self) -> None:
        self._of: Counter[int] = Counter()

    def take(self, live: Units) -> None:
        """Count the units that are not delivered yet; a deletion takes its message away."""
        kept = live[live["size_py"] != GIVEN_UP]
        signs = np.where(kept["magic"] & UnitMagic.DELETE, -1, 1)
        hashes, which = np.unique(kept["topic_hash"], return_inverse=True)
        for topic_hash, number in zip(hashes.tolist(), np.bincount(which, signs).tolist(), strict=True):
            self._of[topic_hash] += int(number)

    def findings(self, context: Context) -> Iterator[Finding]:
        """Yield a finding per topic that timermetrics counts otherwise. Reads the file in use. Raises UnreadableError."""
        text = config.in_use(*config.read_both(context.store.config_path / METRICS))
        yield from limited_unmade(context, text.path, self._findings(context, text))

    def _findings(self, context: Context, text: config.Text) -> Iterator[Unmade]:
        for topic, value in config.table_of(text).items():
            count, held = value.get("count") if isinstance(value, dict) else None, self._of[java_hash(topic)]
            if type(count) is int and count != held:
                message = f"{METRICS} counts {count} pending messages of {topic}, the timer log has entries of {held}"
                place = {"file": text.path, "topic": topic, "expected": held, "found": count}
                yield "RMQ-TM-METRICS", partial(context.finding, "RMQ-TM-METRICS", message, **place)
