"""The procedure of writing commands: plan, show, confirm, apply, verify, plan again; and everything that stops it."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqstore.errors import RefusedError
from rmqstore.repair import procedure
from rmqstore.repair.derived.requests import Planning
from rmqstore.repair.plan import space
from rmqstore.repair.plan.model import Action
from rmqstore.repair.procedure import RepairRequest
from rmqstore.repair.transaction.folder import State, unfinished
from rmqstore.repair.transaction.history import history
from rmqstore.repair.transaction.perform import ForeignChangeError
from rmqstore.store.root import Store
from tests.repair.every_action import NEW_QUEUE, SAMPLE, Changing, Yes, age, every_kind, no_errors
from tests.repair.faults import Counting, KillAt, Killed
from tests.support import stores
from tests.support.cli import rmqstore

Planner = procedure.Planner


@pytest.fixture
def changing(fresh_store: Callable[[str], Path]) -> Changing:
    root = fresh_store(SAMPLE)
    age(root)
    return Changing(root)


def execute(changing: Changing, planner: Planner, dialog: Yes | None = None) -> procedure.Result:
    return procedure.execute(RepairRequest("test", "5.3.3", changing.open, planner), dialog or Yes(), verify=no_errors)


def one_write(planning: Planning, store: Store) -> None:
    planning.builder.write(store.commitlog.files[0].path, 0, b"new!", reason="a write")


# What the procedure does


def test_it_plans_applies_verifies_and_finds_nothing_more_to_do(changing: Changing) -> None:
    dialog = Yes()
    result = procedure.execute(changing.wish, dialog, verify=lambda store, crashed=None: {"RMQ-CL-CRC": 1})
    assert result.transaction is not None and result.transaction.state is State.APPLIED
    assert (result.errors, result.left, result.complete) == ({"RMQ-CL-CRC": 1}, 0, False)
    assert dialog.shown == [result.plan]
    assert dialog.done == list(result.plan.actions)


def test_a_second_plan_that_is_not_empty_is_told(changing: Changing) -> None:
    def never_content(planning: Planning, store: Store) -> None:
        planning.builder.write(store.checkpoint_path, 0, os.urandom(8), reason="different every time")

    result = execute(changing, never_content)
    assert (result.left, result.complete) == (1, False)


def test_nothing_to_do_leaves_no_trace(changing: Changing) -> None:
    before = stores.snapshot(changing.root)
    result = execute(changing, lambda planning, store: None)
    assert (result.transaction, result.complete) == (None, True)
    assert stores.snapshot(changing.root) == before


def test_a_plan_that_is_not_confirmed_leaves_no_trace(changing: Changing) -> None:
    before = stores.snapshot(changing.root)
    with pytest.raises(RefusedError, match="not confirmed"):
        execute(changing, every_kind, Yes(answer=False))
    assert stores.snapshot(changing.root) == before


def test_a_planner_that_fails_leaves_no_trace(changing: Changing) -> None:
    def fails(planning: Planning, store: Store) -> None:
        planning.staging.open("unfinished", 10_000)[:] = 1
        raise RefusedError("no", "no")

    before = stores.snapshot(changing.root)
    with pytest.raises(RefusedError, match="no"):
        execute(changing, fails)
    assert stores.snapshot(changing.root) == before


def test_showing_a_plan_leaves_no_trace(changing: Changing) -> None:
    before = stores.snapshot(changing.root)
    result = procedure.show(changing.wish, Yes(), changing.plan_file, verify=no_errors)
    assert stores.snapshot(changing.root) == before
    assert result.kept_in == changing.plan_file
    with pytest.raises(RefusedError, match="exists already"):
        procedure.show(changing.wish, Yes(), changing.plan_file, verify=no_errors)


def test_without_space_nothing_is_written(changing: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    changing.keep_plan()
    before = changing.state
    monkeypatch.setattr(space, "_available", lambda directory: 0)
    with pytest.raises(RefusedError, match="0 bytes of free space"):
        changing.apply()
    assert changing.state == before
    assert unfinished(changing.root) is None


def test_the_root_keeps_its_time(changing: Changing) -> None:
    before = changing.root.stat().st_mtime_ns
    execute(changing, one_write)
    assert changing.root.stat().st_mtime_ns == before


# A store that changed


def test_a_plan_for_a_store_that_changed_is_refused(changing: Changing) -> None:
    changing.keep_plan()
    os.utime(changing.root / "config" / "topics.json" if (changing.root / "config").is_dir() else changing.root / "abort.bak")
    before = changing.state
    with pytest.raises(RefusedError, match="was written to"):
        changing.apply()
    assert changing.state == before


def test_bytes_that_changed_behind_the_same_time_are_noticed(changing: Changing) -> None:
    changing.keep_plan()
    log = min((changing.root / "commitlog").iterdir())
    kept = log.stat()
    _write(log, 102, b"?")
    os.utime(log, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    before = changing.state
    with pytest.raises(RefusedError, match="changed since the plan was made, at byte 100"):
        changing.apply()
    assert changing.state == before


def test_an_undo_of_a_store_that_changed_is_refused(changing: Changing) -> None:
    changing.keep_plan()
    changing.apply()
    (changing.root / "commitlog" / "00000000000000999999").write_bytes(b"a broker was here")
    before = changing.state
    with pytest.raises(RefusedError, match="00000000000000999999 is new"):
        changing.undo()
    assert changing.state == before


def test_an_undo_sees_other_bytes_behind_the_same_time(changing: Changing) -> None:
    execute(changing, one_write)
    log = min((changing.root / "commitlog").iterdir())
    kept = log.stat()
    _write(log, 2, b"?")
    os.utime(log, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    with pytest.raises(RefusedError, match="changed since transaction"):
        changing.undo()


class Intruding(Yes):
    """Somebody else changes the store after the third action."""

    def __init__(self, intrude: Callable[[], None]) -> None:
        super().__init__()
        self._intrude = intrude

    def advance(self, action: Action) -> None:
        super().advance(action)
        if len(self.done) == 3:
            self._intrude()


def _write(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(position)
        stream.write(data)


INTRUSIONS: dict[str, Callable[[Path], None]] = {
    "a new file": lambda root: (root / "index" / "20300101000000000").write_bytes(b"new") and None,
    "a file of the plan is gone": lambda root: sorted((root / "commitlog").iterdir())[2].unlink(),
    "a file of the plan is there before it": lambda root: (root / "abort").write_bytes(b"4711") and None,
    "a file that the plan leaves alone was written to": lambda root: _write(root / "abort.bak", 0, b"4711"),
    "a file that was done already was written to": lambda root: _write(root / NEW_QUEUE / f"{0:020d}", 0, b"x"),
    "bytes that the plan is going to change": lambda root: _write(min((root / "commitlog").iterdir()), 102, b"?"),
    "a shorter file": lambda root: os.truncate(max((root / "commitlog").iterdir()), 10),
}


@pytest.mark.parametrize("name", INTRUSIONS)
def test_a_change_in_the_middle_stops_it_and_undo_restores_what_it_holds(changing: Changing, name: str) -> None:
    before = changing.state
    with pytest.raises(ForeignChangeError) as raised:
        execute(changing, every_kind, Intruding(lambda: INTRUSIONS[name](changing.root)))
    assert raised.value.exit_status == 3
    assert "Another process changed the store meanwhile" in raised.value.message
    stopped = unfinished(changing.root)
    assert stopped is not None
    assert f"rmqstore undo {changing.root} {stopped.id}" in raised.value.hint
    with pytest.raises(RefusedError):
        procedure.apply_file(stopped.plan_path, Yes(), verify=no_errors)
    changed_by_hand = changing.state
    changing.undo()
    after = changing.state
    differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    # Only what the other one did is left of it, and the times of the directories that it did it in.
    touched = {path for path in differing if not Path(path).is_dir()}
    assert len(touched) <= 1, touched
    assert touched <= {path for path in before.keys() | changed_by_hand.keys() if before.get(path) != changed_by_hand.get(path)}


def test_an_undo_that_meets_other_changes_puts_back_the_rest_when_it_is_run_again(changing: Changing) -> None:
    before = changing.state
    execute(changing, every_kind)
    intruder = changing.root / "index" / "20300101000000000"
    with pytest.raises(ForeignChangeError) as raised:
        procedure.undo(changing.root, None, Intruding(lambda: intruder.write_bytes(b"new") and None))
    assert raised.value.hint.endswith(f"`rmqstore undo {changing.root}`.")
    changing.undo()
    assert unfinished(changing.root) is None
    intruder.unlink()
    os.utime(intruder.parent, ns=(0, before[str(intruder.parent)][3]))
    assert changing.state == before
    assert not any(entry.can_be_undone for entry in history(changing.root))


# Stopped in the middle


def test_after_a_stop_every_other_change_is_refused(changing: Changing) -> None:
    changing.keep_plan()
    counting = Counting()
    with pytest.raises(Killed):
        changing.apply(KillAt(120))
    stopped = unfinished(changing.root)
    assert stopped is not None and counting.calls == 0
    for attempt in (lambda: execute(changing, one_write), lambda: procedure.show(changing.wish, Yes(), verify=no_errors)):
        with pytest.raises(RefusedError, match=f"Transaction {stopped.id} .everything. .* was stopped in the middle") as raised:
            attempt()
        assert f"rmqstore apply {stopped.plan_path}" in raised.value.hint
        assert f"rmqstore undo {changing.root} {stopped.id}" in raised.value.hint
    assert procedure.apply_file(stopped.plan_path, Yes(), verify=no_errors).transaction == stopped
    assert unfinished(changing.root) is None


def test_what_a_dead_run_left_before_it_changed_anything_is_cleared_away(changing: Changing) -> None:
    changing.keep_plan()
    with pytest.raises(Killed):
        changing.apply(KillAt(20))
    assert [one.state for one in changing.transactions] == [State.INCOMPLETE]
    result = execute(changing, one_write)
    assert changing.transactions == [result.transaction]


class Interrupting(Yes):
    """Ctrl-C in the middle of the second action."""

    def advance(self, action: Action) -> None:
        super().advance(action)
        if len(self.done) == 2:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_stops_between_two_actions(changing: Changing) -> None:
    changing.keep_plan()
    before = changing.state
    dialog = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        procedure.apply_file(changing.plan_file, dialog, verify=no_errors)
    assert len(dialog.done) == 2
    assert unfinished(changing.root) is not None
    changing.undo()
    assert changing.state == before


def test_a_plan_that_is_applied_already_is_not_applied_again(changing: Changing) -> None:
    changing.keep_plan()
    first = changing.apply()
    state = changing.state
    assert changing.apply().transaction == first.transaction
    assert changing.state == state
    changing.undo()
    assert changing.apply().transaction != first.transaction


# Directories


def test_directories_that_leave_the_store_come_back(changing: Changing) -> None:
    tree = changing.root / "index" / "sub"
    for name in ("empty", "deeper/empty", "full"):
        (tree / name).mkdir(parents=True)
    (tree / "full" / "file").write_bytes(b"x")
    (changing.root / "abort").mkdir()
    (changing.root / "abort" / "inside").write_bytes(b"y")
    age(changing.root)
    before = changing.state

    def clear(planning: Planning, store: Store) -> None:
        planning.builder.quarantine_directory(store.root / tree.relative_to(changing.root), reason="a directory")
        if store.abort_path.is_dir():
            planning.builder.quarantine_directory(store.abort_path, reason="a directory")
            planning.builder.create(store.abort_path, b"", reason="the file")

    result = execute(changing, clear)
    assert result.left == 0
    assert not tree.exists()
    assert stat.S_ISREG((changing.root / "abort").stat().st_mode)
    after = changing.state
    undone = changing.undo().transaction
    assert changing.state == before
    assert undone is not None
    changing.undo(name=undone.id)
    assert changing.state == after


# History


def test_history_and_what_can_be_taken_back(changing: Changing) -> None:
    assert history(changing.root) == []
    before = changing.state
    first = execute(changing, one_write).transaction
    middle = changing.state
    second = execute(changing, every_kind).transaction
    assert first is not None and second is not None
    assert [(entry.transaction, entry.can_be_undone) for entry in history(changing.root)] == [(first, False), (second, True)]
    with pytest.raises(RefusedError, match="a later transaction"):
        changing.undo(name=first.id)
    with pytest.raises(RefusedError, match="no transaction 1999"):
        changing.undo(name="1999")
    undo_of_second = changing.undo().transaction
    assert changing.state == middle
    assert undo_of_second is not None
    with pytest.raises(RefusedError, match="already"):
        changing.undo(name=second.id)
    entries = history(changing.root)
    assert [entry.undone_by for entry in entries] == [None, undo_of_second.id, None]
    assert [entry.can_be_undone for entry in entries] == [True, False, True]
    changing.undo()
    assert changing.state == before
    with pytest.raises(RefusedError, match="There is no transaction of"):
        changing.undo()


def test_what_was_brought_back_is_taken_back_by_what_brought_it(changing: Changing) -> None:
    changing.keep_plan()
    before = changing.state
    applied = changing.apply().transaction
    undone = changing.undo().transaction
    assert applied is not None and undone is not None
    redone = changing.undo(name=undone.id)
    assert redone.plan.command == "redo everything"
    with pytest.raises(RefusedError):
        changing.undo(name=applied.id)
    again = changing.undo()
    assert again.plan.command == "undo everything"
    assert changing.state == before


# The command line


def test_commands_tell_programs_what_they_did(changing: Changing) -> None:
    changing.keep_plan()
    plan, done = rmqstore("apply", changing.plan_file, "--yes", "--format", "json").objects
    assert (plan["type"], plan["command"], len(plan["actions"])) == ("plan", "everything", done["actions"])
    assert {"files", "data"}.isdisjoint(plan)
    assert (done["type"], done["state"]) == ("transaction", "applied")
    assert sum(done["errors"].values()) > 0
    (entry,) = rmqstore("history", changing.root, "--format", "json").objects
    assert (entry["id"], entry["state"], entry["undo"]) == (done["id"], "applied", f"rmqstore undo {changing.root} {done['id']}")
    assert entry["kept_bytes"] > 0
    undo = rmqstore(*entry["undo"].split()[1:], "--yes", "--format", "json")
    assert (undo.status, undo.objects[1]["undoes"]) == (0, done["id"])
    assert [entry["state"] for entry in rmqstore("history", changing.root, "--format", "json").objects] == ["undone", "applied"]


def test_commands_tell_people_what_they_did(changing: Changing) -> None:
    changing.keep_plan()
    run_ = rmqstore("apply", changing.plan_file, "--yes")
    assert run_.status == 1
    assert re.search("^undo +rmqstore undo ", run_.out, re.MULTILINE)
    assert "errors remain" in run_.out
    assert "everything" in rmqstore("history", changing.root).out
    assert rmqstore("undo", changing.root, "--dry-run").status == 0
    assert len(changing.transactions) == 1


def test_without_a_terminal_only_yes_is_yes(changing: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    changing.keep_plan()
    before = changing.state
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        run_ = rmqstore("apply", changing.plan_file)
    assert run_.status == 3
    assert "--yes" in run_.err
    assert changing.state == before


def test_an_interrupted_command_says_how_to_go_on(changing: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmqstore.commands import writing

    changing.keep_plan()
    advance = writing.PlanDialog.advance

    def interrupting(dialog: writing.PlanDialog, action: Action) -> None:
        advance(dialog, action)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(writing.PlanDialog, "advance", interrupting)
    run_ = rmqstore("apply", changing.plan_file, "--yes")
    assert run_.status == 130
    assert "1 of " in run_.err
    assert "continue with `rmqstore apply" in run_.err


@pytest.mark.parametrize("words", [["apply", "missing.plan"], ["undo", "missing"], ["history", "missing"]])
def test_what_is_not_there_is_said(words: list[str], tmp_path: Path) -> None:
    run_ = rmqstore(words[0], tmp_path / words[1])
    assert (run_.status, run_.crashed) == (4, False)
