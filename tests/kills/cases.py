"""An apply or an undo that is killed at random, again and again, and then finished or taken back by the command line.

A case depends on its seed and number alone, but for the moments of those kills that come after a random time.
"""

from __future__ import annotations

import multiprocessing
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from tests.campaign.cases import Damage
from tests.campaign.states import State, differences, state_of
from tests.support import operations, stores
from tests.support.cli import rmqstore
from tests.support.storeview import StoreView
from tests.support.worker import in_memory

SECONDS = 60
BASES = (
    "5.3.3-plain",
    "5.5.1-plain-crash",
    "4.9.8-transactions",
    "5.3.3-cqext",
    "5.3.3-batchcq-crash",
    "5.5.1-multipath",
    "5.4.0-manyfiles",
)
KINDS = (
    "log-page-zeroed",
    "queues-old-backup",
    "index-old-backup",
    "queue-units-exchanged",
    "log-file-resized",
    "queue-file-resized",
    "log-head-zeroed",
)
_ENDS = ("finish", "take back")
_MOST_FAULTS = 3
_FAULTS = ("time", "kill", "kill", "full", "error")
_NEW = 3600
_DONE = (0, 1)


@dataclass
class Killed:
    """A case: what was killed where, and everything that is not as it must be."""

    seed: int
    number: int
    base: str
    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"--seed {self.seed} --first {self.number} --cases 1: {self.base}; " + ", ".join(self.done)


