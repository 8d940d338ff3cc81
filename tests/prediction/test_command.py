"""`rmqstore recover --dry-run`: what it says, its exit status, and that it touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.prediction.recorded_cases import Case, cases_of
from tests.support import stores
from tests.support.cli import Run, rmqstore

OK, HARM, USAGE = 0, 1, 2
STORE = "5.3.3-plain-crash"


def recover(root: Path, *options: str, case: str = STORE) -> Run:
    return rmqstore("recover", root, "--dry-run", *stores.case(case).set_options(root), *options)


def recorded(damage: str, abort: str) -> Case:
    """What the broker did."""
    return next(case for case in cases_of("5.3.3") if (case["base"], case["damage"], case["abort"]) == (STORE, damage, abort))


def test_the_object_says_what_the_broker_did(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(STORE)
    before = stores.snapshot(root)
    run = recover(root, "--broker-version", "5.3.3", "--format", "json")
    assert run.status == OK
    (found,) = run.objects
    true = recorded("none", "yes")
    assert found["type"] == "recovery"
    assert (found["broker_version"], found["mode"], found["starts"], found["blockers"]) == ("5.3.3", "abnormal", True, [])
    assert found["scan"]["first_file"] == f"{true['dispatchedInLoad']['first']:020d}"
    assert (found["scan"]["stop_offset"], found["scan"]["records"]) == (true["S1"]["maxPhyOffset"], true["dispatchedInLoad"]["count"])
    for name, state in (("after_load", true["S1"]), ("after_start", true["S1"] | true["S2"])):
        assert found[name] == {
            "min_phy_offset": state["minPhyOffset"],
            "max_phy_offset": state["maxPhyOffset"],
            "flushed_where": state["flushedWhere"],
            "confirm_offset": state["confirmOffset"],
            "commitlog_files": [row[:2] for row in state["files"]],
            "queues": state["queues"],
            "next_offsets": state["next"]["topicQueueTable"],
            "index_files": [*state["index"][:-1], [None, *state["index"][-1][1:]]],
        }
    dispatched = true["dispatchedInLoad"]
    assert found["dispatched"] == {
        "during_load": {
            "count": dispatched["count"],
            "first": dispatched["first"],
            "last": dispatched["last"],
            "last_size": dispatched["lastSize"],
        },
        "after_start": {"count": 0, "first": None, "last": None, "last_size": None},
    }
    assert found["files_changed"]["commitlog/00000000000000327680"] == "deleted"
    assert (found["abort_after_stop"], found["checkpoint_after"]) == (true["abortAfterStop"], true["checkpointAfter"])
    assert found["lost"] == {"messages": 0, "bytes": 0, "by_queue": []}
    assert stores.snapshot(root) == before


def test_lost_messages_are_told_by_queue(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(STORE)
    log = root / "commitlog" / "00000000000000000000"
    data = bytearray(log.read_bytes())
    data[4] ^= 0xFF
    log.write_bytes(data)
    run = recover(root, "--broker-version", "5.3.3", "--format", "json", "--what-if", "checkpoint=removed")
    assert run.status == HARM
    (found,) = run.objects
    lost = found["lost"]
    assert found["after_load"]["max_phy_offset"] == 0
    assert lost["messages"] == sum(queue["messages"] for queue in lost["by_queue"]) == len(stores.case(STORE).truth()) - 1
    assert {queue["fate"] for queue in found["queues_harmed"]} == {"reset"}


def test_people_read_words(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(STORE)
    run = recover(root, "--broker-version", "5.3.3")
    assert run.status == OK
    assert "starts              yes" in run.out
    assert "commitlog/00000000000000327680" in run.out


def test_a_start_that_fails_says_why(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(STORE)
    (root / "commitlog" / ".DS_Store").write_bytes(b"x")
    run = recover(root, "--broker-version", "5.3.3", "--format", "json")
    assert run.status == HARM
    (found,) = run.objects
    assert found["starts"] is False
    assert [(blocker["code"], blocker["file"]) for blocker in found["blockers"]] == [("file-length", "commitlog/.DS_Store")]


@pytest.mark.parametrize(
    "spelling",
    [["abort=present,absent checkpoint=kept,removed version=all"], ["abort=present,absent", "checkpoint=kept,removed", "version=all"]],
)
def test_ways_to_start_are_compared(spelling: list[str], fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(STORE)
    run = recover(root, "--format", "json", "--what-if", *spelling)
    *ways, comparison = run.objects
    assert comparison["type"] == "comparison"
    assert {way["what_if"]["abort"] for way in ways} == {"present", "absent"}
    assert {way["broker_version"] for way in ways} >= {"4.9.8", "5.3.3", "5.5.1"}
    assert comparison["least_harmful"] in [way["what_if"] for way in ways]
    assert comparison["because"].startswith("index entries lost: 0")


@pytest.mark.parametrize("release", ["4.9.8", "5.3.3", "5.5.1"])
def test_no_other_release_is_recommended_where_it_is_no_better(release: str, fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store("5.3.3-plain")
    ways = ["version=all", "abort=absent,present"]
    *_, comparison = recover(root, "--format", "json", "--broker-version", release, "--what-if", *ways, case="5.3.3-plain").objects
    assert comparison["least_harmful"] == {"version": release, "abort": "absent", "checkpoint": "kept"}
    assert {"version": "5.3.3", "abort": "absent", "checkpoint": "kept"} in [comparison["least_harmful"], *comparison["equal"]]


def test_equal_ways_are_shown_as_equal(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store("5.3.3-plain")
    ways = ["abort=absent", "checkpoint=kept,removed"]
    run = recover(root, "--broker-version", "5.3.3", "--what-if", *ways, case="5.3.3-plain")
    assert "5.3.3, abort absent, checkpoint kept" in run.out
    assert "5.3.3, abort absent, checkpoint removed" in run.out
    assert "all variants do the same harm" in run.out


def test_auto_says_why_it_takes_a_release(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store("5.5.1-plain-crash")
    (found,) = recover(root, "--format", "json", case="5.5.1-plain-crash").objects
    assert found["broker_version"] == "5.5.1"
    assert "5.5.1" in found["version_because"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--what-if", "abort=present"], "Add --dry-run"),
        (["--dry-run", "--broker-version", "6.1.0"], "not known"),
        (["--dry-run", "--what-if", "abort=maybe"], "'maybe' is unknown"),
        (["--dry-run", "--what-if", "weather=fine"], "cannot be varied"),
        (["--dry-run", "abort=present"], "one argument too many"),
    ],
)
def test_usage_errors_are_one_sentence_and_a_hint(options: list[str], said: str, fresh_store: Callable[[str], Path]) -> None:
    run = rmqstore("recover", fresh_store("5.3.3-plain"), *options)
    assert run.status == USAGE
    assert said in run.err


def test_queues_in_rocksdb_are_unknown_and_the_rest_is_told(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store("5.3.3-rocksdb")
    run = recover(root, "--broker-version", "5.3.3", "--format", "json", case="5.3.3-rocksdb")
    (found,) = run.objects
    assert found["unknown"] == "the queues are in RocksDB"
    assert found["after_load"]["queues"] is None
    assert found["after_load"]["max_phy_offset"] == stores.case("5.3.3-rocksdb").max_phy_offset
    assert found["starts"] is True


def test_duplication_and_long_topics_are_unknown(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store("5.5.1-longtopic")
    run = recover(root, "--broker-version", "5.3.3", "--set", "duplicationEnable=true", "--format", "json", case="5.5.1-longtopic")
    (found,) = run.objects
    assert found["starts"] is None
    assert "duplicationEnable" in found["unknown"]


@pytest.mark.parametrize("words", [[], ["--what-if", "abort=present,absent"]])
def test_predict_is_a_dry_run_of_recover(words: list[str]) -> None:
    root = stores.sample_store("5.3.3-plain-crash")
    predicted = rmqstore("predict", root, *words, "--json")
    with_plan = rmqstore("recover", root, "--dry-run", *words, "--format", "json").objects
    assert predicted.objects == [one | {"instead": None} if one["type"] == "recovery" else one for one in with_plan]
    assert predicted.status == 0
    assert rmqstore("predict", root, "abort=present").status == 2


def test_the_plan_of_recover_beside_the_start(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(STORE)
    log = root / "commitlog" / "00000000000000000000"
    data = bytearray(log.read_bytes())
    data[4] ^= 0xFF  # the magic code of the first record
    log.write_bytes(data)
    (root / "checkpoint").unlink()
    before = stores.snapshot(root)

    run = recover(root, "--broker-version", "5.3.3", "--format", "json")
    plan = recover(root, "--broker-version", "5.3.3", "--format", "json", "--strategy", "salvage").objects[0]

    (found,) = run.objects
    assert run.status == HARM
    assert found["lost"]["messages"] == len(stores.case(STORE).truth()) - 1
    assert found["instead"]["refused"] is None
    assert {name: value for name, value in found["instead"]["plan"].items() if name != "id"} == {
        name: value for name, value in plan.items() if name not in ("id", "schema")
    }
    assert (found["instead"]["starts"], found["instead"]["discarded"]) == (True, 0)
    assert stores.snapshot(root) == before

    shown = recover(root, "--broker-version", "5.3.3").out
    assert shown.splitlines()[0] == f"STARTS, BUT discards {found['lost']['messages']} messages"
    (discarded,) = (line for line in shown.splitlines() if line.startswith("messages discarded"))
    assert discarded.split()[2:] == [str(found["lost"]["messages"]), "0"]


def test_a_plan_that_is_refused(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(STORE)
    for path in (root / "commitlog").iterdir():
        path.write_bytes(b"\xaa" * path.stat().st_size)

    (found,) = recover(root, "--format", "json").objects

    assert found["instead"]["plan"] is None
    assert found["instead"]["refused"] in recover(root, "--strategy", "salvage").err
    assert f"no plan of recover  {found['instead']['refused']}" in recover(root).out


def test_other_ways_to_start_have_no_plan(fresh_store: Callable[[str], Path]) -> None:
    root = fresh_store(STORE)
    found = recover(root, "--format", "json", "--what-if", "checkpoint=removed").objects
    alone = rmqstore("predict", root, "--format", "json").objects
    assert [one["instead"] for one in (*found, *alone)] == [None, None]
