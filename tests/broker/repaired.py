"""Damages sample stores, repairs them by the command line, and lets the real store code serve what the repair promised.

python -m tests.broker.repaired --cases 200 --seed 1                                        200 cases out of all
python -m tests.broker.repaired --release 5.3.3                                             every case of stores that 5.3.3 wrote
python -m tests.broker.repaired --base 5.3.3-plain --damage body-flip-mid --abort yes       one case
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

from tests.broker.consumed_messages import Broker, NotServed
from tests.broker.expected_messages import Lost, Promise
from tests.broker.harness import Harness, JvmDied
from tests.broker.live import JOBS, bases
from tests.broker.toolchain import JarsMissing, missing
from tests.support import operations, stores
from tests.support.cli import Run, rmqstore
from tests.support.damages import DAMAGES
from tests.support.operations import Op
from tests.support.storeview import StoreView

MODULE = "tests.broker.repaired"
ABORT = ("yes", "no")
NOTHING_TO_DAMAGE = "the store has nothing that could be damaged so"
DELIVERING = ("4.9.8-schedule", "4.9.8-schedule-crash")
"""4.x delivers what is due as soon as the store is open: it changes at each start."""

_PER_JVM = 60
_REFUSED = 3
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class RepairCase:
    """A sample store, a named damage, whether `abort` is there, and the release that repairs for and opens it."""

    base: str
    damage: str
    abort: str
    release: str

    @property
    def options(self) -> str:
        """What chooses this case alone on the command line."""
        return f"--base {self.base} --damage {self.damage} --abort {self.abort} --for-release {self.release}"


@dataclass(frozen=True, slots=True)
class RepairVerdict:
    """`problems`: everything that is not as promised. `undone`: why nothing can be said."""

    case: RepairCase
    problems: tuple[str, ...] = ()
    undone: str | None = None


def all_cases() -> list[RepairCase]:
    """Every sample store that a store by itself can open × every named damage × `abort`, opened by the release that wrote it."""
    names = [base for base in bases() if base not in DELIVERING]
    return [RepairCase(base, damage, abort, stores.case(base).release) for base, damage, abort in product(names, DAMAGES, ABORT)]


def judge_all(cases: Iterable[RepairCase], jobs: int = JOBS) -> Iterator[RepairVerdict]:
    """A verdict on each case, release by release: repairs one by one, starts of the repaired stores side by side. Raises JarsMissing."""
    by_release: dict[str, list[RepairCase]] = {}
    for case in cases:
        by_release.setdefault(case.release, []).append(case)
    for release, of_release in sorted(by_release.items()):
        for start in range(0, len(of_release), _PER_JVM):
            with Harness(release, jobs) as harness, ThreadPoolExecutor(jobs) as pool, tempfile.TemporaryDirectory() as scratch:
                running: list[Future[RepairVerdict]] = []
                for number, case in enumerate(of_release[start : start + _PER_JVM]):
                    planned = planned_damage(case)
                    if planned is None:
                        yield RepairVerdict(case, undone=NOTHING_TO_DAMAGE)
                        continue
                    repaired = RepairedStore(case, planned, Path(scratch) / str(number))
                    running.append(pool.submit(_judge, repaired, harness))
                yield from (future.result() for future in running)


def planned_damage(case: RepairCase) -> list[Op] | None:
    """The operations of the damage; None where it needs records or queue files that the store does not have."""
    root = stores.sample_store(case.base)
    try:
        return DAMAGES[case.damage](StoreView(root, stores.case(case.base).settings(root)))
    except (IndexError, ValueError):
        return None


class RepairedStore:
    """One case: a damaged copy of the sample, repaired at once. `problems`: what is wrong before any broker has seen it."""

    def __init__(self, case: RepairCase, planned: list[Op], scratch: Path) -> None:
        self.case = case
        self.sample = stores.case(case.base)
        self.root = stores.fresh_store(case.base, scratch)
        operations.apply(planned, self.root)
        self._set_abort()
        self.promise = Promise(self.sample, stores.sample_store(case.base), self.root, planned)
        self.problems: list[str] = []
        self.lost = Lost(())
        if self.promise.refused:
            self._require_refusal()
        else:
            self.lost = self._repair()
            self.promise.note_repair()

    def _set_abort(self) -> None:
        abort = self.root / "abort"
        if self.case.abort == "no":
            operations.Delete("abort").apply(self.root)
        elif not abort.exists():
            abort.touch()

    def _run(self, command: str, *options: str) -> Run:
        return rmqstore(command, self.root, "--format", "json", *self.sample.set_options(self.root), *options)

    def _recover(self) -> Run:
        return self._run("recover", "--yes", "--broker-version", self.case.release)

    def _require_refusal(self) -> None:
        before = stores.content(self.root)
        done = self._recover()
        if done.status != _REFUSED or stores.content(self.root) != before:
            self.problems.append(f"without a log recover ends with {done.status}, or changes something")

    def _repair(self) -> Lost:
        """Recovers, verifies, and recovers once more, which must find nothing to do."""
        done = self._recover()
        if done.status:
            said = done.err.strip().splitlines()[-1:] or done.out.strip().splitlines()[-1:]
            self.problems.append(f"recover ends with {done.status}: {' '.join(said)[:400]}")
            if not done.out:
                return Lost(())
        plans = [entry for entry in done.objects if entry["type"] == "plan"]
        errors = Counter(entry["code"] for entry in self._run("verify").objects if entry.get("severity") == "error")
        if errors:
            self.problems.append(f"verify finds errors: {dict(errors)}")
        before = stores.content(self.root)
        again = [action for entry in self._recover().objects if entry["type"] == "plan" for action in entry.get("actions", ())]
        if again:
            self.problems.append(f"the second plan has {len(again)} actions, the first is {again[0]['kind']} {again[0]['path']}")
        elif stores.content(self.root) != before:
            self.problems.append("a second run with nothing to do changes the store")
        return Lost([lost for entry in plans for lost in entry.get("lost", ())], any(entry.get("actions") for entry in plans))


def _judge(store: RepairedStore, harness: Harness) -> RepairVerdict:
    if store.promise.refused:
        return RepairVerdict(store.case, tuple(store.problems))
    broker = Broker(harness, store.root, store.sample.settings(store.root), store.sample.data.get("topics", {}))
    try:
        seen = broker.serve(store.promise.questions)
    except NotServed as error:
        return RepairVerdict(store.case, (*store.problems, f"the store code does not serve: {error}"))
    except JvmDied:
        return RepairVerdict(store.case, tuple(store.problems), undone="the JVM died")
    return RepairVerdict(store.case, (*store.problems, *store.promise.broken(seen, store.lost)))


def describe(verdict: RepairVerdict, module: str = MODULE) -> Iterator[str]:
    """The case, how to run it again, and what is wrong."""
    yield f"python -m {module} {verdict.case.options}"
    yield from (f"    {problem}" for problem in verdict.problems[:_SHOWN])
    if len(verdict.problems) > _SHOWN:
        yield f"    … {len(verdict.problems) - _SHOWN} more"


def _arguments(module: str, description: str | None, jobs: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, metavar="N", help="default: all that are left by the options below")
    parser.add_argument("--seed", type=int, default=1, help="order of the cases (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case (default %(default)s)")
    parser.add_argument("--release", action="append", metavar="RELEASE", help="only stores of this release; may be repeated")
    parser.add_argument("--base", action="append", metavar="STORE", help="only this sample store; may be repeated")
    parser.add_argument("--damage", action="append", metavar="NAME", help="only this damage; may be repeated")
    parser.add_argument("--abort", choices=ABORT, help="only with or without `abort`")
    parser.add_argument("--for-release", metavar="RELEASE", help="the release that opens the store, instead of the one that wrote it")
    parser.add_argument("--jobs", type=int, default=jobs, metavar="N", help="stores that are open side by side (default %(default)s)")
    return parser.parse_args()


def _chosen(options: argparse.Namespace, cases: Iterable[RepairCase]) -> list[RepairCase]:
    chosen = [
        RepairCase(case.base, case.damage, case.abort, options.for_release or case.release)
        for case in cases
        if (not options.release or case.release in options.release)
        and (not options.base or case.base in options.base)
        and (not options.damage or case.damage in options.damage)
        and (not options.abort or case.abort == options.abort)
    ]
    Random(options.seed).shuffle(chosen)
    return chosen[options.first :][: options.cases]


def run(
    module: str,
    description: str | None,
    cases: Iterable[RepairCase],
    judge: Callable[[Iterable[RepairCase], int], Iterator[RepairVerdict]],
    jobs: int,
) -> int:
    """The command line of a module that judges cases of repairs: prints broken promises, returns the exit status."""
    options = _arguments(module, description, jobs)
    if reason := missing():
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    began = time.monotonic()
    counts: Counter[str] = Counter()
    try:
        for verdict in judge(_chosen(options, cases), options.jobs):
            counts["broken" if verdict.problems else "not judged" if verdict.undone else "kept"] += 1
            if verdict.problems:
                print(*describe(verdict, module), sep="\n", flush=True)
            elif verdict.undone:
                print(f"python -m {module} {verdict.case.options}\n    not judged: {verdict.undone}")
    except JarsMissing as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"seed {options.seed}, promises: {told or 'no cases'}, {time.monotonic() - began:.0f} s")
    return 1 if counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(run(MODULE, __doc__, all_cases(), judge_all, JOBS))
