"""The messages of a sample store, as lines of its ground truth, with the queues that they are in.

A sample that the store code wrote by itself has a ground truth of every record. That of a whole broker names what clients sent, and the
broker wrote more: retries, timers, transactions. There the undamaged log is the truth; `../golden` compares it with what clients were told.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqstore.formats.record import Record, SysFlag
from tests.broker.consumed_messages import Line, QueueKey
from tests.support.stores import PUT_FIELDS, Case
from tests.support.stores import case as sample_case
from tests.support.storeview import StoreView

_NOT_QUEUED = (SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK)
_CRC_BITS = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the sample: its record and where consumers find it."""

    line: Line
    places: tuple[tuple[QueueKey, int], ...]

    @property
    def start(self) -> int:
        return int(self.line["physicalOffset"])

    @property
    def end(self) -> int:
        return int(self.start + self.line["size"])

    @property
    def keys(self) -> list[tuple[str, str]]:
        """What it is found by in the index: topic and key."""
        if self.line["sysFlag"] & SysFlag.TRANSACTION_ROLLBACK == SysFlag.TRANSACTION_ROLLBACK:
            return []
        keys = [self.line["uniqKey"], *(self.line["keys"] or "").split(" ")]
        return [(self.line["topic"], key) for key in keys if key]

    def __str__(self) -> str:
        return f"{self.line['topic']}/{self.line['queueId']}@{self.line['queueOffset']} at {self.start}"


def sent(case: Case, root: Path) -> Sequence[Message]:
    """Every message of a sample store that lies, undamaged, at `root`."""
    return _sent(case.name, root)


@functools.cache
def _sent(name: str, root: Path) -> tuple[Message, ...]:
    case = sample_case(name)
    if case.is_broker:
        view = StoreView(root, case.settings(root))
        return tuple(_messages(_line(log_record.record) for log_record in view.records))
    return tuple(_messages(case.truth()))


def _messages(lines: Iterable[Line]) -> Iterator[Message]:
    for line in lines:
        if line["sysFlag"] & SysFlag.TRANSACTION_ROLLBACK in _NOT_QUEUED:
            yield Message(line, ())
            continue
        properties = line["properties"]
        names, offsets = properties.get("INNER_MULTI_DISPATCH", ""), properties.get("INNER_MULTI_QUEUE_OFFSET")
        of_lmq = [((name, 0), int(offset)) for name, offset in zip(names.split(","), offsets.split(","), strict=True)] if offsets else []
        yield Message(line, (((line["topic"], line["queueId"]), line["queueOffset"]), *of_lmq))


def _line(record: Record) -> Line:
    """A record in the words of the ground truth."""
    fields = {name: getattr(record, field) for name, field in PUT_FIELDS.items()}
    return {**fields, "bodyCrc": zlib.crc32(record.body) & _CRC_BITS}
