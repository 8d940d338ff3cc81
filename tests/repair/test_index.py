"""The index after a repair: right files stay, and all others together are what the broker had written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqstore.formats import index as declared
from rmqstore.repair.derived.index import plan_index
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.log.future import FutureLog
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import Staging
from rmqstore.store.root import Store
from tests.repair.damaged_queues import Mending, described
from tests.repair.queuefiles import INJURIES, overwrite
from tests.repair.recovering import damaged
from tests.support import stores
from tests.support.builder import StoreBuilder
from tests.support.verifying import verify
from tests.verify.small_stores import SIZE, filled

CLEAN = [case.name for case in stores.cases() if not case.crashed]
INJURED = ("4.9.8-plain", "5.3.3-transactions", "5.4.0-manyfiles", "broker-5.3.3-dledger-clean")


def index_files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


def index_bytes(root: Path) -> list[bytes]:
    """The files in the order of their names; names are the clock of whoever made them."""
    return [path.read_bytes() for path in index_files(root)]


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("name", CLEAN)
def test_the_index_of_a_clean_store_is_what_a_rebuild_makes(name: str, everything: bool) -> None:
    case = stores.case(name)
    root = stores.sample_store(name)
    if everything and case.min_phy_offset:
        pytest.skip("items of expired messages are in no log")
    store = Store.open(root, settings=case.settings(root))
    with Staging.temporary() as staging:
        builder = PlanBuilder(store, staging, "test", case.release)
        judgement = judge(store)
        log = present_log(store, judgement.log)
        plan_index(Planning(builder), store, log, judgement, everything=everything)
        assert described(builder.build()) == []


@pytest.mark.limited(30)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("injury", [name for name in INJURIES if name not in ("shifted", "hole")])
@pytest.mark.parametrize("name", INJURED)
def test_an_injured_index_gets_the_bytes_of_the_broker_back(name: str, injury: str, place: str, tmp_path: Path) -> None:
    mending = Mending.of_sample(name, tmp_path)
    before = index_bytes(mending.root)
    INJURIES[injury](index_files(mending.root)[0 if place == "first" else -1])

    result = mending.mend()

    assert index_bytes(mending.root) == before
    assert (result.errors, result.left) == ({}, 0)


@pytest.mark.parametrize("name", ["4.9.8-plain", "5.4.0-manyfiles", "5.5.1-manyfiles", "5.5.1-batch", "5.1.4-longtopic"])
def test_the_whole_index_is_lost(name: str, tmp_path: Path) -> None:
    mending = Mending.of_sample(name, tmp_path)
    before = index_bytes(mending.root)
    shutil.rmtree(mending.root / "index")

    result = mending.rebuild_index()

    assert index_bytes(mending.root) == before
    assert (result.errors, result.left) == ({}, 0)


def test_a_missing_file_is_made_between_its_neighbours(tmp_path: Path) -> None:
    mending = Mending.of_sample("5.4.0-manyfiles", tmp_path)
    before = index_bytes(mending.root)
    first, middle, last = index_files(mending.root)
    middle.unlink()

    result = mending.rebuild_index()

    assert index_bytes(mending.root) == before
    (action,) = result.plan.actions
    assert (action.kind, action.code) == ("create", "RMQ-IX-INCOMPLETE")
    assert first.name < Path(action.path).name < last.name


def test_only_the_wrong_file_is_replaced(tmp_path: Path) -> None:
    mending = Mending.of_sample("5.4.0-manyfiles", tmp_path)
    _, middle, _ = index_files(mending.root)
    overwrite(middle, declared.HEADER_SIZE, b"\x7f")

    result = mending.rebuild_index()

    assert described(result.plan) == [("replace", f"index/{middle.name}")]


def test_items_of_messages_that_expired_stay_with_right_files(tmp_path: Path) -> None:
    mending = Mending.of_sample("4.9.8-headless", tmp_path)
    before = index_bytes(mending.root)
    index_files(mending.root)[-1].unlink()

    result = mending.rebuild_index()

    assert index_bytes(mending.root) == before
    assert (result.errors, result.left) == ({}, 0)


def test_a_file_of_expired_and_living_items_that_is_damaged_keeps_the_living_ones(tmp_path: Path) -> None:
    mending = Mending.of_sample("4.9.8-headless", tmp_path)
    overwrite(index_files(mending.root)[0], declared.HEADER_SIZE, b"\x7f")

    result = mending.rebuild_index()

    assert (result.errors, result.left) == ({}, 0)
    codes = {finding.code for finding in verify(mending.root, mending.settings, ("index",))}
    assert codes == set()


def test_everything_is_made_anew_when_asked(tmp_path: Path) -> None:
    mending = Mending.of_sample("4.9.8-headless", tmp_path)

    result = mending.rebuild_index(everything=True)

    assert {kind for kind, _ in described(result.plan)} == {"replace"}
    assert (result.errors, result.left) == ({}, 0)


def planned_for(builder: StoreBuilder, **changes: object) -> list[tuple[str, str]]:
    """What becomes of the index when the log of `builder` changes."""
    store = Store.open(builder.root, settings=builder.settings)
    log = FutureLog(store.message_log.files, **{"end_offset": 6 * SIZE, **changes})  # type: ignore[arg-type]
    with Staging.temporary() as staging:
        planning = PlanBuilder(store, staging, "test", "5.3.3")
        plan_index(Planning(planning), store, log, judge(store))
        return described(planning.build())


def test_a_file_with_items_that_the_log_will_not_have_is_made_anew(tmp_path: Path) -> None:
    builder = filled(StoreBuilder(tmp_path), 6)
    builder.build()
    (file,) = index_files(builder.root)

    assert planned_for(builder) == []
    assert planned_for(builder, end_offset=4 * SIZE) == [("replace", f"index/{file.name}")]
    assert planned_for(builder, damages=((2 * SIZE, 3 * SIZE),)) == [("replace", f"index/{file.name}")]
    assert planned_for(builder, end_offset=0) == [("quarantine", f"index/{file.name}")]


def test_a_broker_that_builds_no_index_keeps_what_it_has(tmp_path: Path) -> None:
    mending = Mending.of_sample("5.4.0-manyfiles", tmp_path)
    index_files(mending.root)[-1].unlink()
    mending.settings["messageIndexEnable"] = "false"

    result = mending.rebuild_index()

    assert (described(result.plan), len(result.plan.notes)) == ([], 1)


@pytest.mark.parametrize("name", ["4.9.8-plain", "5.5.1-batchcq"])
def test_a_file_that_no_broker_has_opened_yet_gets_what_the_first_start_would_write(name: str, tmp_path: Path) -> None:
    store = damaged(name, "index-extra-zero-file", tmp_path)

    result = store.recover()

    new = index_files(store.root)[-1]
    assert declared.HEADER.parse(new.read_bytes()).index_count == 1
    assert (result.errors, result.left) == ({}, 0)
    assert f"index/{new.name}" not in store.predict().changes
