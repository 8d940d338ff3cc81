"""Repaired stores in the real store code of a release: what it serves, and whether its first start changes anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.broker.consumed_messages import Broker, NotServed
from tests.broker.harness import Harness, JvmDied
from tests.broker.live import bases
from tests.broker.repaired import DELIVERING
from tests.campaign.cases import Case
from tests.campaign.judge import Problem, Repair, plain
from tests.support import stores


def opens(case: Case) -> bool:
    """Whether a store by itself can open the sample, and leaves it alone at a start."""
    return case.base in bases() and case.base not in DELIVERING


def problems(repair: Repair, root: Path, harness: Harness) -> Iterator[Problem]:
    """Every broken promise about what the store code serves. Raises JvmDied."""
    assert repair.promise is not None
    sample = stores.case(repair.case.base)
    broker = Broker(harness, root, sample.settings(root), sample.data.get("topics", {}))
    try:
        served = broker.serve(repair.promise.questions)
    except NotServed as error:
        yield Problem(f"the store code does not serve: {plain(str(error))}", str(error)[:600])
        return
    texts: dict[str, list[str]] = {}
    for text in repair.promise.broken(served, repair.lost):
        texts.setdefault(_kind(text), []).append(text)
    for kind, all_of_it in texts.items():
        yield Problem(kind, f"{len(all_of_it)}: {all_of_it[0]}")


def _kind(text: str) -> str:
    """The words of a broken promise, without names and numbers."""
    text = re.sub(r"\{.*\}|\(.*?\)|\[.*?\]", "…", text)
    text = re.sub(r"^\S+/-?\d+@\d+ at \d+", "a message", text)
    return "broker: " + re.sub(r"files: .*", "files", re.sub(r"key .*", "key", re.sub(r"-?\d+", "N", text)))[:120]


__all__ = ["JvmDied", "opens", "problems"]
