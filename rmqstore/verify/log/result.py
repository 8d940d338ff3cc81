"""The result of the pass over a commit-log file, or over a piece of one: a value that can be pickled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rmqstore.findings import Finding
from rmqstore.reading.ledger import EntrySpan
from rmqstore.scan.walk import FileEnd
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.index.match import IndexMatch
from rmqstore.verify.log.live import Tail
from rmqstore.verify.log.record_findings import Edge
from rmqstore.verify.log.runs import Run
from rmqstore.verify.queues.multidispatch import Deviation, Renumbered
from rmqstore.verify.queues.spans import QueueKey, Spans


@dataclass(slots=True)
class Tally:
    """Records of a file that share something worth one finding: physical offset of the first, and how many."""

    position: int = -1
    count: int = 0

    def add(self, positions: npt.NDArray[np.int64]) -> None:
        """Add more of them, in log order."""
        if not self.count and positions.size:
            self.position = int(positions[0])
        self.count += positions.size

    def __add__(self, later: Tally) -> Tally:
        """Return these records and those of what follows in the log."""
        return Tally(self.position if self.count else later.position, self.count + later.count)


@dataclass
class FileResult:
    """The result of the pass over one file, or over a piece of one. Everything is in offset order."""

    file: MappedFile
    begin: int = 0  # physical offset of the first record that was read
    reached: int = 0  # where the last one ends, or the file
    records: int = 0
    first_position: int = -1
    end_offset: int = 0  # after the last live record
    first_timestamp: int = 0
    last_timestamp: int = 0
    last_filler: int = -1  # physical offset of the last record that a repair wrote in place of a lost one, -1 without any
    late: Tally = field(default_factory=Tally)  # stored after the last write to the store, up to the end of the file
    malformed: Tally = field(default_factory=Tally)  # topic, tags or keys are not UTF-8
    end: FileEnd | None = None
    tail: Tail | None = None
    findings: list[Finding] = field(default_factory=list)
    damages: list[tuple[int, int]] = field(default_factory=list)
    moved: list[Run] = field(default_factory=list)  # records that belong at another place
    leftover: list[Run] = field(default_factory=list)  # the same in the tail, where they may be left from an earlier state of the log
    spans: Spans = field(default_factory=Spans)
    spans_from: int = -1  # physical offset from which on the spans count, if they are of the files before as well, which have none then
    entries: EntrySpan | None = None  # of DLedger
    index: IndexMatch = field(default_factory=IndexMatch)
    batch_matched: Counter[QueueKey] = field(default_factory=Counter)
    renumbered: dict[Deviation, dict[QueueKey, Renumbered]] = field(default_factory=dict)
    commits: list[tuple[int, int]] = field(default_factory=list)  # (position, half message's physical offset)
    unreadable: dict[str, str] = field(default_factory=dict)
    first_records: list[Edge] = field(default_factory=list)  # two at most, as are the last ones
    last_records: list[Edge] = field(default_factory=list)
    hosts: Counter[int] = field(default_factory=Counter)  # records of each store host
    odd_hosts: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # (position, size, host) of records that differ from both neighbours
