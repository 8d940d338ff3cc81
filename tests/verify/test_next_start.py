"""Missing units and index entries weigh what the next start makes of them, as recorded starts had it, after a crash as well."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rmqstore.doctor.foresight import foresee
from rmqstore.findings import Finding, Severity
from rmqstore.formats.index import HEADER, HEADER_SIZE, ITEM, ITEM_SIZE, item_position
from rmqstore.prediction.simulation import simulate
from rmqstore.store.root import Store
from rmqstore.verify.context import Options
from rmqstore.verify.engine import Verification
from tests.prediction.recorded_cases import WorkingStore, cases_of

_DAMAGES = ("cq-queue-removed", "cq-queue-of-last-removed", "cq-topic-removed", "cq-all-removed", "cq-all-behind-half", "cq-tail-zero-2")
_MISSING = ("RMQ-CQ-BEHIND", "RMQ-CQ-MISSING")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("release", ["4.9.8", "5.1.4", "5.3.3", "5.5.1"])
def test_as_recorded(release: str, tmp_path: Path) -> None:
    seen: set[tuple[str, Severity]] = set()
    for case in cases_of(release):
        if case["damage"] not in _DAMAGES or not case.get("startOk"):
            continue
        working = WorkingStore(case["base"], tmp_path / f"{case['damage']}-{case['abort']}-{len(seen)}")
        working.damage(case)
        store = Store.open(working.root, settings=working.settings(case))
        options = Options(parts=frozenset({"consumequeue"}), threads=1)

        found = [one for one in Verification(store, options, None, partial(foresee, release=release)).run() if one.code in _MISSING]

        queues = case["S2"].get("queues", case["S1"]["queues"])
        after = simulate(store, release, counts_lost=False).after_start
        assert after is not None
        assert after.queues is not None
        for finding in found:
            name = f"{finding.topic}/{finding.queue_id}"
            if name in after.queues and after.queues[name].shifted:
                assert finding.severity is Severity.ERROR  # units come back, but not to their places: ends do not tell
                continue
            brought_back = _brought_back(finding, queues.get(name))
            assert finding.severity is (Severity.INFO if brought_back else Severity.ERROR), (case["damage"], case["abort"], finding)
            seen.add((case["abort"], finding.severity))
    assert seen >= {("yes", Severity.INFO), ("yes", Severity.ERROR), ("no", Severity.ERROR)}


def _brought_back(finding: Finding, queue: list[Any] | None) -> bool:
    first = finding.queue_offset or 0
    end = finding.expected if finding.code == "RMQ-CQ-BEHIND" else first + finding.expected
    return queue is not None and queue[0] <= first and queue[1] >= end


_INDEX_DAMAGES = (
    *("index-all-removed", "index-count-full", "index-count-zero", "index-empty", "index-end-ahead", "index-end-zero"),
    *(
        "index-first-removed",
        "index-header-garbage",
        "index-items-garbage",
        "index-long",
        "index-loop",
        "index-short",
        "index-slots-garbage",
    ),
    *("checkpoint-index-zero", "checkpoint-index-ahead", "checkpoint-missing", "none"),
)
_MISSING_ENTRIES = ("RMQ-IX-BEHIND", "RMQ-IX-MISSING", "RMQ-IX-INCOMPLETE")
_OF_FILES = ("RMQ-IX-HEADER", "RMQ-IX-COUNT", "RMQ-IX-SLOT", "RMQ-IX-CHAIN", "RMQ-IX-ITEM", "RMQ-IX-BEYOND")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("release", ["4.9.8", "5.1.4", "5.3.3", "5.5.1"])
def test_index_as_recorded(release: str, tmp_path: Path) -> None:
    seen: set[tuple[str, Severity]] = set()
    for number, case in enumerate(cases_of(release)):
        if case["damage"] not in _INDEX_DAMAGES or not case.get("startOk"):
            continue
        working = WorkingStore(case["base"], tmp_path / str(number))
        working.damage(case)
        before = _Before.of(working.root, int(working.settings(case)["maxHashSlotNum"]))
        store = Store.open(working.root, settings=working.settings(case))
        options = Options(parts=frozenset({"index", "checkpoint"}), threads=1)

        found = list(Verification(store, options, None, partial(foresee, release=release)).run())

        after = _After(before, case["S2"].get("index", case["S1"]["index"]))
        for finding in found:
            where = (case["base"], case["damage"], case["abort"], finding)
            name = Path(finding.file or "").name
            if finding.code in _MISSING_ENTRIES:
                assert finding.offset is not None
                lost = Severity.WARNING if finding.code == "RMQ-IX-INCOMPLETE" else Severity.ERROR
                assert finding.severity is (Severity.INFO if after.has(finding.offset) else lost), where
            elif finding.code in _OF_FILES and name not in after.deleted:
                assert finding.severity is Severity.ERROR, where
            elif finding.code in _OF_FILES and after.has_all_of(name):
                assert finding.severity is Severity.INFO, where
            elif finding.code == "RMQ-CP-INDEX":
                assert finding.severity is (Severity.INFO if all(map(after.has_all_of, after.deleted)) else Severity.WARNING), where
            else:
                continue
            seen.add((finding.code, finding.severity))
        shutil.rmtree(working.root)
    assert {("RMQ-CP-INDEX", Severity.WARNING), ("RMQ-IX-INCOMPLETE", Severity.WARNING)} <= seen
    assert {("RMQ-IX-SLOT", Severity.ERROR), ("RMQ-IX-BEHIND", Severity.ERROR)} <= seen


@dataclass(frozen=True)
class _Before:
    """Index files before the start, as their bytes have them: the physical offset of the first item, None without items."""

    first: dict[str, int | None]
    end: dict[str, int]

    @classmethod
    def of(cls, root: Path, slots: int) -> _Before:
        first: dict[str, int | None] = {}
        end: dict[str, int] = {}
        for path in sorted((root / "index").glob("*")):
            data = path.read_bytes()
            item = data[item_position(1, slots) :][:ITEM_SIZE]
            first[path.name] = ITEM.parse(item).phy_offset if any(item) else None
            end[path.name] = HEADER.parse(data[:HEADER_SIZE].ljust(HEADER_SIZE, b"\0")).end_phy_offset
        return cls(first, end)


class _After:
    """What a broker left of the index, from the recorded headers."""

    def __init__(self, before: _Before, rows: list[list[Any]]) -> None:
        self._before = before
        self.deleted = set(before.end) - {row[0] for row in rows}
        self._written = []
        for name, _, _, begin, end, _, count in rows:
            if count > 1 and (name not in before.end or end > before.end[name]):
                self._written.append((begin if before.first.get(name) is None else before.end[name] + 1, end))

    def has(self, offset: int) -> bool:
        """Whether the start wrote the entries of the message at `offset`."""
        return any(begin <= offset <= end for begin, end in self._written)

    def has_all_of(self, name: str) -> bool:
        """Whether the start wrote all entries of a file that it deleted."""
        first = self._before.first[name]
        return first is None or self.has(first)
