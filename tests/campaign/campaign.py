"""Verdicts on many cases: repairs in processes of their own, repaired stores side by side in a JVM of their release."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.broker.harness import Harness, JvmDied
from tests.broker.toolchain import JarsMissing
from tests.campaign import brokers as store_code
from tests.campaign.cases import Case
from tests.campaign.judge import Problem, Repair, Task, repair
from tests.support.worker import NoAnswer, Worker, in_memory

SECONDS = 180.0
_PER_CHUNK = 40
_STARTS = 6
"""Stores that are open side by side in one JVM: a start mostly sleeps."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refused`: why the tool declined. `note`: why no broker was asked."""

    case: Case
    problems: tuple[Problem, ...] = ()
    refused: str | None = None
    note: str | None = None

    @property
    def outcome(self) -> str:
        """One word for tables."""
        return "BROKEN" if self.problems else "refused" if self.refused is not None else "kept"

    def as_json(self) -> dict[str, Any]:
        """What a file of cases keeps."""
        return {"case": str(self.case), "options": self.case.options, "problems": [str(problem) for problem in self.problems]}


def judge_all(cases: Iterable[Case], jobs: int = 2, *, brokers: bool = True) -> Iterator[Verdict]:
    """A verdict on each case, release by release."""
    by_release: dict[str, list[Case]] = {}
    for case in cases:
        by_release.setdefault(case.release, []).append(case)
    chunks = [
        of_release[start : start + _PER_CHUNK]
        for _, of_release in sorted(by_release.items())
        for start in range(0, len(of_release), _PER_CHUNK)
    ]
    with ThreadPoolExecutor(jobs) as pool:
        for verdicts in pool.map(partial(_chunk, brokers=brokers), chunks):
            yield from verdicts


def reduced(verdict: Verdict, *, brokers: bool = True) -> Verdict:
    """The same problems, or one class of them, with as few damages as possible."""
    wanted = {problem.kind for problem in verdict.problems}
    kept = list(verdict.case.kept if verdict.case.kept is not None else range(len(verdict.case.damages)))
    for number in list(kept):
        if len(kept) == 1:
            break
        smaller = verdict.case.keeping(other for other in kept if other != number)
        (again,) = _chunk([smaller], brokers=brokers)
        if wanted & {problem.kind for problem in again.problems}:
            verdict = again
            kept.remove(number)
    return verdict


def _chunk(cases: Sequence[Case], *, brokers: bool) -> list[Verdict]:
    """Cases of one release."""
    wanted = brokers and any(store_code.opens(case) for case in cases)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmqstore-campaign-", dir=in_memory())))
        worker = stack.enter_context(Worker(repair))
        harness = stack.enter_context(Harness(cases[0].release, _STARTS)) if wanted else None
        pool = stack.enter_context(ThreadPoolExecutor(_STARTS))
        running: list[Future[Verdict]] = []
        for case in cases:
            place = scratch / str(case.number)
            for_broker = harness is not None and store_code.opens(case)
            try:
                repaired = worker.call(Task(case, place, for_broker), SECONDS)
            except NoAnswer as error:
                repaired = Repair(case, (Problem(_hang(str(error)), str(error)),))
            running.append(pool.submit(_served, repaired, place, harness))
        return [future.result() for future in running]


def _served(repaired: Repair, place: Path, harness: Harness | None) -> Verdict:
    problems, note = list(repaired.problems), None
    try:
        if repaired.served_from is not None and harness is not None:
            problems += store_code.problems(repaired, repaired.served_from, harness)
        elif repaired.refused is None:
            note = "no broker was asked"
    except (JvmDied, JarsMissing) as error:
        note = f"no broker was asked: {type(error).__name__}"
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Verdict(repaired.case, tuple(problems), repaired.refused, note)


def _hang(text: str) -> str:
    """The class of a call without answer: the last place in the code of the project."""
    places = [line.split("/rmqstore/")[-1] for line in text.splitlines() if "/rmqstore/" in line or "/commands/" in line]
    return f"{text.splitlines()[0]} in {places[0].strip() if places else 'unknown'}"
