"""Fuzz cases: a sample store, one to four mutations, then commands on it. A case depends on its seed and number alone."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.campaign.cases import bases
from tests.campaign.judge import plain
from tests.campaign.states import State, differences, state_of
from tests.fuzz import commands
from tests.fuzz.commands import Command
from tests.fuzz.mutations import mutate
from tests.support import operations, stores
from tests.support.cli import Run
from tests.support.damages import DAMAGES
from tests.support.storeview import StoreView
from tests.support.worker import NoAnswer, Worker

SECONDS = 40.0
_READING, _WRITING = 6, 2
_COUNTS = (1, 1, 2, 3, 4)
_BASES = ("5.3.3-plain", "5.5.1-plain-crash", "broker-5.5.1-crash", "broker-5.3.3-cqext-crash", "broker-5.3.3-dledger-clean")
"""Half of the cases; the other half is any sample store."""

_PLAN_SHARE, _TRANSACTION_SHARE = 0.1, 0.2
_OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Broken:
    """A command that did what it must not, and its class."""

    kind: str
    command: str
    text: str


@dataclass
class Fuzzed:
    """A case: what was done to the store, and every command that misbehaved."""

    seed: int
    number: int
    base: str
    done: list[str] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often each command ended with which status."""

    @property
    def options(self) -> str:
        """What runs this case alone."""
        return f"--seed {self.seed} --first {self.number} --cases 1"

    def __str__(self) -> str:
        return f"{self.options}: {self.base}; " + "; ".join(self.done)


Runner = Worker[Command, Run]


def fuzz(seed: int, number: int, scratch: Path, runner: Runner) -> Fuzzed:
    """Run case `number` of a seed below the directory `scratch`, which is empty."""
    random = Random(f"fuzz-{seed}-{number}")
    base = random.choice(_BASES if random.random() < 0.5 else bases())
    result = Fuzzed(seed, number, base)
    chance = random.random()
    try:
        if chance < _PLAN_SHARE:
            _plan(random, result, scratch, runner)
        elif chance < _PLAN_SHARE + _TRANSACTION_SHARE:
            _transaction(random, result, scratch, runner)
        else:
            _store(random, result, scratch, runner)
    finally:
        _make_removable(scratch)
    return result


def _store(random: Random, result: Fuzzed, scratch: Path, runner: Runner) -> None:
    """Mutations of the store itself, then commands that read, then some that write."""
    root = stores.fresh_store(result.base, scratch)
    _mutate(random, result, root)
    _log_lines(random, root)
    before = state_of(root)
    for line in random.sample(commands.READING, _READING):
        _run(random, result, root, line, runner, before)
    explain = Command(("explain", "--log", str(root.parent / "store.log"), "--store", str(root)), True, False)
    _judge(result, explain, runner, root, before)
    for line in random.sample(commands.WRITING, _WRITING):
        _run(random, result, root, line, runner, None)
        _judge(result, Command(("undo", str(root), "--yes"), False, False), runner, root, None)
    _judge(result, Command(("history", str(root), "--format", "json"), True, True), runner, root, state_of(root))


def _plan(random: Random, result: Fuzzed, scratch: Path, runner: Runner) -> None:
    """A kept plan is mutated, then applied."""
    root = _damaged(random, result, scratch)
    canary = _canary(scratch)
    kept = scratch / "kept"
    kept.mkdir()
    sample = stores.case(result.base)
    words = ("recover", str(root), "--plan-out", str(kept / "a.plan"), "--broker-version", sample.release, *sample.set_options(root))
    _judge(result, Command(words, True, False), runner, root, None)
    _mutate(random, result, kept)
    _judge(result, Command(("apply", str(kept / "a.plan"), "--yes"), False, False), runner, root, None)
    _judge(result, Command(("undo", str(root), "--yes"), False, False), runner, root, None)
    _unchanged(result, scratch, canary)


