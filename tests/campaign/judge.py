"""What `recover` made of one damaged store, judged without a broker: exit status, bytes, losses, `verify`, the second plan, `undo`."""

from __future__ import annotations

import re
import shutil
import subprocess
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.formats.record import RecordError, decode_record
from rmqstore.repair.log.fillers import FILLER_TOPIC
from tests.broker.expected_messages import LogBytes, Lost, Promise, names, units_of
from tests.broker.sent_messages import Message
from tests.campaign import delays
from tests.campaign.cases import Case, view_of
from tests.campaign.states import differences, state_of
from tests.support import stores
from tests.support.cli import Run, rmqstore
from tests.support.waiting import PATIENCE

_ERRORS_REMAIN = 1
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken promise: its class, in which nothing belongs to one case alone, and what was seen."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class Repair:
    """One case after its repair. `refused`: why the tool declined. `served_from`: a copy of the repaired store, for a broker."""

    case: Case
    problems: tuple[Problem, ...] = ()
    refused: str | None = None
    served_from: Path | None = None
    promise: Promise | None = None
    lost: Lost = field(default_factory=lambda: Lost(()))


@dataclass(frozen=True, slots=True)
class Task:
    """A case, an empty directory for it, and whether a broker shall open the repaired store."""

    case: Case
    scratch: Path
    for_broker: bool


def repair(task: Task) -> Repair:
    """Damage a copy, repair it, judge everything that no broker is needed for."""
    return _Repaired(task).judged()


_QUEUE_FILE = re.compile(r"(?:batch)?consumequeue/[^/]+/\d+/\d{20}")


