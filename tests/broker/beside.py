"""Inspections beside a real broker that takes messages all the time, and of what is left when it is killed.

python -m tests.broker.beside --runs 300                          300 runs of every command beside each broker
python -m tests.broker.beside --release 5.5.1 --rate 2000

Nothing that the writer explains is an error, `doctor` never says that a start loses messages, and nothing writes into the store. A byte of
a body that is flipped in a full file of the log is found all the same. After SIGKILL the store is healthy, and the start does what `doctor`
says.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from rmqstore.formats.index import HEADER, HEADER_SIZE
from rmqstore.formats.layout import fixed_layout
from rmqstore.formats.message import record_head
from rmqstore.prediction.simulation import simulate
from rmqstore.store.root import Store
from tests.broker.answers import recorded_form
from tests.broker.busy import RELEASES, SIZES, BusyBroker
from tests.broker.consumed_messages import NotServed
from tests.broker.harness import Harness
from tests.broker.toolchain import WHOLE, prepared
from tests.prediction.comparing import differences
from tests.support.cli import Run, rmqstore
from tests.support.nowrites import writes_below

COMMANDS = (("verify", "--allow-unchecked"), ("doctor",), ("info",), ("recover", "--dry-run"))
LISTS = (("queues",), ("topics",), ("groups",), ("timers", "--limit", "10"), ("pending", "--limit", "10"))
"""Commands that list what there is, which may be nothing."""
STORE_RELEASES = {"4.9.7": "4.9.8"}
"""Release of the broker: of the store code by itself, where it is another one."""

_BODY_LENGTH = fixed_layout(record_head(False, False))["body_length"]
_LOG_FILE = int(SIZES["mappedFileSizeCommitLog"])
_LOSSES = frozenset({"RMQ-ST-CUT", "RMQ-CL-EMPTY", "RMQ-CF-LOST", "RMQ-CQ-GONE", "RMQ-CQ-START"})
_PAUSE = 0.05


@dataclass(slots=True)
class Told:
    """What was said that should not have been, and how many runs there were."""

    runs: int = 0
    wrong: list[str] = field(default_factory=list)


def beside(release: str, directory: Path, *, runs: int, rate: int, seed: int) -> Told:
    """Runs every command so many times beside a broker of `release`. Raises NotServed, JarsMissing."""
    prepared(release, WHOLE)
    told, random, root = Told(), Random(seed), directory / "store"
    root.mkdir()
    with BusyBroker(release, root, directory / "scratch", rate=rate, seed=seed) as broker:
        for _ in range(runs):  # from the first message on, when some files of the configuration are still to be written
            for words in COMMANDS:
                told.wrong += _live(root, words)
            for words in LISTS:
                told.wrong += _listed(root, words)
            told.runs += 1
            time.sleep(random.random() * _PAUSE)
        broker.wait_for(_LOG_FILE)
        told.wrong += _damaged(root, random, broker)
        if not broker.runs:
            raise NotServed("the broker ended by itself")
        broker.kill()
        told.wrong += _killed(release, root, directory, broker.acknowledged())
    return told


def _run(root: Path, *words: str) -> tuple[Run, list[str]]:
    with writes_below(root) as written:
        run = rmqstore(words[0], root, *words[1:], "--format", "json", *(f"--set={name}={value}" for name, value in SIZES.items()))
    problems = [f"{words[0]} writes: {each}" for each in written]
    silent = not run.objects and words not in LISTS
    return run, [*problems, f"{words[0]} says nothing: {run.err}"] if silent else problems


def _findings(run: Run, severity: str) -> Iterator[dict[str, Any]]:
    return (one for one in run.objects if one["type"] == "finding" and one["severity"] == severity)


def _words(finding: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in finding.items() if value is not None and name not in ("type", "mend")})


def _live(root: Path, words: tuple[str, ...]) -> list[str]:
    """What a command says beside the broker that it should not say."""
    run, problems = _run(root, *words)
    if words[0] == "doctor":
        return [*problems, *_doctor(run)]
    problems += [f"{words[0]}: {_words(one)}" for one in _findings(run, "error")]
    return [*problems, *([f"{words[0]} ends with {run.status}: {run.out[-2000:]}{run.err}"] if run.status else [])]


def _listed(root: Path, words: tuple[str, ...]) -> list[str]:
    """What a list beside the broker says that it should not say."""
    run, problems = _run(root, *words)
    return [*problems, *([f"{words[0]} ends with {run.status}: {run.err}"] if run.status else [])]


def _doctor(run: Run) -> Iterator[str]:
    """What `doctor` says of a running broker but that a second one cannot start; what a crash by now would do to the index may be said."""
    for one in run.objects:
        if one["type"] == "finding" and (one["code"] in _LOSSES or (one["severity"] == "error" and one["code"] != "RMQ-ST-NO-START")):
            yield f"doctor: {_words(one)}"
    verdict = run.objects[-1]
    yield from (f"doctor: {area}" for area in _lossy(verdict) if area["area"] not in ("other parts", "index"))
    if verdict["lost"]["messages"]:
        yield f"doctor: lost {verdict['lost']}"


def _lossy(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    return [area for area in verdict["areas"] if area["state"] == "loses or repeats"]


def _damaged(root: Path, random: Random, broker: BusyBroker) -> list[str]:
    """Flips a byte of a body in the first file of the log, which is full, and back again; what `verify` does not say of it."""
    places = [line["physicalOffset"] for line in broker.acknowledged() if line["physicalOffset"] < _LOG_FILE]
    place = random.choice(places[:-1])
    path = min((root / "commitlog").iterdir())
    with path.open("r+b") as stream:
        stream.seek(place + _BODY_LENGTH.offset)
        position = place + _BODY_LENGTH.end + random.randrange(int.from_bytes(stream.read(_BODY_LENGTH.width), "big"))
        _flip(stream, position)
        stream.flush()
        run, problems = _run(root, "verify", "--allow-unchecked")
        _flip(stream, position)
    errors = list(_findings(run, "error"))
    if [(one["code"], one["offset"]) for one in errors] != [("RMQ-CL-CRC", place)]:
        problems.append(f"a byte of the body at {place} was flipped, verify says: {[_words(one) for one in errors]}")
    return problems


def _flip(stream: Any, position: int) -> None:
    stream.seek(position)
    byte = stream.read(1)[0]
    stream.seek(position)
    stream.write(bytes([byte ^ 0x10]))


def _killed(release: str, root: Path, directory: Path, acknowledged: list[dict[str, Any]]) -> Iterator[str]:
    """What is said of the store of a killed broker that is not so: a crash is no damage, and the start does what was predicted."""
    verified, problems = _run(root, "verify", "--allow-unchecked")
    yield from problems
    yield from (f"verify after the crash: {_words(one)}" for one in _findings(verified, "error"))
    if verified.status:
        yield f"verify after the crash ends with {verified.status}"
    store_release = STORE_RELEASES.get(release, release)
    diagnosed, problems = _run(root, "doctor", "--broker-version", store_release)
    yield from problems
    yield from (f"doctor after the crash: {_words(one)}" for one in _findings(diagnosed, "error"))
    verdict = diagnosed.objects[-1]
    yield from (f"doctor after the crash: {area}" for area in _lossy(verdict) if area["area"] != "index")
    real = yield from started(store_release, root, directory / "copy", acknowledged)
    lost = sum(area["count"] for area in _lossy(verdict))
    if real is not None and (lost != _entries_lost(root, real) or (verdict["class"] == "STARTS, NOTHING LOST") != (lost == 0)):
        yield f"doctor after the crash: {verdict['headline']}; the start loses {_entries_lost(root, real)} entries of the index"


def started(release: str, root: Path, copy: Path, acknowledged: list[dict[str, Any]]) -> Generator[str, None, dict[str, Any] | None]:
    """What the real start of a copy does otherwise than predicted, and the acknowledged messages that it does not bring back.

    Returns the start as a recorded case, None where there was none.
    """
    shutil.copytree(root, copy)
    names = {str(path.relative_to(copy)) + "/" * path.is_dir() for path in copy.rglob("*")}
    predicted = simulate(Store.open(copy, settings=SIZES), release)
    with Harness(release, 1) as harness:
        answer = harness.recover(copy, SIZES, {})
    if "failed" in answer:
        yield f"the store code could not be asked: {answer['failed']}"
        return None
    real = recorded_form(answer)
    yield from (f"the start differs from what was predicted: {difference}" for difference in differences(real, predicted, names))
    queues = {**real["S1"], **real["S2"]}["queues"]
    for line in acknowledged:
        end = queues.get(f"{line['topic']}/{line['queue']}", [0, 0])[1]
        if line["topic"] != "delayed" and line["queueOffset"] >= end:
            yield f"an acknowledged message is not in its queue, which ends at {end}: {line}"
    return real


def _entries_lost(root: Path, real: dict[str, Any]) -> int:
    """How many entries of index files the real start deleted and did not write again."""
    before = {path.name: HEADER.parse(path.read_bytes()[:HEADER_SIZE]).index_count - 1 for path in (root / "index").iterdir()}
    after = {row[0]: row[-1] - 1 for row in {**real["S1"], **real["S2"]}["index"]}
    deleted = sum(count for name, count in before.items() if name not in after)
    return max(0, deleted - sum(count for name, count in after.items() if name not in before))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broker.beside", description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100, metavar="N", help="of every command beside each broker (default %(default)s)")
    parser.add_argument("--release", action="append", choices=RELEASES, help="only this one; may be repeated")
    parser.add_argument("--rate", type=int, default=0, metavar="N", help="messages per second; by default another one for each broker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, default=None, help="where the stores lie, default a temporary directory")
    options = parser.parse_args()
    wrong = 0
    for number, release in enumerate(options.release or RELEASES):
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            rate = options.rate or Random(options.seed + number).choice((20, 200, 1000, 5000))
            told = beside(release, Path(directory), runs=options.runs, rate=rate, seed=options.seed + number)
        wrong += len(told.wrong)
        print("\n".join(told.wrong[:40]))
        print(
            f"{release} at {rate} messages per second: {told.runs} runs of {len(COMMANDS + LISTS)} commands, {len(told.wrong)} wrong",
            flush=True,
        )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