def _transaction(random: Random, result: Fuzzed, scratch: Path, runner: Runner) -> None:
    """What a repair keeps below `.rmqstore` is mutated, then everything is asked that reads it."""
    root = _damaged(random, result, scratch)
    canary = _canary(scratch)
    sample = stores.case(result.base)
    words = ("recover", str(root), "--yes", "--broker-version", sample.release, *sample.set_options(root))
    _judge(result, Command(words, False, False), runner, root, None)
    kept = root / ".rmqstore"
    if not kept.is_dir():
        return
    _mutate(random, result, kept)
    plans = [str(path) for path in sorted(kept.glob("*/plan.json"))]
    before = state_of(root)
    for words in (("history",), ("doctor",), ("info",), ("recover", "--dry-run", "--strategy", "salvage"), ("undo", "--dry-run")):
        _judge(result, Command((words[0], str(root), *words[1:]), True, False), runner, root, before)
    changing = [("undo", str(root), "--yes"), ("recover", str(root), "--yes"), *(("apply", plan, "--yes") for plan in plans)]
    random.shuffle(changing)
    for words in changing:
        _judge(result, Command(words, False, False), runner, root, None)
    _unchanged(result, scratch, canary)


def _damaged(random: Random, result: Fuzzed, scratch: Path) -> Path:
    """A copy with a damage of the table, so that there is something to repair."""
    root = stores.fresh_store(result.base, scratch)
    view = StoreView(stores.sample_store(result.base), stores.case(result.base).settings(root))
    name = random.choice(
        ("body-flip-mid", "zero-4k-mid", "cq-queue-removed", "file-foreign-samesize", "checkpoint-missing", "file-last-short")
    )
    with suppress(IndexError, ValueError):
        operations.apply(DAMAGES[name](view), root)
    result.done.append(name)
    return root


def _mutate(random: Random, result: Fuzzed, tree: Path) -> None:
    for _ in range(random.choice(_COUNTS)):
        try:
            result.done.append(mutate(random, tree))
        except OSError as error:
            result.done.append(f"not possible any more: {error.strerror}")


def _log_lines(random: Random, root: Path) -> None:
    """A broker's log beside the store, with lines that name places of it and random bytes."""
    lines = [f"2026-11-21 09:{number:02d}:00 WARN main - found a illegal magic code 0x{random.getrandbits(32):x}" for number in range(5)]
    lines += [f"file name {random.choice((random.getrandbits(70), -1))}, position {random.getrandbits(40)}", "x" * 100_000]
    (root.parent / "store.log").write_bytes("\n".join(lines).encode() + random.randbytes(300))


def _run(random: Random, result: Fuzzed, root: Path, line: commands.Line, runner: Runner, before: State | None) -> None:
    sample = stores.case(result.base)
    given = commands.command(line, random, root, sample.release, sample.set_options(root), reads_only=before is not None)
    _judge(result, given, runner, root, before)


def _judge(result: Fuzzed, given: Command, runner: Runner, root: Path, before: State | None) -> None:
    """Run a command; `before`: the state that it must leave."""
    name = " ".join(word for word in given.words[:1] + given.words[2:5] if not word.startswith("/"))
    try:
        done = runner.call(given, SECONDS)
        texts = list(commands.broken(given, done))
        result.statuses[given.words[0], done.status] += 1
    except NoAnswer as error:
        texts = [str(error)]
    if before is not None and (changed := differences(before, state_of(root))):
        texts.append(f"changes the store: {', '.join(changed[:3])}")
    result.broken += [Broken(f"{given.words[0]}: {plain(text.splitlines()[0])}", str(given), f"{name}: {text}") for text in texts]


def _canary(scratch: Path) -> State:
    """Files beside the store that nothing may touch."""
    outside = scratch / _OUTSIDE
    outside.mkdir()
    (outside / "file").write_text("not of the store")
    (outside / "value.json").write_text(json.dumps({"not": "of the store"}))
    return state_of(outside)


def _unchanged(result: Fuzzed, scratch: Path, before: State) -> None:
    changed = differences(before, state_of(scratch / _OUTSIDE))
    if changed:
        result.broken.append(Broken("a file outside of the store changes", result.done[-1], ", ".join(changed)))


def _make_removable(scratch: Path) -> None:
    """Random modes may keep a directory from being removed."""
    for path in _directories(scratch):
        path.chmod(0o755)
    for path in sorted(scratch.iterdir()):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()


def _directories(top: Path) -> Iterator[Path]:
    for path in sorted(top.iterdir()):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
            yield path
            yield from _directories(path)
