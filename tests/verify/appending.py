"""Runs as a program: a writer that appends to a store as a broker does, while `verify` and `doctor` read it.

    python -m tests.verify.appending --runs 1000 [--rate 500] [--seed 1]

Writes go through maps into preallocated files, in the order of a broker: the record, then its units, then its index items (item, slot,
header); the configuration is replaced by a rename. The dispatcher is some records late, and a record may be there in part for a while.
No run may report what the writer explains, and `doctor` says of no start that it loses messages. A store in three was damaged before the
writer began: that has to be found, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import mmap
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from rmqstore.formats import index
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.naming import offset_to_file_name
from tests.support.builder import StoreBuilder
from tests.support.cli import rmqstore

Write = tuple[str, int, bytes]
"""Path below the root, position, bytes."""

SIZES: Mapping[str, Any] = {"log_file_size": 64 << 10, "queue_file_size": 200 * 20, "slots": 64, "items": 600}
EXPLAINED = frozenset({"RMQ-ST-IN-USE", "RMQ-ST-ABORT", "RMQ-ST-LOCK", "RMQ-CQ-EXPIRED"})
"""Findings that are true of every store with a writer, and of one whose log was cleaned."""
LOSSES = frozenset({"RMQ-ST-CUT", "RMQ-CL-EMPTY", "RMQ-CL-REMOVED", "RMQ-CF-LOST", "RMQ-CQ-GONE", "RMQ-CQ-START"})
_RUNS_PER_STORE = 10
_ALREADY_THERE = 400
_FASTEST = 100_000
_REPLACED_EVERY = 0.05
_CLEANED_EVERY = 0.1  # as a broker waits between two files
_HEADER = fixed_layout(index.HEADER)


@dataclass(slots=True)
class Message:
    """The writes of one message: the record (and the BLANK before it), and what the dispatcher writes."""

    place: int = 0
    record: list[Write] = field(default_factory=list)
    dispatch: list[Write] = field(default_factory=list)


class Recorder(StoreBuilder):
    """A builder that notes every write in the order in which a broker does them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, **SIZES)
        self._message = Message()
        self.places: list[int] = []  # physical offsets of the messages

    def take(self, number: int) -> Message:
        """The writes of the next message."""
        self._message = Message()
        keys = " ".join(f"k{number}-{each}" for each in range(number % 3)) or None
        body = bytes([number % 251]) * (20 + number * 37 % 400)
        self.message(f"Topic{number % 3}", body, queue_id=number % 2, tags=f"T{number % 5}", keys=keys)
        self.places.append(self._message.place)
        return self._message

    def _append(self, data: bytes) -> None:
        start = self.offset - self.offset % self.log_file_size
        self._message.place = self.offset
        self._message.record.append((f"commitlog/{offset_to_file_name(start)}", self.offset - start, bytes(data)))
        super()._append(data)

    def _append_unit(self, key: tuple[str, int], queue_offset: int, unit: bytes) -> None:
        before = self.queues[key].end if key in self.queues else 0
        super()._append_unit(key, queue_offset, unit)
        start = before - before % self.queue_file_size
        name = f"consumequeue/{key[0]}/{key[1]}/{offset_to_file_name(start)}"
        # Three puts: offset, size, tags code.
        self._message.dispatch += [(name, before - start + at, unit[at:end]) for at, end in ((0, 8), (8, 12), (12, 20))]

    def _put_key(self, file: Any, key_hash: int, store_timestamp: int) -> None:
        number = file.count
        super()._put_key(file, key_hash, store_timestamp)
        name, writes = f"index/{file.name}", self._message.dispatch
        writes.append((name, index.item_position(number, self.slots), index.ITEM.build(file.items[-1])))
        writes.append((name, index.slot_position(key_hash % self.slots), index.SLOT.build({"item_number": number})))
        header = index.HEADER.build({**file.header, "index_count": file.count})
        order = ("begin_phy_offset", "begin_timestamp", "hash_slot_count", "index_count", "end_phy_offset", "end_timestamp")
        places = [_HEADER[each] for each in order]
        writes += [(name, place.offset, header[place.offset : place.offset + place.width]) for place in places]


class Maps:
    """Files that are made as a broker makes them, with their whole length, and written through maps."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._maps: dict[str, mmap.mmap] = {}

    def write(self, write: Write) -> None:
        name, position, data = write
        self._of(name)[position : position + len(data)] = data

    def _of(self, name: str) -> mmap.mmap:
        if name not in self._maps:
            kind, _, rest = name.partition("/")
            length = {"commitlog": SIZES["log_file_size"], "consumequeue": SIZES["queue_file_size"]}.get(kind)
            if kind == "commitlog":  # the next one is there before it is needed
                self._make(f"commitlog/{offset_to_file_name(int(rest) + SIZES['log_file_size'])}", SIZES["log_file_size"])
            self._maps[name] = self._make(name, length or index.file_size(SIZES["slots"], SIZES["items"]))
        return self._maps[name]

    def _make(self, name: str, length: int) -> mmap.mmap:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, length)
            return mmap.mmap(descriptor, length)
        finally:
            os.close(descriptor)


def replace_file(path: Path, text: str) -> None:
    """What a broker does for its configuration: a new file, the old one as `.bak`, away with it, the new one in its place."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(text)
    if path.exists():
        path.with_name(path.name + ".bak").write_text(path.read_text())
        path.unlink()
    beside.rename(path)


