"""An apply or an undo that is stopped anywhere: going on ends where it should have ended, going back ends where it began."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from rmqstore.errors import RmqstoreError
from rmqstore.repair.files import lock
from rmqstore.repair.files.writer import Hook, Primitive
from rmqstore.repair.transaction.folder import State, unfinished
from rmqstore.store import window
from tests.repair.every_action import SAMPLE, Changing, age, without_new_times
from tests.repair.faults import IO_ERROR, NO_SPACE, Counting, ExitAt, FailAt, KillAt, Killed, ShortWrites
from tests.support import stores
from tests.support.waiting import PATIENCE

MEMORY = Path("/dev/shm")
"""A file system that needs no disk; the tests' directory lies on another."""

Step = Callable[[Changing, Hook], object]


class Case:
    """A store with a plan, as often as it is needed, and what it is before and afterwards."""

    def __init__(self, directory: Path, log: Path | None) -> None:
        self._moved = [(directory / "work", directory / "kept")]
        self._only_changes = log is not None
        self._backup = directory / "work" / "backup"
        settings = {}
        root = stores.fresh_store(SAMPLE, directory / "work")
        if log is not None:
            subprocess.run(["cp", "-a", "--sparse=always", root / "commitlog", log], check=True, timeout=PATIENCE)
            shutil.rmtree(root / "commitlog")
            settings = {"storePathCommitLog": str(log)}
            self._moved.append((log, directory / "log"))
            age(log)
        age(root)
        self._back_up(root)
        self.changing = Changing(root, settings)
        self.changing.keep_plan()
        for work, kept in self._moved:
            subprocess.run(["cp", "-a", work, kept], check=True, timeout=PATIENCE)
        self.before = self.fresh().state
        self.apply_calls = _count(self.changing.apply)
        self.after = without_new_times(self.changing.state)
        self.undo_calls = _count(self.changing.undo)

    def _back_up(self, root: Path) -> None:
        """A backup that shares files with the store, of the checkpoint and of a log file, if that is on the same file system."""
        self._backup.mkdir()
        for number, path in enumerate([root / "checkpoint", *sorted((root / "commitlog").glob("*"))[:1]]):
            os.link(path, self._backup / str(number))
        self._bytes = self.backup

    @property
    def backup(self) -> list[tuple[bytes, int]]:
        return [(path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(self._backup.iterdir())]

    @property
    def backup_is_as_it_was(self) -> bool:
        """Whether the backup that shares files with the store has not changed."""
        return self.backup == self._bytes

    def fresh(self) -> Changing:
        """The store as it was, at the place that it always has."""
        for work, kept in self._moved:
            shutil.rmtree(work, ignore_errors=True)
            subprocess.run(["cp", "-a", kept, work], check=True, timeout=PATIENCE)
        return self.changing

    def applied(self) -> Changing:
        """The store as it is afterwards."""
        changing = self.fresh()
        changing.apply()
        return changing

    def killed_at_every_call(self, begin: Callable[[], Changing], step: Step, calls: int) -> Iterator[tuple[int, Changing]]:
        """The store after the step was killed at its last call, at the one before, and so on; with the numbers of the calls.

        Up to the first change of the store itself it makes no difference on which file system the log lies.
        """
        for number in reversed(range(calls)):
            changing = begin()
            _killed(partial(step, changing), number)
            if self._only_changes and number < calls - 10 and unfinished(changing.root) is None:
                return
            yield number, changing


def _count(step: Callable[[Hook], object]) -> int:
    counting = Counting()
    step(counting)
    assert counting.calls > 50
    return counting.calls


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through all processes of the machine, every time, is left to the tests of the lock."""
    monkeypatch.setattr(lock, "refuse_if_used", lambda store: None)


@pytest.fixture(scope="module", params=["one file system", "log on another file system"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    directory = tmp_path_factory.mktemp("crash")
    if not MEMORY.is_dir() or MEMORY.stat().st_dev == directory.stat().st_dev:
        if request.param != "one file system":
            pytest.skip(f"{MEMORY} is no other file system here")
        yield Case(directory, None)
        return
    with TemporaryDirectory(dir=MEMORY) as other:
        yield Case(Path(other), None if request.param == "one file system" else directory / "commitlog")


def test_every_primitive_is_met(case: Case) -> None:
    counting = Counting()
    changing = case.fresh()
    changing.apply(counting)
    changing.undo(counting)
    assert set(counting.kinds) >= set(Primitive) - {Primitive.UNLINK}


def test_undo_restores_everything(case: Case) -> None:
    changing = case.fresh()
    changing.apply()
    assert without_new_times(changing.state) == case.after != case.before
    changing.undo()
    assert changing.state == case.before


def test_undo_of_undo(case: Case) -> None:
    changing = case.fresh()
    changing.apply()
    exactly = changing.state
    for _ in range(2):
        undone = changing.undo().transaction
        assert changing.state == case.before
        assert undone is not None
        changing.undo(name=undone.id)
        assert changing.state == exactly
    changing.undo()
    assert changing.state == case.before


@pytest.mark.sampled(1)
def test_killed_at_every_call_and_continued(case: Case) -> None:
    for number, changing in case.killed_at_every_call(case.fresh, Changing.apply, case.apply_calls):
        changing.apply()
        assert without_new_times(changing.state) == case.after, number
        assert case.backup_is_as_it_was, number


@pytest.mark.sampled(1)
def test_killed_at_every_call_and_taken_back(case: Case) -> None:
    for number, changing in case.killed_at_every_call(case.fresh, Changing.apply, case.apply_calls):
        _take_back(changing)
        assert changing.state == case.before, number
        assert case.backup_is_as_it_was, number


@pytest.mark.exhaustive
def test_undo_killed_at_every_call_and_continued(case: Case) -> None:
    for number, changing in case.killed_at_every_call(case.applied, Changing.undo, case.undo_calls):
        _take_back(changing)
        assert changing.state == case.before, number
        assert case.backup_is_as_it_was, number


@pytest.mark.limited(1)
@pytest.mark.sampled(0)
def test_undo_killed_at_every_call_and_taken_back(case: Case) -> None:
    for number, changing in case.killed_at_every_call(case.applied, Changing.undo, case.undo_calls):
        stopped = unfinished(changing.root)
        if stopped is not None:
            changing.undo(name=stopped.id)
        elif changing.state == case.before:
            changing.undo(name=changing.transactions[-1].id)
        assert without_new_times(changing.state) == case.after, number
        changing.undo()
        assert changing.state == case.before, number
        assert case.backup_is_as_it_was, number


@pytest.mark.limited(2)
@pytest.mark.sampled(0)
@pytest.mark.parametrize(("error", "for_ever"), [(NO_SPACE, True), (IO_ERROR, False)], ids=["ENOSPC for ever", "EIO once"])
def test_a_disk_that_fails_at_every_call(case: Case, error: int, for_ever: bool) -> None:
    for number in range(case.apply_calls):
        changing = case.fresh()
        hook = FailAt(number, error, for_ever=for_ever)
        with pytest.raises((RmqstoreError, OSError)) as raised:
            changing.apply(hook)
        assert hook.failed
        if isinstance(raised.value, RmqstoreError):
            assert raised.value.exit_status == 4
            assert os.strerror(error) in raised.value.message
            changed = changing.transactions[-1:] and changing.transactions[-1].state in (State.APPLYING, State.APPLIED)
            assert ("was not finished" if changed else "Nothing of the store was changed") in raised.value.message
        if number % 2:
            changing.apply()
            assert without_new_times(changing.state) == case.after, number
        _take_back(changing)
        assert changing.state == case.before, number
        assert case.backup_is_as_it_was, number


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("error", "for_ever"), [(NO_SPACE, True), (IO_ERROR, False)], ids=["ENOSPC for ever", "EIO once"])
def test_a_disk_that_fails_during_an_undo(case: Case, error: int, for_ever: bool) -> None:
    for number in range(0, case.undo_calls, 9):
        changing = case.applied()
        with pytest.raises((RmqstoreError, OSError)) as raised:
            changing.undo(FailAt(number, error, for_ever=for_ever))
        if isinstance(raised.value, RmqstoreError):
            assert (raised.value.exit_status, os.strerror(error) in raised.value.message) == (4, True)
        _take_back(changing)
        assert changing.state == case.before, number
        assert case.backup_is_as_it_was, number


@pytest.mark.parametrize("step", ["apply", "undo"])
def test_bytes_that_cannot_be_read(case: Case, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    begin, do = (case.fresh, Changing.apply) if step == "apply" else (case.applied, Changing.undo)
    reads = _FailingReads(None)
    changing = begin()
    with monkeypatch.context() as patch:
        patch.setattr(window.os, "pread", reads)
        do(changing)
    for number in range(0, reads.count, 19):
        changing = begin()
        with monkeypatch.context() as patch, pytest.raises(RmqstoreError) as raised:
            patch.setattr(window.os, "pread", _FailingReads(number))
            do(changing)
        assert (raised.value.exit_status, os.strerror(IO_ERROR) in raised.value.message) == (4, True), raised.value.message
        stopped = unfinished(changing.root)
        assert stopped is None or stopped.id in raised.value.hint
        _take_back(changing)
        assert changing.state == case.before, number
        assert case.backup_is_as_it_was, number


class _FailingReads:
    """`os.pread` that fails once."""

    def __init__(self, at: int | None) -> None:
        self.count = 0
        self._at = at
        self._pread = os.pread

    def __call__(self, descriptor: int, size: int, position: int) -> bytes:
        self.count += 1
        if self.count - 1 == self._at:
            raise OSError(IO_ERROR, os.strerror(IO_ERROR))
        return self._pread(descriptor, size, position)


def test_short_writes(case: Case) -> None:
    changing = case.fresh()
    changing.apply(ShortWrites(997))
    assert without_new_times(changing.state) == case.after
    changing.undo(ShortWrites(997))
    assert changing.state == case.before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(6))
def test_killed_again_and_again(case: Case, seed: int) -> None:
    chance = random.Random(seed)
    changing = case.fresh()
    wanted = chance.choice(["after", "before"])
    for _ in range(8):
        _killed(changing.apply, chance.randrange(case.apply_calls))
    if wanted == "after":
        changing.apply()
        assert without_new_times(changing.state) == case.after
    for _ in range(8):
        _killed(partial(_take_back, changing), chance.randrange(case.undo_calls))
    _take_back(changing)
    assert changing.state == case.before


@pytest.mark.parametrize("part", [0.75, 0.85, 0.95])
def test_a_process_that_really_dies(case: Case, part: float) -> None:
    changing = case.fresh()
    child = os.fork()
    if child == 0:
        changing.apply(ExitAt(int(case.apply_calls * part)))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert unfinished(changing.root) is not None
    changing.apply()
    assert without_new_times(changing.state) == case.after


@pytest.mark.parametrize("part", [0.6, 0.9])
def test_an_undo_whose_process_really_dies(case: Case, part: float) -> None:
    changing = case.applied()
    child = os.fork()
    if child == 0:
        changing.undo(ExitAt(int(case.undo_calls * part)))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert unfinished(changing.root) is not None
    changing.undo()
    assert changing.state == case.before
    assert case.backup_is_as_it_was


def _killed(step: Callable[[Hook], object], number: int) -> None:
    try:
        step(KillAt(number))
    except Killed:
        return


def _take_back(changing: Changing, hook: Hook | None = None) -> None:
    """What a person would do: undo, where there is something to undo."""
    standing = [one for one in changing.transactions if one.state in (State.APPLYING, State.APPLIED)]
    if standing and not (unfinished(changing.root) is None and standing[-1].plan.undoes is not None):
        changing.undo(hook)
