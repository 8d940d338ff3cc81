"""Consume queues: the merged results of the passes over the log files for each queue, and the units that no record claimed."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqstore.errors import RmqstoreError
from rmqstore.findings import Finding
from rmqstore.formats.consumequeue import UNIT_SIZE
from rmqstore.formats.naming import LITE_PREFIX, LMQ_PREFIX
from rmqstore.scan.kernels.queue import RUN_DTYPE, Claim, Order
from rmqstore.scan.unitruns import UNIT_ROWS, UnitKind, UnitRun, unit_runs
from rmqstore.store.mapped import MappedFile, MappedFileQueue
from rmqstore.store.root import QueueDirectory
from rmqstore.store.window import descriptor_extents, open_read_only, read_at, read_descriptor
from rmqstore.verify.context import Context
from rmqstore.verify.guard import limited
from rmqstore.verify.log.result import FileResult
from rmqstore.verify.parts import config
from rmqstore.verify.queues.courses import contradicted, courses_of, jump_finding, queue_offset_finding
from rmqstore.verify.queues.exchanged import CODE as EXCHANGED
from rmqstore.verify.queues.exchanged import Held, exchanged_files, other_sides, summed_up
from rmqstore.verify.queues.multidispatch import Deviation, Renumbered
from rmqstore.verify.queues.spans import QueueKey, joined
from rmqstore.verify.queues.targets import TargetKind, Targets, UnitTarget
from rmqstore.verify.queues.unplaced import Unplaced, unplaced, unplaced_finding

_CHUNK_UNITS = 51_200
_MOST_REPEATED = 1_000_000

# First findings of a file with units of another queue.
_FOREIGN = frozenset({"RMQ-CQ-UNIT", "RMQ-CQ-SURPLUS", "RMQ-CQ-ORDER", "RMQ-CQ-SHIFTED"})

Interval = tuple[int, int]


@dataclass(slots=True)
class QueueHistory:
    """One queue along the whole log."""

    runs: npt.NDArray[np.void]
    records: int
    restarts: frozenset[int] = frozenset()  # physical offsets of records that begin again at QUEUEOFFSET 0
    unplaced: frozenset[int] = frozenset()  # physical offsets of records that the queue has no place for


@dataclass(frozen=True, slots=True)
class Event:
    """A record whose QUEUEOFFSET does not continue that of the record of its queue before, which is at `after`."""

    key: QueueKey
    order: Order
    expected: int
    found: int
    position: int
    after: int


def merge(context: Context, results: Sequence[FileResult]) -> tuple[dict[QueueKey, QueueHistory], list[Finding]]:
    """Return the histories of all queues, and findings about QUEUEOFFSETs that do not continue."""
    spans = joined(result.spans for result in results)
    histories = {key: QueueHistory(span.runs, span.records) for key, span in spans.by_queue().items()}
    keys = spans.queue_keys()
    odd: list[Event] = []
    for row in spans.events:
        numbers = (int(row[name]) for name in ("expected", "found", "position", "after"))
        odd.append(Event(keys[row["queue"]], Order(int(row["order"])), *numbers))
    courses = courses_of(spans.of_rows(np.unique(spans.events["queue"])))
    jumps = list(contradicted(context, courses))
    jumping = {segment.first for _, run in jumps for segment in run.segments} | {run.before for _, run in jumps}
    odd = [event for event in odd if event.position not in jumping]
    for key, positions in _by_queue(event for event in odd if event.order is Order.RESTART):
        histories[key].restarts = positions
    without_place = unplaced(odd)
    for key, positions in _by_queue(without_place):
        histories[key].unplaced = positions
    named = {position for one in without_place for position in (one.position, one.after)}
    findings = [_of_order(context, event) for event in odd if event.position not in named and not _explained(context, event)]
    findings += [unplaced_finding(context, one) for one in without_place]
    findings += [jump_finding(context, key, run) for key, run in jumps]
    return histories, sorted(findings, key=lambda finding: finding.offset or 0)


def _by_queue(found: Iterable[Event | Unplaced]) -> Iterator[tuple[QueueKey, frozenset[int]]]:
    """Yield each queue with the physical offsets of what was found in it."""
    positions: dict[QueueKey, set[int]] = defaultdict(set)
    for one in found:
        positions[one.key].add(one.position)
    yield from ((key, frozenset(mine)) for key, mine in positions.items())


def _explained(context: Context, event: Event) -> bool:
    """Return whether an event is a gap between two records around a damaged range, which is reported already."""
    damages = context.log.damages
    behind = bisect_left(damages, (event.after, 0))
    return event.order is Order.GAP and behind < len(damages) and damages[behind][0] < event.position


_ORDER_TEXT = {
    Order.GAP: ("RMQ-CL-QOFFSET-GAP", "QUEUEOFFSETs of the queue are missing in the log"),
    Order.REPEAT: ("RMQ-CL-QOFFSET-REPEAT", "a QUEUEOFFSET that the queue had already"),
    Order.RESTART: ("RMQ-CL-QOFFSET-RESTART", "the queue starts again at QUEUEOFFSET 0"),
}


def _of_order(context: Context, event: Event) -> Finding:
    code, text = _ORDER_TEXT[event.order]
    return queue_offset_finding(context, code, text, event.key, event.position, expected=event.expected, found=event.found)


class QueueJudge:
    """The judgement of queues, one at a time."""

    def __init__(self, context: Context, known_topics: frozenset[str] | None, multi_dispatch: bool | None) -> None:
        """`multi_dispatch`: whether the broker dispatches to %LMQ% queues, None if that cannot be determined."""
        self._context = context
        self._known_topics = known_topics
        self._multi_dispatch = multi_dispatch
        self._has_records = False
        self._targets = Targets(context)
        self.exchanged: dict[Path, Held] = {}  # files that hold units of another place
        self._equal: dict[Path, range] = {}  # the last run of equal units that was found

    def missing(self, key: QueueKey, history: QueueHistory) -> Iterator[Finding]:
        """Yield the finding about a queue of the log without directory."""
        code, remark = self.missing_code(key[0])
        if code is None or key[1] < 0:  # no broker creates queues with a negative id: the record has a damaged field, which is named
            return
        rows = history.runs
        first = rows[0]
        records = history.records or int((rows["end"] - rows["start"]).sum())
        yield self._context.finding(
            code,
            f"{records} records of this queue are in the log, the queue has no files{remark}",
            file=f"consumequeue/{key[0]}/{key[1]}",
            offset=int(first["position"]),
            topic=key[0],
            queue_id=key[1],
            queue_offset=int(first["start"]),
            expected=records,
            found=0,
        )

    def missing_code(self, topic: str) -> tuple[str | None, str]:
        """Return (code, remark) for a queue of `topic` without directory; no code where no broker would have created one."""
        if topic.startswith(LITE_PREFIX):
            return "RMQ-CQ-LMQ-MISSING", "; a lite queue that expired is deleted"
        if topic.startswith(LMQ_PREFIX):
            if self._multi_dispatch is None:
                return "RMQ-CQ-LMQ-MISSING", "; no other %LMQ% queue has files, so the broker may not dispatch to them"
            return ("RMQ-CQ-MISSING" if self._multi_dispatch else None), ""
        if self._known_topics is not None and topic not in self._known_topics:
            return "RMQ-CQ-DELETED", "; the topic is not configured either, so it was probably deleted"
        return "RMQ-CQ-MISSING", ""

    def judge(self, key: QueueKey, directory: QueueDirectory, history: QueueHistory | None) -> Iterator[Finding]:
        """Yield the findings about a queue with files: those that hold another queue, claims that failed, and unclaimed units."""
        findings = list(self._by_unit(key, directory, history))
        if any(finding.code in _FOREIGN for finding in findings):
            exchanged = exchanged_files(self._context, self._targets, key, directory)
            self.exchanged |= exchanged
            if exchanged and self._has_records:
                yield from summed_up(self._context, key, directory, exchanged, findings)
                return
        yield from findings

    def add_other_sides(self, queues: Mapping[QueueKey, QueueDirectory], found: dict[QueueKey, list[Finding]]) -> None:
        """Enter what the queues that were judged show of each other, and replace the findings that it explains in `found`.

        Raises UnreadableError.
        """
        for key, exchanged in other_sides(self._context, self._targets, queues, self.exchanged).items() if self.exchanged else ():
            self.exchanged |= exchanged
            place = next(held.owner for held in exchanged.values())
            for one in {key, place} & found.keys():
                files = {file.path: self.exchanged[file.path] for file in queues[one].files.files}
                others = [finding for finding in found[one] if finding.code != EXCHANGED]
                found[one] = list(summed_up(self._context, one, queues[one], files, others))

    def _by_unit(self, key: QueueKey, directory: QueueDirectory, history: QueueHistory | None) -> Iterator[Finding]:
        rows = history.runs if history is not None else np.zeros(0, RUN_DTYPE)
        claims = rows["claim"].tolist()
        intervals = [_interval(start, stop) for start, stop in zip(rows["start"].tolist(), rows["end"].tolist(), strict=True)]
        held = union([interval for interval, claim in zip(intervals, claims, strict=True) if claim <= Claim.SIZE])
        end = held[-1][1] if held else 0
        claimed: list[Interval] = list(held)
        restarted = _restarted(history, rows)
        for number, interval in enumerate(intervals):
            if claims[number] == Claim.MATCH:
                continue
            row, claim = rows[number], Claim(claims[number])
            if claim in (Claim.TAGS, Claim.SIZE):
                yield self._wrong_field(key, directory, row, claim)
                continue
            if int(row["position"]) < restarted or (history is not None and int(row["position"]) in history.unplaced):
                continue
            for start, stop in subtract([interval], held):
                yield from self._failed(key, directory, row, claim, start, stop, end)
            if claim is not Claim.ABSENT:
                claimed.append(interval)
        # A queue without a single record of its own has no damaged units, only surplus ones.
        self._has_records = bool(rows.size)
        yield from self._unclaimed(key, directory, union(claimed), end)

    # Claims that failed

    def _where(self, key: QueueKey, directory: QueueDirectory, start: int, stop: int) -> dict[str, object]:
        at = start * UNIT_SIZE
        file = directory.files.find(at) if at >= 0 else None
        return {
            "file": file.path if file else directory.directory,
            "position": at - file.start if file else None,
            "length": (stop - start) * UNIT_SIZE,
            "topic": key[0],
            "queue_id": key[1],
            "queue_offset": start,
        }

    def _wrong_field(self, key: QueueKey, directory: QueueDirectory, row: npt.NDArray[np.void], claim: Claim) -> Finding:
        name = "size" if claim is Claim.SIZE else "tags_code"
        code = "RMQ-CQ-SIZE" if claim is Claim.SIZE else "RMQ-CQ-TAGS"
        start, stop = int(row["start"]), int(row["end"])
        return self._context.finding(
            code,
            f"{name} of {_units(stop - start)} is not that of the record",
            offset=int(row["position"]),
            expected=int(row[name]),
            found=int(row["unit_size" if claim is Claim.SIZE else "unit_tags_code"]),
            **self._where(key, directory, start, stop),
        )

    def _failed(
        self, key: QueueKey, directory: QueueDirectory, row: npt.NDArray[np.void], claim: Claim, start: int, stop: int, end: int
    ) -> Iterator[Finding]:
        where = self._where(key, directory, start, stop)
        offset = int(row["position"])
        count = _units(stop - start)
        if claim is Claim.OTHER:
            others = (self._of_other(key, directory, row, run) for run in self._pointed(key, directory, start, stop))
            yield from limited(self._context, directory.directory, others)
        elif start >= end:
            yield self._context.finding(
                "RMQ-CQ-BEHIND", f"{count} missing at the end of the queue", offset=offset, expected=stop, found=end, **where
            )
        elif claim is Claim.ZERO:
            yield self._context.finding(
                "RMQ-CQ-HOLE", f"{count} inside the queue never written", offset=offset, expected=offset, found=0, **where
            )
        else:
            yield self._context.finding(
                "RMQ-CQ-GAP", f"{count} missing: no file of the queue holds them", offset=offset, expected=offset, **where
            )

    def _of_other(self, key: QueueKey, directory: QueueDirectory, row: npt.NDArray[np.void], run: UnitTarget) -> Finding:
        """Return the finding about units that do not point at the records that claim them; the first of those records is that of `row`."""
        where = self._where(key, directory, run.start, run.end)
        if run.start == int(row["start"]):
            where |= {"offset": int(row["position"]), "expected": int(row["position"])}
        where["found"] = run.offset
        count = _units(run.end - run.start)
        if run.target is TargetKind.PRE_BLANK:
            return self._context.finding("RMQ-CQ-PREBLANK", f"{count} pre-blank, in the place of records", **where)
        if run.target is TargetKind.OWN:
            text = f"{count}: the record there has a QUEUEOFFSET {run.shift:+d} from that of the entry"
            return self._context.finding("RMQ-CQ-SHIFTED", text, **where)
        return self._context.finding("RMQ-CQ-UNIT", f"{count}: not the position of the record with this QUEUEOFFSET", **where)

    # What units point at

    def _pointed(self, key: QueueKey, directory: QueueDirectory, start: int, stop: int) -> Iterator[UnitTarget]:
        """Yield runs of the units [start, stop) that point at the same."""
        last: UnitTarget | None = None
        for at, units in _units_between(directory.files, start, stop):
            for run in self._targets.of_units(key, units, at):
                if last is not None and last.goes_on(run):
                    last.end = run.end
                    continue
                if last is not None:
                    yield last
                last = run
        if last is not None:
            yield last

    # Unclaimed units

    def _unclaimed(self, key: QueueKey, directory: QueueDirectory, claimed: list[Interval], end: int) -> Iterator[Finding]:
        files = directory.files.files
        runs: list[UnitRun] = []
        for file in files:
            try:
                runs.extend(self._runs_of(file, claimed))
            except RmqstoreError as error:
                yield self._context.finding("RMQ-ST-UNREADABLE", error.message, file=file.path, topic=key[0], queue_id=key[1])
        filled = max([end, *(run.end for run in runs if run.kind is not UnitKind.ZERO)])
        stale = self._stale(runs, end) if end else len(runs)
        for run in runs[stale:]:
            if run.kind is not UnitKind.ZERO:
                yield self._of_stale(key, directory, run)
        runs = runs[:stale]
        last_used = max([end, *(run.end for run in runs if run.kind is not UnitKind.ZERO)])
        first_unit = files[0].start // UNIT_SIZE if files else 0
        prefix = first_unit
        pre_blanks = 0
        for run in runs:
            if run.kind in (UnitKind.PRE_BLANK, UnitKind.EXPIRED) and run.start == prefix:
                prefix = run.end
                pre_blanks += (run.end - run.start) if run.kind is UnitKind.PRE_BLANK else 0
            yield from self._unclaimed_run(key, directory, run, prefix, end, last_used)
        if files and pre_blanks and not claimed and pre_blanks == last_used - first_unit:
            yield self._context.finding(
                "RMQ-CQ-PREBLANK-ONLY", "all entries are pre-blank", **self._where(key, directory, first_unit, first_unit + pre_blanks)
            )
        yield from self._zero_file(key, directory, filled)

    def _stale(self, runs: list[UnitRun], end: int) -> int:
        """Return the number of the first run that zeros separate from the end of the queue, else len(runs); `end` = end of valid units."""
        lost = [number for number, run in enumerate(runs) if self._context.log.is_damaged(run.position)]
        reached = end
        for number, run in enumerate(runs):
            if run.end <= end or run.kind is UnitKind.ZERO:
                continue
            if run.start > reached and (not lost or lost[-1] < number):
                return number
            reached = run.end
        return len(runs)

    def _of_stale(self, key: QueueKey, directory: QueueDirectory, run: UnitRun) -> Finding:
        return self._context.finding(
            "RMQ-CQ-STALE",
            f"old entries after the end of the queue, separated from it by zeros: {run.end - run.start}",
            offset=run.position,
            **self._where(key, directory, run.start, run.end),
        )

    def _zero_file(self, key: QueueKey, directory: QueueDirectory, filled: int) -> Iterator[Finding]:
        files = directory.files.files
        if files and files[-1].start // UNIT_SIZE >= filled and files[-1].length:
            yield self._context.finding(
                "RMQ-CQ-ZEROFILE",
                "the last file of the queue holds no entry",
                file=files[-1].path,
                position=0,
                length=files[-1].length,
                topic=key[0],
                queue_id=key[1],
            )

    def _runs_of(self, file: MappedFile, claimed: list[Interval]) -> Iterator[UnitRun]:
        """Yield runs of unclaimed units that hold anything (holes of the file are skipped, zeros inside its data are runs)."""
        first = file.start // UNIT_SIZE
        whole = (first, first + file.length // UNIT_SIZE)
        log = self._context.log
        if not subtract([whole], claimed):
            return  # all its units were read, and belong to records
        with open_read_only(file.location) as descriptor:
            for begin, stop in descriptor_extents(descriptor, file.location, file.length):
                extent = (max(first + begin // UNIT_SIZE, whole[0]), min(first + -(-stop // UNIT_SIZE), whole[1]))
                for start, end in subtract([extent], claimed):
                    for at in range(start, end, _CHUNK_UNITS):
                        stopped = min(at + _CHUNK_UNITS, end)
                        units = read_descriptor(descriptor, file.location, (at - first) * UNIT_SIZE, (stopped - at) * UNIT_SIZE)
                        if units.strip(b"\0"):
                            yield from unit_runs(np.frombuffer(units, UNIT_ROWS), at, log.min_offset, log.end_offset)
                        else:
                            yield UnitRun(UnitKind.ZERO, at, stopped, 0)

    def _unclaimed_run(
        self, key: QueueKey, directory: QueueDirectory, run: UnitRun, prefix: int, end: int, last_used: int
    ) -> Iterator[Finding]:
        """Yield findings about a run; `prefix` and `end`: queue offsets where the units of expired messages end, and those of the log."""
        kind, start, stop, offset = run.kind, run.start, run.end, run.position
        where = self._where(key, directory, start, stop)
        count = _units(stop - start)
        if kind is UnitKind.ZERO:
            if start < last_used:
                yield self._context.finding("RMQ-CQ-HOLE", f"{count} inside the queue never written", **where)
        elif kind is UnitKind.PRE_BLANK:
            if stop > prefix:
                yield self._context.finding("RMQ-CQ-PREBLANK", f"{count} pre-blank after the beginning of the queue", **where)
        elif kind is UnitKind.EXPIRED:
            if stop <= prefix:
                yield self._context.finding("RMQ-CQ-EXPIRED", f"{count} pointing before the first commit log file", offset=offset, **where)
            else:
                yield self._context.finding(
                    "RMQ-CQ-ORDER",
                    f"{count} inside the queue pointing before the log",
                    offset=offset,
                    found=offset,
                    **where,
                )
        elif kind is UnitKind.BEYOND:
            if self._context.log.is_damaged(offset):
                yield self._context.finding("RMQ-CQ-LOST", f"{count} of records in a damaged range", offset=offset, **where)
            else:
                message = f"{count} of records that the log does not have: it ends at {self._context.log.end_offset}"
                yield self._context.finding("RMQ-CQ-BEYOND", message, offset=offset, found=offset, **where)
        elif kind is UnitKind.INVALID:
            yield self._context.finding("RMQ-CQ-UNIT", f"{count} without a possible offset and size", found=offset, **where)
        else:
            pointing = (self._of_pointing(key, directory, pointed, end) for pointed in self._pointed(key, directory, start, stop))
            yield from limited(self._context, directory.directory, pointing)

    def _of_pointing(self, key: QueueKey, directory: QueueDirectory, run: UnitTarget, end: int) -> Finding:
        """Return the finding about units into the log that no record with their QUEUEOFFSET claimed; `end` of the queue by its records.

        Before that end a message is certainly missing, after it only if the log has a damaged range, or a filler of a repair, after the
        neighbour's message.
        """
        log = self._context.log
        missing = run.start < end or log.last_filler > run.offset or any(stop > run.offset for _, stop in log.damages[-1:])
        if run.target is TargetKind.OWN and missing and self._repeats_neighbour(directory, run):
            code, text = "RMQ-CQ-REPEATED", "the same as its neighbour, for a message that the log does not have"
        else:
            code, text = self._answer(run)
        where = self._where(key, directory, run.start, run.end)
        return self._context.finding(code, f"{_units(run.end - run.start)}: {text}", offset=run.offset, **where)

    def _repeats_neighbour(self, directory: QueueDirectory, run: UnitTarget) -> bool:
        """Return whether a unit and all up to the own place of its message are equal, as repairs leave it for lost messages."""
        own = run.start + run.shift
        low, high = min(own, run.start), max(own, run.start)
        if run.end > run.start + 1 or not run.shift or high - low > _MOST_REPEATED:
            return False
        known = self._equal.get(directory.directory, range(0))
        # A chain that grows unit by unit is not read from its beginning every time.
        start, stop = (known.stop - 1, known.stop) if low in known else (low, low)
        if high >= stop and not _are_equal(directory.files, start, high + 1):
            return False
        self._equal = {directory.directory: range(low, max(high + 1, stop))}
        return True

    def _answer(self, run: UnitTarget) -> tuple[str, str]:
        if run.target is TargetKind.OTHER_QUEUE and run.other is not None:
            code = "RMQ-CQ-UNIT" if self._has_records else "RMQ-CQ-SURPLUS"
            return code, f"the record there belongs to {run.other[0]}/{run.other[1]}"
        if run.target is TargetKind.OWN and run.shift:
            return "RMQ-CQ-SHIFTED", f"the record there has a QUEUEOFFSET {run.shift:+d} from that of the entry"
        return _ANSWERS[run.target]


_ANSWERS = {
    TargetKind.UNKNOWN: ("RMQ-CQ-SURPLUS", "no record belongs to them; where they point was not verified, there are too many of this kind"),
    TargetKind.NOTHING: ("RMQ-CQ-UNIT", "no record begins where the entry points"),
    TargetKind.DAMAGED: ("RMQ-CQ-LOST", "the record is in a damaged range"),
    TargetKind.NOT_QUEUED: ("RMQ-CQ-SURPLUS", "a prepared or rolled back record belongs in no queue"),
    TargetKind.OWN: ("RMQ-CQ-SURPLUS", "the record there is not part of the live log"),
}


def _units_between(files: MappedFileQueue, start: int, stop: int) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
    """Yield the units (UNIT_ROWS) of the queue offsets [start, stop) in pieces, each with its first queue offset."""
    at = start
    while at < stop:
        file = files.find(at * UNIT_SIZE)
        position = at * UNIT_SIZE - file.start if file is not None else 0
        count = min(stop - at, _CHUNK_UNITS, (file.length - position) // UNIT_SIZE) if file is not None else 0
        if file is None or not count:
            return
        yield at, np.frombuffer(read_at(file, position, count * UNIT_SIZE), UNIT_ROWS)
        at += count


def _are_equal(files: MappedFileQueue, start: int, stop: int) -> bool:
    """Return whether the units of the queue offsets [start, stop) all exist and are equal."""
    pieces = [units.tobytes() for _, units in _units_between(files, start, stop)]
    data = b"".join(pieces)
    return len(data) == (stop - start) * UNIT_SIZE and data == data[:UNIT_SIZE] * (stop - start)


def _interval(start: int, end: int) -> Interval:
    """Return the queue offsets [start, end) of a run. The end after the last possible offset, 2^63, is stored as -2^63."""
    return start, end if end > start else end + (1 << 64)


def _restarted(history: QueueHistory | None, rows: npt.NDArray[np.void]) -> int:
    """Return the physical offset from which on records belong to the present queue, -1 for all of them.

    A queue that was deleted and created again begins at QUEUEOFFSET 0 again, and has a unit there for the new first record.
    """
    if history is None or not history.restarts:
        return -1
    begins = rows["position"][(rows["claim"] == Claim.MATCH) & (rows["start"] == 0)]
    return max(history.restarts & set(begins.tolist()), default=-1)


_RENUMBERED = {
    Deviation.SHIFTED: ("RMQ-CQ-LMQ-OFFSET", "entries at other places than the queue offsets of their records"),
    Deviation.DROPPED: ("RMQ-CL-QOFFSET-REPEAT", "records without an entry, because their queue offsets were used before"),
    Deviation.LOST: ("RMQ-CQ-SHIFTED", "records without an entry; all entries after them moved up"),
}


def renumbered(context: Context, results: Sequence[FileResult]) -> Iterator[Finding]:
    """Yield findings about multi-dispatch queues whose units are not at the numbers of their records, one for each queue and reason."""
    totals: dict[tuple[QueueKey, str], Renumbered] = defaultdict(Renumbered)
    for result in results:
        for kind, queues in result.renumbered.items():
            for key, one in queues.items():
                totals[key, kind.name].note(one.position, one.number, one.place, one.count)
    for (key, name), one in sorted(totals.items(), key=itemgetter(0)):
        code, text = _RENUMBERED[Deviation[name]]
        yield context.log_finding(
            code,
            f"multi-dispatch queue with {text}: {one.count}",
            one.position,
            topic=key[0],
            queue_id=key[1],
            queue_offset=one.number,
            expected=one.number,
            found=one.place,
        )


def dispatches_to_light_queues(context: Context, queues: Iterable[QueueKey]) -> bool | None:
    """Return whether the broker fills %LMQ% queues: by settings, or if one exists; None if neither shows it (fact sheet queues §2.12)."""
    settings = context.store.config
    switches = [settings.flag(name) for name in ("enableLmq", "enableMultiDispatch") if settings.explicit(name) is not None]
    if not all(switches):
        return False
    if len(switches) == 2 or any(topic.startswith(LMQ_PREFIX) for topic, _ in queues):
        return True
    return None


def _units(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def union(intervals: Sequence[Interval]) -> list[Interval]:
    """Return the same points as sorted intervals that do not touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def subtract(intervals: Sequence[Interval], removed: Sequence[Interval]) -> list[Interval]:
    """Return the points of `intervals` that are in none of `removed` (sorted, disjoint)."""
    left: list[Interval] = []
    for start, end in intervals:
        at = start
        for number in range(max(bisect_left(removed, (start, start)) - 1, 0), len(removed)):
            begin, stop = removed[number]
            if begin >= end:
                break
            if stop <= at:
                continue
            if begin > at:
                left.append((at, begin))
            at = max(at, stop)
        if at < end:
            left.append((at, end))
    return left


def known_topics(context: Context) -> frozenset[str] | None:
    """Return the topics of `config/topics.json` or, if that is not whole, of its backup, and those that consumers have offsets of.

    None if that cannot be determined. A broker that deletes a topic removes the offsets of its consumers as well.
    """
    path = context.store.config_path / config.TOPICS
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            table = (config.read(candidate).value or {}).get("topicConfigTable")
        except RmqstoreError:
            continue  # reported by the check of the configuration
        if isinstance(table, Mapping):
            return frozenset(table) | _consumed_topics(context)
    return None


def _consumed_topics(context: Context) -> frozenset[str]:
    topics: set[str] = set()
    for name in (config.CONSUMER_OFFSETS, config.LMQ_OFFSETS):
        try:
            topics.update(config.topics_of_offsets(config.in_use(*config.read_both(context.store.config_path / name))))
        except RmqstoreError:
            continue  # reported by the check of the configuration
    return frozenset(topics)
