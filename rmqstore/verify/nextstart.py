"""What the next start of a broker does about missing units: those that it brings back are a note, those that it does not are errors.

The start is simulated by whoever asks for the verification and comes in as a value, once, and only where units are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rmqstore.findings import Finding, Severity
from rmqstore.store.root import Store
from rmqstore.verify.units import QueueKey

_MISSING_UNITS = frozenset({"RMQ-CQ-BEHIND", "RMQ-CQ-MISSING"})


@dataclass(frozen=True, slots=True)
class NextStart:
    """The queues after the next start of a broker of `release`: (first, end) queue offsets of those whose units are in their places."""

    release: str
    queues: Mapping[QueueKey, tuple[int, int]]

    def brings_back(self, key: QueueKey, first: int, count: int) -> bool:
        """Whether the units of `count` messages from queue offset `first` on are there afterwards."""
        begin, end = self.queues.get(key, (0, 0))
        return begin <= first and first + count <= end


Foresight = Callable[[Store], NextStart | None]
"""Simulates the next start; None where the outcome is not to be known, or where no broker starts."""


def weighed(store: Store, findings: Sequence[Finding], foresight: Foresight) -> Iterator[Finding]:
    """Yield the findings; the severity of missing units is what the next start makes of them."""
    start = foresight(store) if any(finding.code in _MISSING_UNITS for finding in findings) else None
    for finding in findings:
        yield finding if start is None or finding.code not in _MISSING_UNITS else _weighed(finding, start)


def _weighed(finding: Finding, start: NextStart) -> Finding:
    first, expected = finding.queue_offset or 0, int(finding.expected or 0)
    count = expected - first if finding.code == "RMQ-CQ-BEHIND" else expected
    if finding.topic is not None and start.brings_back((finding.topic, finding.queue_id or 0), first, count):
        return replace(
            finding, severity=Severity.INFO, message=f"{finding.message}; the next start ({start.release}) writes what is missing"
        )
    message = f"{finding.message}; the next start ({start.release}) does not write all of what is missing"
    return replace(finding, severity=Severity.ERROR, message=message)