def run_all(seed: int, numbers: Iterable[int], jobs: int = 2) -> Iterator[Killed]:
    """Every case, in order."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(run_case, seed), numbers)


def run_case(seed: int, number: int) -> Killed:
    """Run case `number` of a seed."""
    with tempfile.TemporaryDirectory(prefix="rmqstore-kills-", dir=in_memory()) as scratch:
        return _Case(seed, number, Path(scratch)).run()


class _Case:
    def __init__(self, seed: int, number: int, scratch: Path) -> None:
        self._random = Random(f"kills-{seed}-{number}")
        self.result = Killed(seed, number, self._random.choice(BASES))
        self._scratch = scratch
        self._root = scratch / "work" / "store"
        self._plan = scratch / "a.plan"
        self._began = time.time() - _NEW

    def run(self) -> Killed:
        """Both steps, each with faults, finished and taken back."""
        self._prepare()
        before = state_of(self._root)
        calls = {"apply": self._count("apply")}
        after = self._without_new_times(state_of(self._root))
        calls["undo"] = self._count("undo")
        self._demand(before, "an undisturbed undo")
        if self.result.problems:
            return self.result
        for step in ("apply", "undo"):
            self._fresh()
            if step == "undo":
                self._finished("apply")
            self._disturb(step, calls[step])
            end = self._random.choice(_ENDS)
            self.result.done.append(end)
            if step == "apply" and end == "finish":
                self._finished("apply")
                self._demand(after, "apply, disturbed and continued", times=False)
            else:
                self._taken_back()
            if step == "undo" or end == "take back":
                self._demand(before, f"{step}, disturbed and undone")
        return self.result

    def _prepare(self) -> None:
        """A damaged store at a place that stays the same, and a kept plan for it."""
        root = stores.fresh_store(self.result.base, self._scratch / "made")
        view = StoreView(stores.sample_store(self.result.base), stores.case(self.result.base).settings(root))
        while True:
            damage = Damage(self._random.choice(KINDS), self._random.getrandbits(32))
            for operation in (planned := damage.plan(view)):
                with suppress(OSError):
                    operation.apply(root)
            self.result.done.append(damage.kind)
            if planned:
                break
        operations.Create("abort").apply(root)
        root.rename(self._scratch / "kept")
        self._fresh()
        sample = stores.case(self.result.base)
        words = ("recover", self._root, "--plan-out", self._plan, "--broker-version", sample.release, *sample.set_options(self._root))
        done = rmqstore(*words)
        if done.status:
            raise RuntimeError(f"no plan for {self.result}: {done.err}")

    def _fresh(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.parent.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", "--sparse=always", self._scratch / "kept", self._root], check=True, timeout=SECONDS)

    def _words(self, step: str) -> list[str]:
        return ["apply", str(self._plan), "--yes"] if step == "apply" else ["undo", str(self._root), "--yes"]

    def _child(self, fault: str, number: int, step: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "tests.kills.child", fault, str(number), *self._words(step)]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def _count(self, step: str) -> int:
        with self._child("count", 0, step) as child:
            _, said = child.communicate(timeout=SECONDS)
        found = re.search(r"^calls: (\d+)$", said, re.MULTILINE)
        if child.returncode not in _DONE or found is None:
            self.result.problems.append(f"an undisturbed {step} ends with {child.returncode}: {said[-500:]}")
            return 1
        return int(found[1])

    def _disturb(self, step: str, calls: int) -> None:
        """Some faults, one after the other; each run goes on where the one before was stopped."""
        for _ in range(self._random.randrange(1, _MOST_FAULTS + 1)):
            fault = self._random.choice(_FAULTS)
            if fault == "time":
                self._killed_after_a_time(step)
                continue
            number = self._random.randrange(calls)
            self.result.done.append(f"{step} {fault} at call {number} of {calls}")
            with self._child(fault, number, step) as child:
                _, said = child.communicate(timeout=SECONDS)
            if "Traceback" in said or "unexpected" in said:
                self.result.problems.append(f"{step} with fault {fault} at {number}: {said[-800:]}")

    def _killed_after_a_time(self, step: str) -> None:
        """A kill some milliseconds after the folder of a new transaction appears, or goes on to be written."""
        there = self._folders()
        milliseconds = self._random.choice((0, 1, 3, 10, 30, 100))
        self.result.done.append(f"{step} killed after {milliseconds} ms")
        with self._child("count", 0, step) as child:
            end = time.monotonic() + SECONDS
            while child.poll() is None and self._folders() == there and time.monotonic() < end:
                time.sleep(0.0005)
            time.sleep(milliseconds / 1000)
            child.kill()
            child.communicate(timeout=SECONDS)

    def _folders(self) -> list[tuple[str, int]]:
        """Names and sizes of what is in the folders of transactions."""
        with suppress(FileNotFoundError):
            return [(str(path), path.lstat().st_size) for path in sorted((self._root / ".rmqstore").rglob("*"))]
        return []

    def _finished(self, step: str) -> None:
        done = rmqstore(*self._words(step))
        if done.status not in _DONE or done.crashed:
            self.result.problems.append(f"{step} ends with {done.status}: {done.err[-800:]}")

    def _taken_back(self) -> None:
        """What a person would do: look at the history, and undo what was stopped or is not undone."""
        changed = self._is_changed()
        if changed is None:
            rmqstore(*self._words("undo"))
        elif changed:
            self._finished("undo")
            if self._is_changed():
                self.result.problems.append("after an undo there is still something to undo")

    def _is_changed(self) -> bool | None:
        """Whether the history has a transaction that was stopped, or one that is not undone; None where it fails."""
        done = rmqstore("history", self._root, "--format", "json")
        if done.status or done.crashed:
            self.result.problems.append(f"history ends with {done.status}: {done.err[-500:]}")
            return None
        alive = [entry for entry in done.objects if entry["state"] in ("applying", "applied")]
        return bool(alive) and (alive[-1]["state"] == "applying" or alive[-1]["undoes"] is None)

    def _demand(self, wanted: State, what: str, *, times: bool = True) -> None:
        found = state_of(self._root)
        changed = differences(wanted, found if times else self._without_new_times(found))
        if changed:
            self.result.problems.append(f"{what}: {len(changed)} differences: {', '.join(changed[:4])}")

    def _without_new_times(self, state: State) -> State:
        """A state in which what was made by the case has no modification time."""
        newer = self._began * 10**9
        return {path: (*values[:4], None, *values[5:]) if values[4] > newer else values for path, values in state.items()}
