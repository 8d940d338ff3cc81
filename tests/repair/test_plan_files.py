"""Plan files: what is written is read again, and whatever is no plan for the store is refused before anything is changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.errors import RefusedError
from rmqstore.repair.plan import codec
from rmqstore.repair.plan.jsonvalues import from_json, to_json
from rmqstore.repair.plan.model import (
    Action,
    ActionKind,
    After,
    Attributes,
    ConfigEntry,
    Contents,
    Directory,
    Expected,
    FileStamp,
    LostMessage,
    Origin,
    Plan,
    TakenRange,
)
from rmqstore.repair.plan.paths import Places
from rmqstore.store.root import Store
from tests.repair.every_action import SAMPLE, Changing
from tests.support import stores
from tests.support.cli import rmqstore

numbers = st.integers(-(2**63) + 1, 2**63 - 1)
text = st.text(st.characters(), max_size=20)
attributes = st.builds(Attributes, numbers, numbers, numbers, st.none() | numbers)
actions = st.builds(
    Action,
    st.sampled_from(ActionKind),
    text,
    numbers,
    numbers,
    text,
    st.builds(Expected, st.none() | numbers, st.none() | numbers, st.none() | text),
    st.none() | text,
    st.none() | st.builds(Contents, numbers, st.none() | st.binary(max_size=50), st.none() | text, st.none() | text),
    st.none() | attributes,
    st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple),
    st.lists(st.builds(Directory, text, st.none() | attributes), max_size=3).map(tuple),
)
plans = st.builds(
    Plan,
    text,
    text,
    text,
    st.dictionaries(text, text, max_size=3),
    st.none() | text,
    st.lists(actions, max_size=4).map(tuple),
    st.lists(st.builds(LostMessage, text, numbers, numbers, numbers, numbers, text), max_size=3).map(tuple),
    st.lists(st.builds(ConfigEntry, text, text, st.sampled_from(Origin), text, st.booleans()), max_size=3).map(tuple),
    st.lists(text, max_size=3).map(tuple),
    st.none() | st.builds(After, st.dictionaries(text, numbers, max_size=3), st.none() | numbers),
    st.dictionaries(text, st.builds(FileStamp, numbers, numbers), max_size=3),
    st.lists(st.builds(TakenRange, text, numbers, numbers), max_size=3).map(tuple),
)


@given(plans)
def test_a_plan_file_holds_the_whole_plan(plan: Plan) -> None:
    assert codec.decode(codec.encode(plan), Path("plan")) == plan


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | text,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(text | st.sampled_from(["actions", "kind", "path", "type"]), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(json_values)
def test_what_is_no_plan_is_refused(value: Any) -> None:
    with pytest.raises(RefusedError):
        codec.decode(json.dumps(value).encode("ascii"), Path("plan"))


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b'{"type":"plan"}', b"\xff\xfe", b"9" * 10_000])
def test_bytes_that_are_no_plan_are_refused(data: bytes) -> None:
    with pytest.raises(RefusedError):
        codec.decode(data, Path("plan"))


@given(st.data())
def test_a_plan_with_a_value_of_another_type_is_refused(data: st.DataObject) -> None:
    plan = data.draw(plans.filter(lambda plan: plan.actions != ()))
    value = to_json(plan)
    place = data.draw(st.sampled_from(sorted(value["actions"][0])))
    wrong = data.draw(json_values.filter(lambda item: type(item) is not type(value["actions"][0][place]) and item is not None))
    value["actions"][0][place] = wrong
    with pytest.raises(ValueError, match=place):
        from_json(Plan, value)


def _at(number: int, **changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(plan: dict[str, Any]) -> None:
        plan["actions"][number].update(changes)

    return change


def _elsewhere(path: str) -> Callable[[dict[str, Any]], None]:
    return _at(0, path=path)


WRITE, CREATE = 0, 1
HOSTILE: dict[str, Callable[[dict[str, Any]], None]] = {
    "upwards": _elsewhere("../outside"),
    "upwards from inside": _elsewhere("commitlog/../../outside"),
    "absolute": _elsewhere("/etc/passwd"),
    "absolute, named as a log file": _elsewhere("/etc/00000000000000000000"),
    "the root": _elsewhere("."),
    "nothing": _elsewhere(""),
    "a part itself": _elsewhere("commitlog"),
    "the lock": _elsewhere("lock"),
    "the transactions": _elsewhere(".rmqstore/x/plan.json"),
    "a name no broker knows": _elsewhere("precious"),
    "a zero byte": _elsewhere("commitlog/\0"),
    "a link": _elsewhere("consumequeue/link/file"),
    "before the file": _at(WRITE, position=-1),
    "beyond the file": _at(WRITE, position=10**15),
    "a huge range": _at(WRITE, length=2**62, contents={"length": 2**62, "file": "000000"}),
    "a range larger than numbers are": _at(WRITE, length=2**63),
    "contents upwards": _at(CREATE, contents={"length": 20, "file": "../../x"}),
    "contents anywhere": _at(CREATE, contents={"length": 20, "file": "/etc/passwd"}),
    "contents kept by a transaction": _at(CREATE, contents={"length": 20, "file": "undo/000000"}),
    "contents of another length": _at(CREATE, contents={"length": 20, "data": "AAAA"}),
    "contents twice": _at(CREATE, contents={"length": 3, "data": "AAAA", "file": "000000"}),
    "no contents": _at(CREATE, contents=None),
    "missing contents": _at(CREATE, length=9, contents={"length": 9, "file": "999999"}),
    "contents that are no base64": _at(CREATE, contents={"length": 3, "data": "!"}),
    "impossible mode": _at(CREATE, attributes={"mode": 2**20, "uid": 0, "gid": 0, "mtime_ns": None}),
    "impossible owner": _at(CREATE, attributes={"mode": 0o644, "uid": -1, "gid": 0, "mtime_ns": None}),
    "a directory elsewhere": _at(CREATE, directories=[{"path": "config", "attributes": None}]),
    "a directory upwards": _at(CREATE, directories=[{"path": "..", "attributes": None}]),
    "the root as a directory to remove": _at(CREATE, directories=[{"path": ".", "attributes": None}]),
    "holes in a new file": _at(CREATE, holes=[[0, 4096]]),
    "unknown kind": _at(WRITE, kind="delete"),
    "unknown field": _at(WRITE, command="rm -rf"),
    "the same twice": lambda plan: plan["actions"].append(copy.deepcopy(plan["actions"][WRITE])),
    "another transaction": lambda plan: plan.update(undoes="../.."),
    "no actions at all": lambda plan: plan.pop("actions") and plan.update(actions=None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_plan_is_refused_and_nothing_changes(fresh_store: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    root = fresh_store(SAMPLE)
    (root / "consumequeue" / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_bytes(b"precious")
    plan = json.loads(codec.encode(_small_plan(root)))
    HOSTILE[name](plan)
    del plan["id"]
    file = tmp_path / "hostile.plan"
    file.write_text(json.dumps({**plan, "id": _id(plan)}))
    before = stores.snapshot(root)
    run = rmqstore("apply", file, "--yes")
    assert (run.status, run.crashed) == (3, False), run.err
    after = stores.snapshot(root)
    assert {path: after[path] for path in after if ".rmqstore" not in path} == before
    assert (tmp_path / "file").read_bytes() == b"precious"


def test_a_plan_that_was_edited_by_hand_is_refused(fresh_store: Callable[[str], Path], tmp_path: Path) -> None:
    file = tmp_path / "edited.plan"
    file.write_bytes(codec.encode(_small_plan(fresh_store(SAMPLE))).replace(b"small", b"smell"))
    run = rmqstore("apply", file, "--yes")
    assert run.status == 3
    assert "changed after it was written" in run.err


def test_contents_that_were_changed_are_refused(fresh_store: Callable[[str], Path]) -> None:
    changing = Changing(fresh_store(SAMPLE))
    changing.keep_plan()
    largest = max(codec.contents_directory(changing.plan_file).iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[100] ^= 1
    largest.write_bytes(data)
    before = changing.state
    with pytest.raises(RefusedError, match="contents of the plan, was changed"):
        changing.apply()
    assert changing.state == before
    assert changing.transactions == []


def _small_plan(root: Path) -> Plan:
    """A write and a create, as a planner would make them."""
    changing = Changing(root)
    plan = changing.keep_plan()
    wanted = ("commitlog/00000000000000000000", "consumequeue/TopicNew/0/00000000000000000000")
    write, create = (next(action for action in plan.actions if action.path == path) for path in wanted)
    return Plan("small", plan.store, plan.broker_version, actions=(write, create), files=plan.files)


def _id(plan: dict[str, Any]) -> str:
    """The name that a plan would have if it were one: whoever makes a hostile plan can compute it too."""
    import hashlib

    said = {name: value for name, value in plan.items() if name not in ("type", "format")}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()[:16]


def test_an_empty_plan_is_shown_with_its_empty_lists() -> None:
    shown = codec.shown_object(Plan("recover", "/store", "5.3.3"))
    assert (shown["type"], shown["actions"], shown["lost"], shown["notes"]) == ("plan", [], [], [])
    assert "files" not in shown


def test_a_directory_of_the_log_above_the_store_opens_no_other_place_in_it(tmp_path: Path) -> None:
    root = stores.fresh_store("5.3.3-plain", tmp_path)
    places = Places(Store.open(root, settings={"storePathCommitLog": str(root.parent)}))
    for name in ("notes.txt", "notes/0/1"):
        with pytest.raises(ValueError, match="not a place"):
            places.name(name)
