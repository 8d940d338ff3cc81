"""A recovery whose queues and index somebody else builds plans the same changes, byte for byte, as one of this process.

Every fifth damage is tried by default, all with RMQSTORE_ALL_DAMAGES=1.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqstore.errors import RmqstoreError
from rmqstore.pipeline.job import Job, StoreAt
from rmqstore.pipeline.local import LocalRunner
from rmqstore.pipeline.rebuild.jobs import DistributedRebuild
from rmqstore.prediction.release import choose_release
from rmqstore.reading.progress import Advance
from rmqstore.repair.derived.consumequeues import LostUnits
from rmqstore.repair.derived.requests import Planning, Rebuilder
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.model import Action
from rmqstore.repair.plan.staging import Staging
from rmqstore.repair.recover import Recovery, Strategy
from tests.pipeline.places import BASES, EVERYTHING, damaged_stores
from tests.support import stores
from tests.support.cli import rmqstore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = [(Strategy.SALVAGE, LostUnits.NEIGHBOUR), (Strategy.SALVAGE, LostUnits.PLACEHOLDER), (Strategy.BROKER, LostUnits.NEIGHBOUR)]
PIECE = 20_000
WITHOUT = "without queues and index"


class Shipped:
    """Runs jobs as they are when they have travelled to another process."""

    jobs = 0

    def run(self, job: Job, advance: Advance) -> Iterator[tuple[str, bytes]]:
        self.jobs += 1
        return LocalRunner(2).run(pickle.loads(pickle.dumps(job)), advance)


def planned(at: StoreAt, strategy: Strategy, lost_units: LostUnits, rebuilder: Rebuilder | None) -> tuple[object, ...] | str:
    """The plan with the bytes of its files, or why there is none."""
    store = at.open()
    release = choose_release(store, "auto").release
    with Staging.temporary() as staging:
        builder = PlanBuilder(store, staging, "recover", release)
        try:
            Recovery(release, strategy, lost_units).plan(Planning(builder, rebuilder=rebuilder), store)
        except RmqstoreError as error:
            return error.message
        plan = builder.build()
        return tuple(_whole(action, staging) for action in plan.actions), plan.lost, plan.notes


def _whole(action: Action, staging: Staging) -> tuple[Action, str | None]:
    contents = action.contents
    if contents is None or contents.file is None:
        return action, None
    digest = hashlib.sha256((staging.directory / contents.file).read_bytes()).hexdigest()
    return replace(action, contents=replace(contents, file=None), attributes=None), digest


@pytest.mark.limited(1)
@pytest.mark.sampled(0)  # 50 damages each
@pytest.mark.parametrize(("strategy", "lost_units"), WAYS)
@pytest.mark.parametrize("base", BASES)
def test_every_damage(base: str, strategy: Strategy, lost_units: LostUnits, tmp_path: Path) -> None:
    places = damaged_stores(base, tmp_path, every=1 if EVERYTHING else 5)
    bare = stores.fresh_store(base, tmp_path / WITHOUT)
    for part in ("consumequeue", "index"):
        shutil.rmtree(bare / part)
    rebuilt = 0
    for at in [*places, StoreAt.of(bare, settings=stores.case(base).settings(bare))]:
        here = planned(at, strategy, lost_units, None)
        assert planned(at, strategy, lost_units, DistributedRebuild(Shipped(), at, largest=PIECE)) == here, at.path
        rebuilt += any(digest is not None for _, digest in here[0]) if isinstance(here, tuple) else 0
    assert rebuilt > len(places) // 20


def test_only_what_no_broker_starts_with(tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    at = StoreAt.of(root, settings=stores.case("5.3.3-plain").settings(root))
    for part in ("0", "1"):
        min((root / "consumequeue" / "TopicA" / part).iterdir()).write_bytes(b"short")
    here = planned(at, Strategy.MINIMAL, LostUnits.NEIGHBOUR, None)
    runner = Shipped()
    there = planned(at, Strategy.MINIMAL, LostUnits.NEIGHBOUR, DistributedRebuild(runner, at))
    assert there == here
    assert isinstance(here, tuple)
    assert len([digest for _, digest in here[0] if digest is not None]) == 2
    assert runner.jobs == 2


def test_by_spark(session: SparkSession, tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    settings = stores.case("5.3.3-plain").set_options(root)
    before = {path.relative_to(root): path.read_bytes() for path in root.glob("consumequeue/*/*/*")}
    for part in ("consumequeue", "index"):
        shutil.rmtree(root / part)

    run = rmqstore("recover", root, *settings, "--engine", "spark", "--yes", "--format", "json")

    assert (run.status, run.err) == (0, "")
    after = {path.relative_to(root): path.read_bytes() for path in root.glob("consumequeue/*/*/*")}
    assert {path: data for path, data in after.items() if any(data)} == {path: data for path, data in before.items() if any(data)}
    assert rmqstore("verify", root, *settings).status == 0
