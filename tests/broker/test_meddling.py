"""A broker that is started in the middle of an apply recovers before it finds the lock taken: the apply notices, stops, and undo puts
back what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rmqstore.errors import RmqstoreError
from rmqstore.repair.plan.model import Action, ActionKind
from rmqstore.repair.procedure import RepairRequest, execute
from rmqstore.repair.recover import Recovery
from rmqstore.repair.transaction.folder import State, Transaction, unfinished
from tests.broker.harness import Harness
from tests.broker.toolchain import JarsMissing, missing, prepared
from tests.repair.every_action import Yes
from tests.repair.faults import Killed
from tests.repair.recovering import Damaged, damaged
from tests.support import stores
from tests.support.cli import rmqstore

REFUSED = 3
DAMAGE = "cq-all-removed+body-flip-mid"
RELEASES = ("4.9.8", "5.5.1")

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(missing() is not None, reason=f"the real store code cannot run here: {missing()}"),
]


@dataclass
class Meddled(Yes):
    """Says yes, and lets something happen once so many actions are done."""

    at: int = 0
    happens: Callable[[], None] = lambda: None

    def advance(self, action: Action) -> None:
        super().advance(action)
        if len(self.done) == self.at:
            self.happens()


@dataclass
class Scene:
    """A damaged store of one release, what lay in it, and what the broker did to it."""

    store: Damaged
    before: Mapping[str, bytes] = field(default_factory=dict)
    started: bool | None = None

    def broker(self) -> None:
        """The real store code loads the store and wants to start, in a process that ends."""
        sample = stores.case(self.store.base)
        with Harness(sample.release, 1) as harness:
            answer = harness.recover(self.store.root, sample.settings(self.store.root), sample.data.get("topics", {}))
        assert answer["loadOk"]
        assert answer["changedByLoad"]
        self.started = answer["startOk"]

    def repair(self, dialog: Yes) -> None:
        """`rmqstore recover --yes`."""
        execute(RepairRequest("recover", self.store.release, self.store.open, Recovery(self.store.release).plan), dialog)

    @property
    def transaction(self) -> Transaction:
        """The one that was stopped."""
        found = unfinished(self.store.root)
        assert found is not None and found.state is State.APPLYING
        return found

    def undo(self) -> list[str]:
        """`rmqstore undo --yes`, which must succeed; the notes of its plan."""
        run = rmqstore("undo", self.store.root, "--yes", "--format", "json")
        assert run.status == 0, run.err
        return [note for entry in run.objects if entry["type"] == "plan" for note in entry.get("notes", ())]

    def changed(self, *, but: Iterable[Action]) -> set[str]:
        """Files that are not as before, without those that a plan touches."""
        now = content(self.store.root)
        differing = {path for path in self.before.keys() | now.keys() if self.before.get(path) != now.get(path)}
        return differing - {action.path for action in but} - {"lock"}

    def not_restored(self, actions: Iterable[Action]) -> Iterator[str]:
        """Paths of a plan that hold something else than before."""
        root = self.store.root
        for action in actions:
            path, old = root / action.path, self.before.get(action.path)
            now = path.read_bytes() if path.is_file() else None
            if action.in_place and old is not None and now is not None:
                piece = slice(action.position, action.position + action.length)
                old, now = old[piece], now[piece]
            if now != old:
                yield action.path


def content(root: Path) -> dict[str, bytes]:
    """The bytes of every file of the store by path."""
    paths = [(path, path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return {name.as_posix(): path.read_bytes() for path, name in paths if name.parts[0] != ".rmqstore"}


@pytest.fixture(params=RELEASES)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    """A store that crashed and lost its queues and a message."""
    try:
        prepared(request.param)
    except JarsMissing as error:
        pytest.skip(f"Maven cannot get the jars of {request.param}: {error}")
    store = damaged(f"{request.param}-plain", DAMAGE, tmp_path)
    (store.root / "abort").touch()
    return Scene(store, content(store.root))


def half_of(scene: Scene) -> int:
    """Half of the actions of the plan."""
    dialog = Yes(answer=False)
    with pytest.raises(RmqstoreError):
        scene.repair(dialog)
    (plan,) = dialog.shown
    assert {action.kind for action in plan.actions} >= {ActionKind.CREATE, ActionKind.WRITE, ActionKind.QUARANTINE}
    return len(plan.actions) // 2


def die() -> None:
    raise Killed


def taken_back(scene: Scene) -> None:
    """Undo puts back whatever the transaction changed or took away, and names the rest: what the broker alone touched."""
    actions = scene.transaction.plan.actions
    notes = scene.undo()
    not_restored = set(scene.not_restored(actions))
    assert not_restored <= {"abort"}
    left = scene.changed(but=actions) | not_restored
    assert left
    assert [path for path in left if not any(note.startswith(f"{path} ") for note in notes)] == []
    assert unfinished(scene.store.root) is None


def test_an_apply_that_is_running_stops(scene: Scene) -> None:
    with pytest.raises(RmqstoreError) as raised:
        scene.repair(Meddled(at=half_of(scene), happens=scene.broker))
    error = raised.value
    assert scene.started is False
    assert error.exit_status == REFUSED
    assert error.message.startswith("Another process changed the store meanwhile")
    assert error.hint is not None and f"rmqstore undo {scene.store.root}" in error.hint
    taken_back(scene)


def test_an_apply_that_was_killed_is_not_continued(scene: Scene) -> None:
    with pytest.raises(Killed):
        scene.repair(Meddled(at=half_of(scene), happens=die))
    scene.broker()
    assert scene.started is True
    run = rmqstore("apply", scene.transaction.plan_path, "--yes")
    assert run.status == REFUSED
    assert "Another process changed the store meanwhile" in run.err
    assert "rmqstore undo" in run.err
    taken_back(scene)