def prepare(root: Path) -> Recorder:
    """A store with some messages in it, nothing of them late."""
    recorder, maps = Recorder(root), Maps(root)
    for number in range(_ALREADY_THERE):
        message = recorder.take(number)
        for write in (*message.record, *message.dispatch):
            maps.write(write)
    (root / "checkpoint").write_bytes(recorder.checkpoint())
    (root / "lock").write_bytes(b"lock")
    table = {f"Topic{number}": {"topicName": f"Topic{number}"} for number in range(3)}
    replace_file(root / "config" / "topics.json", json.dumps({"topicConfigTable": table}))
    replace_file(root / "config" / "subscriptionGroup.json", json.dumps({"subscriptionGroupTable": {"group": {"groupName": "group"}}}))
    return recorder


def clean(recorder: Recorder, first: int) -> int:
    """Removes the oldest log file, which begins at `first`, as a broker does with expired ones; where the log begins now."""
    (recorder.root / "commitlog" / offset_to_file_name(first)).unlink()
    return first + int(SIZES["log_file_size"])


def append(recorder: Recorder, rate: int, seed: int, goes: Event, stops: Event, *, cleans: bool) -> None:
    """The writer: messages at a rate until it is stopped; `cleans`: old files of the log are removed."""
    dice, maps = random.Random(seed), Maps(recorder.root)
    late: deque[Message] = deque()
    number, began = _ALREADY_THERE, time.monotonic()
    replaced, cleaned, first = 0.0, 0.0, 0
    while not stops.is_set():
        message = recorder.take(number)
        for write in message.record:
            _write_record(maps, write, dice)
        late.append(message)
        _dispatch(maps, late, dice.randrange(1 + len(late)))
        number += 1
        if time.monotonic() > replaced + _REPLACED_EVERY:
            replaced = time.monotonic()
            offsets = {"offsetTable": {"Topic0@group": {"0": (number - len(late)) // 6}}}
            replace_file(recorder.root / "config" / "consumerOffset.json", json.dumps(offsets))
        goes.set()
        if cleans and time.monotonic() > cleaned + _CLEANED_EVERY and recorder.offset > first + 4 * SIZES["log_file_size"]:
            first, cleaned = clean(recorder, first), time.monotonic()
        while (ahead := began + (number - _ALREADY_THERE) / rate - time.monotonic()) > 0 and not stops.is_set():
            time.sleep(min(ahead, 0.001))
            _dispatch(maps, late, len(late))


def _dispatch(maps: Maps, late: deque[Message], count: int) -> None:
    for _ in range(count):
        for write in late.popleft().dispatch:
            maps.write(write)


def _write_record(maps: Maps, write: Write, dice: random.Random) -> None:
    name, position, data = write
    if dice.random() < 0.05:
        half = dice.randrange(1, len(data) + 1)
        maps.write((name, position, data[:half]))
        time.sleep(dice.random() * 0.002)
        maps.write((name, position + half, data[half:]))
    else:
        maps.write(write)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes in the place of others, and the codes of which one has to be found."""

    pattern: str
    position: int
    data: bytes
    codes: frozenset[str]


_FIRST_LOG = "commitlog/" + offset_to_file_name(0)
_NO_RECORD = frozenset({"RMQ-CL-DAMAGE", "RMQ-CL-LENGTHS", "RMQ-CL-MAGIC", "RMQ-CL-SIZE"})


def damages(recorder: Recorder) -> list[Damage]:
    """What may be wrong with a store before the writer begins: of records, of a unit, of an index item."""
    return [
        Damage(_FIRST_LOG, recorder.places[9] + 88, b"\xee", frozenset({"RMQ-CL-CRC"})),
        Damage(_FIRST_LOG, recorder.places[30], b"\xee" * 600, _NO_RECORD),
        Damage("consumequeue/Topic1/1/" + offset_to_file_name(0), 20 * 10, b"\0\0\0\0\0\0\0\7", frozenset({"RMQ-CQ-UNIT"})),
        Damage("index/*", index.item_position(17, SIZES["slots"]), b"\x11\x22\x33\x44", frozenset({"RMQ-IX-ITEM"})),
    ]


def do(damage: Damage, root: Path) -> None:
    """Puts the bytes there."""
    with min(root.glob(damage.pattern)).open("r+b") as stream:
        stream.seek(damage.position)
        stream.write(damage.data)


@dataclass(slots=True)
class Told:
    """What the runs said that they should not have, and how many there were."""

    runs: int = 0
    wrong: list[str] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)


def run_all(directory: Path, runs: int, rate: int, seed: int, *, notes: bool = False) -> Told:
    """So many runs beside a writer, ten on each store; `notes`: a finding of severity info is nothing wrong."""
    told, dice = Told(), random.Random(seed)
    while told.runs < runs:
        root = directory / f"store-{told.runs}"
        recorder = prepare(root)
        damage = dice.choice(damages(recorder)) if told.runs // _RUNS_PER_STORE % 3 == 2 else None
        if damage is not None:
            do(damage, root)
        if dice.random() < 0.5:
            (root / "abort").write_bytes(b"")
        # As people run it: no sizes are given, those of the files hold.
        speed = rate or dice.choice((5, 50, 500, 5000, _FASTEST))
        cleans = damage is None and dice.random() < 0.3
        for objects, rest, diagnosis in _beside_writer(recorder, speed, dice, runs - told.runs, cleans=cleans):
            told.runs += 1
            told.wrong += [f"run {told.runs}, doctor: {problem}" for problem in _doctor_problems(diagnosis) if damage is None]
            told.wrong += [f"run {told.runs}: {problem}" for problem in _problems(objects, damage, rest, notes=notes)]
            told.codes.update(one["code"] for one in objects if one["type"] == "finding")
        shutil.rmtree(root)
    return told


def _beside_writer(
    recorder: Recorder, rate: int, dice: random.Random, most: int, *, cleans: bool
) -> Iterator[tuple[list[dict[str, Any]], str, list[dict[str, Any]]]]:
    context = multiprocessing.get_context("fork")
    goes, stops = context.Event(), context.Event()
    writer = context.Process(target=append, args=(recorder, rate, dice.random(), goes, stops), kwargs={"cleans": cleans})
    writer.start()
    try:
        goes.wait(30)
        sizes = [f"--set={name}={value}" for name, value in recorder.settings.items()]
        for _ in range(min(_RUNS_PER_STORE, most)):
            run = rmqstore("verify", recorder.root, "--format", "json", "--threads", "2", "--allow-unchecked", *sizes)
            diagnosis = rmqstore("doctor", recorder.root, "--format", "json", *sizes).objects
            yield run.objects if run.out else [], run.err, diagnosis
            time.sleep(dice.random() * 0.01)
    finally:
        stops.set()
        writer.join()


def _doctor_problems(objects: list[dict[str, Any]]) -> Iterator[str]:
    """What is said to be lost at a start beside a writer that loses nothing; entries of a whole index are what every crash costs."""
    if not objects or objects[-1]["type"] != "doctor":
        yield "no verdict"
        return
    losing = (one for one in objects[-1]["areas"] if one["state"] == "loses or repeats")
    yield from (json.dumps(one) for one in losing if one["area"] != "index" or "damaged" in one["reason"])
    yield from (one["message"] for one in objects if one["type"] == "finding" and one["code"] in LOSSES)


def _problems(objects: list[dict[str, Any]], damage: Damage | None, stderr: str, *, notes: bool) -> Iterator[str]:
    if not objects or objects[-1]["type"] != "summary":
        yield f"no summary: {stderr}"
        return
    findings = [one for one in objects if one["type"] == "finding" and one["code"] not in EXPLAINED]
    if damage is not None and not any(one["code"] in damage.codes for one in findings):
        yield f"nothing of {sorted(damage.codes)} was found"
    for one in findings:
        if notes and one["severity"] == "info":
            continue
        if damage is None or (one["severity"] == "error" and not _follows(one, damage)):
            yield json.dumps({name: value for name, value in one.items() if value is not None and name not in ("type", "mend")})


def _follows(found: Mapping[str, Any], damage: Damage) -> bool:
    """Whether an error is the damage or what comes of it: all damages are in the first bytes of the store."""
    early = found["offset"] is not None and found["offset"] < SIZES["log_file_size"]
    return early or found["code"] in damage.codes or ("RMQ-IX-ITEM" in damage.codes and found["code"] == "RMQ-IX-CHAIN")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.verify.appending", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=0, help="messages per second; by default another one for each store")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, default=None, help="where the stores lie, default a temporary directory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        told = run_all(Path(directory), arguments.runs, arguments.rate, arguments.seed)
    print("\n".join(told.wrong[:40]))
    print(f"{told.runs} runs, {len(told.wrong)} wrong; findings by code: {dict(told.codes)}")
    return bool(told.wrong)


if __name__ == "__main__":
    sys.exit(main())