class _Repaired:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._case = task.case
        self._sample = stores.case(task.case.base)
        self._root = stores.fresh_store(task.case.base, task.scratch)
        task.case.damage(self._root)
        self._before = state_of(self._root)
        undamaged = stores.sample_store(task.case.base)
        had = {path.relative_to(undamaged).parts[0] for path in undamaged.glob("*consumequeue/*/*/*")}
        has = {path.partition("/")[0] for path, values in self._before.items() if _QUEUE_FILE.fullmatch(path) and values[0] == "-"}
        self._has_queue_files = had <= has
        """Without any of a kind, nothing may tell how long such a file is."""
        self._promise = Promise(self._sample, undamaged, self._root, task.case.operations)
        self._size = int(self._sample.settings(undamaged)["mappedFileSizeCommitLog"])
        self._original = LogBytes(undamaged, self._size)
        self._damaged = LogBytes(self._root, self._size)
        self._written = _log_content(self._root)
        self._settings = self._sample.set_options(self._root) if task.case.told else []
        self._delays = delays.pending(self._root, view_of(task.case.base))

    def judged(self) -> Repair:
        done = self._run("recover", "--yes")
        if done.status == RefusedError.exit_status:
            return self._refused(done)
        if done.crashed or done.status > _ERRORS_REMAIN:
            return self._failed(done)
        self._promise.note_repair()
        plans = [entry for entry in done.objects if entry["type"] == "plan"]
        lost = Lost([item for plan in plans for item in plan.get("lost", ())], any(plan.get("actions") for plan in plans))
        problems = [
            *self._status(done),
            *self._bytes(),
            *self._losses(lost),
            *self._unserved(lost),
            *self._verified(),
            *self._second_plan(),
        ]
        problems += [Problem("a delay level skips pending messages", text) for text in delays.skipped(self._root, self._delays)]
        served_from = None
        # New index files have the default numbers of slots where nothing shows others; the plan says so.
        unknown = any(note.startswith("No index file shows") for plan in plans for note in plan.get("notes", ()))
        if self._task.for_broker and not problems and not unknown and (self._case.told or self._has_queue_files):
            served_from = self._task.scratch / "served"
            subprocess.run(["cp", "-a", "--sparse=always", self._root, served_from], check=True, timeout=PATIENCE)
        problems += self._undone(bool(lost.repaired))
        shutil.rmtree(self._root)
        return Repair(self._case, tuple(problems), None, served_from, self._promise, lost)

    def _run(self, command: str, *options: str) -> Run:
        return rmqstore(command, self._root, "--format", "json", "--broker-version", self._case.release, *self._settings, *options)

    def _failed(self, done: Run) -> Repair:
        """The run ended with an error: what it said, where in the code, and whether `undo` puts everything back."""
        began = (self._root / ".rmqstore").is_dir() and any((self._root / ".rmqstore").iterdir())
        kind = f"recover ends with {done.status}{' in the middle of an apply' if began else ''}: {plain(_said(done))}"
        problems = [Problem(f"{kind} ({self._where()})", done.err.strip()[:800]), *self._undone(began)]
        shutil.rmtree(self._root)
        return Repair(self._case, tuple(problems))

    def _where(self) -> str:
        """The place in the code that another run fails at."""
        try:
            rmqstore(
                "--debug",
                "recover",
                self._root,
                "--dry-run",
                "--strategy",
                "salvage",
                "--broker-version",
                self._case.release,
                *self._settings,
            )
        except Exception as error:
            frames = [
                frame
                for frame in traceback.extract_tb(error.__traceback__)
                if "rmqstore" in frame.filename and "/tests/" not in frame.filename
            ]
            return " < ".join(f"{Path(frame.filename).stem}.{frame.name}" for frame in frames[:-4:-1]) + f": {type(error).__name__}"
        return "a dry run does not fail"

    def _refused(self, done: Run) -> Repair:
        changed = differences(self._before, state_of(self._root))
        shutil.rmtree(self._root)
        problems = [Problem("a run that refuses changes the store", _few(changed))] if changed else []
        return Repair(self._case, tuple(problems), plain(_said(done)) + (" (as promised)" if self._promise.refused else ""))

    def _status(self, done: Run) -> Iterator[Problem]:
        if self._promise.refused:
            yield Problem("no refusal although a directory of the log is missing or empty", f"status {done.status}")
        elif done.status:
            yield Problem(f"recover ends with {done.status}", _said(done) or done.out.splitlines()[-1][:600])

    def _bytes(self) -> Iterator[Problem]:
        """Records whose bytes were complete, in place or anywhere, are at their place with the same bytes."""
        after = LogBytes(self._root, self._size)
        changed = [message for message in self._promise.in_place if self._at(after, message) != self._at(self._original, message)]
        left = [message for message in self._promise.moved if self._at(after, message) != self._at(self._original, message)]
        if changed:
            yield Problem("healthy records changed", f"{len(changed)}: {_few(changed)}")
        if left:
            yield Problem("intact bytes not brought back to their place", f"{len(left)} of {len(self._promise.moved)}: {_few(left)}")

    @staticmethod
    def _at(log: LogBytes, message: Message) -> bytes:
        return log.at(message.start, message.line["size"])

    def _losses(self, lost: Lost) -> Iterator[Problem]:
        """Every lost message is listed once, with its physical offset, and nothing else is."""
        after = LogBytes(self._root, self._size)
        nowhere = [item for item in lost.items if item.get("physical_offset") is None]
        if nowhere:
            yield Problem("a lost message without physical_offset", f"{len(nowhere)}: {nowhere[0]}")
        for name, keys in (
            ("physical offset", [item.get("physical_offset") for item in lost.items]),
            ("place in its queue", [tuple(item.get(part) for part in ("topic", "queue_id", "queue_offset")) for item in lost.items]),
        ):
            twice = [key for key, count in Counter(keys).items() if count > 1 and key is not None and key != (None, None, None)]
            if twice:
                yield Problem(f"messages listed twice (same {name})", _few(twice))
        planted = [*self._promise.planted, *self._promise.torn]
        bogus = lost.without_reason(self._promise.damaged, planted, self._promise.changed)
        of_intact = [item for item in bogus if any(names(item, message) for message in self._promise.intact)]
        others = [item for item in bogus if item not in of_intact]
        if of_intact:
            yield Problem("intact messages listed as lost", f"{len(of_intact)}: {of_intact[0]}")
        if others:
            yield Problem("listed as lost, but never sent", f"{len(others)}: {others[0]}")
        silent = [
            message
            for message in self._promise.damaged
            if message.places and not lost.gives_up(message) and not self._promise.cannot_be_listed(message) and not _there(after, message)
        ]
        if silent:
            yield Problem("lost messages that are not listed", f"{len(silent)}: {_few(silent)}")

    def _unserved(self, lost: Lost) -> Iterator[Problem]:
        """Every message that is there has a queue entry, and no QUEUEOFFSET has a value that neither a broker nor the damage gave it."""
        after = LogBytes(self._root, self._size)
        there = [message for message in self._promise.damaged if _there(after, message)]
        wrong = [message for message in there if not lost.gives_up(message) and self._is_renumbered(after, message)]
        if wrong:
            yield Problem("a QUEUEOFFSET is changed to a wrong value", f"{len(wrong)}: {_few(wrong)}")
        if "storeType" in self._sample.data["settings"]:
            return
        units = {start for start, _ in units_of(self._root)}
        left_out = [
            message
            for message in (*self._promise.intact, *there)
            if message.places and message.start not in units and not lost.gives_up(message) and not self._promise.cannot_be_listed(message)
        ]
        if left_out:
            yield Problem("messages that are there have no queue entry and are not listed", f"{len(left_out)}: {_few(left_out)}")

    def _is_renumbered(self, after: LogBytes, message: Message) -> bool:
        if after.at(message.start, message.line["size"]) in self._written:
            return False  # moved as it was
        values = [_queue_offset(log.at(message.start, message.line["size"])) for log in (after, self._damaged, self._original)]
        return values[0] not in values[1:]

    def _verified(self) -> Iterator[Problem]:
        done = rmqstore("verify", self._root, "--format", "json", "--allow-unchecked", *self._settings)
        if done.crashed:
            yield Problem("verify fails unexpectedly", done.err.strip()[-1500:])
            return
        errors = [entry for entry in done.objects if entry.get("severity") == "error"] if done.out else []
        for code, count in sorted(Counter(entry["code"] for entry in errors).items()):
            first = next(entry for entry in errors if entry["code"] == code)
            yield Problem(f"verify finds {code} after the repair", f"{count}: {str(first)[:400]}")
        if done.status and not errors:
            yield Problem(f"verify ends with {done.status} after the repair", done.err.strip()[:400])

    def _second_plan(self) -> Iterator[Problem]:
        before = state_of(self._root)
        done = self._run("recover", "--dry-run", "--strategy", "salvage")
        if done.crashed or done.status:
            yield Problem(f"the second plan ends with {done.status}", done.err.strip()[-600:])
            return
        actions = [action for entry in done.objects if entry["type"] == "plan" for action in entry.get("actions", ())]
        if actions:
            first = actions[0]
            kind = f"the second plan is not empty ({first['kind']} in {first['path'].partition('/')[0]}: {plain(first['reason'])})"
            yield Problem(
                kind, f"{len(actions)} actions: {[(action['kind'], action['path'], action['position']) for action in actions[:3]]}"
            )
        changed = differences(before, state_of(self._root))
        if changed:
            yield Problem("a dry run changes the store", _few(changed))

    def _undone(self, repaired: bool) -> Iterator[Problem]:
        if repaired:
            done = rmqstore("undo", self._root, "--yes", "--format", "json")
            if done.crashed or done.status:
                yield Problem(f"undo ends with {done.status}: {plain(_said(done))}", done.err.strip()[-600:])
        after = state_of(self._root)
        if "lock" not in self._before:
            after.pop("lock", None)  # a broker that is starting may have opened it already
        changed = differences(self._before, after)
        if changed:
            yield Problem(
                "undo does not restore everything" if repaired else "a repair with an empty plan changes the store", _few(changed)
            )


def _log_content(root: Path) -> bytes:
    """All bytes of the damaged log, whatever the names of its files."""
    directories = [root / name for name in ("commitlog", "commitlog2") if (root / name).is_dir()]
    files = [path for directory in directories for path in sorted(directory.iterdir()) if path.is_file()]
    return b"".join(path.read_bytes() for path in files)


def _queue_offset(record: bytes) -> bytes:
    """The bytes of QUEUEOFFSET."""
    return record[20:28]


def _there(log: LogBytes, message: Message) -> bool:
    """Whether something that can be served is at the place of a message, though not byte for byte."""
    size = int.from_bytes(log.at(message.start, 4), "big", signed=True)
    try:
        record = decode_record(log.at(message.start, max(size, 0)))
    except (RecordError, ValueError):
        return False
    return record.topic != FILLER_TOPIC and record.physical_offset == message.start


def plain(text: str) -> str:
    """A text without what belongs to one case alone."""
    text = re.sub(r"/\S+", "PATH", re.sub(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{6}", "ID", text))
    return re.sub(r"-?\d+", "N", text)[:160]


def _said(done: Run) -> str:
    return next(iter(done.err.strip().splitlines()), "")[:600]


def _few(items: Sequence[object]) -> str:
    more = f", … {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more
