"""Each damage class: whether the broker starts, what it throws away, and the finding that says so, at the top."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rmqstore.doctor.areas import Area, State
from rmqstore.doctor.verdict import Class
from tests.doctor.diagnosing import FreshStore, codes, damaged, diagnosis_of
from tests.prediction.recorded_cases import Case, cases_of
from tests.support.stores import case

CLEAN, CRASHED = "5.3.3-plain", "5.3.3-plain-crash"


def recorded(base: str, damage: str, abort: str) -> Case:
    """What the broker of 5.3.3 did."""
    return next(one for one in cases_of("5.3.3") if (one["base"], one["damage"], one["abort"]) == (base, damage, abort))


def messages_behind(base: str, offset: int) -> int:
    """Messages that producers were promised, stored behind `offset`."""
    return sum(message["physicalOffset"] > offset for message in case(base).truth())


# damage, code that says what is there
CUTS = [
    ("body-flip-last", "RMQ-CL-CRC"),
    ("body-flip-head", "RMQ-CL-CRC"),
    ("field-magic-last", "RMQ-CL-MAGIC"),
    ("zero-200-last", "RMQ-CL-DAMAGE"),
    ("totalsize-pastfile", "RMQ-CL-SIZE"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("base", [CLEAN, CRASHED])
@pytest.mark.parametrize(("damage", "code"), CUTS)
def test_damage_inside_the_scan_range(base: str, damage: str, code: str, fresh_store: FreshStore) -> None:
    found = diagnosis_of(damaged(fresh_store, base, damage), base)
    end = recorded(base, damage, "yes" if case(base).crashed else "no")["S1"]["maxPhyOffset"]
    lost = messages_behind(base, end)
    assert lost > 0
    assert (found.starts, found.loss.messages) == (True, lost)
    assert (found.findings[0].code, found.findings[0].offset) == ("RMQ-ST-CUT", end)
    assert code in codes(found)
    assert f"discards {lost} message" in found.sentence
    assert found.log[1].startswith("recover physics file end, ")


@pytest.mark.parametrize("damage", ["body-flip-zero", "body-flip-mid", "zero-4k-mid"])
def test_damage_outside_the_scan_range_is_not_looked_for(damage: str, fresh_store: FreshStore) -> None:
    """The broker does not meet it, and to look would cost what verify costs; the next command says so."""
    found = diagnosis_of(damaged(fresh_store, CLEAN, damage), CLEAN)
    assert recorded(CLEAN, damage, "no")["S1"]["maxPhyOffset"] == case(CLEAN).max_phy_offset
    assert found.sentence.endswith("nothing is lost")


def test_the_whole_log_is_in_the_scan_range_without_a_checkpoint(fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CRASHED, "checkpoint-missing+body-flip-first")
    found = diagnosis_of(root, CRASHED)
    end = recorded(CRASHED, "checkpoint-missing+body-flip-first", "yes")["S1"]["maxPhyOffset"]
    assert found.loss.messages == messages_behind(CRASHED, end)
    assert {"RMQ-CP-MISSING", "RMQ-ST-CUT", "RMQ-CL-CRC"} <= codes(found)


@pytest.mark.parametrize(("base", "gone"), [(CLEAN, True), (CRASHED, False)])
def test_a_torn_record(base: str, gone: bool, fresh_store: FreshStore) -> None:
    found = diagnosis_of(damaged(fresh_store, base, "torn-tail-half"), base)
    assert not found.loss.anything
    assert "RMQ-CL-TORN" in codes(found)
    assert ("RMQ-ST-ABORT-GONE" in codes(found)) is gone


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("stale-tail-record", "RMQ-CL-STALE"),
        ("stale-tail-garbage", "RMQ-CL-TAILBYTES"),
        ("checkpoint-missing", "RMQ-CP-MISSING"),
        ("checkpoint-zero", "RMQ-CP-BEHIND"),
        ("checkpoint-ahead", "RMQ-CP-AHEAD"),
        ("file-missing-middle", "RMQ-CL-GAP"),
        ("file-extra-empty", "RMQ-CL-ZEROLEN"),
        ("file-subdir", "RMQ-ST-FOREIGN"),
        ("index-short", "RMQ-IX-FILELEN"),
        ("cq-odd-entries", "RMQ-ST-FOREIGN"),
    ],
)
def test_what_a_start_survives(damage: str, code: str, fresh_store: FreshStore) -> None:
    found = diagnosis_of(damaged(fresh_store, CLEAN, damage), CLEAN)
    assert recorded(CLEAN, damage, "no")["startOk"]
    assert (found.starts, found.loss.anything) == (True, False)
    assert code in codes(found)


@pytest.mark.parametrize("damage", ["cq-tail-zero-1", "cq-tail-zero-5", "cq-file-last-missing", "cq-all-tails-zero-3"])
def test_queues_that_stay_behind_the_log(damage: str, fresh_store: FreshStore) -> None:
    """Queues that end after the recorded start before their last message, as far as that lies in the scan range."""
    found = diagnosis_of(damaged(fresh_store, CLEAN, damage), CLEAN)
    state = recorded(CLEAN, damage, "no")["S1"] | recorded(CLEAN, damage, "no")["S2"]
    assert found.outcome.scan is not None
    ends: dict[str, int] = {}
    for message in case(CLEAN).truth():
        if message["physicalOffset"] >= int(found.outcome.scan.first_file):
            name = f"{message['topic']}/{message['queueId']}"
            ends[name] = max(ends.get(name, 0), message["queueOffset"] + 1)
    short = {name for name, end in ends.items() if state["queues"][name][1] < end}
    assert short
    told = {f"{finding.topic}/{finding.queue_id}" for finding in found.findings if finding.code == "RMQ-CQ-START"}
    assert short <= told
    assert "invisible" in found.sentence
    assert not found.nothing_lost


@pytest.mark.parametrize(
    ("damage", "area", "code"),
    [
        ("index-slots-garbage", Area.INDEX, "RMQ-IX-SLOT"),
        ("index-loop", Area.INDEX, "RMQ-IX-CHAIN"),
        ("cq-unit-offset", Area.QUEUES, "RMQ-CQ-UNIT"),
        ("cq-unit-tags", Area.QUEUES, "RMQ-CQ-TAGS"),
        ("file-last-is-copy", Area.QUEUES, "RMQ-CQ-BEYOND"),
    ],
)
def test_entries_that_a_start_does_not_read(damage: str, area: Area, code: str, fresh_store: FreshStore) -> None:
    found = diagnosis_of(damaged(fresh_store, CLEAN, damage), CLEAN)
    assert found.verdict.cls is Class.STARTS_BUT
    assert found.verdict.areas[list(Area).index(area)].state is State.LOSES
    assert code in codes(found)


def test_bytes_that_a_start_does_not_read_are_named(fresh_store: FreshStore) -> None:
    found = diagnosis_of(damaged(fresh_store, CLEAN, "body-flip-first"), CLEAN)
    assert found.outcome.scan is not None
    assert found.nothing_lost
    assert found.verdict.areas[0].reason.startswith(f"bytes 0 to {int(found.outcome.scan.first_file)} were not verified")


def test_queues_behind_the_log_that_the_start_mends(fresh_store: FreshStore) -> None:
    found = diagnosis_of(damaged(fresh_store, CRASHED, "cq-tail-zero-2"), CRASHED)
    behind = [finding for finding in found.findings if finding.code == "RMQ-CQ-BEHIND"]
    assert [finding.expected - finding.found for finding in behind] == [2]
    assert behind[0].message.endswith("the start adds them")
    assert "RMQ-CQ-START" not in codes(found)


def test_a_missing_queue_stays_missing(fresh_store: FreshStore) -> None:
    found = diagnosis_of(damaged(fresh_store, CLEAN, "cq-queue-of-last-removed"), CLEAN)
    assert "RMQ-CQ-MISSING" in codes(found)
    assert "invisible" in found.sentence


@pytest.mark.parametrize("damage", ["log-emptied", "log-dir-removed"])
def test_an_empty_commit_log_costs_all_queues(damage: str, fresh_store: FreshStore) -> None:
    root = damaged(fresh_store, CLEAN, damage)
    queues = len(list(root.glob("consumequeue/*/*")))
    found = diagnosis_of(root, CLEAN)
    assert found.findings[0].code == "RMQ-CL-EMPTY"
    assert f"it deletes every queue ({queues}), because the commit log is empty" in found.sentence
    assert "The commitlog files are deleted, and delete the consume queue files" in found.log


def test_a_volume_of_several_is_not_mounted(fresh_store: FreshStore) -> None:
    base = "4.9.8-multipath"
    root = fresh_store(base)
    paths = [Path(text) for text in case(base).settings(root)["storePathCommitLog"].split(",")]
    for file in paths[-1].iterdir():
        file.unlink()
    found = diagnosis_of(root, base)
    assert [finding.file for finding in found.findings if finding.code == "RMQ-ST-PATH"] == [paths[-1].relative_to(root).as_posix()]
    paths[-1].rmdir()
    assert "RMQ-ST-PATH" in codes(diagnosis_of(root, base))


def test_an_index_at_risk(fresh_store: FreshStore) -> None:
    found = diagnosis_of(fresh_store(CRASHED), CRASHED)
    (risk,) = [finding for finding in found.findings if finding.code == "RMQ-CP-INDEX"]
    deleted = recorded(CRASHED, "none", "yes")["changed"]
    assert [name for name in deleted if name.startswith("index/") and deleted[name] == "deleted"] == [
        f"index/{risk.message.rpartition(' ')[2]}"
    ]


def test_broken_configuration_stops_the_broker_when_the_backup_is_broken_too(fresh_store: FreshStore) -> None:
    base = "broker-5.5.1-crash"
    root = fresh_store(base)
    path, backup = root / "config" / "topics.json", root / "config" / "topics.json.bak"
    shutil.copy(path, backup)
    path.write_text(path.read_text()[:40])
    found = diagnosis_of(root, base)
    assert found.starts
    assert "RMQ-CF-JSON" in codes(found)
    backup.write_text(path.read_text())
    found = diagnosis_of(root, base)
    assert not found.starts
    assert found.findings[0].code == "RMQ-ST-NO-START"
    assert found.log == (f"load {backup} Failed",)
    assert [reason.file for reason in found.reasons] == ["config/topics.json"]


def test_json_that_loads_as_nothing_does_not_stop_the_broker(fresh_store: FreshStore) -> None:
    base = "broker-5.5.1-crash"
    root = fresh_store(base)
    path = root / "config" / "subscriptionGroup.json"
    path.write_text("null")
    path.with_name(path.name + ".bak").write_text(json.dumps({}))
    assert diagnosis_of(root, base).starts
