"""The owner of a store is not trusted: nothing that lies in it makes a command of root change, read or give away what is not its own."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rmqstore.errors import RefusedError, RmqstoreError
from rmqstore.repair import procedure
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.transaction.folder import unfinished
from rmqstore.repair.transaction.perform import ForeignChangeError
from rmqstore.scan import machinecode
from rmqstore.store.root import Store
from tests.repair.attacks import (
    KNOWN_USER,
    UNKNOWN_USER,
    Exchanging,
    Watching,
    contents,
    forge_journal,
    forge_plan,
    give,
    reachable_directory,
    store_of,
)
from tests.repair.every_action import SAMPLE, Changing, Yes, no_errors
from tests.repair.faults import Counting, KillAt, Killed
from tests.support.cli import Run, rmqstore
from tests.support.waiting import PATIENCE

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
SECRET = b"root:$6$secret"


@pytest.fixture
def changing(fresh_store: Callable[[str], Path]) -> Changing:
    return Changing(fresh_store(SAMPLE))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that is none of the store's business."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "shadow").write_bytes(SECRET)
    (directory / "shadow").chmod(0o600)
    return directory


def stopped(changing: Changing) -> Path:
    """The folder of a transaction that was stopped in the middle of its actions."""
    changing.keep_plan()
    counting = Counting()
    changing.apply(counting)
    changing.undo()
    shutil.rmtree(changing.root / ".rmqstore")
    with pytest.raises(Killed):
        changing.apply(KillAt(counting.calls * 3 // 4))
    transaction = unfinished(changing.root)
    assert transaction is not None
    return transaction.directory


def applied(changing: Changing) -> Path:
    """The folder of a transaction that was applied."""
    changing.keep_plan()
    transaction = changing.apply().transaction
    assert transaction is not None
    return transaction.directory


def attempts(root: Path) -> Iterator[Run]:
    """Every command that may change a store."""
    yield rmqstore("recover", root, "--yes", "--broker-version", "5.3.3")
    yield rmqstore("undo", root, "--yes")
    for plan in sorted((root / ".rmqstore").glob("*/plan.json")):
        yield rmqstore("apply", plan, "--yes")


def refused(run_: Run) -> str:
    """The words with which a command refused; never with one that recommends to use what it refused."""
    assert (run_.status, run_.crashed) == (3, False), (run_.status, run_.out, run_.err)
    assert "rmqstore undo" not in run_.err
    assert "rmqstore apply" not in run_.err
    return run_.err


# Links


def test_the_folder_of_the_tool_as_a_link_is_refused(changing: Changing, outside: Path) -> None:
    (changing.root / ".rmqstore").symlink_to(outside)
    before = contents(outside)
    for attempt in attempts(changing.root):
        assert ".rmqstore" in refused(attempt)
    assert contents(outside) == before


PLACES = ("", "staged", "undo", "quarantine", "quarantine/commitlog", "journal.jsonl", "plan.json")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("begin", [stopped, applied])
def test_a_link_in_the_folder_of_a_transaction_is_not_followed(
    changing: Changing, outside: Path, begin: Callable[[Changing], Path], place: str
) -> None:
    path = begin(changing) / place
    if not path.exists():
        path = path.parent
    path.rename(outside / "moved")
    path.symlink_to(outside / "moved")
    before, store = contents(outside), changing.state
    if begin is stopped and place == "staged":  # the undo of a stopped transaction does not look at what was not put into the store
        refused(rmqstore("apply", path.parent / "plan.json", "--yes"))
    else:
        refused(rmqstore("undo", changing.root, "--yes"))
    assert changing.state == store
    for attempt in attempts(changing.root):
        assert not attempt.crashed
    assert contents(outside) == before
    assert rmqstore("history", changing.root).status in (0, 1)


PARTS = ("commitlog", "consumequeue", "consumequeue/Orders", "consumequeue/Orders/0", "index", "checkpoint", "lock")


@pytest.mark.parametrize("place", PARTS)
def test_a_link_in_the_store_is_not_followed(changing: Changing, outside: Path, place: str) -> None:
    log = min((changing.root / "commitlog").iterdir())
    with log.open("r+b") as stream:
        stream.seek(100)
        stream.write(b"something to repair")
    path = changing.root / place
    path.rename(outside / "moved")
    path.symlink_to(outside / "moved")
    before = contents(outside)
    run_ = rmqstore("recover", changing.root, "--yes", "--broker-version", "5.3.3")
    refused(run_)
    assert contents(outside) == before


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index"])
def test_a_link_is_accepted_where_a_setting_names_its_target(changing: Changing, tmp_path: Path, part: str) -> None:
    target = tmp_path / "disk"
    (changing.root / part).rename(target)
    (changing.root / part).symlink_to(target)
    run_ = rmqstore("recover", changing.root, "--yes", "--broker-version", "5.3.3")
    hint = refused(run_)
    setting = hint.split("--set ")[1].split(",")[0]
    assert setting.endswith(f"={target}")
    assert rmqstore("recover", changing.root, "--yes", "--broker-version", "5.3.3", "--set", setting).status == 0
    # The name of a link inside of the store is no answer to where it leads.
    itself = f"{setting.partition('=')[0]}={changing.root / part}"
    assert rmqstore("recover", changing.root, "--yes", "--broker-version", "5.3.3", "--set", itself).status == 3


def test_changes_below_a_named_link_are_made_and_taken_back(fresh_store: Callable[[str], Path], tmp_path: Path) -> None:
    root, target = fresh_store(SAMPLE), tmp_path / "disk"
    (root / "consumequeue").rename(target)
    (root / "consumequeue").symlink_to(target)
    changing = Changing(root, {"storePathConsumeQueue": str(target)})
    before = contents(target)
    changing.keep_plan()
    changing.apply()
    assert contents(target) != before
    changing.undo()
    assert contents(target) == before


def test_what_was_changed_before_a_part_became_a_link_is_taken_back_with_the_setting(changing: Changing, tmp_path: Path) -> None:
    before = contents(changing.root / "commitlog")
    applied(changing)
    (changing.root / "index").rename(tmp_path / "disk")
    (changing.root / "index").symlink_to(tmp_path / "disk")
    setting = refused(rmqstore("undo", changing.root, "--yes")).split("--set ")[1].split(",")[0]
    assert rmqstore("undo", changing.root, "--yes", "--set", setting).status == 0
    assert contents(changing.root / "commitlog") == before


def test_a_store_may_be_given_by_a_link(changing: Changing, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(changing.root)
    before = changing.state
    through = Changing(tmp_path / "link")
    procedure.execute(through.wish, Yes(), verify=no_errors)
    assert changing.state != before
    through.undo()
    assert changing.state == before


def test_a_directory_that_becomes_a_link_before_a_call(changing: Changing, outside: Path, tmp_path: Path) -> None:
    changing.keep_plan()
    subprocess.run(["cp", "-a", changing.root, tmp_path / "pristine"], check=True, timeout=PATIENCE)
    counting = Counting()
    changing.apply(counting)
    before = contents(outside)
    for number in range(0, counting.calls, 3):
        if changing.root.is_symlink():
            changing.root.unlink()
        else:
            shutil.rmtree(changing.root)
        shutil.rmtree(changing.root.with_name("store.away"), ignore_errors=True)
        subprocess.run(["cp", "-a", tmp_path / "pristine", changing.root], check=True, timeout=PATIENCE)
        with suppress(RmqstoreError, OSError):
            changing.apply(Exchanging(number, changing.root, outside))
        assert contents(outside) == before, number


# Forged journals and plans


def record(**changes: Any) -> Callable[[list[dict[str, Any]]], object]:
    """The undo record of the first action on a file that was changed in place, with other values."""
    return lambda lines: next(one for one in lines if one["event"] == "before" and one.get("undo")).update(changes)


def of_a_whole_file(**changes: Any) -> Callable[[list[dict[str, Any]]], object]:
    return lambda lines: next(one for one in lines if one["event"] == "before" and one["size"] and not one.get("undo")).update(changes)


def mode(value: int) -> Callable[[list[dict[str, Any]]], object]:
    def change(lines: list[dict[str, Any]]) -> None:
        for one in lines:
            if one["event"] == "before" and one["attributes"]:
                one["attributes"]["mode"] = value

    return change


JOURNALS: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "old bytes upwards": record(undo="../../../../outside/shadow"),
    "old bytes anywhere": record(undo="/etc/passwd"),
    "old bytes of another action": record(undo="undo/000077"),
    "old bytes from the quarantine": record(undo="quarantine/commitlog/x"),
    "no old bytes": record(undo=None),
    "another size": record(size=5),
    "no attributes": record(attributes=None),
    "a set-uid bit": mode(0o4755),
    "a set-gid bit": mode(0o2755),
    "a sticky bit": mode(0o1755),
    "a negative owner": record(attributes={"mode": 0o644, "uid": -1, "gid": 0, "mtime_ns": 0}),
    "holes before the file": record(holes=[[-4096, 4096]]),
    "holes behind the file": record(holes=[[0, 2**40]]),
    "a directory upwards": of_a_whole_file(directories=[{"path": "..", "attributes": None}]),
    "a directory anywhere": of_a_whole_file(directories=[{"path": "/etc", "attributes": None}]),
    "a set-uid directory": of_a_whole_file(directories=[{"path": ".", "attributes": {"mode": 0o4755, "uid": 0, "gid": 0, "mtime_ns": 0}}]),
    "an action that the plan has not": lambda lines: lines[0].update(action=10**6),
    "a missing record": lambda lines: lines.pop(0),
    "an unknown event": lambda lines: lines[-1].update(event="run"),
    "an unknown field": lambda lines: lines[0].update(command="sh"),
    "a value of another type": lambda lines: lines[0].update(size="5"),
    "copies without a number": lambda lines: lines.append({"event": "copying"}),
    "nested too deeply": lambda lines: lines.append({"event": "applied", "files": _deep()}),
}


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(600):
        value = [value]
    return value


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", JOURNALS)
@pytest.mark.parametrize("begin", [stopped, applied])
def test_a_forged_journal_is_refused(changing: Changing, outside: Path, begin: Callable[[Changing], Path], name: str) -> None:
    forge_journal(begin(changing) / "journal.jsonl", JOURNALS[name])
    before, store = contents(outside), changing.state
    for attempt in attempts(changing.root):
        refused(attempt)
    assert contents(outside) == before
    assert changing.state == store
    run_ = rmqstore("history", changing.root, "--format", "json")
    assert (run_.status, run_.crashed) == (1, False)
    (entry,) = run_.objects
    assert (entry["state"], entry["undo"], entry["continue"]) == ("damaged", None, None)
    assert entry["problem"]


def at(kind: str, **changes: Any) -> Callable[[dict[str, Any]], object]:
    """The first action of a kind with other values."""
    return lambda plan: next(action for action in plan["actions"] if action["kind"] == kind).update(changes)


PLANS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a file upwards": at("quarantine", path="../outside/shadow"),
    "a file anywhere": at("quarantine", path="/etc/passwd"),
    "contents upwards": at("create", contents={"length": 13, "file": "../../../outside/shadow"}, length=13),
    "contents anywhere": at("create", contents={"length": 13, "file": "/etc/shadow"}, length=13),
    "contents from the quarantine": at("create", contents={"length": 13, "file": "quarantine/commitlog/x"}, length=13),
    "a set-uid file": at("create", attributes={"mode": 0o4755, "uid": 0, "gid": 0, "mtime_ns": None}),
    "a set-uid directory": at("create", directories=[{"path": ".", "attributes": {"mode": 0o4755, "uid": 0, "gid": 0, "mtime_ns": 0}}]),
    "a transaction anywhere": lambda plan: plan.update(undoes="../../outside"),
    "a later transaction": lambda plan: plan.update(undoes="20990101-000000-000000-aaaaaa"),
    "a transaction that is not there": lambda plan: plan.update(undoes="20000101-000000-000000-aaaaaa"),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("begin", [stopped, applied])
def test_a_forged_plan_is_refused(changing: Changing, outside: Path, begin: Callable[[Changing], Path], name: str) -> None:
    forge_plan(begin(changing) / "plan.json", PLANS[name])
    before, store = contents(outside), changing.state
    run_ = rmqstore("undo", changing.root, "--yes")
    if "There is no transaction of" not in run_.err:  # an applied undo of another transaction is not offered to be taken back
        refused(run_)
    assert contents(outside) == before
    assert changing.state == store
    assert not rmqstore("history", changing.root).crashed


def test_a_forged_plan_of_a_stopped_transaction_is_not_recommended(changing: Changing) -> None:
    forge_plan(stopped(changing) / "plan.json", PLANS["contents upwards"])
    refused(rmqstore("recover", changing.root, "--yes", "--broker-version", "5.3.3"))


@pytest.mark.parametrize("kept", ["undo", "staged", "quarantine"])
@pytest.mark.parametrize("begin", [stopped, applied])
def test_kept_files_that_were_exchanged_are_not_put_into_the_store(
    changing: Changing, outside: Path, begin: Callable[[Changing], Path], kept: str
) -> None:
    directory = begin(changing) / kept
    files = [path for path in directory.rglob("*") if path.is_file()]
    if not files:
        pytest.skip("nothing was kept there")
    for path in files:
        size = path.stat().st_size
        path.write_bytes(SECRET.ljust(size, b"!")[:size])
    store = changing.state
    run_ = rmqstore("undo", changing.root, "--yes")
    if kept == "staged" and begin is stopped:  # an undo of a stopped transaction has no use for what was not put into the store
        assert run_.status == 0
    else:
        refused(run_)
        assert changing.state == store


def test_a_file_that_was_taken_out_is_put_back_only_with_its_own_bytes(changing: Changing) -> None:
    directory = applied(changing) / "quarantine"
    kept = next(path for path in sorted(directory.rglob("*")) if path.is_file() and path.stat().st_size)
    data, status = bytearray(kept.read_bytes()), kept.stat()
    data[len(data) // 2] ^= 1
    kept.write_bytes(data)
    os.utime(kept, ns=(status.st_atime_ns, status.st_mtime_ns))
    store = changing.state
    refused(rmqstore("undo", changing.root, "--yes"))
    assert changing.state == store
    data[len(data) // 2] ^= 1
    kept.write_bytes(data)
    os.utime(kept, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert rmqstore("undo", changing.root, "--yes").status == 0


def test_a_file_that_was_taken_out_is_not_put_back_without_its_digest(changing: Changing) -> None:
    forge_journal(applied(changing) / "journal.jsonl", of_a_whole_file(digest=None))
    store = changing.state
    refused(rmqstore("undo", changing.root, "--yes"))
    assert changing.state == store


def test_an_apply_goes_on_with_what_was_staged_only(changing: Changing) -> None:
    directory = stopped(changing)
    staged = [path for path in (directory / "staged").iterdir() if path.name != "index"]
    assert staged
    for path in staged:
        path.write_bytes(bytes(path.stat().st_size))
    store = changing.state
    refused(rmqstore("apply", directory / "plan.json", "--yes"))
    assert changing.state == store


@pytest.mark.parametrize("name", ["journal.jsonl", "plan.json", "journal.part"])
@pytest.mark.parametrize("begin", [stopped, applied])
def test_a_named_pipe_does_not_block(changing: Changing, begin: Callable[[Changing], Path], name: str) -> None:
    path = begin(changing) / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    if name != "journal.part":
        for attempt in attempts(changing.root):
            refused(attempt)
    run_ = rmqstore("history", changing.root)
    assert (run_.status, run_.crashed) == (0 if name == "journal.part" else 1, False)


def test_what_others_may_write_to_is_not_trusted(changing: Changing) -> None:
    directory = applied(changing)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (directory.parent, *directory.rglob("*")) if path.is_dir()} == {0o700}
    for path in (directory.parent, directory):
        path.chmod(0o770)
        assert "go-w" in refused(rmqstore("undo", changing.root, "--yes"))
        path.chmod(0o700)
    assert rmqstore("undo", changing.root, "--yes").status == 0


def test_set_id_bits_of_a_file_are_neither_kept_nor_given(changing: Changing) -> None:
    log = min((changing.root / "commitlog").iterdir())
    log.chmod(0o4755)
    changing.keep_plan()
    with pytest.raises(RefusedError, match="has mode 4755"):
        changing.apply()


# Hard links


def test_a_backup_that_shares_its_files_stays_as_it_is(changing: Changing, tmp_path: Path) -> None:
    log = min((changing.root / "commitlog").iterdir())
    with log.open("r+b") as stream:
        stream.seek(100)
        stream.write(b"something to repair")
    backup = tmp_path / "backup"
    subprocess.run(["cp", "-al", changing.root, backup], check=True, timeout=PATIENCE)
    before, kept = changing.state, contents(backup)
    for _ in range(2):
        result = rmqstore("recover", changing.root, "--yes", "--broker-version", "5.3.3")
        assert result.status == 0, result.err
        assert "hard links" in result.out
        assert "commitlog/00000000000000000000" in result.out
        assert changing.state != before
        assert contents(backup) == kept
        assert rmqstore("undo", changing.root, "--yes").status == 0
        assert changing.state == before
        assert contents(backup) == kept
        shutil.rmtree(backup)
        subprocess.run(["cp", "-al", changing.root, backup], check=True, timeout=PATIENCE)
        kept = contents(backup)


def test_many_linked_files_are_counted(changing: Changing, tmp_path: Path) -> None:
    subprocess.run(["cp", "-al", changing.root, tmp_path / "backup"], check=True, timeout=PATIENCE)

    def all_files(planning: Planning, store: Store) -> None:
        for directory in store.queue_directories():
            for file in directory.files.files:
                planning.builder.write(file.path, 0, os.urandom(20), reason="a change")

    plan = procedure.show(procedure.RepairRequest("test", "5.3.3", changing.open, all_files), Yes(), verify=no_errors).plan
    (note,) = plan.notes
    assert f"and {len(plan.actions) - 5} more" in note


def test_a_name_that_a_file_gets_meanwhile_is_noticed(changing: Changing, tmp_path: Path) -> None:
    changing.keep_plan()
    log = min((changing.root / "commitlog").iterdir())

    prepare = procedure.apply.prepare

    def linked(*arguments: Any) -> None:
        prepare(*arguments)
        os.link(log, tmp_path / "backup")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ForeignChangeError, match="another name"):
        patch.setattr(procedure.apply, "prepare", linked)
        changing.apply()
    assert (tmp_path / "backup").read_bytes() == log.read_bytes()
    data = log.read_bytes()
    changing.undo()
    assert log.read_bytes() == data


def test_a_linked_file_on_another_file_system_says_how_to_copy_it(fresh_store: Callable[[str], Path], tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system here")
    root = fresh_store(SAMPLE)
    with tempfile.TemporaryDirectory(dir=memory) as other:
        log = Path(other) / "commitlog"
        shutil.copytree(root / "commitlog", log)
        shutil.rmtree(root / "commitlog")
        first = min(log.iterdir())
        os.link(first, Path(other) / "backup")
        changing = Changing(root, {"storePathCommitLog": str(log)})
        changing.keep_plan()
        before = changing.state
        with pytest.raises(RefusedError) as raised:
            changing.apply()
        assert changing.state == before
        subprocess.run(raised.value.hint.split("`")[1], shell=True, check=True, timeout=PATIENCE)
        assert sorted(path.name for path in log.iterdir()) == sorted(Path(name).name for name in before if Path(name).parent == log)
        changing.plan_file.unlink()
        shutil.rmtree(changing.plan_file.with_name(f"{changing.plan_file.name}.contents"))
        changing.keep_plan()
        changing.apply()
        changing.undo()
        assert (Path(other) / "backup").read_bytes() == first.read_bytes()


# What else may be in the folder


REMAINS: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_bytes(b"x"),
    "a foreign directory": lambda path: (path / "mine").mkdir(parents=True),
    "a foreign file": lambda path: (path.mkdir(), (path / "20260101-000000-000000-aaaaaa").write_bytes(b"x")),
    "an empty transaction": lambda path: (path / "20260101-000000-000000-aaaaaa").mkdir(parents=True),
    "a transaction at the end of time": lambda path: (path / "99991231-235959-999999-aaaaaa").mkdir(parents=True),
    "a transaction at no time": lambda path: (path / "99999999-999999-999999-aaaaaa").mkdir(parents=True),
    "a named pipe": os.mkfifo,
    "a transaction with directories that a killed run left": lambda path: (
        path / "20260101-000000-000000-aaaaaa" / "staged" / "attempts-1" / "x"
    ).mkdir(parents=True),
}


@pytest.mark.parametrize("name", REMAINS)
def test_history_lists_whatever_is_there(changing: Changing, name: str) -> None:
    REMAINS[name](changing.root / ".rmqstore")
    for path in [changing.root / ".rmqstore", *(changing.root / ".rmqstore").rglob("*")]:
        path.chmod(0o700)
    run_ = rmqstore("history", changing.root, "--format", "json")
    assert (run_.status in (0, 1), run_.crashed) == (True, False)
    assert len(run_.objects) == 1
    assert (run_.status == 1) == (run_.objects[0]["state"] == "damaged") == (run_.objects[0]["problem"] is not None)
    recover = rmqstore("recover", changing.root, "--yes", "--broker-version", "5.3.3")
    assert (recover.status in (0, 3), recover.crashed) == (True, False), recover.err
    assert recover.status == 0 or ".rmqstore" in recover.err


def test_transactions_that_take_each_other_back_forever(changing: Changing) -> None:
    first = applied(changing)
    changing.undo()
    forge_plan(first / "plan.json", lambda plan: plan.update(undoes=changing.transactions[1].id))
    assert rmqstore("history", changing.root).status == 1
    refused(rmqstore("undo", changing.root, "--yes"))


def test_a_damaged_transaction_leaves_the_others_as_they_are(changing: Changing) -> None:
    first = applied(changing)
    (changing.root / ".rmqstore" / "20990101-000000-000000-aaaaaa").mkdir(mode=0o700)
    (changing.root / ".rmqstore" / "20990101-000000-000000-aaaaaa" / "plan.json").write_bytes(b"{")
    entries = rmqstore("history", changing.root, "--format", "json").objects
    assert [entry["state"] for entry in entries] == ["applied", "damaged"]
    assert [entry["undo"] for entry in entries] == [None, None]
    assert "20990101-000000-000000-aaaaaa" in entries[0]["problem"]
    shutil.rmtree(changing.root / ".rmqstore" / "20990101-000000-000000-aaaaaa")
    assert rmqstore("undo", changing.root, "--yes").status == 0
    assert first.is_dir()


# Rights


@needs_root
@pytest.mark.parametrize("user", [KNOWN_USER, UNKNOWN_USER])
def test_root_works_with_the_rights_of_the_owner(user: int) -> None:
    with reachable_directory() as directory:
        changing = Changing(store_of(user, directory))
        before = changing.state
        hook = Watching()
        procedure.execute(changing.wish, Yes(), verify=no_errors, writer=Writer(hook))
        changing.undo(hook)
        assert changing.state == before
        assert {one[:2] for one in hook.users} == {(user, user)}
        assert all(0 not in groups for *_, groups in hook.users)
        assert {path.lstat().st_uid for path in changing.root.rglob("*")} == {user}
        assert (os.geteuid(), os.getegid()) == (0, 0)


@needs_root
def test_rights_come_back_after_an_error() -> None:
    with reachable_directory() as directory:
        changing = Changing(store_of(KNOWN_USER, directory))
        groups = os.getgroups()

        def fails(*_: Any) -> None:
            assert os.geteuid() == KNOWN_USER
            raise RefusedError("no", "no")

        with pytest.raises(RefusedError, match="no"):
            procedure.execute(procedure.RepairRequest("test", "5.3.3", changing.open, fails), Yes(), verify=no_errors)
        assert (os.geteuid(), os.getegid(), os.getgroups()) == (0, 0, groups)


@needs_root
def test_rights_that_cannot_be_taken_are_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(groups: list[int]) -> None:
        raise PermissionError(1, "Operation not permitted")

    with reachable_directory() as directory:
        root = store_of(KNOWN_USER, directory)
        monkeypatch.setattr(os, "setgroups", forbidden)
        assert "Run this as that user" in refused(rmqstore("recover", root, "--yes", "--broker-version", "5.3.3"))


@needs_root
def test_plans_are_files_of_the_operator(tmp_path: Path) -> None:
    """They are in a directory that the owner of the store may not enter."""
    tmp_path.chmod(0o700)
    with reachable_directory() as directory:
        changing = Changing(store_of(UNKNOWN_USER, directory))
        changing.plan_file = tmp_path / "kept.plan"
        changing.keep_plan()
        assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {0}
        changing.apply()
        assert changing.root.joinpath("abort").stat().st_uid == UNKNOWN_USER


@pytest.mark.sampled(1)
@needs_root
@pytest.mark.parametrize("cached", [True, False], ids=["with compiled kernels", "without"])
def test_a_new_process_loads_its_program_with_the_rights_of_root(tmp_path: Path, cached: bool) -> None:
    tmp_path.chmod(0o700)
    with reachable_directory() as directory:
        changing = Changing(store_of(UNKNOWN_USER, directory))
        before = changing.state
        changing.keep_plan()
        environment = os.environ if cached else {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        for words, status in ((["apply", changing.plan_file], 1), (["undo", changing.root], 0)):
            command = [sys.executable, "-m", "rmqstore", *words, "--yes"]
            run_ = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
            compiled = not cached and words[0] == "apply"
            assert (run_.returncode, run_.stderr) == (status, f"{machinecode.COMPILING}\n" if compiled else ""), run_.stderr
        assert changing.state == before


@needs_root
def test_a_store_that_its_owner_cannot_reach_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    changing = Changing(store_of(KNOWN_USER, tmp_path))
    with pytest.raises(RefusedError, match="cannot enter a directory above it"):
        procedure.execute(changing.wish, Yes(), verify=no_errors)


@needs_root
def test_a_store_of_several_owners_says_how_to_make_it_one_of_one_owner() -> None:
    with reachable_directory() as directory:
        root = store_of(KNOWN_USER, directory)
        os.chown(min((root / "commitlog").iterdir()), 0, 0)
        os.chown(root / "config" if (root / "config").exists() else root / "index", 0, 0)
        run_ = rmqstore("recover", root, "--yes", "--broker-version", "5.3.3")
        assert f"`chown -hR {KNOWN_USER} {root}`" in refused(run_)
        give(root, KNOWN_USER)
        assert rmqstore("recover", root, "--yes", "--broker-version", "5.3.3").status == 0


@needs_root
def test_a_name_of_a_file_from_outside_is_not_given_away() -> None:
    with reachable_directory() as directory:
        root = store_of(KNOWN_USER, directory)
        (directory / "shadow").write_bytes(SECRET)
        (root / "config").mkdir(exist_ok=True)
        os.link(directory / "shadow", root / "config" / "topics.json")
        run_ = rmqstore("recover", root, "--yes", "--broker-version", "5.3.3")
        assert "hard link" in refused(run_)
        assert "chown" not in run_.err


@needs_root
def test_a_device_is_not_given_away() -> None:
    """As a backup of the store has it that root restored."""
    with reachable_directory() as directory:
        root = store_of(KNOWN_USER, directory)
        try:
            os.mknod(root / "index" / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 0))
        except PermissionError:
            pytest.skip("no devices can be made here")
        run_ = rmqstore("recover", root, "--yes", "--broker-version", "5.3.3")
        assert "devices" in refused(run_)
        assert "chown" not in run_.err


@needs_root
def test_a_link_to_what_only_root_may_read_stays_unread(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with reachable_directory() as directory:
        root = store_of(KNOWN_USER, directory)
        (tmp_path / "topics.json").write_text(json.dumps({"topicConfigTable": {"secret": {}}}))
        (root / "config").mkdir(exist_ok=True)
        (root / "config" / "topics.json").write_bytes(b"{")
        (root / "config" / "topics.json.bak").symlink_to(tmp_path / "topics.json")
        give(root, KNOWN_USER)
        run_ = rmqstore("recover", root, "--yes", "--broker-version", "5.3.3")
        assert not run_.crashed
        assert "secret" not in (root / "config" / "topics.json").read_text()


@needs_root
def test_an_owner_who_forges_a_transaction_gets_what_the_owner_has(tmp_path: Path) -> None:
    """A forgery that no check can tell from the truth: it makes the tool do what its owner could do, and no more."""
    with reachable_directory() as directory:
        changing = Changing(store_of(KNOWN_USER, directory))
        folder = applied(changing)

        def to_root(lines: list[dict[str, Any]]) -> None:
            for one in lines:
                if one["event"] == "before" and one["attributes"]:
                    one["attributes"].update(uid=0, gid=0, mode=0o777)

        forge_journal(folder / "journal.jsonl", to_root)
        store = changing.state
        run_ = rmqstore("undo", changing.root, "--yes")
        assert run_.status == 3, run_.err
        assert "which user 65534 cannot set" in run_.err
        assert changing.state == store


@needs_root
def test_a_running_process_of_another_user_is_seen() -> None:
    with reachable_directory() as directory:
        root = store_of(KNOWN_USER, directory)
        log = min((root / "commitlog").iterdir())
        with log.open("rb") as stream, subprocess.Popen(["sleep", "60"], stdin=stream) as process:
            try:
                run_ = rmqstore("recover", root, "--yes", "--broker-version", "5.3.3")
            finally:
                process.kill()
        assert (run_.status, f"process {process.pid}" in run_.err) == (3, True)


@needs_root
def test_spark_does_not_work_on_the_store_of_another_user() -> None:
    with reachable_directory() as directory:
        root = store_of(KNOWN_USER, directory)
        run_ = rmqstore("rebuild-index", root, "--yes", "--engine", "spark", "--broker-version", "5.3.3")
        assert "Spark" in refused(run_)
