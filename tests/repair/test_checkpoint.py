"""The checkpoint and `abort` after a repair: a start like one after a clean stop, which changes nothing that belongs to messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqstore.formats.checkpoint import CHECKPOINT, FILE_SIZE, parse_checkpoint
from rmqstore.prediction.outcome import Mode
from rmqstore.prediction.simulation import simulate
from rmqstore.repair.derived.checkpoint import log_end
from rmqstore.repair.derived.judgement import judge, present_log
from tests.repair.damaged_queues import Mending, described
from tests.support import stores

CLEAN = [case.name for case in stores.cases() if not case.crashed]
CRASHED = [case.name for case in stores.cases() if case.crashed]
RELEASES = ("4.9.8-plain", "5.1.4-plain", "5.3.3-plain", "5.4.0-manyfiles", "5.5.1-plain")
DERIVED = ("consumequeue/", "consumequeue_ext/", "batchconsumequeue/", "index/")


def fields(mending: Mending) -> Any:
    return parse_checkpoint((mending.root / "checkpoint").read_bytes())


def rewrite(mending: Mending, **changes: int) -> None:
    (mending.root / "checkpoint").write_bytes(CHECKPOINT.build({**fields(mending), **changes}))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CLEAN)
def test_the_checkpoint_of_a_clean_store_stays(name: str, tmp_path: Path) -> None:
    mending = Mending.of_sample(name, tmp_path)

    assert described(mending.rebuild_checkpoint().plan) == []


@pytest.mark.parametrize("name", RELEASES)
def test_a_missing_checkpoint_gets_what_a_clean_stop_leaves(name: str, tmp_path: Path) -> None:
    mending = Mending.of_sample(name, tmp_path)
    before = fields(mending)
    (mending.root / "checkpoint").unlink()

    result = mending.rebuild_checkpoint()

    assert (result.errors, result.left) == ({}, 0)
    store = mending.open()
    end = log_end(store, present_log(store, judge(store).log))
    assert end.last is not None and end.last_queued is not None
    after = fields(mending)
    assert after.physic_msg_timestamp == end.last.store_timestamp
    assert after.logics_msg_timestamp == end.last_queued.store_timestamp
    assert after.index_msg_timestamp == before.index_msg_timestamp
    known = mending.profile.checkpoint_longs
    assert after.confirm_phy_offset == (end.last.offset if known >= 5 else 0)
    assert after.logics_physical_offset == (end.last_queued.offset if known >= 6 else 0)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"physic_msg_timestamp": 1 << 45}, "RMQ-CP-AHEAD"),
        ({"logics_msg_timestamp": -1}, "RMQ-CP-INVALID"),
        ({"physic_msg_timestamp": 1000}, "RMQ-CP-BEHIND"),
        ({"confirm_phy_offset": 1}, "RMQ-CP-OFFSET"),
        ({"index_msg_timestamp": 0}, "RMQ-CP-INDEX"),
    ],
)
def test_a_wrong_checkpoint_is_written_again(changes: dict[str, int], code: str, tmp_path: Path) -> None:
    mending = Mending.of_sample("5.4.0-manyfiles", tmp_path)
    rewrite(mending, **changes)

    result = mending.rebuild_checkpoint()

    (action,) = result.plan.actions
    assert (action.path, action.code) == ("checkpoint", code)
    assert (result.errors, result.left) == ({}, 0)


def test_what_only_other_brokers_tell_stays(tmp_path: Path) -> None:
    mending = Mending.of_sample("5.4.0-manyfiles", tmp_path)
    store = mending.open()
    first = next(iter(stores.case("5.4.0-manyfiles").truth()))
    assert store.message_log.min_offset == 0
    rewrite(mending, physic_msg_timestamp=1000, master_flushed_offset=77, confirm_phy_offset=int(first["size"]))
    (mending.root / "epochFileCheckpoint").write_text("")

    mending.rebuild_checkpoint()

    assert (fields(mending).master_flushed_offset, fields(mending).confirm_phy_offset) == (77, int(first["size"]))


GARBAGE = [
    {"physic_msg_timestamp": 1000, "master_flushed_offset": 0x5A5A5A5A5A5A},
    {"physic_msg_timestamp": -1, "master_flushed_offset": 77},
    {"confirm_phy_offset": 1, "master_flushed_offset": 77},
]


@pytest.mark.parametrize("changes", GARBAGE, ids=["beyond the log", "beside damage", "beside a wrong offset"])
def test_what_cannot_be_known_is_zero(changes: dict[str, int], tmp_path: Path) -> None:
    mending = Mending.of_sample("5.4.0-manyfiles", tmp_path)
    rewrite(mending, **changes)

    result = mending.rebuild_checkpoint()

    assert fields(mending).master_flushed_offset == 0
    (note,) = (note for note in result.plan.notes if "masterFlushedOffset" in note)
    assert str(changes["master_flushed_offset"]) in note


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CRASHED)
def test_after_a_crash_the_checkpoint_is_the_one_that_the_next_start_leaves(name: str, tmp_path: Path) -> None:
    mending = Mending.of_sample(name, tmp_path)

    mending.mend()

    assert "checkpoint" not in simulate(mending.open(), mending.release).changes


@pytest.mark.parametrize("name", ["5.1.4-plain-crash", "5.3.3-plain-crash", "5.5.1-plain-crash"])
def test_a_log_without_records_is_confirmed_up_to_the_end_of_its_last_file(name: str, tmp_path: Path) -> None:
    """So say starts of 5.1.4 to 5.5.1 after a clean stop; to them an empty file is a full one (fact sheet commit log §5.5)."""
    mending = Mending.of_sample(name, tmp_path)
    *others, last = sorted((mending.root / "commitlog").iterdir())
    for path in others:
        path.unlink()
    last.write_bytes(bytes(last.stat().st_size))

    result = mending.mend()

    assert result.left == 0
    assert fields(mending).confirm_phy_offset == int(last.name) + last.stat().st_size
    assert "checkpoint" not in simulate(mending.open(), mending.release).changes


def test_a_short_checkpoint_gets_its_length_back(tmp_path: Path) -> None:
    mending = Mending.of_sample("5.3.3-plain", tmp_path)
    (mending.root / "checkpoint").write_bytes(b"\0" * 24)

    result = mending.rebuild_checkpoint()

    assert described(result.plan) == [("replace", "checkpoint")]
    assert (mending.root / "checkpoint").stat().st_size == FILE_SIZE


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CRASHED)
def test_after_a_crash_the_next_start_is_a_normal_one_and_changes_no_message(name: str, tmp_path: Path) -> None:
    mending = Mending.of_sample(name, tmp_path)

    result = mending.mend()

    assert result.left == 0
    assert [code for code in result.errors or {} if code.startswith(("RMQ-CQ", "RMQ-IX", "RMQ-CP"))] == []
    outcome = simulate(mending.open(), mending.release)
    assert (outcome.mode, outcome.starts, outcome.index_deleted) == (Mode.NORMAL, True, ())
    assert outcome.dispatched_in_load is not None and outcome.dispatched_after_start is not None
    assert (outcome.dispatched_in_load.count, outcome.dispatched_after_start.count) == (0, 0)
    assert [path for path in outcome.changes if path.startswith(DERIVED)] == []


def test_abort_can_stay(tmp_path: Path) -> None:
    mending = Mending.of_sample("5.3.3-plain-crash", tmp_path)

    mending.mend(keeps_abort=True)

    assert (mending.root / "abort").exists()
