"""Cutting the log: at record boundaries only, with everything derived from it, and nothing changes its length."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError
from rmqstore.formats.epoch import EpochEntry, EpochFile, build_epoch_file, epoch_checksum, parse_epoch_file
from rmqstore.repair.log.truncate import truncate
from rmqstore.repair.procedure import RepairRequest, Result, execute
from rmqstore.repair.recover import plan_truncate
from tests.repair.every_action import Yes
from tests.repair.recovering import Damaged, damaged, messages_of, view_of
from tests.repair.test_recover import changes_nothing
from tests.support import stores
from tests.support.cli import rmqstore

BASE = "5.3.3-plain"


@pytest.fixture
def store(tmp_path: Path) -> Damaged:
    return Damaged(BASE, stores.fresh_store(BASE, tmp_path))


def cut(store: Damaged, at: int | None = None) -> Result:
    """`rmqstore truncate --yes`."""
    wish = RepairRequest("truncate", store.release, store.open, lambda planning, opened: plan_truncate(planning, opened, at=at))
    return execute(wish, Yes())


def lengths(store: Damaged) -> dict[str, int]:
    """Length of every file of log and queues."""
    paths = [path for part in ("commitlog", "consumequeue") for path in (store.root / part).rglob("*") if path.is_file()]
    return {path.relative_to(store.root).as_posix(): path.stat().st_size for path in paths}


@pytest.mark.parametrize("which", [0.1, 0.5, 0.8])
def test_a_cut_takes_exactly_the_messages_behind_it(which: float, store: Damaged) -> None:
    records = view_of(BASE).records
    target = records[int(which * len(records))]
    before = lengths(store)

    result = cut(store, target.offset)

    assert (result.errors, result.left) == ({}, 0)
    assert [lost.physical_offset for lost in result.plan.lost] == [record.offset for record in records if record.offset >= target.offset]
    for message in messages_of(BASE):
        kept = message.position < target.offset
        assert (store.unit(message.place) == (message.position, len(message.data))) is kept
    after = lengths(store)
    assert all(before[path] == length for path, length in after.items())
    file = store.root / target.path
    assert not file.read_bytes()[target.position :].strip(b"\0")
    assert max(path for path in after if path.startswith("commitlog/")) == target.path
    changes_nothing(store.predict())


def test_a_cut_at_a_file_border_leaves_the_file_before_closed(store: Damaged) -> None:
    border = view_of(BASE).data_files[2].start
    result = cut(store, border)
    assert (result.errors, result.left) == ({}, 0)
    assert sorted(path.name for path in (store.root / "commitlog").iterdir()) == [
        Path(file.path).name for file in view_of(BASE).log_files[:2]
    ]
    changes_nothing(store.predict())


def test_without_an_offset_a_sound_log_is_left_alone(store: Damaged) -> None:
    before = stores.content(store.root)
    result = cut(store)
    assert result.plan.empty
    assert stores.content(store.root) == before


@pytest.mark.parametrize("damage", ["torn-tail-half", "stale-tail-run", "stale-tail-garbage"])
def test_without_an_offset_a_dirty_tail_goes(damage: str, tmp_path: Path) -> None:
    store = damaged(BASE, damage, tmp_path)
    result = cut(store)
    assert (result.errors, result.left) == ({}, 0)
    changes_nothing(store.predict())


def test_damage_in_front_of_the_cut_is_told_and_left_alone(tmp_path: Path) -> None:
    store = damaged(BASE, "body-flip-mid", tmp_path)
    repair = truncate(store.open(), store.release)
    assert repair.empty
    (note,) = repair.notes
    assert "1 damaged place is before the cut" in note
    assert "rmqstore recover" in note


def test_an_offset_inside_a_record_is_refused_with_its_neighbours(store: Damaged) -> None:
    first, second = view_of(BASE).records[40:42]
    with pytest.raises(RefusedError, match=f"No record begins or ends at {first.offset + 5}") as refused:
        truncate(store.open(), store.release, first.offset + 5)
    assert refused.value.hint == f"The nearest boundaries are {first.offset} and {second.offset}."


@pytest.mark.parametrize("offset", [-1, 10**9])
def test_an_offset_outside_of_the_log_is_refused(offset: int, store: Damaged) -> None:
    with pytest.raises(RefusedError, match="outside of the log"):
        truncate(store.open(), store.release, offset)


def test_abort_stays_as_it_is(tmp_path: Path) -> None:
    store = Damaged("5.3.3-plain-crash", stores.fresh_store("5.3.3-plain-crash", tmp_path))
    cut(store, view_of(store.base).records[100].offset)
    assert (store.root / "abort").exists()


ENTRIES = (EpochEntry(1, 0), EpochEntry(2, 100_000), EpochEntry(5, 200_000))


def epochs(entries: tuple[EpochEntry, ...], checksum: int | None = None) -> bytes:
    return build_epoch_file(EpochFile(entries, epoch_checksum(entries) if checksum is None else checksum))


def test_epochs_behind_the_cut_go_from_both_files(store: Damaged) -> None:
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        (store.root / name).write_bytes(epochs(ENTRIES))
    cut(store, next(record.offset for record in view_of(BASE).records if record.offset > 100_000))
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        found = parse_epoch_file((store.root / name).read_bytes())
        assert found.entries == ENTRIES[:2]
        assert found.checksum_matches


def test_an_unchecked_epoch_file_stays_unchecked_and_a_wrong_one_is_left_alone(store: Damaged) -> None:
    wrong = epochs(ENTRIES, checksum=7)
    (store.root / "epochFileCheckpoint").write_bytes(epochs(ENTRIES, checksum=0))
    (store.root / "epochFileCheckpoint.bak").write_bytes(wrong)
    result = cut(store, view_of(BASE).records[50].offset)
    assert parse_epoch_file((store.root / "epochFileCheckpoint").read_bytes()) == EpochFile(ENTRIES[:1], 0)
    assert (store.root / "epochFileCheckpoint.bak").read_bytes() == wrong
    assert any("checksum" in note for note in result.plan.notes)


def test_an_epoch_file_without_entries_left_goes(store: Damaged) -> None:
    (store.root / "epochFileCheckpoint").write_bytes(epochs((EpochEntry(5, 200_000),)))
    cut(store, view_of(BASE).records[50].offset)
    assert not (store.root / "epochFileCheckpoint").exists()


def test_the_command_cuts_and_takes_it_back(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(BASE)
    options = [*stores.case(BASE).set_options(root), "--format", "json"]
    before = stores.content(root)
    at = str(view_of(BASE).records[300].offset)

    shown = rmqstore("truncate", root, "--at", at, "--dry-run", *options)
    assert shown.status == 0
    assert json.loads(shown.out.splitlines()[0])["type"] == "plan"
    assert stores.content(root) == before

    assert rmqstore("truncate", root, "--at", at, *options).status == 3  # nobody confirmed
    assert stores.content(root) == before

    done = rmqstore("truncate", root, "--at", at, "--yes", *options)
    assert (done.status, done.objects[-1]["errors"], done.objects[-1]["second_plan_actions"]) == (0, {}, 0)
    assert rmqstore("undo", root, "--yes", "--format", "json").status == 0
    assert {path: digest for path, digest in stores.content(root).items() if not path.startswith(".rmqstore/")} == before
